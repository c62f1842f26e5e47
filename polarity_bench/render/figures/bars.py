"""Bars by group, with intervals and the chance level; many series are drawn as points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from polarity_bench.render.chart import BarChart, Series
from polarity_bench.render.figures.style import (
    WIDTH,
    Looks,
    Sheet,
    Theme,
    look,
    percent,
    place_axes,
    plain,
    series_said,
    titled,
    width_of,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

_LOW, _TOP = 0.55, 0.4
_LEGEND, _LINE, _WRAP = 2.75, 0.165, 38
_GROUP_WRAP = 30
_SHOWN = 24  # maximum number of series
_FEW = 8  # maximum number of series that are drawn as bars
_BAR, _POINT, _BETWEEN = 0.13, 0.075, 0.16  # heights in inches; the last is between groups


def bars_sheet(bars: BarChart, looks: Looks) -> Sheet:
    """Lay out a bar chart."""
    n = len(bars.series[:_SHOWN])
    each = n * (_BAR if n <= _FEW else _POINT) + _BETWEEN
    n_lines = sum(1 + text.count("\n") for text in _names(bars)) + 2
    height = _LOW + _TOP + max(each * max(len(bars.groups), 1), _LINE * n_lines, 1.0)
    said = f"{plain(bars.y_title)}, in percent. {series_said(bars.series, bars.groups)}"
    if bars.baseline is not None:
        said += f" Chance: {100 * bars.baseline:.1f}."
    return Sheet(plain(bars.title), said, height, partial(_draw, bars, looks, height))


def _names(bars: BarChart) -> list[str]:
    more = len(bars.series) - _SHOWN
    others = [f"{more} others not shown"] if more > 0 else []
    return [*(wrapped(series.name, _WRAP) for series in bars.series[:_SHOWN]), *others]


def _draw(bars: BarChart, looks: Looks, height: float, figure: FigureBase, theme: Theme) -> None:
    from matplotlib.lines import Line2D

    groups = [wrapped(group, _GROUP_WRAP) for group in bars.groups]
    widest = max((width_of(line, 8) for group in groups for line in group.split("\n")), default=0)
    left, right = 0.25 + widest / 72, WIDTH - _LEGEND
    axes = place_axes(figure, height, (left, _LOW, right - left - 0.25, height - _LOW - _TOP))
    axes.set_title(titled(bars.title, WIDTH - left - 0.2))
    axes.set_xlabel(f"{wrapped(bars.y_title, 60, lines=1)} (%)")
    axes.set_yticks(range(len(groups)), groups)
    axes.tick_params(axis="y", labelcolor=theme.ink)
    axes.set_ylim(max(len(groups), 1) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    for i in range(1, len(groups)):
        axes.axhline(i - 0.5, color=theme.faint, linewidth=0.5, zorder=1)
    named = bars.series[:_SHOWN]
    are_bars = len(named) <= _FEW
    each = _BAR if are_bars else _POINT
    step = each / (each * len(named) + _BETWEEN) if named else 1
    handles: list[Any] = []
    for i, series in enumerate(named):
        places = [g + (i - (len(named) - 1) / 2) * step for g in range(len(groups))]
        style = look(looks[series.name], theme)
        handles.append(_draw_series(axes, series, places, step, style, theme, are_bars=are_bars))
    if bars.baseline is not None:
        line: dict[str, Any] = {"color": theme.ink, "linewidth": 1.0, "linestyle": "--"}
        axes.axvline(100 * bars.baseline, zorder=4, **line)
        handles.append(Line2D([], [], **line))
    _limit(axes, bars, are_bars=are_bars)
    handles += [Line2D([], [], linestyle="")] * (len(bars.series) > _SHOWN)
    names = _names(bars)
    names[len(named) : len(named)] = ["chance"] if bars.baseline is not None else []
    figure.legend(
        handles,
        names,
        loc="upper left",
        bbox_to_anchor=(right / WIDTH, 1 - _TOP / height),
        borderaxespad=0,
        borderpad=0,
        labelspacing=0.45,
    )


def _draw_series(
    axes: Axes,
    series: Series,
    places: Sequence[float],
    step: float,
    style: dict[str, Any],
    theme: Theme,
    *,
    are_bars: bool,
) -> Any:
    """Draw a series as bars or as points; return its handle for the legend."""
    values = percent(series.values)
    if series.intervals:
        ends = [each or (math.nan, math.nan) for each in series.intervals]
        low, high = (percent(end[side] for end in ends) for side in (0, 1))
        axes.hlines(places, low, high, color=theme.ink, linewidth=0.8, zorder=3)
    if are_bars:
        return axes.barh(places, values, height=0.86 * step, color=style["color"], zorder=2)
    (handle,) = axes.plot(
        values,
        places,
        linestyle="",
        markersize=4.5,
        zorder=5,
        **{key: value for key, value in style.items() if key != "markersize"},
    )
    return handle


def _limit(axes: Axes, bars: BarChart, *, are_bars: bool) -> None:
    """Set the limits of the x axis: bars begin at 0, points at the smallest value."""
    shown = [value for series in bars.series[:_SHOWN] for value in series.values]
    shown += [end for s in bars.series[:_SHOWN] for pair in s.intervals if pair for end in pair]
    shown += [] if bars.baseline is None else [bars.baseline]
    finite = [100 * value for value in shown if math.isfinite(value)] or [0.0, 100.0]
    low, high = min(finite), max(finite)
    margin = 0.05 * (high - low) or 1.0
    if are_bars:
        axes.set_xlim(min(low - margin * (low < 0), 0), max(high + margin, 1))
    else:
        axes.set_xlim(low - margin, high + margin)
