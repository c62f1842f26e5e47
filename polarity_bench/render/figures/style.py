"""How figures look: two themes, markers, and text from outside made fit to be drawn.

Colours are those of Okabe and Ito, which people of any colour vision tell apart; markers differ as
well. Text is in inks that have a contrast of 4.5 or more to the background, as WCAG AA wants.
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
    """The colours of a figure.

    Attributes:
        ink: Of titles, bounds and what is to be seen first.
        muted: Of all other text, and of what others published.
        faint: Of grids, and of what is not named.
        colours: Of what is named, in turn.
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
"""Of a figure, in inches."""

MARKERS = "os^DvP<>pd"
N_NAMED = 40
"""How many a figure names; the others are drawn faintly, and counted."""

Looks = Mapping[str, int]
"""Which look a name has, the same in every figure of a board."""

_LETTER = 0.62  # width of most letters, by the size of the font
_TITLE = 10.0
_BOLD = 1.15  # how much wider bold letters are
_EMS = (
    (0.4, "fijlrtI|!.,:;'()[]/\\- "),
    (0.8, "ABCDEFGHKLNOPQRSTUVXYZ&"),
    (0.84, "<>=+~^#"),
    (1.05, "MWmw@%…\ufffd"),
)
"""The widths of others in DejaVu Sans, rounded up; the last is that of ideograms too."""


@dataclass(frozen=True)
class Sheet:
    """A figure to be, and what draws it.

    Attributes:
        said: What it shows, in words, for those who do not see it.
        height: In inches; all are of one width.
    """

    title: str
    said: str
    height: float
    draw: Callable[[FigureBase, Theme], None]


@contextmanager
def styled(theme: Theme) -> Iterator[None]:
    """Draw by a theme, whatever the settings of whoever draws; a dollar is no mathematics."""
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
    """Give each name a look of its own, for as many as there are looks: 60."""
    names: dict[str, None] = {}
    for each in drawn:
        if isinstance(each, Plane):
            for roles in (("curve",), ("encoder",)):
                names |= dict.fromkeys(mark.name for mark in each.marks if mark.role in roles)
        elif not isinstance(each, Ranks):
            names |= dict.fromkeys(series.name for series in each.series)
    return {name: i for i, name in enumerate(names)}


def look(i: int, theme: Theme) -> dict[str, Any]:
    """Return the marker and the colour of a look, for matplotlib; markers have an edge in ink."""
    marker = MARKERS[(i + i // 30) % len(MARKERS)]
    colour = theme.colours[i % len(theme.colours)]
    edge = {"markeredgecolor": theme.ink, "markeredgewidth": 0.4}
    return {"marker": marker, "color": colour, **edge}


def plain(text: str) -> str:
    r"""Make text fit to be drawn: in one line, and of what can be seen.

    Example:
        >>> plain("a\tb\x00c")
        'a b�c'
    """
    shown = (c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)
    return "".join(shown).strip()


def wrapped(text: str, n: int, lines: int = 2) -> str:
    r"""Break text into lines of n letters at most, and cut its middle out where it has more.

    A letter is as wide as most are: of wide ones there is room for fewer.

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
    """How many letters surely find room: a wide one that does not fit leaves some in its line."""
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
    """Say how wide text is at most, about, in the unit of the size of its font."""
    return size * sum(map(_em, text))


def _em(c: str) -> float:
    if unicodedata.east_asian_width(c) in "WF":
        return _EMS[-1][0]
    return next((em for em, letters in _EMS if c in letters), 0.64 if c.isascii() else 0.8)


def place_axes(figure: FigureBase, height: float, box: tuple[float, float, float, float]) -> Axes:
    """Add axes to a sheet of a height; left, low, width and height are in inches."""
    left, low, wide, high = box
    return figure.add_axes((left / WIDTH, low / height, wide / WIDTH, high / height))


def titled(text: str, wide: float) -> str:
    """Cut a title to one line that is so wide at most, in inches."""
    return wrapped(text, int(72 * wide / (_TITLE * _BOLD * _LETTER)), lines=1)


def percent(values: Iterable[float]) -> list[float]:
    """Return fractions in percent."""
    return [100 * value for value in values]


def series_said(series: Sequence[Series], places: Sequence[str]) -> str:
    """Say in words what lines or bars show, of those that the figure names."""
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
