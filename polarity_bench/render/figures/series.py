"""Lines over a number, each named at its end, and bars by group, with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from polarity_bench.render.chart import BarChart, LineChart, Series
from polarity_bench.render.figures.figure import DASHES, Figure, Rows, layer, names_of
from polarity_bench.render.figures.labels import SIZE, spread_out
from polarity_bench.render.figures.themes import N_COLOURS, Looks, colour_of, plain
from polarity_bench.render.format import percent

_WIDTH, _LEAST = 560, 300  # of a panel, in pixels
_LINE = 1.35 * SIZE  # height of a name
_THOUSAND = 1000
_BAR, _POINT = 11, 6  # height of a bar and of a point
_MAX_TICKS = 12  # positions on an x axis that are all labelled
_MAX_NAMED = 24
"""Maximum number of named lines, and of series of bars; the first are best."""
_INTERVALS = "95 % intervals."


def lines_figure(lines: LineChart, looks: Looks) -> Figure:
    """Lay out a line chart; the first lines are coloured, and few enough have bands."""
    names = [plain(series.name) for series in lines.series]
    values = _values(lines.series, lines.x, [f"{at:g}" for at in lines.x])
    coloured = names[:N_COLOURS]
    bands = [row for row in values if "high" in row] if len(names) <= N_COLOURS else []
    shown = [end for row in values for end in _ends(row)] or [0.0, 100.0]
    margin = 0.04 * (max(shown) - min(shown)) or 1.0
    low, high = round(min(shown) - margin, 4), round(max(shown) + margin, 4)
    kind: Any = "linear" if not lines.is_log else "log" if min(lines.x, default=1) > 0 else "symlog"
    form = "~s" if max(lines.x, default=0) >= _THOUSAND else "~g"
    axis: dict[str, Any] = {"format": form, "labelFlush": False}
    axis |= {"values": list(lines.x)} if len(lines.x) <= _MAX_TICKS else {}
    x_title = plain(lines.x_title)
    zero: dict[str, Any] = (
        {} if kind == "log" else {"zero": False}
    )  # Vega-Lite warns of it on a log scale
    scale = alt.Scale(type=kind, nice=False, **zero)
    x = alt.X("x:Q", title=x_title, scale=scale, axis=axis)
    span = alt.Scale(domain=[low, high], nice=False, zero=False)
    y: dict[str, Any] = {"title": f"{plain(lines.y_title)} (%)", "scale": span}
    colours = [colour_of(looks[series.name]) for series in lines.series[:N_COLOURS]]
    paint = alt.Scale(domain=coloured, range=colours)
    layers: list[Any] = []
    by_name = alt.Color("name:N", scale=paint, legend=None)
    faint = [row for row in values if row["name"] not in coloured]
    strong = [row for row in values if row["name"] in coloured]
    if bands:
        band = layer(bands, "bands").mark_area(aria=False, opacity=0.15, clip=True)
        layers.append(band.encode(x=x, y=alt.Y("low:Q", **y), y2="high:Q", color=by_name))
    if faint:
        line = layer(faint, "others").mark_line(aria=False, color="--faint", strokeWidth=0.9)
        tips = names_of("name", "at", "value")
        layers.append(line.encode(x=x, y=alt.Y("y:Q", **y), detail="name:N", tooltip=tips))
    line = layer(strong, "lines").mark_line(aria=False, point={"size": 40}, strokeWidth=1.6)
    tips = names_of("name", "at", "value")
    layers.append(line.encode(x=x, y=alt.Y("y:Q", **y), color=by_name, tooltip=tips))
    height = max(_LEAST, round(_LINE * min(len(names), _MAX_NAMED)))
    layers += _end_names(values, names, (low, high), height, x, y)
    chart = alt.LayerChart(layer=layers)
    more = len(names) - _MAX_NAMED
    notes = [f"Bands are {_INTERVALS}" if bands else ""]
    notes += [f"{more} more are grey and have no name." if more > 0 else ""]
    return Figure(
        plain(lines.title),
        f"{plain(lines.y_title)} by {x_title}, in percent. "
        + _said(lines.series, [f"{at:g}" for at in lines.x]),
        chart.properties(width=_WIDTH, height=height),
        [lines.x_title, *(series.name for series in lines.series)],
        _grid([f"{at:g}" for at in lines.x], lines.series),
        " ".join(filter(None, notes)),
    )


def _end_names(
    values: Rows,
    names: Sequence[str],
    span: tuple[float, float],
    height: float,
    x: Any,
    y: dict[str, Any],
) -> list[Any]:
    """Name each line at its end, spread out so that no name covers another."""
    last = {row["name"]: row for row in values if row["name"] in names[:_MAX_NAMED]}
    ends = sorted(last.values(), key=lambda row: (row["y"], row["name"]))
    if len(names) < 2 or not ends:
        return []
    gap = _LINE * (span[1] - span[0]) / height
    places = spread_out([row["y"] for row in ends], gap, *span)
    rows = [
        {"name": row["name"], "x": row["x"], "y": row["y"], "y2": round(place, 4)}
        for row, place in zip(ends, places, strict=True)
    ]
    right: Any = {"value": _WIDTH + 14}
    rule = layer(rows, "label-lines").mark_rule(aria=False, stroke="--faint", strokeWidth=0.6)
    text = layer(rows, "labels").mark_text(
        aria=False, align="left", baseline="middle", dx=4, fontSize=SIZE, color="--ink", limit=260
    )
    return [
        rule.encode(x=x, y=alt.Y("y:Q", **y), x2=right, y2="y2:Q"),
        text.encode(x=right, y=alt.Y("y2:Q", **y), text="name:N"),
    ]


def bars_figure(bars: BarChart, looks: Looks) -> Figure:
    """Lay out a bar chart; many series are drawn as points."""
    more = len(bars.series) - _MAX_NAMED
    series = bars.series[:_MAX_NAMED]
    names, groups = [plain(each.name) for each in series], list(map(plain, bars.groups))
    values = _values(series, groups, groups)
    are_bars = len(names) <= N_COLOURS
    intervals = [row for row in values if "high" in row]
    shown = [end for row in values for end in _ends(row)]
    shown += [] if bars.baseline is None else [100 * bars.baseline]
    shown += [0.0] if are_bars or not shown else []
    low, high = min(shown), max(shown)
    margin = 0.05 * (high - low) or 1.0
    span = [low - margin * (low < 0 or not are_bars), high + margin * (high > 0)]
    scale = alt.Scale(domain=[round(end, 4) for end in span], nice=False, zero=False)
    x: dict[str, Any] = {"title": f"{plain(bars.y_title)} (%)", "scale": scale}
    at: dict[str, Any] = {
        "y": alt.Y("x:N", title=None, sort=groups, axis={"labelLimit": 200, "grid": False}),
        "yOffset": alt.YOffset("name:N", sort=names),
    }
    colours = [colour_of(looks[each.name]) for each in series]
    legend = alt.Legend(title=None, symbolOpacity=1) if names[1:] else None
    colour = alt.Color("name:N", scale=alt.Scale(domain=names, range=colours), legend=legend)
    tips = names_of("name", "at", "value")
    marks: Any = layer(values, "bars")
    marks = (
        marks.mark_bar(aria=False)
        if are_bars
        else marks.mark_point(aria=False, filled=True, size=40, opacity=1)
    )
    layers: list[Any] = [marks.encode(**at, x=alt.X("y:Q", **x), color=colour, tooltip=tips)]
    if intervals:
        rule = layer(intervals, "intervals").mark_rule(aria=False, stroke="--ink")
        layers.append(rule.encode(**at, x=alt.X("low:Q", **x), x2="high:Q"))
    if bars.baseline is not None:
        chance: Any = layer([{"y": 100 * bars.baseline}], "chance")
        chance = chance.mark_rule(aria=False, stroke="--ink", strokeDash=DASHES)
        layers.append(chance.encode(x=alt.X("y:Q", **x)))
    notes = [
        "The dashed line is chance." if bars.baseline is not None else "",
        f"Thin lines are {_INTERVALS}" if intervals else "",
        f"{more} more are left out." if more > 0 else "",
    ]
    chance_said = f" Chance: {100 * bars.baseline:.1f}." if bars.baseline is not None else ""
    chart = alt.LayerChart(layer=layers)
    step: Any = {"step": _BAR if are_bars else _POINT}
    return Figure(
        plain(bars.title),
        f"{plain(bars.y_title)}, in percent. {_said(bars.series, groups)}{chance_said}",
        chart.properties(width=_WIDTH, height=step),
        ["", *(each.name for each in series)],
        _grid(bars.groups, series),
        " ".join(filter(None, notes)),
    )


def _values(series: Sequence[Series], x: Sequence[Any], places: Sequence[str]) -> Rows:
    """Return every defined value of every series, in percent, with its interval if any."""
    rows: list[dict[str, Any]] = []
    for each in series:
        intervals = each.intervals or [None] * len(x)
        for at, place, value, pair in zip(x, places, each.values, intervals, strict=True):
            if not math.isfinite(value):
                continue
            row: dict[str, Any] = {"x": at, "y": 100 * value, "name": plain(each.name)}
            row |= {"at": place, "value": percent(value)}
            if pair is not None and not math.isnan(pair[0]):
                row |= {"low": 100 * pair[0], "high": 100 * pair[1]}
                row["value"] += f" [{percent(pair[0])}, {percent(pair[1])}]"
            rows.append(row)
    return rows


def _ends(row: Any) -> list[float]:
    return [row[name] for name in ("y", "low", "high") if name in row]


def _grid(rows: Sequence[str], series: Sequence[Series]) -> list[list[str]]:
    return [[row, *(percent(each.values[i]) for each in series)] for i, row in enumerate(rows)]


def _said(series: Sequence[Series], places: Sequence[str]) -> str:
    """Describe in words the values of the lines or bars that the figure names."""
    said = [
        f"{plain(each.name)}: "
        + ", ".join(
            f"{place} {100 * value:.1f}"
            for place, value in zip(places, each.values, strict=True)
            if math.isfinite(value)
        )
        for each in series[:_MAX_NAMED]
    ]
    more = len(series) - len(said)
    return "; ".join([*said, *([f"and {more} more"] if more else [])]) + "."
