"""P against S: a large panel of the encoders, and a small panel from chance to gold labels.

Up and to the right is better. A name is beside its point if there is room, otherwise in the legend.
The front connects the points that no encoder beats in both P and S. A dashed frame shows the region
that gold labels bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from polarity_bench.render.chart import Mark, MarkRole, Plane
from polarity_bench.render.figures.labels import SIZE, Box, Label, Pair, TakenSpace, box_about
from polarity_bench.render.figures.style import (
    N_NAMED,
    WIDTH,
    Looks,
    Sheet,
    Theme,
    look,
    place_axes,
    plain,
    titled,
    wrapped,
)
from polarity_bench.values import shortest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

_WIDTH, _HEIGHT = 5.7, 4.7  # of the panel, in inches
_LEFT, _LOW, _TOP, _GAP = 0.65, 0.55, 0.4, 0.25
_WHOLE, _WHOLE_LOW = (2.25, 1.6), 0.45  # the small panel, and the space below it
_LINE = 0.165  # of the legend
_LONG, _WRAP = 30, 38  # longest name beside a point; widest line in the legend, in letters
_HOLLOW = "s^Dv<>pdhH8"
_SHAPES: dict[MarkRole, tuple[str, float]] = {
    "oracle": ("*", 11),
    "base": ("s", 9),
    "random": ("X", 7),
}
_SIDES: dict[int, Literal["left", "center", "right"]] = {-1: "left", 0: "center", 1: "right"}
Who = tuple[MarkRole, str]
"""Role and name of a mark; the role is needed because published results may share an encoder's
name."""

_COUNTED: tuple[MarkRole, ...] = ("encoder", "curve", "base")
_FEW = 8  # arrows; more are drawn faint
_NEAR_CHANCE = 0.05
"""Share of the way from chance to gold labels above which an encoder is in the large panel."""


@dataclass(frozen=True)
class _Layout:
    """Layout of a plane.

    Attributes:
        box: Region of the large panel, in percent.
        whole: Region of the small panel; None draws none.
        named: Encoders and published points that the figure names.
        beside: Those whose names are beside their points.
        labels: Placed labels.
    """

    box: Box
    whole: Box | None
    named: frozenset[Who]
    beside: frozenset[Who]
    labels: Sequence[Label]


def plane_sheet(plane: Plane, looks: Looks) -> Sheet:
    """Lay out a plane."""
    layout = _lay_out(plane)
    n_lines = sum(1 + text.count("\n") for text in _legend_texts(plane, layout))
    whole = _TOP + _WHOLE[1] + _WHOLE_LOW if layout.whole else _TOP
    height = max(_LOW + _HEIGHT + _TOP, whole + _LINE * n_lines + 0.3)
    title = f"P against S: {plain(plane.title)}"
    return Sheet(title, _said(plane), height, partial(_draw, plane, layout, looks, height))


def _said(plane: Plane) -> str:
    places = [
        f"{plain(mark.name)}{'' if mark.at is None else f' at {shortest(mark.at)}'}: "
        f"P {100 * mark.p:.1f}, S {100 * mark.s:.1f}"
        for mark in plane.marks[: 2 * N_NAMED]
    ]
    more = len(plane.marks) - len(places)
    others = [f"and {more} more"] if more else []
    return f"In percent, S under {plain(plane.reference)}. {'; '.join([*places, *others])}."


# Layout


def _lay_out(plane: Plane) -> _Layout:
    shown = [mark for mark in plane.marks if mark.role not in _SHAPES or mark.role == "base"]
    away = [mark for mark in shown if _is_away(mark, plane)]
    large = away if len({(mark.p, mark.s) for mark in away}) > 1 else plane.marks
    box, whole = _around(large), _around(plane.marks)
    named = _named(plane)
    labels, beside = _labels(plane, box, named)
    return _Layout(box, None if large is plane.marks else whole, named, beside, labels)


def _is_away(mark: Mark, plane: Plane) -> bool:
    """Return whether a point is above chance in P and S; others would waste the large panel."""
    bounds = {bound.role: bound for bound in plane.marks}
    if "random" not in bounds:
        return True
    low = bounds["random"]
    high = bounds.get("oracle") or max(plane.marks, key=lambda each: each.s)
    p, s = mark.p - low.p, mark.s - low.s
    return p > _NEAR_CHANCE * (high.p - low.p) and s > _NEAR_CHANCE * (high.s - low.s)


def _around(marks: Sequence[Mark]) -> Box:
    """Return the bounding box of the points, in percent, with a margin."""
    s, p = ([100 * getattr(mark, side) for mark in marks] for side in ("s", "p"))
    wide, high = (max(0.07 * (max(side) - min(side)), 0.5) for side in (s, p))
    return min(s) - wide, min(p) - high, max(s) + wide, max(p) + high


def _named(plane: Plane) -> frozenset[Who]:
    """Return the marks that the figure names: those on the front first, then by order of marks."""
    ends = {_who(mark) for mark in front(plane.marks)}
    single = dict.fromkeys(_who(m) for m in plane.marks if m.role in ("encoder", "published"))
    return frozenset(sorted(single, key=lambda who: who not in ends)[:N_NAMED])


def _who(mark: Mark) -> Who:
    return mark.role, mark.name


def _labels(
    plane: Plane, box: Box, named: frozenset[Who]
) -> tuple[Sequence[Label], frozenset[Who]]:
    """Place the labels of names and strengths, the most important first."""
    wide, high = 72 * _WIDTH / (box[2] - box[0]), 72 * _HEIGHT / (box[3] - box[1])

    def at(mark: Mark) -> Pair:
        return (100 * mark.s - box[0]) * wide, (100 * mark.p - box[1]) * high

    room = TakenSpace((2, 2, 72 * _WIDTH - 2, 72 * _HEIGHT - 2), [at(mark) for mark in plane.marks])
    room.taken += [box_about(at(m), _SHAPES.get(m.role, ("", 6))[1] + 1) for m in plane.marks]
    curves = _by_name(plane.marks, "curve")
    room.keep_free([[at(mark) for mark in points] for points in curves.values()])
    inside = [
        m for m in plane.marks if box[0] <= 100 * m.s <= box[2] and box[1] <= 100 * m.p <= box[3]
    ]
    ends = {id(points[i]) for points in curves.values() for i in (0, -1)}
    beside = set()
    for mark in sorted(inside, key=lambda mark: _turn(mark, id(mark) in ends)):
        if mark.role == "curve" and mark.at is not None:
            room.place(shortest(mark.at), at(mark))
        elif _who(mark) in named:
            name = plain(mark.name)
            if len(name) <= _LONG and room.place(name, at(mark), far=True):
                beside.add(_who(mark))
    return room.placed, frozenset(beside)


def _turn(mark: Mark, is_end: bool) -> int:
    return 0 if is_end else {"encoder": 1, "published": 2}.get(mark.role, 3)


def _by_name(marks: Sequence[Mark], role: MarkRole) -> dict[str, list[Mark]]:
    found: dict[str, list[Mark]] = {}
    for mark in marks:
        if mark.role == role:
            found.setdefault(mark.name, []).append(mark)
    return found


def front(marks: Sequence[Mark]) -> list[Mark]:
    """Return the encoders and curve points that none beats in both P and S, by descending S.

    Example:
        >>> a, b, c = (Mark(n, "encoder", p, s) for n, p, s in [("a", 0.7, 0.4), ("b", 0.9, 0.3),
        ...                                                     ("c", 0.6, 0.35)])
        >>> [mark.name for mark in front([a, b, c])]
        ['a', 'b']
    """
    best: list[Mark] = []
    counted = [mark for mark in marks if mark.role in _COUNTED]
    for mark in sorted(counted, key=lambda mark: (-mark.s, -mark.p)):
        if not best or mark.p > best[-1].p:
            best.append(mark)
    return best


# The legend


def _legend_texts(plane: Plane, layout: _Layout) -> list[str]:
    return [text for text, _ in _legend(plane, layout, {}, None)]


def _legend(
    plane: Plane, layout: _Layout, looks: Looks, theme: Theme | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the text and the style of each legend entry; without a theme, styles may be empty."""

    def style(mark: Mark) -> dict[str, Any]:
        return _style(mark, layout, looks, theme) if theme else {}

    def entries(role: MarkRole, *, beside: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, marks in _by_name(plane.marks, role).items():
            if not beside or (role, name) in layout.named - layout.beside:
                yield wrapped(name, _WRAP), style(marks[0])

    yield from entries("oracle")
    yield "front: none is better in both", _front_style(theme) if theme else {}
    yield from entries("curve")
    yield from entries("encoder", beside=True)
    yield from entries("published", beside=True)
    single = {_who(m): m for m in plane.marks if m.role in ("encoder", "published")}
    if in_place := sorted(who for who in layout.beside if who[0] == "published"):
        yield "published", style(single[in_place[0]])
    if left := sorted(single.keys() - layout.named):
        yield f"{len(left)} others", style(single[left[0]])
    yield from entries("base")
    if any(mark.tuned for mark in plane.marks) and _by_name(plane.marks, "base"):
        yield "made from it", _arrow_style(theme) if theme else {}
    yield from entries("random")
    if any(mark.at is not None for mark in plane.marks):
        yield "numbers: strengths or weights", {"linestyle": ""}


def _style(mark: Mark, layout: _Layout, looks: Looks, theme: Theme) -> dict[str, Any]:
    """Return the matplotlib style of a mark."""
    style: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 6, "color": theme.muted}
    if mark.role in _SHAPES:
        marker, size = _SHAPES[mark.role]
        ink = theme.muted if mark.role == "random" else theme.ink
        hollow = {"markerfacecolor": "none", "markeredgewidth": 1.4} if mark.role == "base" else {}
        return style | {"marker": marker, "markersize": size, "color": ink} | hollow
    if mark.role == "curve":
        return style | look(looks[mark.name], theme) | {"linestyle": "-", "markersize": 4.5}
    if _who(mark) not in layout.named:
        return style | {"markersize": 2.5, "alpha": 0.6}
    if mark.role == "published":
        names = sorted(name for role, name in layout.named - layout.beside if role == "published")
        marker = _HOLLOW[names.index(mark.name) % len(_HOLLOW)] if mark.name in names else "o"
        return style | {"marker": marker, "markersize": 5, "markerfacecolor": "none"}
    return style | look(looks[mark.name], theme)


