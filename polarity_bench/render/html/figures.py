"""Figures of a page: the charts of a board as Vega-Lite specifications with their data.

Colours are names of CSS variables of the page (`--c0`, `--ink`), which its script looks up in the
theme. Every name that altair would number automatically is set, so that the same board gives the
same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any

import altair as alt

from polarity_bench.render.chart import (
    BarChart,
    Drawn,
    LineChart,
    Mark,
    MarkRole,
    Plane,
    Ranks,
    Series,
)
from polarity_bench.render.format import decimal, percent

Rows = Sequence[Mapping[str, Any]]

_COLOURS = ("--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7")
_SHAPES = ("square", "triangle-up", "diamond", "triangle-down", "triangle-right")
"""Shapes of curves. Their number is coprime to that of the colours, so that combinations of shape
and colour repeat as late as possible."""
_STAR = (
    "M0,-1L0.24,-0.32L0.95,-0.31L0.38,0.12L0.59,0.81L0,0.4L-0.59,0.81L-0.38,0.12L-0.95,-0.31"
    "L-0.24,-0.32Z"
)
_ROLES: Mapping[MarkRole, tuple[str, str, str]] = {
    "encoder": ("encoders", "--c0", "circle"),
    "published": ("published", "--reported", "diamond"),
    "base": ("base", "--ink", "square"),
    "oracle": ("gold labels", "--ink", _STAR),
    "random": ("random retrieval", "--faint", "cross"),
}
"""Name in the legend, colour and shape of marks that are not on a curve."""
_HEIGHT = 420
_MAX_TICKS = 12
_MAX_NAMED = 16
"""Maximum number of names in a legend; with more, only tooltips name the encoders."""
_MAX_SERIES, _MAX_RANKS = 24, 60
"""Maximum numbers of series of bars and of ranks, the best first; more would be unreadable."""
_MAX_PULLS, _MAX_CELLS = 60, 100
"""Maximum numbers of lines from a base, and of rows in the table of a plane. The board's tables
contain these numbers too."""
_INTERVALS = "Thin lines are 95 % intervals."


@dataclass(frozen=True)
class PageFigure:
    """A figure of a page.

    Attributes:
        title: Title of the figure.
        spec: Vega-Lite specification, with the data in `datasets`.
        heads: Column titles of the table with the numbers of the figure.
        cells: Rows of that table, as text.
        note: How to read the figure.
    """

    title: str
    spec: Mapping[str, Any]
    heads: Sequence[str]
    cells: Sequence[Sequence[str]]
    note: str


def page_figures(drawn: Sequence[Drawn]) -> list[PageFigure]:
    """Return the figures of all charts, planes first.

    Planes with the same title also name their reference.
    """
    planes = [each for each in drawn if isinstance(each, Plane)]
    titles = [plane.title for plane in planes]
    figures = [_plane(plane, several=titles.count(plane.title) > 1) for plane in planes]
    for each in drawn:
        match each:
            case LineChart():
                figures.append(_lines(each))
            case BarChart():
                figures.append(_bars(each))
            case Ranks():
                figures.append(_ranks(each))
    return figures


def _plane(plane: Plane, *, several: bool) -> PageFigure:
    own = [m for m in plane.marks if m.role in {"curve", "encoder"}]
    if len({m.name for m in own}) > _MAX_NAMED:
        own = [m for m in own if m.role == "curve"]
    named = list(dict.fromkeys(m.name for m in sorted(own, key=lambda m: m.role != "curve")))
    told = {m.role for m in own}
    marks = [
        {
            "name": m.name,
            "role": m.role,
            "series": m.name if m.role in told else _word(m),
            **_at(m),
            "order": i,
            "shown": {"P": percent(m.p), "S": percent(m.s), "dial": _dial(m)},
        }
        for i, m in enumerate(plane.marks)
    ]
    data = {"marks": marks, "bounds": _bounds(plane), "pulls": _pulls(plane)}
    notes = [
        "Up and to the right is better. Point at a mark for its name and numbers.",
        "Choose one in the legend to set it apart.",
        "Gold labels and random retrieval span the dashed frame." if data["bounds"] else "",
        "Thin lines lead from a base to what was trained from it." if data["pulls"] else "",
        "" if len(marks) <= _MAX_CELLS else f"The table below has {_MAX_CELLS} of {len(marks)}.",
    ]
    reference = f", S under {plane.reference}" if several else ""
    rest = [r for r in _ROLES if r not in told and any(m.role == r for m in plane.marks)]
    layers = _plane_layers(plane, named, rest, data)
    return PageFigure(
        f"P against S: {plane.title}{reference}",
        _spec(layers, data, f"P against S on {plane.task}, {len(marks)} points"),
        ["name", "what", "dial", "P", "S"],
        [
            [m.name, _word(m), _dial(m), percent(m.p), percent(m.s)]
            for m in plane.marks[:_MAX_CELLS]
        ],
        " ".join(filter(None, notes)),
    )


def _plane_layers(
    plane: Plane, named: Sequence[str], rest: Sequence[MarkRole], data: Mapping[str, Rows]
) -> list[Any]:
    """Return the layers of a plane; the legend shows some marks by name, the rest by role."""
    domain = [*named, *(_ROLES[role][0] for role in rest)]
    colours = cycle(_COLOURS[1:] if "encoder" in rest else _COLOURS)
    colour = [*islice(colours, len(named)), *(_ROLES[role][1] for role in rest)]
    shape = [*islice(cycle(_SHAPES), len(named)), *(_ROLES[role][2] for role in rest)]
    has_curves = any(mark.role == "curve" for mark in plane.marks)
    legend = alt.Legend(title=None, symbolOpacity=1)
    by = alt.Color("series:N", scale=alt.Scale(domain=domain, range=colour), legend=legend)
    shaped = alt.Shape("series:N", scale=alt.Scale(domain=domain, range=shape), legend=legend)
    picked = alt.selection_point(name="picked", fields=["series"], bind="legend")
    over = alt.selection_point(
        name="over", fields=["series"], on="pointerover", clear="pointerout", empty=True
    )
    lit = alt.condition(picked & over, alt.value(1), alt.value(0.2))
    at = {
        "x": alt.X("s:Q", **_axis(f"S under {plane.reference} (%)")),
        "y": alt.Y("p:Q", **_axis("P (%)")),
    }
    to = {"x2": "s2:Q", "y2": "p2:Q"}
    frame = _layer("bounds", "bounds").mark_rect(
        fillOpacity=0, stroke="--faint", strokeDash=[4, 3], strokeOpacity=1
    )
    pulls = _layer("pulls", "pulls").mark_rule(stroke="--faint", strokeWidth=0.8, opacity=0.7)
    lines = (
        _layer("marks", "curves")
        .transform_filter("datum.role == 'curve'")
        .mark_line(strokeWidth=1.4)
        .encode(**at, color=by, order="order:Q", opacity=lit)
    )
    points = _layer("marks", "points").mark_point(size=75, filled=True)
    told = [_told("P", "shown.P"), _told("S", "shown.S")]
    told += [_told("dial", "shown.dial")] if has_curves else []
    return [
        *([frame.encode(**at, **to)] if data["bounds"] else []),
        *([pulls.encode(**at, **to)] if data["pulls"] else []),
        *([lines] if has_curves else []),
        points.encode(
            **at, color=by, shape=shaped, opacity=lit, tooltip=[_told("name", "name"), *told]
        ).add_params(picked, over),
    ]


def _word(mark: Mark) -> str:
    return "curve" if mark.role == "curve" else _ROLES[mark.role][0]


def _dial(mark: Mark) -> str:
    return "" if mark.at is None else f"{mark.at:g}"


def _bounds(plane: Plane) -> Rows:
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


def _from_to(one: Mark, other: Mark) -> dict[str, float]:
    return {**_at(one), **{f"{side}2": at for side, at in _at(other).items()}}


def _at(mark: Mark) -> dict[str, float]:
    """Return the position of a mark in percent, rounded below what is visible."""
    return {"s": round(100 * mark.s, 4), "p": round(100 * mark.p, 4)}


def _lines(drawn: LineChart) -> PageFigure:
    scale = {"type": "log"} if drawn.is_log else {"type": "linear", "zero": False}
    axis = {"values": list(drawn.x), "format": "~s"} if len(drawn.x) <= _MAX_TICKS else {}
    names = [each.name for each in drawn.series]
    values = _values(drawn.series, drawn.x)
    has_ends = any("high" in row for row in values)
    x = alt.X("x:Q", title=drawn.x_title, scale=alt.Scale(**scale, nice=False), axis=axis)
    y = _axis(f"{drawn.y_title} (%)")
    intervals = _layer("values", "intervals").transform_filter("isValid(datum.high)")
    lines = _layer("values", "lines").mark_line(point={"size": 45}, strokeWidth=1.6)
    told = [_told("name", "name"), _told(drawn.x_title, "shown.x"), _told("value", "shown.y")]
    layers = [
        intervals.mark_rule(stroke="--soft").encode(x=x, y=alt.Y("low:Q", **y), y2="high:Q"),
        lines.encode(x=x, y=alt.Y("y:Q", **y), color=_by_name(names), tooltip=told),
    ]
    return PageFigure(
        drawn.title,
        _spec(layers if has_ends else layers[1:], {"values": values}, drawn.title),
        [drawn.x_title, *names],
        _grid([f"{at:g}" for at in drawn.x], drawn.series),
        _INTERVALS if has_ends else "",
    )


def _bars(drawn: BarChart) -> PageFigure:
    more = len(drawn.series) - _MAX_SERIES
    drawn = replace(drawn, series=drawn.series[:_MAX_SERIES])
    names, groups = [each.name for each in drawn.series], list(drawn.groups)
    values = _values(drawn.series, groups)
    has_ends = any("high" in row for row in values)
    places = {
        "x": alt.X("x:N", title=None, sort=groups, axis={"labelAngle": -30, "labelLimit": 160}),
        "xOffset": alt.XOffset("name:N", sort=names),
    }
    title = f"{drawn.y_title} (%)"
    bars = _layer("values", "bars").mark_bar()
    told = [_told("name", "name"), _told("group", "shown.x"), _told("value", "shown.y")]
    told_of = [row[name] for row in values for name in ("y", "low", "high") if name in row]
    span = [min(told_of, default=0), max(told_of, default=100), 100 * (drawn.baseline or 0)]
    domain = [min(0, *span), max(0, *span)]  # the bars' own domain would cut intervals off
    scale = alt.Scale(domain=domain, nice=True) if domain != [0, 0] else alt.Undefined
    y = alt.Y("y:Q", title=title, scale=scale)
    layers = [bars.encode(**places, y=y, color=_by_name(names), tooltip=told)]
    if has_ends:
        intervals = _layer("values", "intervals").transform_filter("isValid(datum.high)")
        ends = {"y": alt.Y("low:Q", title=title, scale=scale), "y2": "high:Q"}
        layers.append(intervals.mark_rule(stroke="--ink").encode(**places, **ends))
    if drawn.baseline is not None:
        chance = _layer("baseline", "chance").mark_rule(stroke="--ink", strokeDash=[4, 3])
        layers.append(chance.encode(y=y))
    baseline = [] if drawn.baseline is None else [{"y": 100 * drawn.baseline}]
    notes = ["The dashed line is chance." if baseline else "", _INTERVALS if has_ends else ""]
    notes += [f"{more} more are left out."] if more > 0 else []
    return PageFigure(
        drawn.title,
        _spec(layers, {"values": values, "baseline": baseline}, drawn.title),
        ["", *names],
        _grid(groups, drawn.series),
        " ".join(filter(None, notes)),
    )


def _ranks(drawn: Ranks) -> PageFigure:
    more = len(drawn.names) - _MAX_RANKS
    if more > 0:
        ends = [(a, min(b, _MAX_RANKS - 1)) for a, b in drawn.ties if a < _MAX_RANKS - 1]
        kept = drawn.names[:_MAX_RANKS], drawn.ranks[:_MAX_RANKS]
        drawn = Ranks(drawn.title, *kept, ends)
    names = [f"{i}. {name}" for i, name in enumerate(drawn.names, 1)]
    x = alt.X("rank:Q", **_axis("mean rank, 1 is best"))
    y = alt.Y("name:N", title=None, scale={"domain": names}, axis={"labelLimit": 260})
    ranks = [
        {"name": n, "rank": r, "shown": {"name": whole, "y": decimal(r, 2)}}
        for n, whole, r in zip(names, drawn.names, drawn.ranks, strict=True)
    ]
    last = max(drawn.ranks, default=1.0)
    step = 0.03 * (last - min(drawn.ranks, default=1.0))
    ties = [
        {"name": names[a], "name2": names[b], "rank": last + step * i}
        for i, (a, b) in enumerate(drawn.ties, 1)
    ]
    told = [_told("name", "shown.name"), _told("mean rank", "shown.y")]
    points = _layer("ranks", "ranks").mark_point(filled=True, size=75, color="--c0", opacity=1)
    bars = _layer("ties", "ties").mark_rule(stroke="--ink", strokeWidth=4, strokeCap="round")
    layers = [points.encode(x=x, y=y, tooltip=told)]
    layers += [bars.encode(x=x, y=y, y2="name2:N")] if ties else []
    spec = _spec(layers, {"ranks": ranks, "ties": ties}, drawn.title)
    notes = [
        "A bar joins those that cannot be told apart." if ties else "",
        f"{more} more, of worse ranks, are left out." if more > 0 else "",
    ]
    return PageFigure(
        drawn.title,
        {**spec, "height": 24 * len(names)},
        ["name", "mean rank"],
        [[n, decimal(r, 2)] for n, r in zip(drawn.names, drawn.ranks, strict=True)],
        " ".join(filter(None, notes)),
    )


def _values(series: Sequence[Series], x: Sequence[Any]) -> Rows:
    """Return every defined value of every series, in percent, with its interval if any."""
    found: list[dict[str, Any]] = []
    for each in series:
        ends = each.intervals or [None] * len(x)
        for at, value, pair in zip(x, each.values, ends, strict=True):
            if math.isnan(value):
                continue
            shown = {"x": f"{at:g}" if isinstance(at, float | int) else at, "y": percent(value)}
            row: dict[str, Any] = {"x": at, "y": 100 * value, "name": each.name, "shown": shown}
            if pair is not None and not math.isnan(pair[0]):
                row |= {"low": 100 * pair[0], "high": 100 * pair[1]}
                shown["y"] += f" [{percent(pair[0])}, {percent(pair[1])}]"
            found.append(row)
    return found


def _grid(rows: Sequence[str], series: Sequence[Series]) -> list[list[str]]:
    return [[row, *(percent(each.values[i]) for each in series)] for i, row in enumerate(rows)]


def _layer(data: str, name: str) -> alt.Chart:
    return alt.Chart(alt.NamedData(name=data), name=name)


def _told(title: str, field: str) -> alt.Tooltip:
    return alt.Tooltip(f"{field}:N", title=title)


def _by_name(names: Sequence[str]) -> alt.Color:
    scale = alt.Scale(domain=list(names), range=[*islice(cycle(_COLOURS), len(names))])
    legend = alt.Legend(title=None, symbolOpacity=1) if names[1:] else None
    return alt.Color("name:N", scale=scale, legend=legend)


def _axis(title: str) -> dict[str, Any]:
    return {"title": title, "scale": alt.Scale(zero=False, nice=True, padding=12)}


def _spec(layers: Sequence[Any], data: Mapping[str, Rows], description: str) -> dict[str, Any]:
    chart = alt.LayerChart(layer=list(layers), name="figure", description=description)
    spec: dict[str, Any] = chart.properties(width="container", height=_HEIGHT).to_dict()
    spec.pop("config", None)  # the page's theme sets it
    return {**spec, "datasets": {name: list(rows) for name, rows in data.items()}}
