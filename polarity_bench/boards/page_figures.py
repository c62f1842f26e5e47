"""Figures of a page: what a board draws, as specifications of Vega-Lite with their data.

Colours are names of the page's own (`--c0`, `--ink`), which its script looks up in the theme. Every
name that altair would count up is given, so that the same board has the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

from polarity_bench.boards.drawn import Bars, Drawn, Lines, Mark, MarkRole, Plane, Ranks, Series
from polarity_bench.boards.shown import decimal, percent

if TYPE_CHECKING:
    import altair as alt

Rows = Sequence[Mapping[str, Any]]

_COLOURS = ("--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7")
_SHAPES = ("square", "triangle-up", "diamond", "triangle-down", "triangle-right")
"""Of curves; as many as share no divisor with the colours, so that few of both are alike."""
_STAR = (
    "M0,-1L0.24,-0.32L0.95,-0.31L0.38,0.12L0.59,0.81L0,0.4L-0.59,0.81L-0.38,0.12L-0.95,-0.31"
    "L-0.24,-0.32Z"
)
_ROLES: Mapping[MarkRole, tuple[str, str, str]] = {
    "encoder": ("encoders", "--c0", "circle"),
    "published": ("published", "--published", "diamond"),
    "base": ("base", "--ink", "square"),
    "oracle": ("gold labels", "--ink", _STAR),
    "random": ("random retrieval", "--faint", "cross"),
}
"""Of marks that are no curve: what the legend calls them, their colour and their shape."""
_HEIGHT = 420


@dataclass(frozen=True)
class PageFigure:
    """A figure of a page.

    Attributes:
        spec: Of Vega-Lite; its data stands in `datasets`.
        heads: Titles of the columns of its numbers as a table.
        cells: These numbers, as text.
        note: How it is read.
    """

    title: str
    spec: Mapping[str, Any]
    heads: Sequence[str]
    cells: Sequence[Sequence[str]]
    note: str


def page_figures(drawn: Sequence[Drawn]) -> list[PageFigure]:
    """Lay out everything that is drawn, planes first; those of one title say their reference."""
    planes = [each for each in drawn if isinstance(each, Plane)]
    titles = [plane.title for plane in planes]
    figures = [_plane(plane, several=titles.count(plane.title) > 1) for plane in planes]
    for each in drawn:
        match each:
            case Lines():
                figures.append(_lines(each))
            case Bars():
                figures.append(_bars(each))
            case Ranks():
                figures.append(_ranks(each))
    return figures


def _plane(plane: Plane, *, several: bool) -> PageFigure:
    import altair as alt

    curves = list(dict.fromkeys(m.name for m in plane.marks if m.role == "curve"))
    there = [role for role in _ROLES if any(m.role == role for m in plane.marks)]
    colours = cycle(_COLOURS[1:] if "encoder" in there else _COLOURS)
    domain = [*curves, *(_ROLES[role][0] for role in there)]
    colour = [*islice(colours, len(curves)), *(_ROLES[role][1] for role in there)]
    shape = [*islice(cycle(_SHAPES), len(curves)), *(_ROLES[role][2] for role in there)]
    marks = [
        {
            "name": m.name,
            "role": m.role,
            "series": _series_of(m),
            **_at(m),
            "order": i,
            "shown": {"P": percent(m.p), "S": percent(m.s), "dial": _dial(m)},
        }
        for i, m in enumerate(plane.marks)
    ]
    s, p = _axis(f"S under {plane.reference} (%)"), _axis("P (%)")
    legend = alt.Legend(title=None, symbolOpacity=1)
    by = alt.Color("series:N", scale=alt.Scale(domain=domain, range=colour), legend=legend)
    picked = alt.selection_point(name="picked", fields=["series"], bind="legend")
    over = alt.selection_point(
        name="over", fields=["series"], on="pointerover", clear="pointerout", empty=True
    )
    lit = alt.condition(picked & over, alt.value(1), alt.value(0.2))  # type: ignore[arg-type]
    told = [
        alt.Tooltip("name:N", title="name"),
        alt.Tooltip("shown.P:N", title="P"),
        alt.Tooltip("shown.S:N", title="S"),
        alt.Tooltip("shown.dial:N", title="dial"),
    ]
    points = alt.Chart(alt.NamedData(name="marks"), name="points").encode(
        x=alt.X("s:Q", **s),
        y=alt.Y("p:Q", **p),
        color=by,
        shape=alt.Shape("series:N", scale=alt.Scale(domain=domain, range=shape), legend=legend),
        opacity=lit,
        tooltip=told,
    )
    data = {"marks": marks, "bounds": _bounds(plane), "pulls": _pulls(plane)}
    ends = {"x": alt.X("s:Q", **s), "y": alt.Y("p:Q", **p), "x2": "s2:Q", "y2": "p2:Q"}
    frame = (
        alt.Chart(alt.NamedData(name="bounds"), name="bounds")
        .mark_rect(fillOpacity=0, stroke="--faint", strokeDash=[4, 3])
        .encode(**ends)
    )
    pulls = (
        alt.Chart(alt.NamedData(name="pulls"), name="pulls")
        .mark_rule(stroke="--faint", strokeWidth=0.8, opacity=0.7)
        .encode(**ends)
    )
    layers = [
        *([frame] if data["bounds"] else []),
        *([pulls] if data["pulls"] else []),
        alt.Chart(alt.NamedData(name="marks"), name="curves")
        .transform_filter("datum.role == 'curve'")
        .mark_line(strokeWidth=1.4)
        .encode(
            x=alt.X("s:Q", **s),
            y=alt.Y("p:Q", **p),
            color=by,
            order="order:Q",
            opacity=lit,
        ),
        points.mark_point(size=75, filled=True).add_params(picked, over),
    ]
    reference = f", S under {plane.reference}" if several else ""
    note = (
        "Up and to the right is better. Point at a mark for its name and numbers; choose one in "
        "the legend to set it apart. "
    )
    note += "Gold labels and random retrieval span the dashed frame. " if data["bounds"] else ""
    note += "Thin lines lead from a base to what was trained from it." if data["pulls"] else ""
    return PageFigure(
        f"P against S: {plane.title}{reference}",
        _spec(layers, data, f"P against S on {plane.task}, {len(marks)} points"),
        ["name", "what", "dial", "P", "S"],
        [[m.name, _word(m), _dial(m), percent(m.p), percent(m.s)] for m in plane.marks],
        note.strip(),
    )


def _series_of(mark: Mark) -> str:
    return mark.name if mark.role == "curve" else _word(mark)


def _word(mark: Mark) -> str:
    return "curve" if mark.role == "curve" else _ROLES[mark.role][0]


def _dial(mark: Mark) -> str:
    return "" if mark.at is None else f"{mark.at:g}"


def _bounds(plane: Plane) -> Rows:
    """The frame between random retrieval and that with gold labels."""
    ends = {m.role: m for m in plane.marks}
    if "random" not in ends or "oracle" not in ends:
        return []
    return [_from_to(ends["random"], ends["oracle"])]


def _pulls(plane: Plane) -> Rows:
    """Lines from the base to what was trained from it, once for each curve."""
    base = next((m for m in plane.marks if m.role == "base"), None)
    tuned = {m.name: m for m in reversed(plane.marks) if m.tuned}
    return [_from_to(base, m) for m in reversed(tuned.values())] if base else []


def _from_to(one: Mark, other: Mark) -> dict[str, float]:
    return {**_at(one), **{f"{side}2": at for side, at in _at(other).items()}}


def _at(mark: Mark) -> dict[str, float]:
    """Where a mark stands, in percent; what nobody could see is left out."""
    return {"s": round(100 * mark.s, 4), "p": round(100 * mark.p, 4)}


def _lines(drawn: Lines) -> PageFigure:
    import altair as alt

    x: dict[str, Any] = {
        "title": drawn.x_title,
        "scale": alt.Scale(type="log" if drawn.is_log else "linear", zero=False, nice=False),
        "axis": alt.Axis(values=list(drawn.x), format="~s") if len(drawn.x) <= 12 else alt.Axis(),
    }
    values = _values(drawn.series, drawn.x)
    names = [each.name for each in drawn.series]
    by = _by_name(names)
    base = alt.Chart(alt.NamedData(name="values"), name="lines").encode(
        x=alt.X("x:Q", **x), color=by
    )
    y = alt.Y("y:Q", **_axis(f"{drawn.y_title} (%)"))
    layers = [
        base.mark_rule(opacity=0.5)
        .encode(y=y, y2="high:Q")
        .transform_filter("isValid(datum.high)")
        # a rule from low to high needs low as its y
        .transform_calculate(y="datum.low"),
        base.mark_line(point=alt.OverlayMarkDef(size=40)).encode(y=y, tooltip=_told(drawn.x_title)),
    ]
    return PageFigure(
        drawn.title,
        _spec(layers, {"values": values}, drawn.title),
        [drawn.x_title, *names],
        _grid([f"{at:g}" for at in drawn.x], drawn.series),
        _interval_note(drawn.series),
    )


def _bars(drawn: Bars) -> PageFigure:
    import altair as alt

    names = [each.name for each in drawn.series]
    groups = list(drawn.groups)
    x = alt.X("x:N", title=None, sort=groups, axis=alt.Axis(labelAngle=-30, labelLimit=160))
    offset = alt.XOffset("name:N", sort=names)
    base = alt.Chart(alt.NamedData(name="values"), name="bars").encode(x=x, xOffset=offset)
    y = alt.Y("y:Q", title=f"{drawn.y_title} (%)")
    layers = [
        base.mark_bar().encode(y=y, color=_by_name(names), tooltip=_told("group")),
        base.mark_rule(stroke="--ink")
        .transform_filter("isValid(datum.high)")
        .transform_calculate(y="datum.low")
        .encode(y=y, y2="high:Q"),
    ]
    note = _interval_note(drawn.series)
    if drawn.baseline is not None:
        layers.append(
            alt.Chart(alt.NamedData(name="baseline"), name="chance")
            .mark_rule(stroke="--ink", strokeDash=[4, 3])
            .encode(y="y:Q")
        )
        note = f"The dashed line is chance. {note}".strip()
    baseline = [] if drawn.baseline is None else [{"y": 100 * drawn.baseline}]
    data = {"values": _values(drawn.series, groups), "baseline": baseline}
    return PageFigure(
        drawn.title,
        _spec(layers, data, drawn.title),
        ["", *names],
        _grid(groups, drawn.series),
        note,
    )


def _ranks(drawn: Ranks) -> PageFigure:
    import altair as alt

    names = [f"{i}. {name}" for i, name in enumerate(drawn.names, 1)]
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=260))
    x = alt.X("rank:Q", title="mean rank, 1 is best", scale=alt.Scale(zero=False))
    ranks = [
        {"name": n, "rank": r, "shown": {"name": whole, "y": decimal(r, 2)}}
        for n, whole, r in zip(names, drawn.names, drawn.ranks, strict=True)
    ]
    step = 0.04 * (max(drawn.ranks) - min(drawn.ranks) or 1) if drawn.ranks else 0
    ties = [
        {"name": names[a], "name2": names[b], "rank": max(drawn.ranks) + step * (i + 1)}
        for i, (a, b) in enumerate(drawn.ties)
    ]
    told = [
        alt.Tooltip("shown.name:N", title="name"),
        alt.Tooltip("shown.y:N", title="mean rank"),
    ]
    layers = [
        alt.Chart(alt.NamedData(name="ties"), name="ties")
        .mark_rule(stroke="--ink", strokeWidth=4, strokeCap="round")
        .encode(x=x, y=y, y2="name2:N"),
        alt.Chart(alt.NamedData(name="ranks"), name="ranks")
        .mark_point(filled=True, size=75, color="--c0")
        .encode(x=x, y=y, tooltip=told),
    ]
    spec = _spec(layers, {"ranks": ranks, "ties": ties}, drawn.title)
    return PageFigure(
        drawn.title,
        {**spec, "height": {"step": 22}},
        ["name", "mean rank"],
        [[n, decimal(r, 2)] for n, r in zip(drawn.names, drawn.ranks, strict=True)],
        "A bar joins those that cannot be told apart." if ties else "",
    )


def _values(series: Sequence[Series], x: Sequence[Any]) -> Rows:
    """Every defined value of every series, in percent, with its interval where it has one."""
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


def _told(x_title: str) -> list[alt.Tooltip]:
    import altair as alt

    return [
        alt.Tooltip("name:N", title="name"),
        alt.Tooltip("shown.x:N", title=x_title),
        alt.Tooltip("shown.y:N", title="value"),
    ]


def _by_name(names: Sequence[str]) -> alt.Color:
    import altair as alt

    scale = alt.Scale(domain=list(names), range=[*islice(cycle(_COLOURS), len(names))])
    return alt.Color("name:N", scale=scale, legend=alt.Legend(title=None) if names[1:] else None)


def _interval_note(series: Sequence[Series]) -> str:
    return "Thin lines are 95 % intervals." if any(any(each.intervals) for each in series) else ""


def _axis(title: str) -> dict[str, Any]:
    import altair as alt

    return {"title": title, "scale": alt.Scale(zero=False, nice=True, padding=12)}


def _spec(layers: Sequence[Any], data: Mapping[str, Rows], description: str) -> dict[str, Any]:
    import altair as alt

    chart = alt.LayerChart(layer=list(layers), name="figure", description=description)
    spec: dict[str, Any] = chart.properties(width="container", height=_HEIGHT).to_dict()
    spec.pop("config", None)  # the theme's
    return {**spec, "datasets": {name: list(rows) for name, rows in data.items()}}
