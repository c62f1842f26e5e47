"""Lines over a number, each named at its end; with few lines, intervals are drawn as bands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from polarity_bench.render.chart import LineChart, Series
from polarity_bench.render.figures.style import (
    N_NAMED,
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
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

_LEFT, _LOW, _TOP = 0.65, 0.55, 0.4
_NAMES = 3.1  # width for the names on the right, in inches
_LINE = 0.165
_LEAST = 3.3  # minimum height of the panel
_WRAP = 44
_FEW = 8  # lines; the bands of more would cover each other
_MANY = 12  # positions on the x axis; more are not all labelled


def lines_sheet(lines: LineChart, looks: Looks) -> Sheet:
    """Lay out a line chart."""
    n_lines = min(len(lines.series), N_NAMED) + (len(lines.series) > N_NAMED)
    height = _LOW + _TOP + max(_LEAST, _LINE * n_lines)
    said = f"{plain(lines.y_title)} by {plain(lines.x_title)}, in percent. "
    said += series_said(lines.series, [f"{x:g}" for x in lines.x])
    return Sheet(plain(lines.title), said, height, partial(_draw, lines, looks, height))


def _draw(lines: LineChart, looks: Looks, height: float, figure: FigureBase, theme: Theme) -> None:
    panel_height = height - _LOW - _TOP
    axes = place_axes(figure, height, (_LEFT, _LOW, WIDTH - _LEFT - _NAMES, panel_height))
    axes.set_title(titled(lines.title, WIDTH - _LEFT - 0.2))
    axes.set_xlabel(wrapped(lines.x_title, 80, lines=1))
    axes.set_ylabel(f"{wrapped(lines.y_title, 40, lines=1)} (%)")
    _scale(axes, lines)
    named, others = lines.series[:N_NAMED], lines.series[N_NAMED:]
    for series in others:
        axes.plot(lines.x, percent(series.values), color=theme.faint, linewidth=0.8, zorder=1)
    for series in named:
        style = look(looks[series.name], theme)
        if len(lines.series) <= _FEW:
            _draw_band(axes, lines.x, series, style["color"])
        axes.plot(lines.x, percent(series.values), zorder=3, **style)
    _name_ends(axes, lines, looks, panel_height, theme)


def _scale(axes: Axes, lines: LineChart) -> None:
    """Set the scale of the x axis; label all positions if they are few."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    positive = [x for x in lines.x if x > 0]
    if lines.is_log and positive:
        whole = len(positive) == len(lines.x)
        scale = {} if whole else {"linthresh": min(positive)}  # 0 has no logarithm
        axes.set_xscale("log" if whole else "symlog", **scale)
        axes.xaxis.set_minor_locator(NullLocator())
    if len(lines.x) <= _MANY:
        axes.xaxis.set_major_locator(FixedLocator(list(lines.x)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}"))


def _draw_band(axes: Axes, x: Sequence[float], series: Series, colour: str) -> None:
    ends = [each or (math.nan, math.nan) for each in series.intervals]
    if ends:
        low, high = (percent(end[side] for end in ends) for side in (0, 1))
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0, zorder=2)


def _name_ends(
    axes: Axes, lines: LineChart, looks: Looks, panel_height: float, theme: Theme
) -> None:
    """Write each line's name at its end, spread out so that no name covers another."""
    low, high = axes.get_ylim()
    inch = (high - low) / panel_height
    ends = []
    for series in lines.series[:N_NAMED]:
        there = [i for i, value in enumerate(series.values) if math.isfinite(value)]
        if there:
            i = there[-1]
            ends.append((100 * series.values[i], lines.x[i], series.name))
    ends.sort(key=lambda end: (end[0], end[2]))
    others = len(lines.series) - N_NAMED
    spread = spread_out([end[0] for end in ends], _LINE * inch, low, high)
    right = axes.get_yaxis_transform()
    for (y, x, name), shown in zip(ends, spread, strict=True):
        colour = look(looks[name], theme)["color"]
        axes.annotate(
            wrapped(name, _WRAP, lines=1),
            (x, y),
            xytext=(1.035, shown),
            textcoords=right,
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.6,
                "alpha": 0.8,
                "shrinkA": 1,
                "shrinkB": 4,
                "relpos": (0, 0.5),
            },
        )
    if others > 0:
        axes.annotate(
            f"and {others} others, faint",
            (1.035, 0),
            xycoords="axes fraction",
            xytext=(0, -14),
            textcoords="offset points",
            va="center",
            color=theme.muted,
        )


def spread_out(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move ascending positions as little as needed to keep a minimum gap, within bounds.

    Example:
        >>> spread_out([1.0, 1.0, 5.0], 1.0, 0.0, 10.0)
        [0.5, 1.5, 5.0]
        >>> spread_out([9.9, 10.0], 1.0, 0.0, 10.0)
        [9.0, 10.0]
    """
    groups: list[tuple[list[float], float]] = []  # touching positions, new place of the first
    for place in wanted:
        members = [place]
        first = place
        while True:
            top = max(low, high - gap * (len(members) - 1))
            first = min(max(first, low), top)
            if not groups or groups[-1][1] + gap * len(groups[-1][0]) <= first:
                break
            members = groups.pop()[0] + members
            first = sum(m - gap * i for i, m in enumerate(members)) / len(members)
        groups.append((members, first))
    return [first + gap * i for members, first in groups for i in range(len(members))]
