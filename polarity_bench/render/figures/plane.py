"""P against S: a large panel of the encoders, and a small panel from chance to gold labels.

Up and to the right is better. The front connects the points that no encoder beats in both P and S.
Its points have the colours of their families and carry their names; all others are grey, with their
names where there is room. Vega-Lite has no inset panel: the small one is a second view, whose
dotted frame shows the region of the large one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from polarity_bench.render.chart import Mark, MarkRole, Plane
from polarity_bench.render.figures.figure import DASHES, Figure, Rows, layer, layered, names_of
from polarity_bench.render.figures.labels import SIZE, Box, Pair, TakenSpace, box_at
from polarity_bench.render.figures.themes import Looks, colour_of, plain, shape_of
from polarity_bench.render.format import percent
from polarity_bench.values import shortest

_LARGE, _SMALL = (560, 440), (190, 140)  # sizes of the panels, in pixels
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
"""Name in the legend, colour and shape of marks that are not on the front."""
_WORDS = {role: word for role, (word, *_) in _ROLES.items()} | {
    "encoder": "encoders",
    "curve": "curve",
}
_BEHIND = 2  # turn of points behind the front
_LONG = 34  # letters of the longest name beside a point
_MAX_PULLS, _MAX_NAMED, _MAX_CELLS = 60, 40, 100
"""Maximum numbers of lines from a base, of names beside points behind the front, and of rows in the
table of a plane. The board's tables contain all numbers."""
_MAX_LACKING = 6  # names that the note lists
_NEAR_CHANCE = 0.05
"""Share of the way from chance to gold labels above which an encoder is in the large panel."""
_BOUNDS = frozenset({"base", "oracle", "random"})
_ALIGN = {-1: "left", 0: "center", 1: "right"}


@dataclass(frozen=True)
class _Panel:
    """A panel: its region in percent, its size in pixels, and the size of its marks."""

    box: Box
    size: tuple[int, int]
    mark_size: int
    name: str


def plane_figure(plane: Plane, looks: Looks, *, several: bool = False) -> Figure:
    """Lay out a plane.

    Args:
        plane: The plane.
        looks: Looks of the families and curves on the front.
        several: Whether other planes have the same title, so that this one names its reference.
    """
    reference = f"S under {plain(plane.reference)}"
    title = f"P against S: {plain(plane.title)}" + (f", {reference}" if several else "")
    more = len(plane.marks) - _MAX_CELLS
    listed = plane.marks[:_MAX_CELLS]
    numbers = [*map(_said, listed), *([f"and {more} more"] if more > 0 else [])]
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
        "Thin lines lead from the base to encoders trained from it." if _pulls(plane) else "",
        f"Not labelled: {', '.join(lacking[:_MAX_LACKING])}{more}." if lacking else "",
        f"The table below has {_MAX_CELLS} of {n_marks}." if n_marks > _MAX_CELLS else "",
    ]


def _said(mark: Mark) -> str:
    at = f" at {shortest(mark.at)}" if mark.at is not None else ""
    return f"{plain(mark.name)}{at}: P {100 * mark.p:.1f}, S {100 * mark.s:.1f}"


def _dial(mark: Mark) -> str:
    return "" if mark.at is None else f"{mark.at:g}"


# Regions


def _panels(plane: Plane) -> list[_Panel]:
    """Return the large panel, without points near chance, and the small one if it shows more."""
    shown = [mark for mark in plane.marks if mark.role not in ("oracle", "random")]
    away = [mark for mark in shown if _is_away(mark, plane)]
    large = away if len({(mark.p, mark.s) for mark in away}) > 1 else plane.marks
    panels = [_Panel(_around(large), _LARGE, 80, "large")]
    if len(large) < len(plane.marks):
        panels.append(_Panel(_around(plane.marks), _SMALL, 24, "small"))
    return panels


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
    wide, high = (max(0.08 * (max(side) - min(side)), 0.5) for side in (s, p))
    ends = min(s) - wide, min(p) - high, max(s) + wide, max(p) + high
    left, low, right, top = (round(end, 4) for end in ends)
    return left, low, right, top


# Data


def _at(mark: Mark) -> dict[str, float]:
    """Return the position of a mark in percent, rounded below what is visible."""
    return {"s": round(100 * mark.s, 4), "p": round(100 * mark.p, 4)}


def _from_to(one: Mark, other: Mark) -> dict[str, float]:
    return {**_at(one), **{f"{side}2": at for side, at in _at(other).items()}}


def _frame(plane: Plane) -> Rows:
    """Return the frame between random retrieval and retrieval with gold labels."""
    ends = {m.role: m for m in plane.marks}
    if "random" not in ends or "oracle" not in ends:
        return []
    return [_from_to(ends["random"], ends["oracle"])]


