"""Specification of a figure for all output formats, and helpers to build specifications.

Colours are names that `themes` resolves. Names that altair would number automatically are set here,
because the same chart must give the same bytes.
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
    """Chart of a board, ready to draw, with its numbers as a table and in words.

    Attributes:
        title: Title of the figure, as plain text.
        description: Numbers of the figure in words, for readers who cannot see the figure.
        chart: Altair chart.
        heads: Column titles of the table of numbers.
        cells: Rows of the table of numbers, as text.
        notes: Sentences on how to read the figure; '' is skipped.
    """

    title: str
    description: str
    chart: Any
    heads: Sequence[str]
    cells: Sequence[Sequence[str]]
    notes: Sequence[str]

    @property
    def note(self) -> str:
        """Text on how to read the figure: all notes, joined."""
        return " ".join(filter(None, self.notes))

    @property
    def spec(self) -> dict[str, Any]:
        """Vega-Lite specification, with the data in `datasets` and without a theme."""
        spec: dict[str, Any] = self.chart.to_dict(validate=False)  # tests validate each kind
        spec.pop("config", None)  # the theme adds its own configuration
        datasets = spec.get("datasets", {})
        datasets.update({name: list(rows) for name, rows in datasets.items()})
        return {**spec, "description": self.title}


def layered(styles: Styles, layers: Layers, panel: str = "", **size: Any) -> alt.LayerChart:
    """Return a chart of the layers that have rows, with the last layer on top.

    Marks are hidden from screen readers unless their style sets `aria`. Vega-Lite's default
    description of a mark is unsafe: titles are inserted into an expression without escaping
    backslashes.

    Args:
        styles: Mark of each layer, by the layer's name.
        layers: Rows and encodings of each layer, by the layer's name.
        panel: Prefix of the layers' names in the specification.
        size: Width and height of the chart.
    """
    charts = [
        alt.Chart(
            alt.InlineData(values=tuple(rows)),  # altair copies the rows of a list ten times
            name=f"{panel}{name}",
            mark=alt.MarkDef(**{"aria": False, **styles[name]}),
        ).encode(**encodings)
        for name, (rows, encodings) in layers.items()
        if rows
    ]
    return alt.LayerChart(layer=charts).properties(**size)


def scale_of(low: float, high: float, **options: Any) -> alt.Scale:
    """Return a scale that ends at two values, rounded to four decimals for reproducible output."""
    return alt.Scale(domain=[round(low, 4), round(high, 4)], nice=False, zero=False, **options)


def names_of(*titles: str) -> list[alt.Tooltip]:
    """Return a tooltip of fields; the name of each field is also its title."""
    return [alt.Tooltip(field=title, type="nominal", title=title) for title in titles]
