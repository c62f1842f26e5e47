"""Formulas of paired tests over the same folds or queries, with their intervals and power.

Over folds, the test is Student's t, as in the few-shot papers. It assumes independent folds. The
folds of a data set are not independent, because their training rows overlap. The p-values are
therefore too small, although the effect is weaker if fewer rows are drawn for each fold. Over
queries, `sign_flip_p` compares means, and `bootstrap_test` compares other statistics.

References:
    Nadeau and Bengio (2003), Inference for the generalization error, Machine Learning 52, for folds
    that are not independent.

Shapes: n folds, m tests, b bootstrap samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from polarity_bench.metrics.statistics import SEED, interval
from polarity_bench.values import FloatArray, IntArray

CONFIDENCE = 0.95
Alternative = Literal["two-sided", "less"]
"""Alternative hypothesis: the difference is not 0, or the difference is below 0."""


@dataclass(frozen=True)
class PairedTest:
    """Difference between two methods, with its interval and p-value.

    Attributes:
        difference: Mean difference over the folds, or difference of another statistic; nan without
            folds.
        interval: Confidence interval of the true difference; nan with too few values. The
            confidence is 95 %, or 90 % for a one-sided test at 5 %.
        p: p-value of the null hypothesis of no difference, not corrected for multiple tests; nan
            with too few values.
    """

    difference: float
    interval: tuple[float, float]
    p: float


def paired_t(a: FloatArray, b: FloatArray) -> PairedTest:
    """Test whether two methods differ, by Student's paired t-test over folds.

    If all folds have the same difference, t is undefined. In this case p is 1 if the difference is
    0, otherwise p is 0, and the interval is a single point.

    Args:
        a: Scores of the first method, (n,).
        b: Scores of the second method on the same folds, in the same order, (n,).

    Raises:
        ValueError: If the shapes differ or a score is not finite.

    References:
        Student (1908), The probable error of a mean, Biometrika 6.

    Example:
        The differences are 1, 2 and 3, so t is 2 / (1 / √3) = 3.46 with two degrees of freedom:

        >>> test = paired_t(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0]))
        >>> test.difference, round(test.p, 4), [round(end, 2) for end in test.interval]
        (2.0, 0.0742, [-0.48, 4.48])
    """
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"both methods need one score per fold, got {a.shape} and {b.shape}")
    differences = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    if undefined := int((~np.isfinite(differences)).sum()):
        raise ValueError(
            f"{undefined} of {len(a)} folds have an undefined score; remove these folds from both "
            "methods"
        )
    n = len(differences)
    mean = float(differences.mean()) if n else math.nan
    if n < 2:
        return PairedTest(mean, (math.nan, math.nan), math.nan)
    if np.ptp(differences) == 0:
        return PairedTest(mean, (mean, mean), float(mean == 0))
    error = float(differences.std(ddof=1)) / math.sqrt(n)
    from scipy import stats

    student = stats.t(n - 1)
    reach = float(student.ppf((1 + CONFIDENCE) / 2)) * error
    return PairedTest(mean, (mean - reach, mean + reach), 2 * float(student.sf(abs(mean) / error)))


def interval_level(alternative: Alternative) -> float:
    """Return the confidence of the interval that corresponds to a test at the 5 % level."""
    return CONFIDENCE if alternative == "two-sided" else 0.9


def bootstrap_test(
    difference: float,
    resampled: FloatArray,
    n_drawn: int,
    alternative: Alternative = "two-sided",
) -> PairedTest:
    """Test whether the difference of a statistic is 0, by its bootstrap distribution.

    p is twice the share of samples on the opposite side of 0; samples at 0 count on both sides. It
    is the level at which the percentile interval starts to contain 0. The test assumes independent
    queries, and enough of them for an accurate bootstrap distribution.

    Args:
        difference: Difference of the two methods over all queries.
        resampled: Difference of the two methods in each bootstrap sample, (b,); nan is left out.
        n_drawn: Number of independent units in a sample, such as queries or pairs of twins.
        alternative: "less" tests whether the difference is below 0.

    Returns:
        The test. p is at least 2 / (b + 1), or 1 / (b + 1) for a one-sided test. With fewer than
        six units, p and the interval are nan.

    References:
        Efron and Tibshirani (1993), An Introduction to the Bootstrap, sections 13.3 and 15.4;
        Davison and Hinkley (1997), Bootstrap Methods and their Application, equation 4.11, for
        adding 1 to the counts.

    Example:
        One of 99 samples is below 0, so p is 2 x (1 + 1) / (99 + 1):

        >>> samples = np.array([-0.1, *np.linspace(0.01, 0.5, 98)])
        >>> bootstrap_test(0.25, samples, n_drawn=50).p
        0.04
        >>> bootstrap_test(-0.25, -samples, n_drawn=50, alternative="less").p
        0.02
    """
    defined = resampled[~np.isnan(resampled)]
    ends = interval(resampled, n_drawn, interval_level(alternative))
    if math.isnan(ends[0]):
        return PairedTest(difference, ends, math.nan)
    below, above = (int(n) + 1 for n in ((defined <= 0).sum(), (defined >= 0).sum()))
    doubled = 2 * min(below, above) if alternative == "two-sided" else above
    return PairedTest(difference, ends, min(1.0, doubled / (len(defined) + 1)))


def holm(p_values: Sequence[float] | FloatArray) -> FloatArray:
    """Correct p-values for multiple tests by Holm's step-down method.

    If every test with a corrected p below a level is rejected, the probability of any false
    rejection is at most that level. This holds for any dependence between the tests.

    Args:
        p_values: p-values of m tests, in any order, (m,).

    Returns:
        Corrected p-values in the same order, in [0, 1], (m,). A corrected p-value is at least as
        large as the uncorrected value.

    Raises:
        ValueError: If a value is not a number in [0, 1]; leave out tests without a p-value.

    References:
        Holm (1979), A simple sequentially rejective multiple test procedure.

    Example:
        In ascending order, the values are multiplied by 3, 2 and 1. The largest value, 0.04, is
        then raised to the corrected value before it:

        >>> holm([0.03, 0.01, 0.04])
        array([0.06, 0.03, 0.06])
    """
    raw = np.asarray(p_values, np.float64)
    if refused := [float(p) for p in raw if not 0 <= p <= 1]:
        raise ValueError(f"p-values must be in [0, 1], got {refused}")
    order = np.argsort(raw, kind="stable")
    stepped = np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1))
    corrected = np.empty_like(raw)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def detectable_difference(sd: float, n: int, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """Return the minimum true difference that a paired test of n folds or queries detects.

    The result is the standard error times a non-centrality. At this non-centrality, the non-central
    t distribution exceeds the two-sided critical value with the requested power. The result is
    exact for `paired_t` with normal differences. It also applies to permutation tests over many
    queries, because their power approaches the power of the t-test (Hoeffding 1952). The standard
    deviation depends on both methods: similar methods have small differences on every query, so a
    paired test detects smaller mean differences.

    Args:
        sd: Standard deviation of the paired differences, with n - 1 in the denominator. For a
            statistic that is not a mean, use its standard error times √n.
        n: Number of folds, queries or other independent units.
        power: Probability of detecting the difference, above alpha and below 1.
        alpha: Level of the test; for m tests by Holm, alpha / m is conservative.

    Returns:
        A difference in the unit of `sd`, at least 0; nan if n is below 2.

    Raises:
        ValueError: If the deviation is negative or not finite, or unless 0 < alpha < power < 1.

    References:
        Cohen (1988), Statistical Power Analysis for the Behavioral Sciences, chapter 2;
        Hoeffding (1952), The large-sample power of tests based on permutations of observations.

    Example:
        With 40 folds and a standard deviation of 10 points, 4.5 points are detected with 80 %
        power:

        >>> round(detectable_difference(10, 40), 1)
        4.5
    """
    if not 0 <= sd < math.inf:
        raise ValueError(f"the standard deviation must be at least 0 and finite, got {sd}")
    if not 0 < alpha < power < 1:
        raise ValueError(f"expected 0 < alpha < power < 1, got alpha {alpha} and power {power}")
    if n < 2:
        return math.nan
    from scipy import stats
    from scipy.optimize import brentq

    critical = float(stats.t.ppf(1 - alpha / 2, n - 1))

    def missing_power(shift: float) -> float:
        beyond = [stats.nct.sf(critical, n - 1, centre) for centre in (shift, -shift)]
        # The lower tail uses `sf` of the negative shift, because `nct.cdf` may return nan.
        return power - float(np.sum(beyond))

    most = critical
    while missing_power(most) > 0:
        most *= 2
    return float(brentq(missing_power, 0.0, most)) * sd / math.sqrt(n)


N_FLIPS = 10_000
EXACT = 16
"""Maximum number of non-zero differences for which all flips are enumerated, at most 2^16."""
_BLOCK = 1000
TIE = 1e-6
"""Tolerance for ties, relative to the sum of absolute differences.