def _pulls(plane: Plane) -> Rows:
    """Return lines from the base to the encoders trained from it, one for each curve."""
    base = next((m for m in plane.marks if m.role == "base"), None)
    tuned = {m.name: m for m in reversed(plane.marks) if m.tuned}
    if base is None or len(tuned) > _MAX_PULLS:
        return []
    return [_from_to(base, m) for m in reversed(tuned.values())]


def _staircase(plane: Plane, box: Box) -> Rows:
    """Return the corners of the front, from the lower to the left edge of a region."""
    front = plane.front
    if not front:
        return []
    corners = [(100 * front[0].s, box[1])]
    for mark, after in zip(front, [*front[1:], None], strict=True):
        end = 100 * after.s if after else box[0]
        corners += [(100 * mark.s, 100 * mark.p), (end, 100 * mark.p)]
    return [{"s": round(s, 4), "p": round(p, 4), "order": i} for i, (s, p) in enumerate(corners)]


def _series(mark: Mark, plane: Plane, ahead: frozenset[int]) -> str:
    """Return what the legend calls a mark: its family if it is on the front, else its role."""
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
            "said": _said(mark),
            **_at(mark),
            "P": percent(mark.p),
            "S": percent(mark.s),
            "dial": _dial(mark),
            "order": i,
        }
        for i, mark in enumerate(plane.marks)
    ]


def _labels(plane: Plane, panel: _Panel) -> tuple[Rows, list[str]]:
    """Place names and strengths in the large panel, first those on the front.

    Returns:
        The placed labels, and the names of points without room for a label.
    """
    box, (width, height) = panel.box, panel.size
    wide, high = width / (box[2] - box[0]), height / (box[3] - box[1])

    def at(mark: Mark) -> Pair:
        return (100 * mark.s - box[0]) * wide, (100 * mark.p - box[1]) * high

    room = TakenSpace((2, 2, width - 2, height - 2), [at(mark) for mark in plane.marks])
    sizes = {"base": (11.0, 11.0)}  # of markers; the others are smaller
    room.taken += [box_at(at(m), sizes.get(m.role, (8.0, 8.0))) for m in plane.marks]
    curves: dict[str, list[Mark]] = {}
    for mark in (m for m in plane.marks if m.role == "curve"):
        curves.setdefault(mark.name, []).append(mark)
    room.keep_free([[at(mark) for mark in points] for points in curves.values()])
    corners = _staircase(plane, box)
    room.keep_free([[((c["s"] - box[0]) * wide, (c["p"] - box[1]) * high) for c in corners]])
    ahead = frozenset(map(id, plane.front))
    ends = {id(points[i]) for points in curves.values() for i in (0, -1)}
    inside = [
        m for m in plane.marks if box[0] <= 100 * m.s <= box[2] and box[1] <= 100 * m.p <= box[3]
    ]
    rank = {"encoder": _BEHIND, "published": 3, "curve": 4}
    turns = sorted(
        (0 if id(m) in ahead else 1 if id(m) in ends else rank[m.role], i)
        for i, m in enumerate(inside)
        if m.role in rank
    )
    lacking: list[str] = []
    for turn, i in turns:
        mark = inside[i]
        text = name = plain(mark.name)
        if mark.role == "curve":
            is_named = mark is curves[mark.name][-1] and mark.name not in plane.families
            text = f"{name} {_dial(mark)}" if is_named else _dial(mark)
            name = name if is_named else ""
        n_soft = sum(label.is_soft for label in room.placed)
        may_stand = 0 < len(text) <= _LONG and (turn < _BEHIND or n_soft <= _MAX_NAMED)
        far = mark.role != "curve" or turn == 0
        if not (may_stand and room.place(text, at(mark), far=far, is_soft=turn > 0)) and name:
            lacking.append(name)

    def back(point: Pair) -> dict[str, float]:
        return {"s": round(box[0] + point[0] / wide, 4), "p": round(box[1] + point[1] / high, 4)}

    rows = []
    for label in room.placed:
        row = {
            "text": label.text,
            **back(label.anchor),
            "align": _ALIGN[label.side],
            "soft": label.is_soft,
        }
        to = {f"{side}2": value for side, value in back(label.point).items()}
        rows.append(row | (to if label.is_far else {}))
    return rows, lacking


# The specification


def _chart(plane: Plane, looks: Looks) -> tuple[Any, list[str]]:
    """Return the chart, and the names of points without room for a label."""
    panels = _panels(plane)
    labels, lacking = _labels(plane, panels[0])
    views = [_view(plane, looks, panel, panels, labels) for panel in panels]
    whole = alt.concat(*views, columns=2, spacing=34)
    return whole.resolve_legend(color="independent", shape="independent"), lacking


