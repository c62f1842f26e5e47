"""Figures of line charts, with a name at the end of each line, and of bar charts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

import altair as alt

from polarity_bench.render.chart import BarChart, LineChart, Series
from polarity_bench.render.figures.figure import (
    DASHES,
    Figure,
    Rows,
    Styles,
    layered,
    names_of,
    scale_of,
)
from polarity_bench.render.figures.labels import SIZE, spread_out
from polarity_bench.render.figures.themes import N_COLOURS, Looks, colour_of, plain, shape_of
from polarity_bench.render.format import percent

_WIDTH, _LEAST = 560, 300  # width and minimum height of a panel, in pixels
_LINE = 1.35 * SIZE  # height of a name, in pixels
_THOUSAND = 1000
_BAR, _POINT = 11, 6  # height per bar and per point, in pixels
_MAX_TICKS = 12  # up to this number of x positions, each has a tick
_MAX_NAMED = 24
"""Maximum number of lines with a name, and of series of bars. Series are sorted, best first."""
_MAX_GROUPS = 50  # maximum number of groups of bars
_TEXT = {"fontSize": SIZE, "color": "--ink", "limit": 260}
_STYLES: Styles = {
    "bands": {"type": "area", "opacity": 0.15, "clip": True},
    "ranges": {"type": "rule", "strokeWidth": 1.6},
    "others": {"type": "line", "color": "--faint", "strokeWidth": 0.9},
    "lines": {"type": "line", "point": {"size": 40}, "strokeWidth": 1.6},
    "label-lines": {"type": "rule", "stroke": "--faint", "strokeWidth": 0.6},
    "long-label-lines": {"type": "rule", "stroke": "--faint", "strokeDash": [1, 4]},
    "labels": {"type": "text", "align": "left", "baseline": "middle", "dx": 4, **_TEXT},
    "points": {"type": "point", "filled": True, "size": 40, "opacity": 1},
    "intervals": {"type": "rule", "stroke": "--ink"},
    "chance": {"type": "rule", "stroke": "--ink", "strokeDash": DASHES},
}
"""Style of each layer."""
_INTERVALS = "95 % intervals."


def lines_figure(lines: LineChart, looks: Looks) -> Figure:
    """Lay out a line chart; only the first `N_COLOURS` lines are coloured, other lines are grey.

    If all lines are coloured, bands show their 95 % intervals; single points have vertical lines.
    """
    names = [plain(series.name) for series in lines.series]
    places = [f"{at:g}" for at in lines.x]
    values = _values(lines.series, lines.x, places)
    bands = [row for row in values if "high" in row] if len(names) <= N_COLOURS else []
    n_points = Counter(row["name"] for row in values)
    single = [row for row in bands if n_points[row["name"]] == 1]
    low, high, margin = _extent(values, () if values else (0.0, 100.0), 0.04)
    span = [round(low - margin, 4), round(high + margin, 4)]
    height = max(_LEAST, round(_LINE * min(len(names), _MAX_NAMED)))
    ends = _line_ends(values, names[:_MAX_NAMED], span, height) if names[1:] else []
    kind: Any = "linear" if not lines.is_log else "log" if min(lines.x, default=1) > 0 else "symlog"
    # Without a precision, d3 rounds to the distance of ticks, so that 20 beside 500 is 2e+1.
    form = ".6~s" if max(lines.x, default=0) >= _THOUSAND else ".6~g"
    axis: dict[str, Any] = {"format": form, "labelFlush": False}
    axis |= {"values": list(lines.x)} if len(lines.x) <= _MAX_TICKS else {}
    x_title = plain(lines.x_title)
    zero = alt.Undefined if kind == "log" else False  # on a log scale, Vega-Lite warns about `zero`
    x = alt.X("x:Q", title=x_title, scale=alt.Scale(type=kind, nice=False, zero=zero), axis=axis)
    y = partial(alt.Y, title=f"{plain(lines.y_title)} (%)", scale=scale_of(*span))
    coloured, right = names[:N_COLOURS], {"value": _WIDTH + 14}
    colours = [colour_of(looks[series.name]) for series in lines.series[:N_COLOURS]]
    colour = alt.Color("name:N", scale=alt.Scale(domain=coloured, range=colours), legend=None)
    faint = [row for row in values if row["name"] not in coloured]
    strong = [row for row in values if row["name"] in coloured]
    at: dict[str, Any] = {"x": x, "y": y("y:Q")}
    to_label = {**at, "x2": right, "y2": "y2:Q"}
    early = [row for row in ends if row["x"] < lines.x[-1]]
    tips = names_of("name", "at", "value")
    by_name = {**at, "color": colour}
    by_interval = {**by_name, "y": y("low:Q"), "y2": "high:Q"}
    layers = {
        "bands": (bands, by_interval),
        "ranges": (single, by_interval),
        "others": (faint, {**at, "detail": "name:N", "tooltip": tips}),
        "lines": (strong, {**by_name, "tooltip": tips}),
        "label-lines": ([row for row in ends if row not in early], to_label),
        "long-label-lines": (early, to_label),
        "labels": (ends, {"x": right, "y": y("y2:Q"), "text": "name:N"}),
    }
    chart = layered(_STYLES, layers, width=_WIDTH, height=height)
    more = len(names) - _MAX_NAMED
    return Figure(
        plain(lines.title),
        f"{plain(lines.y_title)} by {x_title}, in percent. {_in_words(lines.series, places)}",
        chart,
        [lines.x_title, *(series.name for series in lines.series)],
        _grid(places, lines.series),
        [
            f"Bands{' and vertical lines' if single else ''} are {_INTERVALS}" if bands else "",
            "Dotted lines lead to the names of lines that end earlier." if early else "",
            f"{more} more are grey and have no name." if more > 0 else "",
        ],
    )


def _line_ends(values: Rows, names: Sequence[str], span: Sequence[float], height: float) -> Rows:
    """Return the ends of named lines, with `y2`, where the name is drawn without overlap."""
    last = {row["name"]: row for row in values if row["name"] in names}
    ends = sorted(last.values(), key=lambda row: (row["y"], row["name"]))
    gap = _LINE * (span[1] - span[0]) / height
    places = spread_out([row["y"] for row in ends], gap, *span)
    return [
        {"name": row["name"], "x": row["x"], "y": row["y"], "y2": round(place, 4)}
        for row, place in zip(ends, places, strict=True)
    ]


def bars_figure(bars: BarChart, looks: Looks) -> Figure:
    """Lay out a bar chart; if there are more series than colours, points replace the bars.

    If there are more than `_MAX_GROUPS` groups, those where the first series is lowest are shown.
    """
    n_groups, bars = len(bars.groups), _lowest_groups(bars)
    more = len(bars.series) - _MAX_NAMED
    series = bars.series[:_MAX_NAMED]
    names, groups = [plain(each.name) for each in series], list(map(plain, bars.groups))
    values = _values(series, groups, groups)
    are_bars = len(names) <= N_COLOURS
    intervals = [row for row in values if "high" in row]
    chance = [] if bars.baseline is None else [{"y": 100 * bars.baseline}]
    shown = [row["y"] for row in chance]
    low, high, margin = _extent(values, [*shown, 0.0] if are_bars or not values else shown, 0.05)
    span = [low - margin * (low < 0 or not are_bars), high + margin * (high > 0)]
    x = partial(alt.X, title=f"{plain(bars.y_title)} (%)", scale=scale_of(*span))
    y = alt.Y("x:N", title=None, sort=groups, axis={"labelLimit": 200, "grid": False})
    at: dict[str, Any] = {"y": y, "yOffset": alt.YOffset("name:N", sort=names)}
    colours = [colour_of(looks[each.name]) for each in series]
    legend = alt.Legend(title=None, symbolOpacity=1) if names[1:] else None
    colour = alt.Color("name:N", scale=alt.Scale(domain=names, range=colours), legend=legend)
    shapes = alt.Scale(domain=names, range=[shape_of(looks[each.name]) for each in series])
    form = {} if are_bars else {"shape": alt.Shape("name:N", scale=shapes, legend=legend)}
    tips = names_of("name", "at", "value")
    layers = {
        "bars": (values, {**at, "x": x("y:Q"), "color": colour, "tooltip": tips, **form}),
        "intervals": (intervals, {**at, "x": x("low:Q"), "x2": "high:Q"}),
        "chance": (chance, {"x": x("y:Q")}),
    }
    styles = {**_STYLES, "bars": {"type": "bar"} if are_bars else _STYLES["points"]}
    step = _BAR if are_bars else _POINT
    chart = layered(styles, layers, width=_WIDTH, height={"step": step})
    chance_in_words = f" Chance: {100 * bars.baseline:.1f}." if bars.baseline is not None else ""
    return Figure(
        plain(bars.title),
        f"{plain(bars.y_title)}, in percent. {_in_words(bars.series, groups)}{chance_in_words}",
        chart,
        ["", *(each.name for each in series)],
        _grid(bars.groups, series),
        [
            "The dashed line is chance over all queries; chance in a part depends on its labels."
            if chance
            else "",
            f"Thin lines are {_INTERVALS}" if intervals else "",
            f"{more} more are left out." if more > 0 else "",
            f"Of {n_groups:,} groups, the {_MAX_GROUPS} where {names[0]} is lowest are shown."
            if n_groups > len(groups)
            else "",
        ],
    )


def _lowest_groups(bars: BarChart) -> BarChart:
    if len(bars.groups) <= _MAX_GROUPS or not bars.series:
        return bars
    first = bars.series[0].values
    kept = sorted(range(len(first)), key=lambda i: (math.isnan(first[i]), first[i]))[:_MAX_GROUPS]
    choose = itemgetter(*kept)
    series = [
        Series(each.name, choose(each.values), choose(each.intervals) if each.intervals else ())
        for each in bars.series
    ]
    return replace(bars, groups=choose(bars.groups), series=series)


def _values(series: Sequence[Series], x: Sequence[Any], places: Sequence[str]) -> Rows:
    """Return a row for each finite value, in percent, with its interval if there is one."""
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


def _extent(rows: Rows, others: Iterable[float], share: float) -> tuple[float, float, float]:
    """Return the lowest and highest value, including intervals, and a margin.

    Args:
        rows: Rows from `_values`.
        others: Other values that must be visible, in percent.
        share: Margin as a share of the range.
    """
    ends = [row[name] for row in rows for name in ("y", "low", "high") if name in row]
    low, high = min([*ends, *others]), max([*ends, *others])
    return low, high, share * (high - low) or 1.0


def _grid(rows: Sequence[str], series: Sequence[Series]) -> list[list[str]]:
    return [[row, *(percent(each.values[i]) for each in series)] for i, row in enumerate(rows)]


def _in_words(series: Sequence[Series], places: Sequence[str]) -> str:
    """Describe the values of the named lines or bars in words."""
    named = [
        f"{plain(each.name)}: "
        + ", ".join(
            f"{place} {100 * value:.1f}"
            for place, value in zip(places, each.values, strict=True)
            if math.isfinite(value)
        )
        for each in series[:_MAX_NAMED]
    ]
    more = len(series) - len(named)
    return "; ".join([*named, *([f"and {more} more"] if more else [])]) + "."
