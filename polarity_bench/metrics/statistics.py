"""Scores from values per query: means, deviations, seeded bootstrap samples and intervals.

Undefined values are nan. They are left out of the mean, and their number is reported. With too few
values, the mean is defined but the interval is nan.

Shapes: q queries, m metrics, b bootstrap samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Generic, TypeVar

import numpy as np
from scipy.special import stdtrit

from polarity_bench.scores import Score
from polarity_bench.values import BoolArray, FloatArray, IntArray

N_SAMPLES = 1000
"""Number of bootstrap samples for an interval."""
N_PAIRED_SAMPLES = 10_000
"""Number of bootstrap samples for one difference. The smallest possible p is 2 / 10,001."""
SEED = 20_250_101
LEAST_DRAWN = 6
"""Minimum number of values for an interval; with fewer values, the interval is nan.

Bootstrap intervals of small samples are too narrow, and identical values give zero width. Even the
full range of five values contains the true median with a probability below 95 %.
"""

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Resampling:
    """Stratified bootstrap scheme that draws whole units of queries.

    Every sample has the original number of units in each stratum.

    Attributes:
        units: Unit of each query, numbered from 0, (q,).
        strata: Stratum of each query, (q,). All queries of a unit have the same stratum.

    References:
        Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapter 8.
    """

    units: IntArray
    strata: IntArray


class Bootstrap(Generic[Key]):
    """Bootstrap of several metrics on the same samples of queries.

    The shared samples allow intervals for statistics of several means, such as `retention`.

    Attributes:
        means: Mean of each metric.
        resampled: Means of each metric over the samples, (b,).

    Args:
        values: Values per query of each metric, (q,).
        n_samples: Number of samples of q queries to draw with replacement.
        seed: Seed of the draws.
        resampling: Units and strata to draw; by default, each query is a unit.

    References:
        Efron and Tibshirani (1993), An Introduction to the Bootstrap, the percentile interval.
    """

    def __init__(
        self,
        values: Mapping[Key, FloatArray],
        n_samples: int = N_SAMPLES,
        seed: int = SEED,
        resampling: Resampling | None = None,
    ) -> None:
        self._values = dict(values)
        self._resampling = resampling
        matrix = np.column_stack(list(values.values())).astype(np.float64)
        defined = ~np.isnan(matrix)
        filled = np.where(defined, matrix, 0.0)
        self.means = dict(zip(values, ratio(filled.sum(0), defined.sum(0)), strict=True))
        resampled = np.empty((n_samples, len(self._values)))
        is_whole = bool(defined.all())
        for rows, weights in draws(len(matrix), n_samples, seed, resampling):
            n_drawn = weights.sum(axis=1, keepdims=True) if is_whole else weights @ defined
            resampled[rows] = ratio(weights @ filled, n_drawn)
        self.resampled = dict(zip(values, resampled.T, strict=True))

    def score(self, name: Key) -> Score:
        """Return the mean, standard deviation and interval of one metric."""
        values = self._values[name]
        defined = values[~np.isnan(values)]
        return Score(
            mean=float(self.means[name]),
            std=float(defined.std()) if len(defined) else float("nan"),
            ci95=interval(self.resampled[name], self._n_drawn(~np.isnan(values))),
            n=len(defined),
            n_undefined=len(values) - len(defined),
        )

    def derived(self, statistic: Callable[[Mapping[Key, FloatArray]], FloatArray]) -> Score:
        """Return the score of a statistic of several means.

        The standard deviation is nan, because the statistic has no values per query.

        Args:
            statistic: Function that computes the statistic from the mean of each metric. The means
                are scalars, or arrays with one value per sample.
        """
        mean = float(statistic(self.means))
        n = max(len(values) for values in self._values.values())
        ends = interval(statistic(self.resampled), self._n_drawn(np.ones(n, dtype=bool)))
        ends = (math.nan, math.nan) if math.isnan(mean) else ends
        return Score(mean, math.nan, ends, n, n_undefined=int(math.isnan(mean)))

    def _n_drawn(self, among: BoolArray) -> int:
        """Return the number of units with queries in a mask, (q,)."""
        units = np.flatnonzero(among) if self._resampling is None else self._resampling.units[among]
        return len(np.unique(units))


def draws(
    n: int, n_samples: int = N_SAMPLES, seed: int = SEED, resampling: Resampling | None = None
) -> Iterator[tuple[slice, FloatArray]]:
    """Draw bootstrap samples, one block of samples at a time.

    Args:
        n: Number of queries.
        n_samples: Number of samples of n queries to draw with replacement.
        seed: Seed of the draws.
        resampling: Units and strata to draw; by default, each query is a unit.

    Yields:
        The slice of the samples in the block, and the count of each query in each sample, (b, q).
    """
    generator = np.random.default_rng(seed)
    for start in range(0, n_samples, 250):
        rows = slice(start, min(start + 250, n_samples))
        n_drawn = rows.stop - rows.start
        if resampling is None:
            yield rows, _draw_counts(generator, n, n_drawn)
        else:
            yield rows, _draw_units(generator, resampling, n_drawn)


def _draw_units(
    generator: np.random.Generator, resampling: Resampling, n_samples: int
) -> FloatArray:
    """Draw units in each stratum, and return the count of each query in each sample, (b, q)."""
    units, first = np.unique(resampling.units, return_index=True)
    counts = np.zeros((n_samples, len(units)))
    strata = resampling.strata[first]
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        counts[:, members] = _draw_counts(generator, len(members), n_samples)
    return np.asarray(counts[:, np.searchsorted(units, resampling.units)])


def _draw_counts(generator: np.random.Generator, n: int, n_samples: int) -> FloatArray:
    """Draw n of n queries with replacement, and return the count of each query, (b, n)."""
    drawn = generator.integers(n, size=(n_samples, n)) + np.arange(n_samples)[:, None] * n
    counts = np.bincount(drawn.ravel(), minlength=n_samples * n)
    return counts.reshape(n_samples, n).astype(np.float64)


def ratio(part: FloatArray, whole: FloatArray, *, empty: float = np.nan) -> FloatArray:
    """Return part / whole, with `empty` for elements whose whole is not above 0."""
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), empty)


def interval(resampled: FloatArray, n_drawn: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the percentile interval of bootstrap samples.

    Args:
        resampled: Statistic in each sample, (b,); nan is left out.
        n_drawn: Number of independent units in a sample.
        confidence: Confidence of the interval.

    Returns:
        Low and high; nan if all samples are nan or if `n_drawn` is below `LEAST_DRAWN`.
    """
    if n_drawn < LEAST_DRAWN or np.isnan(resampled).all():
        return (float("nan"), float("nan"))
    tail = round(50 * (1 - confidence), 9)  # Without rounding, 2.5 would be slightly larger.
    low, high = np.nanpercentile(resampled, [tail, 100 - tail])
    return (float(low), float(high))


