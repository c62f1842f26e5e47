"""Figure of P against S: a large panel of the encoders and a small overview panel.

The overview extends from random retrieval to retrieval with gold labels. Up and to the right is
better. The front connects the points that no encoder beats in both P and S. Points on the front
have the colours of their families and are labelled first. Other points are grey and are labelled if
there is room. Vega-Lite has no inset panels, so the overview is a second view. A dotted frame in
the overview shows the region of the large panel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

from polarity_bench.render.chart import Mark, MarkRole, Plane
from polarity_bench.render.figures.figure import (
    DASHES,
    Figure,
    Rows,
    Styles,
    layered,
    names_of,
    scale_of,
)
from polarity_bench.render.figures.labels import SIZE, Box, Pair, TakenSpace, box_at
from polarity_bench.render.figures.themes import Looks, colour_of, plain, shape_of
from polarity_bench.render.format import percent
from polarity_bench.values import grouped, shortest

_STAR = (
    "M0,-1L0.24,-0.32L0.95,-0.31L0.38,0.12L0.59,0.81L0,0.4L-0.59,0.81L-0.38,0.12L-0.95,-0.31"
    "L-0.24,-0.32Z"
)
_SQUARE = "M-1,-1L1,-1L1,1L-1,1ZM-0.75,-0.75L-0.75,0.75L0.75,0.75L0.75,-0.75Z"
_DIAMOND = "M0,-1L1,0L0,1L-1,0ZM0,-0.6L-0.6,0L0,0.6L0.6,0Z"
_ROLES: Mapping[MarkRole, tuple[str, str, str]] = {
    "encoder": ("not on the front", "--faint", "circle"),
    "published": ("published", "--reported", _DIAMOND),
    "base": ("base", "--ink", _SQUARE),
    "oracle": ("gold labels", "--ink", _STAR),
    "random": ("random retrieval", "--faint", "cross"),
}
"""Legend entry, colour and shape for each role of a mark that is not on the front."""
_WORDS = {role: word for role, (word, *_) in _ROLES.items()} | {
    "encoder": "encoders",
    "curve": "curve",
}
_BEHIND = 2  # turn, in the placement of labels, of encoders that are not on the front
_LONG = 34  # maximum length of a label
_MAX_PULLS = 60  # maximum number of lines from the base; with more encoders no line is drawn
_MAX_NAMED = 40  # maximum number of labels at points that are not on the front
_MAX_CELLS = 100  # maximum rows of the figure's table; the board's tables contain all numbers
_MAX_LACKING = 6  # maximum number of points without a label that the note lists
_NEAR_CHANCE = 0.05
"""Minimum distance from chance for the large panel, as a share of the range up to gold labels."""
_BOUNDS = frozenset({"base", "oracle", "random"})
_ALIGN = {-1: "left", 0: "center", 1: "right"}


@dataclass(frozen=True)
class _Panel:
    """Sizes of a panel and of its marks and lines, in pixels, and the options of its legend."""

    name: str
    width: int
    height: int
    mark_size: int
    front_width: float
    curve_width: float
    n_ticks: int
    legend: Mapping[str, Any]


_LARGE = _Panel("large", 560, 440, 80, front_width=4, curve_width=1.4, n_ticks=8, legend={})
_BELOW = {"orient": "bottom", "columns": 1}
_SMALL = _Panel("small", 190, 140, 24, front_width=2, curve_width=0.8, n_ticks=4, legend=_BELOW)


def plane_figure(plane: Plane, looks: Looks, *, several: bool = False) -> Figure:
    """Lay out a chart of P against S.

    Args:
        plane: Chart to lay out.
        looks: Looks of the families and curves on the front.
        several: Whether other charts have the same title; the title then names the reference.
    """
    reference = f"S under {plain(plane.reference)}"
    title = f"P against S: {plain(plane.title)}" + (f", {reference}" if several else "")
    more, ahead = len(plane.marks) - _MAX_CELLS, {id(mark) for mark in plane.front}
    marks = sorted(plane.marks, key=lambda mark: id(mark) not in ahead) if more > 0 else plane.marks
    listed = marks[:_MAX_CELLS]
    numbers = [*map(_in_words, listed), *([f"and {more} more"] if more > 0 else [])]
    chart, lacking = _chart(plane, looks)
    return Figure(
        title,
        f"In percent, {reference}. {'; '.join(numbers)}.",
        chart,
        ["name", "what", "dial", "P", "S"],
        [[m.name, _WORDS[m.role], _dial(m), percent(m.p), percent(m.s)] for m in listed],
        _notes(plane, lacking),
    )


def _notes(plane: Plane, lacking: Sequence[str]) -> list[str]:
    more = f" and {len(lacking) - _MAX_LACKING} more" if len(lacking) > _MAX_LACKING else ""
    n_marks = len(plane.marks)
    return [
        "Up and to the right is better.",
        "The thick line is the front: no encoder beats its points in both P and S.",
        "Numbers are strengths or weights." if any(m.at is not None for m in plane.marks) else "",
        "The dashed frame reaches from random retrieval to gold labels." if _frame(plane) else "",
        "Thin lines lead from the base to encoders trained from it."
        if _training_lines(plane)
        else "",
        f"Not labelled: {', '.join(lacking[:_MAX_LACKING])}{more}." if lacking else "",
        f"The table below has {_MAX_CELLS} of {n_marks}, the front first."
        if n_marks > _MAX_CELLS
        else "",
    ]


def _in_words(mark: Mark) -> str:
    at = f" at {shortest(mark.at)}" if mark.at is not None else ""
    return f"{plain(mark.name)}{at}: P {100 * mark.p:.1f}, S {100 * mark.s:.1f}"


def _dial(mark: Mark) -> str:
    return "" if mark.at is None else f"{mark.at:g}"


# Regions of the panels


def _large_panel_marks(plane: Plane) -> Sequence[Mark]:
    """Return the marks of the large panel: those above chance, or all if fewer than two are."""
    shown = [mark for mark in plane.marks if mark.role not in ("oracle", "random")]
    away = [mark for mark in shown if _is_above_chance(mark, plane)]
    return away if len({(mark.p, mark.s) for mark in away}) > 1 else plane.marks


def _is_above_chance(mark: Mark, plane: Plane) -> bool:
    """Return whether a mark is clearly above chance in both P and S.

    Marks near chance would waste space in the large panel.
    """
    bounds = {bound.role: bound for bound in plane.marks}
    if "random" not in bounds:
        return True
    low = bounds["random"]
    high = bounds.get("oracle") or max(plane.marks, key=lambda each: each.s)
    p, s = mark.p - low.p, mark.s - low.s
    return p > _NEAR_CHANCE * (high.p - low.p) and s > _NEAR_CHANCE * (high.s - low.s)


def _bounding_box(marks: Sequence[Mark]) -> Box:
    """Return the bounding box of the marks, in percent, with a margin."""
    s, p = ([100 * getattr(mark, side) for mark in marks] for side in ("s", "p"))
    wide, high = (max(0.08 * (max(side) - min(side)), 0.5) for side in (s, p))
    ends = min(s) - wide, min(p) - high, max(s) + wide, max(p) + high
    left, low, right, top = (round(end, 4) for end in ends)
    return left, low, right, top


# Data of the layers


def _position(mark: Mark) -> dict[str, float]:
    """Return the position of a mark in percent, rounded to four decimals."""
    return {"s": round(100 * mark.s, 4), "p": round(100 * mark.p, 4)}


def _from_to(one: Mark, other: Mark) -> dict[str, float]:
    return {**_position(one), **{f"{side}2": at for side, at in _position(other).items()}}


def _frame(plane: Plane) -> Rows:
    """Return the rectangle from random retrieval to gold labels; no rows if either is missing."""
    ends = {m.role: m for m in plane.marks}
    has_both = {"random", "oracle"} <= ends.keys()
    return [_from_to(ends["random"], ends["oracle"])] if has_both else []


def _training_lines(plane: Plane) -> Rows:
    """Return lines from the base to each encoder or curve that was trained from the base."""
    base = next((m for m in plane.marks if m.role == "base"), None)
    tuned = {m.name: m for m in reversed(plane.marks) if m.tuned}
    if base is None or len(tuned) > _MAX_PULLS:
        return []
    return [_from_to(base, m) for m in reversed(tuned.values())]


def _staircase(plane: Plane, box: Box) -> Rows:
    """Return the corners of the front, from the lower edge to the left edge of a region."""
    front = plane.front
    if not front:
        return []
    corners = [(100 * front[0].s, box[1])]
    for mark, after in zip(front, [*front[1:], None], strict=True):
        end = 100 * after.s if after else box[0]
        corners += [(100 * mark.s, 100 * mark.p), (end, 100 * mark.p)]
    return [{"s": round(s, 4), "p": round(p, 4), "order": i} for i, (s, p) in enumerate(corners)]


def _series(mark: Mark, plane: Plane, ahead: frozenset[int]) -> str:
    """Return the legend entry of a mark: its family if it is on the front, otherwise its role."""
    is_named = mark.series in plane.families if mark.role == "curve" else id(mark) in ahead
    is_named = is_named and mark.role != "base"
    return plain(mark.series) if is_named else _ROLES.get(mark.role, _ROLES["encoder"])[0]


def _marks(plane: Plane) -> Rows:
    ahead = frozenset(map(id, plane.front))
    return [
        {
            "name": plain(mark.name),
            "role": mark.role,
            "series": _series(mark, plane, ahead),
            "said": _in_words(mark),
            **_position(mark),
            "P": percent(mark.p),
            "S": percent(mark.s),
            "dial": _dial(mark),
            "order": i,
        }
        for i, mark in enumerate(plane.marks)
    ]


def _labels(plane: Plane, box: Box) -> tuple[Rows, list[str]]:
    """Place names and strengths in the large panel, starting with the points on the front.

    Returns:
        The placed labels, and the names of the points without a label.
    """
    left, low, right, top = box
    wide, high = _LARGE.width / (right - left), _LARGE.height / (top - low)

    def at(mark: Mark) -> Pair:
        return (100 * mark.s - left) * wide, (100 * mark.p - low) * high

    points = [at(mark) for mark in plane.marks]
    room = TakenSpace((2, 2, _LARGE.width - 2, _LARGE.height - 2), np.array(points))
    sides = (11.0 if mark.role == "base" else 8.0 for mark in plane.marks)  # of the markers
    room.take([box_at(point, (side, side)) for point, side in zip(points, sides, strict=True)])
    curves = grouped((m for m in plane.marks if m.role == "curve"), lambda mark: mark.name)
    for curve in curves.values():
        room.keep_free([at(mark) for mark in curve])
    corners = _staircase(plane, box)
    room.keep_free([((c["s"] - left) * wide, (c["p"] - low) * high) for c in corners])
    turns = {"encoder": _BEHIND, "published": 3, "curve": 4}
    turn_of = {id(mark): turns[mark.role] for mark in plane.marks if mark.role in turns}
    turn_of |= {id(curve[i]): 1 for curve in curves.values() for i in (0, -1)}
    turn_of |= {id(mark): 0 for mark in plane.front if mark.role in turns}
    inside = [m for m in plane.marks if left <= 100 * m.s <= right and low <= 100 * m.p <= top]
    lacking: list[str] = []
    for mark in sorted((m for m in inside if id(m) in turn_of), key=lambda m: turn_of[id(m)]):
        turn, name = turn_of[id(mark)], plain(mark.name)
        text = name
        if mark.role == "curve":
            is_named = mark is curves[mark.name][-1] and mark.name not in plane.families
            name = name if is_named else ""
            text = f"{name} {_dial(mark)}".strip()
        n_soft = sum(label.is_soft for label in room.placed)
        may_stand = 0 < len(text) <= _LONG and (turn < _BEHIND or n_soft <= _MAX_NAMED)
        far = mark.role != "curve" or turn == 0
        if not (may_stand and room.place(text, at(mark), far=far, is_soft=turn > 0)) and name:
            lacking.append(name)
    rows = []
    for label in room.placed:
        ends = (label.anchor, label.point) if label.is_far else (label.anchor,)
        (s, p), *to = [(round(left + x / wide, 4), round(low + y / high, 4)) for x, y in ends]
        row = {"text": label.text, "s": s, "p": p}
        row |= {"align": _ALIGN[label.side], "soft": label.is_soft}
        rows.append(
            row | {f"{side}2": end for pair in to for side, end in zip("sp", pair, strict=True)}
        )
    return rows, lacking


# Specification


def _chart(plane: Plane, looks: Looks) -> tuple[Any, list[str]]:
    """Return the altair chart, and the names of the points without a label."""
    marks = _large_panel_marks(plane)
    box = _bounding_box(marks)
    labels, lacking = _labels(plane, box)
    rows = {
        "pulls": _training_lines(plane),
        "label-lines": [row for row in labels if "s2" in row],
        "labels-soft": [row for row in labels if row["soft"]],
        "labels": [row for row in labels if not row["soft"]],
    }
    has_small = len(marks) < len(plane.marks)
    views = [_view(plane, looks, _LARGE, box, rows, legend=not has_small)]
    if has_small:
        region = dict(zip(("s", "p", "s2", "p2"), box, strict=True))
        around = _bounding_box(plane.marks)
        views.append(_view(plane, looks, _SMALL, around, {"large": [region]}, legend=True))
    chart = alt.concat(*views, columns=2, spacing=34)
    return chart.resolve_legend(color="independent", shape="independent"), lacking


def _styles(panel: _Panel) -> Styles:
    """Return the style of each layer of a panel."""
    point = {"type": "point", "aria": alt.Undefined, "clip": True, "filled": True, "opacity": 1}
    at_end = {"expr": "datum.align"}
    text = {"type": "text", "baseline": "middle", "fontSize": SIZE, "align": at_end}
    thin = {"type": "rule", "stroke": "--faint"}
    line = {"type": "line", "clip": True}
    empty = {"type": "rect", "fillOpacity": 0}
    dashed = {"strokeDash": DASHES, "strokeOpacity": 1}
    return {
        "frame": {**empty, "clip": True, "stroke": "--faint", **dashed},
        "front": {**line, "color": "--ink", "opacity": 0.18, "strokeWidth": panel.front_width},
        "pulls": {**thin, "clip": True, "strokeWidth": 0.7, "opacity": 0.6},
        "large": {**empty, "stroke": "--ink", "strokeDash": [1, 2]},
        "curves": {**line, "strokeWidth": panel.curve_width},
        "behind": {**point, "size": round(0.5 * panel.mark_size)},
        "curve-points": {**point, "size": round(0.5 * panel.mark_size)},
        "bounds": {**point, "size": round(2.2 * panel.mark_size)},
        "points": {**point, "size": panel.mark_size},
        "label-lines": {**thin, "strokeWidth": 0.6},
        "labels-soft": {**text, "color": "--soft"},
        "labels": {**text, "color": "--ink"},
    }


def _view(
    plane: Plane, looks: Looks, panel: _Panel, box: Box, special: Mapping[str, Rows], legend: bool
) -> Any:
    """Return the altair view of a panel.

    Args:
        plane: Chart to draw.
        looks: Looks of the families and curves on the front.
        panel: Panel to draw.
        box: Region of the panel, in percent.
        special: Rows of layers that only this panel has, by the layer's name.
        legend: Whether this panel shows the legend.
    """
    is_large = panel is _LARGE
    titles = (f"S under {plain(plane.reference)} (%)", "P (%)") if is_large else (None, None)
    axis: Any = {"tickCount": panel.n_ticks}
    at = {
        "x": alt.X("s:Q", title=titles[0], scale=scale_of(*box[::2]), axis=axis),
        "y": alt.Y("p:Q", title=titles[1], scale=scale_of(*box[1::2]), axis=axis),
    }
    to = {**at, "x2": "s2:Q", "y2": "p2:Q"}
    shown = alt.Legend(title=None, symbolOpacity=1, **panel.legend) if legend else None
    rows = _marks(plane)
    entries = [(plain(f), colour_of(looks[f]), shape_of(looks[f])) for f in plane.families]
    present = {row["series"] for row in rows}
    entries += [entry for entry in _ROLES.values() if entry[0] in present]
    domain, colours, shapes = (list(part) for part in zip(*entries, strict=True))
    colour = alt.Color("series:N", scale=alt.Scale(domain=domain, range=colours), legend=shown)
    shape = alt.Shape("series:N", scale=alt.Scale(domain=domain, range=shapes), legend=shown)
    curves = [row for row in rows if row["role"] == "curve"]
    tips = names_of("name", "P", "S", *(["dial"] if curves else []))
    points = {**at, "color": colour, "shape": shape, "description": "said:N", "tooltip": tips}
    grey = {_ROLES[role][0] for role in ("encoder", "published")}
    ahead = [row for row in rows if row["series"] not in grey]
    texts = {**at, "text": "text:N"}
    layers = {  # later layers and later rows cover earlier ones
        "frame": (_frame(plane), to),
        "front": (_staircase(plane, box), {**at, "order": "order:Q"}),
        "pulls": (special.get("pulls", ()), to),
        "large": (special.get("large", ()), to),
        "curves": (curves, {**at, "color": colour, "detail": "name:N", "order": "order:Q"}),
        "behind": ([row for row in rows if row["series"] in grey], points),
        "curve-points": ([row for row in ahead if row["role"] == "curve"], points),
        "bounds": ([row for row in rows if row["role"] in _BOUNDS], points),
        "points": ([row for row in ahead if row["role"] == "encoder"], points),
        "label-lines": (special.get("label-lines", ()), to),
        "labels-soft": (special.get("labels-soft", ()), texts),
        "labels": (special.get("labels", ()), texts),
    }
    size = {"width": panel.width, "height": panel.height}
    return layered(_styles(panel), layers, f"{panel.name}-", **size)
