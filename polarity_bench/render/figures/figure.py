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

DASHES = [4, 3]


@dataclass(frozen=True)
class Figure:
    """A chart as a specification, with its numbers as a table and in words.

    Attributes:
        title: Title of the figure, plain text.
        said: The numbers in words, for readers who cannot see the figure.
        chart: The altair chart.
        heads: Column titles of the table with the numbers of the figure.
        cells: Rows of that table, as text.
        notes: How to read the figure, as sentences; '' is left out.
    """

    title: str
    said: str
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


def layer(rows: Rows, name: str) -> alt.Chart:
    """Return a chart of rows, to be given a mark and encodings.

    Marks need `aria=False` or a description of their own: the description that Vega-Lite writes by
    default pastes titles into an expression without escaping backslashes.
    """
    return alt.Chart(alt.InlineData(values=list(rows)), name=name)


def layered(*layers: Any, **size: Any) -> alt.LayerChart:
    """Return a chart of the layers that have rows, the last one on top."""
    return alt.LayerChart(layer=[one for one in layers if one.data.values]).properties(**size)


def names_of(*titles: str) -> list[alt.Tooltip]:
    """Return a tooltip of fields, which are named after their titles."""
    return [alt.Tooltip(field=title, type="nominal", title=title) for title in titles]