def _front_style(theme: Theme) -> dict[str, Any]:
    return {"color": theme.ink, "linewidth": 3.5, "alpha": 0.16, "solid_capstyle": "butt"}


def _arrow_style(theme: Theme) -> dict[str, Any]:
    return {"color": theme.muted, "linewidth": 0.7, "marker": ">", "markersize": 3}


# Drawing


def _draw(
    plane: Plane,
    layout: _Layout,
    looks: Looks,
    height: float,
    figure: FigureBase,
    theme: Theme,
) -> None:
    from matplotlib.lines import Line2D

    panel = (_LEFT, height - _TOP - _HEIGHT, _WIDTH, _HEIGHT)
    axes = place_axes(figure, height, panel)
    axes.set_title(titled(plane.title, _WIDTH))
    axes.set_xlabel(f"S under {wrapped(plane.reference, 60, lines=1)} (%)")
    axes.set_ylabel("P (%)")
    _draw_marks(axes, plane, layout, looks, theme, layout.box)
    _draw_arrows(axes, plane, layout, theme)
    _draw_labels(axes, layout, theme)
    right, top = _LEFT + _WIDTH + _GAP, height - _TOP
    if layout.whole:
        low = top - _WHOLE[1]
        beside = place_axes(figure, height, (right + 0.3, low, *_WHOLE))
        beside.set_title("the whole", fontsize=8, fontweight="normal", color=theme.muted)
        _draw_marks(beside, plane, layout, looks, theme, layout.whole, is_small=True)
        _draw_box(beside, layout.box, theme.ink, ":")
        beside.tick_params(labelsize=7)
        top = low - _WHOLE_LOW + 0.1
    said = list(_legend(plane, layout, looks, theme))
    figure.legend(
        [Line2D([], [], **style) for _, style in said],
        [text for text, _ in said],
        loc="upper left",
        bbox_to_anchor=(right / WIDTH, (top + 0.06) / height),
        borderaxespad=0,
        borderpad=0,
        labelspacing=0.45,
    )


