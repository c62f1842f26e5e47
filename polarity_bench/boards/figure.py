"""A figure: P against S of what a board compares, as SVG; the same board, the same bytes.

Colours are those of Okabe and Ito, which people of any colour vision tell apart, and markers differ
as well. Up and to the right is better; what is bounded by gold labels lies in the dashed rectangle.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from itertools import cycle
from typing import TYPE_CHECKING, Any

from polarity_bench.boards.drawn import Mark, MarkRole, Plane
from polarity_bench.boards.table import Board
from polarity_bench.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Style = dict[str, Any]
Who = tuple[MarkRole, str]
"""A role and a name: what is the base in one plane may be an encoder like others in another."""

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = "os^DvP<>pd"
_PUBLISHED = "#777777"
_BOUNDS: dict[MarkRole, Style] = {
    "oracle": {"marker": "*", "color": "#000000", "markersize": 11},
    "base": {"marker": "s", "color": "#000000", "markersize": 10, "markerfacecolor": "none"},
    "random": {"marker": "X", "color": "#555555", "markersize": 8},
}
_ORDER: tuple[MarkRole, ...] = ("oracle", "curve", "encoder", "published", "base", "random")
"""In which the legend names what there is."""

_WIDTH, _HEIGHT, _LEGEND = 5.2, 4.4, 2.8  # of a panel, and of the legend, in inches
_LETTER, _LINE = 5.0, 8.0  # width and height of what labels a point, in points of 1/72 inch
_NEAR = 5.0  # from a point to its label
Pair = tuple[float, float]
Box = tuple[float, float, float, float]
"""Left, low, right and high."""


def figure_svg(board: Board) -> bytes:
    """Draw a board's planes, each in a panel, in percent.

    Raises:
        InputError: If the board has no plane, or matplotlib is not installed.
    """
    if find_spec("matplotlib") is None:
        raise InputError("`figure` needs matplotlib: pip install 'polarity-bench[train]'")
    if not board.planes:
        raise InputError(
            "`figure`: there is nothing to draw, since S compares only where encoders share a "
            "reference"
        )
    import matplotlib as mpl

    out = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "polarity-bench", "svg.fonttype": "none"}):
        figure = draw(board.planes)
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def draw(planes: Sequence[Plane]) -> Figure:
    """Draw each plane whole and, beside it, where its encoders are; one legend names them all."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    size = (2 * _WIDTH + _LEGEND, len(planes) * _HEIGHT)
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasSVG(figure)
    styles = _styles([mark for plane in planes for mark in plane.marks])
    handles: dict[Who, Any] = {}
    for (whole, detail), plane in zip(
        figure.subplots(len(planes), 2, squeeze=False), planes, strict=True
    ):
        above = [m for m in plane.marks if m.role != "random" and _is_above(m, plane)]
        inner = _around(above or plane.marks)
        outer = _around(plane.marks)
        title = f"{plane.task}, k = {plane.k}, {plane.weighting} weights"
        for axes, box, shown in ((whole, outer, title), (detail, inner, f"{plane.task}, detail")):
            handles |= _draw_panel(axes, plane, box, styles)
            axes.set_title(_plain(shown), fontsize=10)
        _draw_box(whole, inner, ":")
        _label(whole, plane, outer, styles, hidden=inner)
        _label(detail, plane, inner, styles)
    figure.legend(
        [handles[who] for who in styles],
        [_plain(name) for _, name in styles],
        loc="outside right upper",
        fontsize=8,
        frameon=False,
    )
    return figure


def _styles(marks: Sequence[Mark]) -> dict[Who, Style]:
    """Give every name, in its role, its marker and colour, in the order of the legend."""
    colours, markers, outlines = cycle(_COLOURS), cycle(_MARKERS), cycle(_MARKERS)
    styles: dict[Who, Style] = {}
    for role in _ORDER:
        for name in dict.fromkeys(mark.name for mark in marks if mark.role == role):
            style: Style = {"linestyle": "-" if role == "curve" else "", "linewidth": 1.2}
            if role in _BOUNDS:
                style |= _BOUNDS[role]
            elif role == "published":
                style |= {"marker": next(outlines), "color": _PUBLISHED, "markerfacecolor": "none"}
            else:
                style |= {"marker": next(markers), "color": next(colours)}
            styles[role, name] = {"markersize": 5} | style
    return styles


def _is_above(mark: Mark, plane: Plane) -> bool:
    """Whether a point has more polarity than chance."""
    return all(mark.p >= bound.p for bound in plane.marks if bound.role == "random")


