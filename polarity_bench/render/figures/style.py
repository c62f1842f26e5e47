"""Style of figures: two themes, markers, and preparation of text from outside for drawing.

The colours are those of Okabe and Ito, which people with any colour vision can distinguish; markers
differ as well. Text has a contrast of at least 4.5 to the background, as WCAG AA requires.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Any

from polarity_bench.render.chart import Drawn, Plane, Ranks, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase


@dataclass(frozen=True)
class Theme:
    """Colours of a figure.

    Attributes:
        ink: Colour of titles, bounds and the most important elements.
        muted: Colour of all other text and of published results.
        faint: Colour of grids and of unnamed elements.
        colours: Colours of named elements, used in turn.
    """

    name: str
    background: str
    ink: str
    muted: str
    faint: str
    colours: tuple[str, ...]


LIGHT = Theme(
    "light",
    background="#ffffff",
    ink="#1f2328",
    muted="#57606a",
    faint="#d5dae0",
    colours=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"),
)
DARK = Theme(
    "dark",
    background="#0d1117",
    ink="#e6edf3",
    muted="#9da7b3",
    faint="#30363d",
    colours=("#56b4e9", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#f0e442"),
)
THEMES = (LIGHT, DARK)

WIDTH = 9.35
"""Width of a figure, in inches."""

MARKERS = "os^DvP<>pd"
N_NAMED = 40
"""Maximum number of names in a figure; the others are drawn faintly and counted."""

Looks = Mapping[str, int]
"""Number of the look of each name, the same in every figure of a board."""

_LETTER = 0.62  # width of most letters, relative to the font size
_TITLE = 10.0
_BOLD = 1.15  # width of bold letters relative to regular ones
_EMS = (
    (0.4, "fijlrtI|!.,:;'()[]/\\- "),
    (0.8, "ABCDEFGHKLNOPQRSTUVXYZ&"),
    (0.84, "<>=+~^#"),
    (1.05, "MWmw@%…\ufffd"),
)
"""Widths of other letters in DejaVu Sans, rounded up; the last also applies to ideograms."""


@dataclass(frozen=True)
class Sheet:
    """A laid-out figure and the function that draws it.

    Attributes:
        title: Title of the figure.
        said: Description in words, for readers who cannot see the figure.
        height: Height in inches; all figures have the same width.
        draw: Function that draws the figure in a theme.
    """

    title: str
    said: str
    height: float
    draw: Callable[[FigureBase, Theme], None]


@contextmanager
def styled(theme: Theme) -> Iterator[None]:
    """Set matplotlib to a theme, whatever the user's settings; `$` does not start mathematics."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(
            {
                "svg.hashsalt": "polarity-bench",
                "svg.fonttype": "none",
                "text.parse_math": False,
                "text.color": theme.ink,
                "font.size": 8,
                "figure.facecolor": theme.background,
                "savefig.facecolor": theme.background,
                "axes.facecolor": theme.background,
                "axes.edgecolor": theme.muted,
                "axes.labelcolor": theme.ink,
                "axes.labelsize": 9,
                "axes.titlesize": _TITLE,
                "axes.titleweight": "bold",
                "axes.titlelocation": "left",
                "axes.spines.top": False,
                "axes.spines.right": False,
                "axes.linewidth": 0.6,
                "axes.axisbelow": True,
                "axes.grid": True,
                "grid.color": theme.faint,
                "grid.linewidth": 0.5,
                "xtick.color": theme.muted,
                "ytick.color": theme.muted,
                "xtick.major.size": 0,
                "ytick.major.size": 0,
                "xtick.minor.size": 0,
                "lines.linewidth": 1.3,
                "lines.markersize": 5,
                "legend.fontsize": 8,
                "legend.frameon": False,
            }
        )
        yield


def looks_of(drawn: Iterable[Drawn]) -> Looks:
    """Assign each name a look; the first 60 are distinct, as there are 60 looks."""
    names: dict[str, None] = {}
    for each in drawn:
        if isinstance(each, Plane):
            for roles in (("curve",), ("encoder",)):
                names |= dict.fromkeys(mark.name for mark in each.marks if mark.role in roles)
        elif not isinstance(each, Ranks):
            names |= dict.fromkeys(series.name for series in each.series)
    return {name: i for i, name in enumerate(names)}