def _view(plane: Plane, looks: Looks, panel: _Panel, panels: Sequence[_Panel], labels: Rows) -> Any:
    """Return the view of a panel; the last one has the legend."""
    is_large, is_last = panel is panels[0], panel is panels[-1]
    ticks: dict[str, Any] = {"tickCount": 8 if is_large else 4}
    titles: Any = (f"S under {plain(plane.reference)} (%)", "P (%)") if is_large else (None, None)
    at: dict[str, Any] = {
        "x": alt.X("s:Q", title=titles[0], scale=_scale(panel.box[::2]), axis=ticks),
        "y": alt.Y("p:Q", title=titles[1], scale=_scale(panel.box[1::2]), axis=ticks),
    }
    to: dict[str, Any] = {"x2": "s2:Q", "y2": "p2:Q"}
    left, low, right, top = panels[0].box
    region = [] if is_large else [{"s": left, "p": low, "s2": right, "p2": top}]
    pulls = _pulls(plane) if is_large else []
    width = 4 if is_large else 2
    dashed = layer(_frame(plane), f"{panel.name}-frame").mark_rect(
        aria=False, clip=True, fillOpacity=0, stroke="--faint", strokeDash=DASHES, strokeOpacity=1
    )
    thick = layer(_staircase(plane, panel.box), f"{panel.name}-front").mark_line(
        aria=False, clip=True, color="--ink", opacity=0.18, strokeWidth=width
    )
    rule = layer(pulls, f"{panel.name}-pulls").mark_rule(
        aria=False, clip=True, stroke="--faint", strokeWidth=0.7, opacity=0.6
    )
    dotted = layer(region, f"{panel.name}-large").mark_rect(
        aria=False, fillOpacity=0, stroke="--ink", strokeDash=[1, 2]
    )
    return layered(
        dashed.encode(**at, **to),
        thick.encode(**at, order="order:Q"),
        rule.encode(**at, **to),
        dotted.encode(**at, **to),
        *_points(plane, looks, panel, at, has_legend=is_last),
        *(_texts(labels, panel, at, to) if is_large else []),
        width=panel.size[0],
        height=panel.size[1],
    )


def _scale(ends: Sequence[float]) -> alt.Scale:
    return alt.Scale(domain=list(ends), nice=False, zero=False)


def _points(
    plane: Plane, looks: Looks, panel: _Panel, at: Mapping[str, Any], *, has_legend: bool
) -> list[alt.Chart]:
    """Return the layers of curves and points; later rows are above earlier ones."""
    rows = _marks(plane)
    entries = [(plain(f), colour_of(looks[f]), shape_of(looks[f])) for f in plane.families]
    present = {row["series"] for row in rows}
    entries += [entry for entry in _ROLES.values() if entry[0] in present]
    domain, colours, shapes = (list(part) for part in zip(*entries, strict=True))
    below: dict[str, Any] = {"orient": "bottom", "columns": 1} if panel.size == _SMALL else {}
    shown = alt.Legend(title=None, symbolOpacity=1, **below) if has_legend else None
    colour = alt.Color("series:N", scale=alt.Scale(domain=domain, range=colours), legend=shown)
    shape = alt.Shape("series:N", scale=alt.Scale(domain=domain, range=shapes), legend=shown)
    curves = [row for row in rows if row["role"] == "curve"]
    line = layer(curves, f"{panel.name}-curves").mark_line(
        aria=False, clip=True, strokeWidth=1.4 if panel.size == _LARGE else 0.8
    )
    layers = [line.encode(**at, color=colour, detail="name:N", order="order:Q")]
    tips = names_of("name", "P", "S", *(["dial"] if curves else []))
    grey = {_ROLES[role][0] for role in ("encoder", "published")}
    parts = {
        "behind": ([row for row in rows if row["series"] in grey], 0.5),
        "curve-points": ([row for row in curves if row["series"] not in grey], 0.5),
        "bounds": ([row for row in rows if row["role"] in _BOUNDS], 2.2),
        "points": ([r for r in rows if r["role"] == "encoder" and r["series"] not in grey], 1.0),
    }
    for name, (part, share) in parts.items():
        point = layer(part, f"{panel.name}-{name}").mark_point(
            clip=True, filled=True, size=round(share * panel.mark_size), opacity=1
        )
        layers.append(
            point.encode(**at, color=colour, shape=shape, description="said:N", tooltip=tips)
        )
    return layers


def _texts(
    rows: Rows, panel: _Panel, at: Mapping[str, Any], to: Mapping[str, Any]
) -> list[alt.Chart]:
    far = [row for row in rows if "s2" in row]
    rule = layer(far, f"{panel.name}-label-lines").mark_rule(
        aria=False, stroke="--faint", strokeWidth=0.6
    )
    layers = [rule.encode(**at, **to)]
    for is_soft, colour in ((True, "--soft"), (False, "--ink")):
        part = [row for row in rows if row["soft"] == is_soft]
        style: dict[str, Any] = {"baseline": "middle", "fontSize": SIZE, "color": colour}
        text = layer(part, f"{panel.name}-labels{'-soft' * is_soft}").mark_text(
            aria=False, align={"expr": "datum.align"}, **style
        )
        layers.append(text.encode(**at, text="text:N"))
    return layers
