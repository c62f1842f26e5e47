"""The one specification of a figure, for a page, an SVG and a PNG, and what its parts share.

Colours are names that `themes` resolves, and every name that altair would number automatically is
set, so that the same chart gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

Rows = Sequence[Mapping[str, Any]]
Styles = Mapping[str, Mapping[str, Any]]
Layers = Mapping[str, tuple[Rows, Mapping[str, Any]]]

DASHES = [4, 3]


@dataclass(frozen=True)
class Figure:
    """A chart as a specification, with its numbers as a table and in words.

    Attributes:
        title: Title of the figure, plain text.
        description: The numbers in words, for readers who cannot see the figure.
        chart: The altair chart.
        heads: Column titles of the table with the numbers of the figure.
        cells: Rows of that table, as text.
        notes: How to read the figure, as sentences; '' is left out.
    """

    title: str
    description: str
    chart: Any
    heads: Sequence[str]
    cells: Sequence[Sequence[str]]
    notes: Sequence[str]

    @property
    def note(self) -> str:
        """How to read the figure."""
        return " ".join(filter(None, self.notes))

    @property
    def spec(self) -> dict[str, Any]:
        """The Vega-Lite specification, with the data in `datasets`."""
        spec: dict[str, Any] = self.chart.to_dict()
        spec.pop("config", None)  # the theme sets it
        return {**spec, "description": self.title}


def layered(styles: Styles, layers: Layers, panel: str = "", **size: Any) -> alt.LayerChart:
    """Return a chart of the layers that have rows, the last one on top.

    Marks are hidden from screen readers unless their style sets `aria`: the description that
    Vega-Lite writes by default pastes titles into an expression without escaping backslashes.

    Args:
        styles: Mark of each layer, by its name.
        layers: Rows and encodings of each layer, by its name.
        panel: Start of the layers' names in the specification.
        size: Width and height.
    """
    charts = [
        alt.Chart(
            alt.InlineData(values=list(rows)),
            name=f"{panel}{name}",
            mark=alt.MarkDef(**{"aria": False, **styles[name]}),
        ).encode(**encodings)
        for name, (rows, encodings) in layers.items()
        if rows
    ]
    return alt.LayerChart(layer=charts).properties(**size)


def scale_of(low: float, high: float, **options: Any) -> alt.Scale:
    """Return a scale that ends at two values, rounded below what is visible."""
    return alt.Scale(domain=[round(low, 4), round(high, 4)], nice=False, zero=False, **options)


def names_of(*titles: str) -> list[alt.Tooltip]:
    """Return a tooltip of fields, which are named after their titles."""
    return [alt.Tooltip(field=title, type="nominal", title=title) for title in titles]