def _draw_marks(
    axes: Axes,
    plane: Plane,
    layout: _Layout,
    looks: Looks,
    theme: Theme,
    box: Box,
    *,
    is_small: bool = False,
) -> None:
    """Draw the bounds, the front and every mark, in percent."""
    axes.set(xlim=box[::2], ylim=box[1::2])
    bounds = {mark.role: mark for mark in plane.marks}
    if "random" in bounds and "oracle" in bounds:
        low, high = bounds["random"], bounds["oracle"]
        _draw_box(axes, (100 * low.s, 100 * low.p, 100 * high.s, 100 * high.p), theme.muted, "--")
    if found := front(plane.marks):
        x, y = _staircase(found, box)
        axes.plot(x, y, zorder=1.5, **_front_style(theme))
    for role in ("published", "encoder", "curve", "random", "base", "oracle"):
        named = list(_by_name(plane.marks, role).values())
        if role in ("published", "encoder"):
            others = [m for m in plane.marks if m.role == role and _who(m) not in layout.named]
            named = [marks for marks in named if _who(marks[0]) in layout.named]
            named += [others] if others else []  # in one call, as there may be hundreds
        for marks in named:
            style = _style(marks[0], layout, looks, theme)
            style["markersize"] *= 0.8 if is_small and role in _SHAPES else 0.55 if is_small else 1
            s, p = [100 * mark.s for mark in marks], [100 * mark.p for mark in marks]
            axes.plot(s, p, zorder=3, **style)