def interval_over_seeds(scores: Sequence[Score]) -> tuple[float, float]:
    """Return the 95 % interval of a mean over seeds, for new seeds and new queries.

    Two half-widths are added in quadrature. The half-width over seeds is from Student's t with n -
    1 degrees of freedom. The half-width over queries is the root mean square of the seeds'
    half-widths. Averaging does not reduce it, because all seeds are scored on the same queries. The
    interaction of queries and seeds counts twice, so the interval is slightly too wide.

    Args:
        scores: Score of each seed, with its interval over queries.

    Returns:
        Low and high; nan with fewer than two seeds, or if a seed has no interval.

    References:
        Zou and Donner (2008), Construction of confidence limits about effect measures, Statistics
        in Medicine 27, for adding half-widths of independent estimates in quadrature.

    Example:
        Two seeds score 0.5 and 0.6 without noise over queries. t is 12.7 and the standard error is
        0.05:

        >>> low, high = interval_over_seeds([Score(x, 0.0, (x, x), 8) for x in (0.5, 0.6)])
        >>> round(low, 3), round(high, 3)
        (-0.085, 1.185)
    """
    if len(scores) < 2:
        return math.nan, math.nan
    n, means = len(scores), [score.mean for score in scores]
    mean = fmean(means)
    of_seeds = float(stdtrit(n - 1, 0.975)) * stdev(means) / math.sqrt(n)
    below, above = (
        math.hypot(*(score.ci95[end] - score.mean for score in scores)) / math.sqrt(n)
        for end in (0, 1)
    )
    return mean - math.hypot(of_seeds, below), mean + math.hypot(of_seeds, above)
