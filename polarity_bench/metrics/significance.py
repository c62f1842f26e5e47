"""Paired comparison of two methods on the same folds or queries: difference, interval, p, power.

Over folds the test is Student's t, as in the few-shot papers. It assumes independent folds. Folds
of one data set are not independent, because their training rows overlap, so the p-values are too
small. The effect shrinks with the number of rows drawn for each fold (Nadeau and Bengio 2003,
Inference for the generalization error, Machine Learning 52). Over queries, means are compared by
sign flips (`sign_flip_p`) and other statistics by the bootstrap (`bootstrap_test`).

Shapes: n folds, m tests, b bootstrap samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats
from scipy.optimize import brentq

from polarity_bench.metrics.statistics import SEED, interval
from polarity_bench.values import FloatArray, IntArray

CONFIDENCE = 0.95
Alternative = Literal["two-sided", "less"]
"""Whether a test looks for any difference, or only for one below 0."""


@dataclass(frozen=True)
class PairedTest:
    """Difference between two methods, with its interval and p-value.

    Attributes:
        difference: Mean difference over the folds, nan without a fold; or the difference of
            another statistic.
        interval: Confidence interval of the true difference; nan with too few values. It covers
            95 %, or 90 % for a one-sided test, which reports a fall if the interval is below 0.
        p: p-value of no true difference, uncorrected; nan with too few values.
    """

    difference: float
    interval: tuple[float, float]
    p: float


def paired_t(a: FloatArray, b: FloatArray) -> PairedTest:
    """Test whether two methods differ, by Student's t over paired folds.

    If the difference is the same on all folds, t would divide by 0. Then p is 1 if the difference
    is 0 and 0 otherwise, and the interval is a single point.

    Args:
        a: Scores of the first method, (n,).
        b: Scores of the second method on the same folds, in the same order, (n,).

    Raises:
        ValueError: If the shapes differ or a score is not finite.

    References:
        Student (1908), The probable error of a mean, Biometrika 6.

    Example:
        The differences are 1, 2 and 3: t is 2 / (1 / √3) = 3.46, with two degrees of freedom.

        >>> found = paired_t(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0]))
        >>> found.difference, round(found.p, 4), [round(end, 2) for end in found.interval]
        (2.0, 0.0742, [-0.48, 4.48])
    """
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"both methods need one score per fold, got {a.shape} and {b.shape}")
    differences = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    if undefined := int((~np.isfinite(differences)).sum()):
        raise ValueError(
            f"{undefined} of {len(a)} folds have an undefined score; leave them out of both methods"
        )
    n = len(differences)
    mean = float(differences.mean()) if n else math.nan
    if n < 2:
        return PairedTest(mean, (math.nan, math.nan), math.nan)
    if np.ptp(differences) == 0:
        return PairedTest(mean, (mean, mean), float(mean == 0))
    error = float(differences.std(ddof=1)) / math.sqrt(n)
    student = stats.t(n - 1)
    reach = float(student.ppf((1 + CONFIDENCE) / 2)) * error
    return PairedTest(mean, (mean - reach, mean + reach), 2 * float(student.sf(abs(mean) / error)))


def interval_level(alternative: Alternative) -> float:
    """Return the confidence of the interval that belongs to a test at 5 %."""
    return CONFIDENCE if alternative == "two-sided" else 0.9


def bootstrap_test(
    difference: float,
    resampled: FloatArray,
    n_drawn: int,
    alternative: Alternative = "two-sided",
) -> PairedTest:
    """Test whether the difference of any statistic is not 0, by its bootstrap distribution.

    p is the level at which the percentile interval begins to contain 0: twice the share of samples
    on the other side of 0, with samples at 0 counted on both sides. The test assumes that queries
    are independent draws, and enough of them that the bootstrap distribution is near the true
    one. For a statistic that is clipped at 0 (`joint` at chance), the test is conservative.

    Args:
        difference: Difference of the two methods over all queries.
        resampled: Their difference over each sample of the queries, (b,); nan is left out.
        n_drawn: Number of independent units (queries, or pairs of twins) that were sampled.
        alternative: "less" tests whether the difference is below 0.

    Returns:
        The test; p is at least 2 / (b + 1), one-sided 1 / (b + 1). With fewer than six units, p and
        the interval are nan.

    References:
        Efron and Tibshirani (1993), An Introduction to the Bootstrap, sections 13.3 and 15.4;
        Davison and Hinkley (1997), Bootstrap Methods and their Application, equation 4.11, for
        the added 1.

    Example:
        One of 99 samples is below 0, so p is 2 x (1 + 1) / (99 + 1):

        >>> samples = np.array([-0.1, *np.linspace(0.01, 0.5, 98)])
        >>> bootstrap_test(0.25, samples, n_drawn=50).p
        0.04
        >>> bootstrap_test(-0.25, -samples, n_drawn=50, alternative="less").p
        0.02
    """
    known = resampled[~np.isnan(resampled)]
    ends = interval(resampled, n_drawn, interval_level(alternative))
    if math.isnan(ends[0]):
        return PairedTest(difference, ends, math.nan)
    below, above = (int(n) + 1 for n in ((known <= 0).sum(), (known >= 0).sum()))
    doubled = 2 * min(below, above) if alternative == "two-sided" else above
    return PairedTest(difference, ends, min(1.0, doubled / (len(known) + 1)))


def holm(p_values: Sequence[float] | FloatArray) -> FloatArray:
    """Correct p-values for multiple tests by Holm's step-down method.

    Tests whose corrected p is below a level hold together at that level: the probability of any
    false rejection is at most the level, however the tests depend on each other.

    Args:
        p_values: p-values of m tests, in any order, (m,).

    Returns:
        Corrected p-values in the same order, in [0, 1], (m,). None is below its uncorrected value.

    Raises:
        ValueError: If a value is not a number in [0, 1]; leave out tests that have no p-value.

    References:
        Holm (1979), A simple sequentially rejective multiple test procedure.

    Example:
        The smallest is multiplied by 3, the next by 2; the last is raised to the value before it:

        >>> holm([0.03, 0.01, 0.04])
        array([0.06, 0.03, 0.06])
    """
    raw = np.asarray(p_values, np.float64)
    if refused := [float(p) for p in raw if not 0 <= p <= 1]:
        raise ValueError(f"p-values must lie in [0, 1], got {refused}")
    order = np.argsort(raw, kind="stable")
    stepped = np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1))
    corrected = np.empty_like(raw)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def detectable_difference(sd: float, n: int, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """Return the minimum true difference that a paired test of n folds or queries detects.

    It is exact for normal differences and `paired_t`: the standard error times the non-centrality
    at which the non-central t distribution exceeds the two-sided critical value with this power.
    The mean of many queries is nearly normal, so the result holds for a permutation test too, whose
    power tends to that of t (Hoeffding 1952). The standard deviation belongs to the two methods
    compared: more similar methods differ less from query to query, so smaller differences can be
    detected.

    Args:
        sd: Standard deviation of the paired differences, by n - 1. For a statistic that is not a
            mean, its standard error times √n.
        n: Number of folds, queries or other independent units.
        power: Probability of detecting the difference, above alpha and below 1.
        alpha: Level of the test; for m tests by Holm, alpha / m is conservative.

    Returns:
        A difference in the unit of the deviation, at least 0; nan if n is below 2.

    Raises:
        ValueError: If the deviation is negative or not finite, or unless 0 < alpha < power < 1.

    References:
        Cohen (1988), Statistical Power Analysis for the Behavioral Sciences, chapter 2;
        Hoeffding (1952), The large-sample power of tests based on permutations of observations.

    Example:
        With 40 folds and a standard deviation of 10 points, 4.5 points are detected four times in
        five:

        >>> round(detectable_difference(10, 40), 1)
        4.5
    """
    if not 0 <= sd < math.inf:
        raise ValueError(f"the standard deviation must be at least 0 and finite, got {sd}")
    if not 0 < alpha < power < 1:
        raise ValueError(f"expected 0 < alpha < power < 1, got alpha {alpha} and power {power}")
    if n < 2:
        return math.nan
    critical = float(stats.t.ppf(1 - alpha / 2, n - 1))

    def missing_power(shift: float) -> float:
        beyond = [stats.nct.sf(critical, n - 1, each) for each in (shift, -shift)]
        return power - float(np.sum(beyond))  # nct.cdf of the lower tail may be nan

    most = critical
    while missing_power(most) > 0:
        most *= 2
    return float(brentq(missing_power, 0.0, most)) * sd / math.sqrt(n)


N_FLIPS = 10_000
EXACT = 16
"""Up to this number of non-zero differences, every flip is tried: at most 2^16 flips."""
_BLOCK = 1000
TIE = 1e-6
"""Tolerance for ties, relative to the sum of absolute differences. It is needed because values are
stored in single precision."""


def sign_flip_p(
    differences: FloatArray,
    units: IntArray | None = None,
    *,
    n_flips: int = N_FLIPS,
    seed: int = SEED,
    alternative: Alternative = "two-sided",
) -> float:
    """Test whether the mean of paired differences is not 0, by flipping their signs.

    Flipping a difference of 0 has no effect. If at most `EXACT` other differences remain, every
    flip is tried and p is exact: the share of flips whose mean is at least as far from 0. With more
    differences, flips are drawn at random. The observed one counts as one of them, which keeps p
    valid.

    Args:
        differences: Difference of the two values of each query, (q,); nan is left out.
        units: Unit of each query, numbered from 0, (q,). By default every query is a unit.
        n_flips: Number of flips to draw, m.
        seed: Seed of the flips.
        alternative: "less" tests whether the mean is below 0, see `p_of_fall`.

    Returns:
        p: exact, or (b + 1) / (m + 1) if b of m flips are at least as far from 0. It is 1 if
        nothing differs, and nan without a query.

    Raises:
        ValueError: If the shapes differ.

    References:
        Phipson and Smyth (2010), Permutation p-values should never be zero, equation 2.

    Example:
        Of the 8 flips of three differences, only +++ and --- are as far from 0 as observed:

        >>> sign_flip_p(np.array([0.5, 0.25, 0.0, 0.5]))
        0.25
    """
    if differences.ndim != 1 or (units is not None and units.shape != differences.shape):
        shapes = [differences.shape] + ([] if units is None else [units.shape])
        raise ValueError(f"expected one difference and one unit per query, got shapes {shapes}")
    defined = ~np.isnan(differences)
    if not defined.any():
        return float("nan")
    sums = unit_sums(differences[defined][None, :], None if units is None else units[defined])[0]
    moving = sums[sums != 0]
    total = float(moving.sum())
    far = abs(total) - TIE * np.abs(moving).sum()
    if len(moving) <= EXACT:
        p = float(np.mean(np.abs(_all_flipped(moving)) >= far))
    else:
        flips = flipped_sums(moving[None], n_flips, seed)
        p = (sum(int((np.abs(each) >= far).sum()) for each in flips) + 1) / (n_flips + 1)
    return p if alternative == "two-sided" else p_of_fall(p, total)


def p_of_fall(two_sided: float, difference: float) -> float:
    """Return the one-sided p-value of a fall from the two-sided one of a permutation test.

    The conversion is valid because the sign flips are symmetric.
    """
    if difference < 0:
        return two_sided / 2
    return 1 - two_sided / 2 if difference > 0 else 1.0


def unit_sums(values: FloatArray, units: IntArray | None) -> FloatArray:
    """Sum the values of the queries of each unit, (n, q) to (n, u), in double precision."""
    values = np.asarray(values, np.float64)
    if units is None:
        return values
    order = np.argsort(units, kind="stable")
    _, first = np.unique(units[order], return_index=True)
    return np.asarray(np.add.reduceat(values[:, order], first, axis=1))


def flipped_sums(
    sums: FloatArray, n_flips: int = N_FLIPS, seed: int = SEED
) -> Iterator[FloatArray]:
    """Flip the signs of units at random, the same for all rows, and sum each row.

    Sums are linear: the flipped sum of the difference of two rows is the difference of their
    flipped sums. All pairs of encoders can therefore share the flips and one matrix product.

    Args:
        sums: Sum of each unit, (n, u).
        n_flips: Number of flips to draw.
        seed: Seed of the flips.

    Yields:
        The flipped sums of one block of flips, (f, n).
    """
    generator = np.random.default_rng(seed)
    n_units = sums.shape[1]
    for start in range(0, n_flips, _BLOCK):
        n_drawn = min(_BLOCK, n_flips - start)
        drawn = generator.integers(256, size=(n_drawn, -(-n_units // 8)), dtype=np.uint8)
        kept = np.unpackbits(drawn, axis=1, count=n_units).astype(np.float64)
        yield 2 * (kept @ sums.T) - sums.sum(axis=1)


def _all_flipped(sums: FloatArray) -> FloatArray:
    """Return the total of these sums under every flip of their signs, (2^u,)."""
    flipped = np.zeros(1)
    for each in sums:
        flipped = np.concatenate([flipped + each, flipped - each])
    return flipped