def _staircase(found: Sequence[Mark], box: Box) -> tuple[list[float], list[float]]:
    x, y = [100 * found[0].s], [box[1]]
    for mark, after in zip(found, [*found[1:], None], strict=True):
        end = 100 * after.s if after else box[0]
        x += [100 * mark.s, end]
        y += [100 * mark.p] * 2
    return x, y


def _draw_box(axes: Axes, box: Box, colour: str, linestyle: str) -> None:
    left, low, right, high = box
    x, y = [left, right, right, left, left], [low, low, high, high, low]
    axes.plot(x, y, linestyle=linestyle, linewidth=0.8, color=colour, zorder=1)


def _draw_arrows(axes: Axes, plane: Plane, layout: _Layout, theme: Theme) -> None:
    """Draw an arrow from the base to each named encoder that was trained from it."""
    tuned = [mark for mark in plane.marks if mark.tuned and _who(mark) in layout.named]
    for base in [mark for mark in plane.marks if mark.role == "base"]:
        for mark in tuned:
            axes.annotate(
                "",
                (100 * mark.s, 100 * mark.p),
                xytext=(100 * base.s, 100 * base.p),
                zorder=2,
                arrowprops={
                    "arrowstyle": "-|>,head_length=0.3,head_width=0.14",
                    "color": theme.muted,
                    "linewidth": 0.6,
                    "alpha": 0.7 if len(tuned) <= _FEW else 0.35,
                    "shrinkA": 6,
                    "shrinkB": 4,
                },
            )


def _draw_labels(axes: Axes, layout: _Layout, theme: Theme) -> None:
    box = layout.box
    wide, high = (box[2] - box[0]) / (72 * _WIDTH), (box[3] - box[1]) / (72 * _HEIGHT)
    for label in layout.labels:
        line = {"arrowstyle": "-", "color": theme.muted, "linewidth": 0.4, "shrinkB": 3}
        line["relpos"] = ((1 + label.side) / 2, 0.5)
        under = {"facecolor": theme.background, "edgecolor": "none", "alpha": 0.7, "pad": 0.3}
        axes.annotate(
            label.text,
            (box[0] + label.point[0] * wide, box[1] + label.point[1] * high),
            xytext=label.anchor,
            textcoords="offset points",
            ha=_SIDES[label.side],
            va="center",
            fontsize=SIZE,
            color=theme.ink,
            zorder=5,
            arrowprops=line if label.is_far else None,
            bbox=under,
        )