The tolerance is necessary because values are stored in single precision.
"""


def sign_flip_p(
    differences: FloatArray,
    units: IntArray | None = None,
    *,
    n_flips: int = N_FLIPS,
    seed: int = SEED,
    alternative: Alternative = "two-sided",
) -> float:
    """Test whether the mean of paired differences is 0, by flipping their signs.

    p is the share of flips with a mean at least as far from 0 as the observed mean. Differences of
    0 are ignored. With at most `EXACT` other differences, all flips are enumerated and p is exact.
    With more differences, flips are drawn at random, and the observed signs count as one of the
    flips to keep p valid.

    Args:
        differences: Difference of the two values of each query, (q,); nan is left out.
        units: Unit of each query, numbered from 0, (q,). By default, each query is a unit.
        n_flips: Number of flips to draw, m.
        seed: Seed of the flips.
        alternative: "less" tests whether the mean is below 0 (see `p_of_fall`).

    Returns:
        The exact p, or (b + 1) / (m + 1) if b of m drawn flips are at least as far from 0. p is 1
        if all differences are 0, and nan without queries.

    Raises:
        ValueError: If the shapes differ.

    References:
        Phipson and Smyth (2010), Permutation p-values should never be zero, equation 2.

    Example:
        Of the 8 flips of three differences, only +++ and --- are as far from 0 as the observed
        mean:

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
        p = float(np.mean(np.abs(_flip_all(moving)) >= far))
    else:
        flips = flipped_sums(moving[None], n_flips, seed)
        p = (sum(int((np.abs(block) >= far).sum()) for block in flips) + 1) / (n_flips + 1)
    return p if alternative == "two-sided" else p_of_fall(p, total)