def look(i: int, theme: Theme) -> dict[str, Any]:
    """Return marker and colour of a look for matplotlib; markers have edges in the ink colour."""
    marker = MARKERS[(i + i // 30) % len(MARKERS)]
    colour = theme.colours[i % len(theme.colours)]
    edge = {"markeredgecolor": theme.ink, "markeredgewidth": 0.4}
    return {"marker": marker, "color": colour, **edge}


def plain(text: str) -> str:
    r"""Return text that can be drawn: one line of printable characters.

    Example:
        >>> plain("a\tb\x00c")
        'a b�c'
    """
    shown = (c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)
    return "".join(shown).strip()


def wrapped(text: str, n: int, lines: int = 2) -> str:
    r"""Break text into lines of at most n letters; if it is too long, shorten it in the middle.

    n counts letters of average width, so fewer wide letters fit.

    Example:
        >>> wrapped("sst2-seed0-contrastive-margin1.0-3ac0056c1f51", 26)
        'sst2-seed0-contrastive-\nmargin1.0-3ac0056c1f51'
        >>> wrapped("a" * 30 + "b" * 30, 24, lines=1)
        'aaaaaaaaaa…bbbbbbbbbb'
    """
    text = _cut(plain(text), _room(n, lines))
    found: list[str] = []
    while _letters(text) > n:
        full = max(1, _n_that_fit(text, n))
        nice = 1 + max(text.rfind(c, full // 2, full) for c in " -_/,:")
        rest = text[nice:].lstrip()
        end = nice if nice and _letters(rest) <= _room(n, lines - len(found) - 1) else full
        found.append(text[:end].rstrip())
        text = text[end:].lstrip()
    return "\n".join([*found, text])


def _room(n: int, lines: int) -> float:
    """Return how many letters surely fit: a wide one that does not fit leaves its line unfilled."""
    return n * lines - (lines - 1) * _EMS[-1][0] / _LETTER


def _cut(text: str, room: float) -> str:
    if _letters(text) <= room:
        return text
    half = (room - _letters("…")) / 2
    return f"{text[: _n_that_fit(text, half)]}…{text[len(text) - _n_that_fit(text[::-1], half) :]}"


def _n_that_fit(text: str, room: float) -> int:
    widths = accumulate(map(_letters, text))
    return sum(1 for _ in takewhile(lambda width: width <= room, widths))


def _letters(text: str) -> float:
    return width_of(text, 1) / _LETTER


def width_of(text: str, size: float) -> float:
    """Return an approximate upper bound of the width of text, in the unit of its font size."""
    return size * sum(map(_em, text))


def _em(c: str) -> float:
    if unicodedata.east_asian_width(c) in "WF":
        return _EMS[-1][0]
    return next((em for em, letters in _EMS if c in letters), 0.64 if c.isascii() else 0.8)


def place_axes(figure: FigureBase, height: float, box: tuple[float, float, float, float]) -> Axes:
    """Add axes to a sheet; `box` is left, bottom, width and height, all in inches."""
    left, low, wide, high = box
    return figure.add_axes((left / WIDTH, low / height, wide / WIDTH, high / height))


def titled(text: str, wide: float) -> str:
    """Shorten a title to one line of at most a given width, in inches."""
    return wrapped(text, int(72 * wide / (_TITLE * _BOLD * _LETTER)), lines=1)


def percent(values: Iterable[float]) -> list[float]:
    """Return fractions as percentages."""
    return [100 * value for value in values]


def series_said(series: Sequence[Series], places: Sequence[str]) -> str:
    """Describe in words the values of the lines or bars that the figure names."""
    said = [
        f"{plain(each.name)}: "
        + ", ".join(
            f"{plain(place)} {100 * value:.1f}"
            for place, value in zip(places, each.values, strict=True)
            if math.isfinite(value)
        )
        for each in series[:N_NAMED]
    ]
    more = len(series) - len(said)
    return "; ".join([*said, *([f"and {more} more"] if more else [])]) + "."
