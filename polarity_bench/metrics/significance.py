"""Paired comparison of two ways over the same folds or queries: difference, interval, p, power.

Over folds the test is the one of the few-shot papers, Student's t. It takes the folds for
independent, which folds of one data set are not: their training rows overlap, and the p-values
come out too small, the less so the fewer rows are cut from each (Nadeau and Bengio 2003, Inference
for the generalization error, Machine Learning 52). Over queries there is the bootstrap of a
difference here, for what is no mean, and `permutation` for what is one.

Shapes: n folds, m tests, b bootstrap samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.optimize import brentq

from polarity_bench.metrics.statistics import SEED, interval
from polarity_bench.values import FloatArray, IntArray

CONFIDENCE = 0.95


@dataclass(frozen=True)
class PairedTest:
    """How far one way lies above another.

    Attributes:
        difference: The mean over the folds, nan without a fold; or of whatever statistic.
        interval: Where the true one lies, at 95 %; nan of too few.
        p: Two-sided, not corrected, of no true difference; nan of too few.
    """

    difference: float
    interval: tuple[float, float]
    p: float


def paired_t(a: FloatArray, b: FloatArray) -> PairedTest:
    """Test whether one way scores above another by Student's t over paired folds.

    Where all folds differ by the same, t has no deviation to divide by: p is 1 if they do not
    differ at all and 0 otherwise, and the interval a point.

    Args:
        a: Scores of the way in question, (n,).
        b: Scores of the other on the same folds, in the same order, (n,).

    Raises:
        ValueError: If the shapes differ or a score is not finite.

    References:
        Student (1908), The probable error of a mean, Biometrika 6.

    Example:
        Differences 1, 2 and 3: t is 2 / (1 / √3) = 3.46, on two degrees of freedom.

        >>> found = paired_t(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0]))
        >>> found.difference, round(found.p, 4), [round(end, 2) for end in found.interval]
        (2.0, 0.0742, [-0.48, 4.48])
    """
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"one score a fold is wanted of either, got {a.shape} and {b.shape}")
    differences = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    if undefined := int((~np.isfinite(differences)).sum()):
        raise ValueError(
            f"{undefined} of {len(a)} folds have an undefined score: leave them out of both"
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


def bootstrap_test(difference: float, resampled: FloatArray, n_drawn: int) -> PairedTest:
    """Test whether a difference of any statistic is other than 0, by its bootstrap distribution.

    p is the level at which the percentile interval begins to hold 0: twice the share of samples
    on the other side of it, those at 0 counted to both. It takes queries for independent draws and
    enough of them for the distribution of the difference to be near that of its samples; of a
    statistic that is clipped there (joint at chance), it errs on the safe side.

    Args:
        difference: Of the two ways over all queries.
        resampled: Of the same two over the same resampled queries, (b,); nan is left out.
        n_drawn: How many independent units (queries, or pairs of twins) were drawn from.

    Returns:
        The test; p is at least 2 / (b + 1), and nan as its interval is: of fewer than six units.

    References:
        Efron and Tibshirani (1993), An Introduction to the Bootstrap, sections 13.3 and 15.4;
        Davison and Hinkley (1997), Bootstrap Methods and their Application, equation 4.11, for
        the 1 that is added.

    Example:
        One of 99 samples is below 0, so p is 2 x (1 + 1) / (99 + 1):

        >>> samples = np.array([-0.1, *np.linspace(0.01, 0.5, 98)])
        >>> bootstrap_test(0.25, samples, n_drawn=50).p
        0.04
    """
    known = resampled[~np.isnan(resampled)]
    low, high = interval(resampled, n_drawn)
    if math.isnan(low):
        return PairedTest(difference, (low, high), math.nan)
    beyond = min(int((known <= 0).sum()), int((known >= 0).sum()))
    return PairedTest(difference, (low, high), min(1.0, 2 * (beyond + 1) / (len(known) + 1)))


def holm(p_values: Sequence[float] | FloatArray) -> FloatArray:
    """Correct p-values for their number by Holm's step-down method.

    Those below a level are the tests that hold together at that level: the chance of one false
    among them is at most the level, whatever their dependence.

    Args:
        p_values: Of m tests, in any order, (m,).

    Returns:
        Corrected p-values in the order given, none below its own, in [0, 1], (m,).

    Raises:
        ValueError: If one is no number in [0, 1]; a test that could not be made is to be left out.

    References:
        Holm (1979), A simple sequentially rejective multiple test procedure.

    Example:
        The least is multiplied by 3, the next by 2; the last is no less than they came to:

        >>> holm([0.03, 0.01, 0.04])
        array([0.06, 0.03, 0.06])
    """
    raw = np.asarray(p_values, np.float64)
    if refused := [float(p) for p in raw if not 0 <= p <= 1]:
        raise ValueError(f"p-values lie in [0, 1], got {refused}")
    order = np.argsort(raw, kind="stable")
    stepped = np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1))
    corrected = np.empty_like(raw)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def detectable_difference(sd: float, n: int, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """Say how large a true difference must be for n folds, or queries, to show it.

    Exact for normal differences and `paired_t`: the non-centrality at which the non-central t
    distribution lies beyond the two-sided critical value with this power, times the standard error.
    Of many queries their mean is near normal, and so it holds for a permutation test of them too,
    which has the power of t in the limit (Hoeffding 1952). The deviation is that of two ways at
    hand: ways that are more alike differ less from query to query, and show less.

    Args:
        sd: Standard deviation of the differences of paired folds, by n - 1; of a statistic that
            is no mean, its standard error times √n.
        n: Folds, or queries, or whatever is independent.
        power: Chance of finding the difference, above alpha and below 1.
        alpha: Level of the test; for m tests by Holm, alpha / m is on the safe side.

    Returns:
        A difference in the unit of the deviation, at least 0; nan below two folds.

    Raises:
        ValueError: If the deviation is negative or not finite, or not 0 < alpha < power < 1.

    References:
        Cohen (1988), Statistical Power Analysis for the Behavioral Sciences, chapter 2;
        Hoeffding (1952), The large-sample power of tests based on permutations of observations.

    Example:
        40 folds whose differences deviate by 10 points show 4.5 of them in four of five trials:

        >>> round(detectable_difference(10, 40), 1)
        4.5
    """
    if not 0 <= sd < math.inf:
        raise ValueError(f"a deviation is at least 0, got {sd}")
    if not 0 < alpha < power < 1:
        raise ValueError(f"0 < alpha < power < 1 is wanted, got alpha {alpha} and power {power}")
    if n < 2:
        return math.nan
    critical = float(stats.t.ppf(1 - alpha / 2, n - 1))

    def lacking(shift: float) -> float:
        beyond = [stats.nct.sf(critical, n - 1, each) for each in (shift, -shift)]
        return power - float(np.sum(beyond))  # of the other tail, nct.cdf may give nan

    most = critical
    while lacking(most) > 0:
        most *= 2
    return float(brentq(lacking, 0.0, most)) * sd / math.sqrt(n)


N_FLIPS = 10_000
EXACT = 16
"""Of so many differences other than 0, or fewer, every flip is tried: 2^16 of them."""
_BLOCK = 1000
TIE = 1e-6
"""What counts as equal, of the sum of all absolute differences: values are stored in single
precision."""


def sign_flip_p(
    differences: FloatArray,
    units: IntArray | None = None,
    *,
    n_flips: int = N_FLIPS,
    seed: int = SEED,
) -> float:
    """Test whether the mean of paired differences is other than 0, by flipping their signs.

    Differences of 0 flip to themselves. Where no more than `EXACT` others are left, every flip is
    tried and p is exact: the share of flips whose mean is at least as far from 0. Of more, flips
    are drawn, and the one that was observed counts as one of them, so that p is valid too.

    Args:
        differences: Of each query's two values, (q,); nan is left out.
        units: The unit of each query, numbered from 0, (q,); by default each is its own.
        n_flips: How many flips to draw, m.
        seed: Of the draw.

    Returns:
        p, two-sided: exact, or (b + 1) / (m + 1) where b of m flips came as far; 1 where nothing
        differs, nan without a query.

    Raises:
        ValueError: If the shapes differ.

    References:
        Phipson and Smyth (2010), Permutation p-values should never be zero, equation 2.

    Example:
        Of the 8 flips of three differences, only +++ and --- come as far as they are:

        >>> sign_flip_p(np.array([0.5, 0.25, 0.0, 0.5]))
        0.25
    """
    if differences.ndim != 1 or (units is not None and units.shape != differences.shape):
        shapes = [differences.shape] + ([] if units is None else [units.shape])
        raise ValueError(f"one difference and one unit a query are wanted, got {shapes}")
    defined = ~np.isnan(differences)
    if not defined.any():
        return float("nan")
    sums = unit_sums(differences[defined][None, :], None if units is None else units[defined])[0]
    moving = sums[sums != 0]
    far = abs(moving.sum()) - TIE * np.abs(moving).sum()
    if len(moving) <= EXACT:
        return float(np.mean(np.abs(_all_flipped(moving)) >= far))
    n_far = sum(
        int((np.abs(flipped) >= far).sum()) for flipped in flipped_sums(moving[None], n_flips, seed)
    )
    return (n_far + 1) / (n_flips + 1)


def unit_sums(values: FloatArray, units: IntArray | None) -> FloatArray:
    """Add up the values of the queries of each unit, (n, u) from (n, q), in double precision."""
    values = np.asarray(values, np.float64)
    if units is None:
        return values
    order = np.argsort(units, kind="stable")
    _, first = np.unique(units[order], return_index=True)
    summed: FloatArray = np.add.reduceat(values[:, order], first, axis=1)
    return summed


def flipped_sums(
    sums: FloatArray, n_flips: int = N_FLIPS, seed: int = SEED
) -> Iterator[FloatArray]:
    """Flip the signs of units at random, the same for all rows, and add each row up.

    Sums are linear: those of the difference of two rows are the difference of theirs, so that all
    pairs of encoders share the flips, and one matrix product serves them.

    Args:
        sums: Of each unit, (n, u).
        n_flips: How many flips to draw.
        seed: Of the draw.

    Yields:
        The flipped sums, some flips at a time, (f, n).
    """
    generator = np.random.default_rng(seed)
    n_units = sums.shape[1]
    for start in range(0, n_flips, _BLOCK):
        n_drawn = min(_BLOCK, n_flips - start)
        drawn = generator.integers(256, size=(n_drawn, -(-n_units // 8)), dtype=np.uint8)
        kept = np.unpackbits(drawn, axis=1, count=n_units).astype(np.float64)
        yield 2 * (kept @ sums.T) - sums.sum(axis=1)


def _all_flipped(sums: FloatArray) -> FloatArray:
    """Every flip of these sums, added up, (2^u,)."""
    flipped = np.zeros(1)
    for each in sums:
        flipped = np.concatenate([flipped + each, flipped - each])
    return flipped