def p_of_fall(two_sided: float, difference: float) -> float:
    """Convert the two-sided p-value of a sign-flip test to the one-sided p-value of a decrease.

    The conversion is valid because sign flips are symmetric.

    Args:
        two_sided: Two-sided p-value.
        difference: Observed difference; a decrease is below 0.
    """
    if difference < 0:
        return two_sided / 2
    return 1 - two_sided / 2 if difference > 0 else 1.0


def unit_sums(values: FloatArray, units: IntArray | None) -> FloatArray:
    """Sum the values of each unit's queries in double precision, from (n, q) to (n, u)."""
    values = np.asarray(values, np.float64)
    if units is None:
        return values
    order = np.argsort(units, kind="stable")
    _, first = np.unique(units[order], return_index=True)
    return np.asarray(np.add.reduceat(values[:, order], first, axis=1))


def flipped_sums(
    sums: FloatArray, n_flips: int = N_FLIPS, seed: int = SEED
) -> Iterator[FloatArray]:
    """Flip the signs of units at random, with the same flips for all rows, and sum each row.

    Sums are linear, so the difference of two flipped sums is the flipped sum of the differences.
    All pairs of encoders can therefore share the flips and one matrix product.

    Args:
        sums: Sum of the values of each unit, (n, u).
        n_flips: Number of flips to draw.
        seed: Seed of the flips.

    Yields:
        The flipped sums of one block of f flips, (f, n).
    """
    generator = np.random.default_rng(seed)
    n_units = sums.shape[1]
    for start in range(0, n_flips, _BLOCK):
        n_drawn = min(_BLOCK, n_flips - start)
        drawn = generator.integers(256, size=(n_drawn, -(-n_units // 8)), dtype=np.uint8)
        positive = np.unpackbits(drawn, axis=1, count=n_units).astype(np.float64)
        yield 2 * (positive @ sums.T) - sums.sum(axis=1)


def _flip_all(sums: FloatArray) -> FloatArray:
    """Return the total of the sums for every combination of signs, (2^u,)."""
    flipped = np.zeros(1)
    for value in sums:
        flipped = np.concatenate([flipped + value, flipped - value])
    return flipped