def _around(marks: Sequence[Mark]) -> Box:
    """Return what holds all points, in percent, with a margin."""
    s, p = ([100 * getattr(mark, side) for mark in marks] for side in ("s", "p"))
    wide, high = (max(0.08 * (max(side) - min(side)), 0.5) for side in (s, p))
    return min(s) - wide, min(p) - high, max(s) + wide, max(p) + high


def _draw_panel(axes: Axes, plane: Plane, box: Box, styles: dict[Who, Style]) -> dict[Who, Any]:
    """Draw the points of a plane; returns what the legend shows of each."""
    bounds = {mark.role: mark for mark in plane.marks}
    if "random" in bounds and "oracle" in bounds:
        low, high = bounds["random"], bounds["oracle"]
        _draw_box(axes, (100 * low.s, 100 * low.p, 100 * high.s, 100 * high.p), "--")
    marks_of: dict[Who, list[Mark]] = {}
    for mark in plane.marks:
        marks_of.setdefault((mark.role, mark.name), []).append(mark)
    handles = {}
    for who, marks in marks_of.items():
        s, p = [100 * mark.s for mark in marks], [100 * mark.p for mark in marks]
        (handles[who],) = axes.plot(s, p, **styles[who])
    axes.set(xlim=box[::2], ylim=box[1::2])
    axes.set_xlabel(f"S under {_plain(plane.reference)} (%)", fontsize=9)
    axes.set_ylabel("P (%)", fontsize=9)
    axes.grid(alpha=0.3)
    return handles


def _draw_box(axes: Axes, box: Box, linestyle: str) -> None:
    left, low, right, high = box
    x, y = [left, right, right, left, left], [low, low, high, high, low]
    axes.plot(x, y, linestyle=linestyle, linewidth=0.8, color="#999999", zorder=0)


def _label(
    axes: Axes, plane: Plane, box: Box, styles: dict[Who, Style], hidden: Box | None = None
) -> None:
    """Write beside the points of curves where the dial stands, where there is most room.

    What another panel shows, in the box that is hidden, goes without.
    """
    wide, high = 72 * _WIDTH / (box[2] - box[0]), 72 * _HEIGHT / (box[3] - box[1])
    points = [(100 * mark.s * wide, 100 * mark.p * high) for mark in plane.marks]
    sizes = [styles[mark.role, mark.name]["markersize"] + _NEAR for mark in plane.marks]
    taken = [_box_at(at, (size, size)) for at, size in zip(points, sizes, strict=True)]
    for mark, point in zip(plane.marks, points, strict=True):
        s, p = 100 * mark.s, 100 * mark.p
        if mark.at is None or not _holds(box, s, p) or (hidden and _holds(hidden, s, p)):
            continue
        text = f"{mark.at:g}"
        size = _LETTER * len(text), _LINE
        best = min(_offsets(size), key=partial(_crowd, point, size, points, taken))
        middle = point[0] + best[0], point[1] + best[1]
        taken.append(_box_at(middle, size))
        colour = styles[mark.role, mark.name]["color"]
        axes.annotate(
            text,
            (s, p),
            xytext=best,
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=7,
            color=colour,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.4},
        )


def _offsets(size: Pair) -> list[Pair]:
    """Where a label's middle may lie about its point: near first, then further away."""
    found = []
    for near in (_NEAR, 2 * _NEAR, 4 * _NEAR):
        x, y = near + size[0] / 2, near + size[1] / 2
        found += [(x, y), (0, y), (-x, y), (x, -y), (0, -y), (-x, -y), (x, 0), (-x, 0)]
    return found


def _crowd(
    point: Pair, size: Pair, points: Sequence[Pair], taken: Sequence[Box], at: Pair
) -> float:
    """Say how much a label would cover, and how many points it would be nearer to than its own."""
    middle = point[0] + at[0], point[1] + at[1]
    covered = sum(_overlap(_box_at(middle, size), other) for other in taken)
    nearer = sum(math.dist(middle, other) < math.dist(middle, point) for other in points)
    return covered + nearer * size[1] ** 2


def _box_at(middle: Pair, size: Pair) -> Box:
    (x, y), (width, height) = middle, size
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _overlap(one: Box, other: Box) -> float:
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return max(wide, 0.0) * max(high, 0.0)


def _holds(box: Box, x: float, y: float) -> bool:
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


def _plain(text: str) -> str:
    """Keep matplotlib from reading a dollar as mathematics."""
    return text.replace("$", r"\$")
