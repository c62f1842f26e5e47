"""Colours, shapes and fonts of figures, in a light and a dark theme.

Specifications refer to colours by the names of the CSS variables of HTML pages. Colours of series
are from Okabe and Ito (2008), adjusted for contrast: people with any colour vision can distinguish
them. Shapes differ as well. Text has a contrast ratio of at least 4.5 to the background.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from polarity_bench.render.chart import Chart, Plane

Theme = Mapping[str, str]

_COLOURS = {
    "--paper": ("#ffffff", "#0d1117"),
    "--ink": ("#1c1b19", "#e8e5de"),
    "--soft": ("#57534b", "#b3aea4"),
    "--faint": ("#8a857a", "#7f7b73"),
    "--rule": ("#ddd8cc", "#353a42"),
    "--reported": ("#7a7468", "#a9a498"),
    "--c0": ("#0072b2", "#56b4e9"),
    "--c1": ("#c44f00", "#f08a4b"),
    "--c2": ("#008060", "#3fc79f"),
    "--c3": ("#a8487f", "#e29bc4"),
    "--c4": ("#9a6b00", "#e6b84a"),
    "--c5": ("#5b4fb0", "#a99ff0"),
    "--c6": ("#00798c", "#6fd3de"),
    "--c7": ("#7a4a2b", "#cfa27e"),
}
"""Light and dark value of each colour name."""

LIGHT: Theme = {name: light for name, (light, _) in _COLOURS.items()}
DARK: Theme = {name: dark for name, (_, dark) in _COLOURS.items()}
THEMES: Mapping[str, Theme] = {"": LIGHT, "-dark": DARK}
"""Themes, by the ending of file names before the suffix."""

N_COLOURS = 8
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down")
"""Shapes of series. The numbers of shapes and colours are coprime, so all 40 combinations occur."""

_FONT = "Liberation Sans, Arial, Helvetica, sans-serif"  # vl-convert ships Liberation Sans
_PAINTED = frozenset({"range", "color", "fill", "stroke"})  # keys of values that may be colours

Looks = Mapping[str, int]
"""Number of the colour and shape of each name, the same in every figure of a board."""


def looks_of(charts: Iterable[Chart]) -> Looks:
    """Number the families, curves and series of charts; the first 40 numbers look different."""
    names: dict[str, None] = {}
    for chart in charts:
        if isinstance(chart, Plane):
            names |= dict.fromkeys(chart.families)
        else:
            names |= dict.fromkeys(series.name for series in chart.series)
    return {name: i for i, name in enumerate(names)}


def colour_of(look: int) -> str:
    """Return the name of the colour that belongs to the number of a look."""
    return f"--c{look % N_COLOURS}"


def shape_of(look: int) -> str:
    """Return the shape that belongs to the number of a look."""
    return SHAPES[look % len(SHAPES)]


def in_theme(spec: Mapping[str, Any], theme: Theme) -> Any:
    """Replace the names of colours in a specification by the colours of a theme.

    The specification must not contain data, because data may contain the same words.
    """

    def painted(value: Any) -> Any:
        if isinstance(value, list):
            return [painted(each) for each in value]
        return theme.get(value, value) if isinstance(value, str) else value

    def with_colours(node: dict[str, Any]) -> dict[str, Any]:
        return node | {key: painted(node[key]) for key in _PAINTED & node.keys()}

    return json.loads(json.dumps(spec), object_hook=with_colours)


def config(theme: Theme) -> dict[str, Any]:
    """Return the Vega-Lite configuration of a figure file."""
    ink, soft = theme["--ink"], theme["--soft"]
    text = {"labelFontSize": 11, "titleFontSize": 12, "labelColor": soft, "titleColor": ink}
    return {
        "background": theme["--paper"],
        "font": _FONT,
        "padding": 10,
        "view": {"stroke": None},
        "mark": {"color": ink},
        "axis": {
            **text,
            "gridColor": theme["--rule"],
            "gridWidth": 0.6,
            "domainColor": soft,
            "tickColor": soft,
            "titleFontWeight": "normal",
            "titleLimit": 500,
        },
        "legend": {**text, "labelColor": ink, "labelLimit": 320, "symbolSize": 70},
        "title": {
            "color": ink,
            "subtitleColor": soft,
            "anchor": "start",
            "offset": 12,
            "fontSize": 14,
            "subtitleFontSize": 11,
            "subtitlePadding": 5,
            "limit": 840,
        },
    }


def plain(text: str) -> str:
    r"""Convert text to one line of printable characters, which can be drawn.

    Example:
        >>> plain("a\tb\x00c")
        'a b�c'
    """
    shown = (c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)
    return "".join(shown).strip()


_EMS = (
    (0.34, "fijlrtI|!.,:;'()[]/\\- "),
    (0.8, "ABCDEFGHKLNOPQRSTUVXYZwJ&<>=+~^#"),
    (1.02, "MWm@%…\ufffd"),
)
"""Widths of characters in Liberation Sans, rounded up, in multiples of the font size."""


def width_of(text: str, size: float) -> float:
    """Return an upper estimate of the width of text, in the unit of the font size."""
    return size * sum(map(_em, text))


def _em(c: str) -> float:
    if unicodedata.east_asian_width(c) in "WF":
        return 1.05
    return next((em for em, letters in _EMS if c in letters), 0.57 if c.isascii() else 0.8)
