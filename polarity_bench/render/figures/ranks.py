"""Critical-difference diagrams in Demšar's layout.

On the axis of mean ranks the best are on the right. A bar joins encoders that do not differ
significantly.

References:
    Demšar (2006), Statistical comparisons of classifiers over multiple data sets, JMLR 7, figure 1.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from polarity_bench.render.chart import Ranks
from polarity_bench.render.figures.style import (
    N_NAMED,
    WIDTH,
    Sheet,
    Theme,
    place_axes,
    plain,
    titled,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

_SIDE = 2.95  # width for the names on each side, in inches
_AXIS = 0.85  # from the top to the axis
_BAR, _ROW, _END = 0.13, 0.2, 0.25
_WRAP = 33
_STEPS = (1, 2, 5, 10, 20, 50)


def ranks_sheet(ranks: Ranks) -> Sheet:
    """Lay out a critical-difference diagram."""
    more = len(ranks.names) - N_NAMED
    ranks = _best(ranks)
    levels = bar_levels(ranks)
    n_rows = math.ceil(len(ranks.names) / 2)
    height = _AXIS + _BAR * (max(levels, default=-1) + 2) + _ROW * n_rows + _END
    places = (f"{plain(n)} {r:.2f}" for n, r in zip(ranks.names, ranks.ranks, strict=True))
    ties = (f"{plain(ranks.names[a])} to {plain(ranks.names[b])}" for a, b in ranks.ties if a != b)
    said = f"Mean ranks, 1 is best: {', '.join(places)}."
    said += f" Not told apart: {'; '.join(ties) or 'none'}."
    said += f" And {more} more, of worse ranks." if more > 0 else ""
    return Sheet(
        plain(ranks.title), said, height, partial(_draw, ranks, levels, height, max(more, 0))
    )


def _best(ranks: Ranks) -> Ranks:
    """Return the diagram with only the best encoders, as many as a figure names."""
    last = N_NAMED - 1
    ties = [(a, min(b, last)) for a, b in ranks.ties if a < last]
    return replace(ranks, names=ranks.names[:N_NAMED], ranks=ranks.ranks[:N_NAMED], ties=ties)


def bar_levels(ranks: Ranks) -> list[int]:
    """Return the level of each tie's bar, so that no bar touches another.

    Example:
        >>> bar_levels(Ranks("", "abcd", [1, 2, 3, 4], [(0, 1), (1, 2), (2, 3)]))
        [0, 1, 0]
    """
    ends: list[float] = []  # end of the last bar on each level
    span = max(ranks.ranks, default=1) - min(ranks.ranks, default=1)
    found = []
    for first, last in ranks.ties:
        start, end = ranks.ranks[first], ranks.ranks[last]
        level = next((i for i, e in enumerate(ends) if e < start - 0.01 * span), len(ends))
        ends[level : level + 1] = [end]
        found.append(level)
    return found


def _draw(
    ranks: Ranks,
    levels: list[int],
    height: float,
    more: int,
    figure: FigureBase,
    theme: Theme,
) -> None:
    axes = place_axes(figure, height, (0, 0, WIDTH, height))
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    axes.axis("off")
    axes.text(
        0.25, 0.22, titled(ranks.title, WIDTH - 0.5), fontsize=10, fontweight="bold", va="center"
    )
    low, high = math.floor(min(ranks.ranks, default=1)), math.ceil(max(ranks.ranks, default=2))
    high = max(high, low + 1)
    left, right = _SIDE, WIDTH - _SIDE

    def at(rank: float) -> float:
        return right - (rank - low) / (high - low) * (right - left)

    axes.plot([left, right], [_AXIS, _AXIS], color=theme.ink, linewidth=1)
    step = next((step for step in _STEPS if (high - low) / step <= 10), 100)
    for tick in range(low, high + 1):
        long = tick % step == 0 or tick == 1
        axes.plot(
            [at(tick)] * 2,
            [_AXIS, _AXIS - (0.09 if long else 0.05)],
            color=theme.ink,
            linewidth=0.8,
        )
        if long:
            axes.text(at(tick), _AXIS - 0.12, str(tick), ha="center", va="bottom")
    said = "mean rank (best on the right)" + (f", without {more} of worse ranks" if more else "")
    axes.text(
        (left + right) / 2,
        _AXIS - 0.38,
        said,
        ha="center",
        color=theme.muted,
    )
    for (first, last), level in zip(ranks.ties, levels, strict=True):
        y = _AXIS + _BAR * (level + 1)
        ends = [at(ranks.ranks[last]) - 0.04, at(ranks.ranks[first]) + 0.04]
        axes.plot(
            ends, [y, y], color=theme.colours[1], linewidth=3.2, solid_capstyle="butt", zorder=3
        )
    top = _AXIS + _BAR * (max(levels, default=-1) + 2)
    n = len(ranks.names)
    best = math.ceil(n / 2)
    for i, (name, rank) in enumerate(zip(ranks.names, ranks.ranks, strict=True)):
        is_right = i < best
        y = top + _ROW * ((i if is_right else n - 1 - i) + 0.5)
        side = right + 0.1 if is_right else left - 0.1
        axes.plot(
            [at(rank), at(rank), side], [_AXIS, y, y], color=theme.muted, linewidth=0.6, zorder=1
        )
        text = f"{wrapped(name, _WRAP, lines=1)}  {rank:.2f}"
        axes.text(
            side + (0.05 if is_right else -0.05),
            y,
            text,
            ha="left" if is_right else "right",
            va="center",
        )
