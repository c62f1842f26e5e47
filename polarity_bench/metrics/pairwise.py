"""Comparison of many encoders: tests of all pairs, Holm's correction and rank ranges.

With n encoders there are n (n - 1) / 2 pairs, for example 124,750 pairs of 500 encoders. Holm's
correction then requires p = 4e-7 for the first pair. 10,000 sign flips or resamples cannot estimate
such a small p. With enough queries, p is therefore computed from the normal distribution. Its
standard deviation is either the root of the sum of squared differences, as for sign flips, or the
standard deviation of the resamples. With few queries, p is computed from sign flips, and all pairs
use the same flips. Matrix products compute the sums of squared differences of all pairs.

A sum of random signs has lighter tails than the normal distribution, because its fourth cumulant is
negative. In the far tail, the normal p is therefore too large rather than too small. The true p is
never larger than 3.18 times the normal p.

Shapes: n encoders, q queries, u units, b bootstrap samples.

References:
    Bentkus and Dzindzalieta (2015), A tight Gaussian bound for weighted sums of Rademacher random
        variables, https://doi.org/10.3150/14-BEJ603
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, stdtr

from polarity_bench.metrics.significance import (
    N_FLIPS,
    TIE,
    detectable_difference,
    flipped_sums,
    holm,
    unit_sums,
)
from polarity_bench.values import BoolArray, FloatArray, IntArray

LEVEL = 0.05
ENOUGH = 25.0
"""Minimum effective number of queries for the normal distribution; below it, signs are flipped.

The effective number is (Σd²)² / Σd⁴ over the differences d. If all differences have the same size,
it equals the number of differences.
"""
_CLOSE = 1e-6
"""Relative sum of squares below which differences are computed directly, without cancellation."""
_STEPS = 256
"""Maximum number of steps of a lattice."""


@dataclass(frozen=True)
class Pairwise:
    """Comparison of all pairs of encoders.

    Attributes:
        scores: Score of each encoder, (n,).
        difference: Score of the row's encoder minus the score of the column's encoder, (n, n).
        error: Standard error of each difference, (n, n).
        p: Two-sided p-value of the null hypothesis of no difference, not corrected for multiple
            tests, (n, n); 1 on the diagonal.
    """

    scores: FloatArray
    difference: FloatArray
    error: FloatArray
    p: FloatArray


@dataclass(frozen=True)
class Moments:
    """Statistics of one task's values, for the comparison of all pairs.

    The moments take most of the computing time. They can be reused for means over other tasks.

    Attributes:
        mean: Mean of each encoder over `n_defined` queries, (n,).
        rows: Sum of the values of each unit, minus the mean over encoders, (n, u).
        step: Step of the lattice of the sums; 0 if they are not on a lattice.
        n_defined: Number of queries that are defined for every encoder.
        squares: Sum of the squared differences over units, for each pair, (n, n).
        fourths: Sum of the fourth powers of the differences over units, for each pair, (n, n).
        variance: Variance of the sum of the differences, for each pair, (n, n).
    """

    mean: FloatArray
    rows: FloatArray
    step: float
    n_defined: int
    squares: FloatArray
    fourths: FloatArray
    variance: FloatArray


def unit_moments(values: FloatArray, units: IntArray | None = None) -> Moments:
    """Compute the moments of one task (see `pairwise_means`).

    Args:
        values: Values per query of every encoder, (n, q). A query that is nan for any encoder is
            left out for all encoders.
        units: Unit of each query, (q,); by default, each query is a unit.

    Raises:
        ValueError: If no query is defined for every encoder.
    """
    defined = ~np.isnan(values).any(axis=0)
    if not (n_defined := int(defined.sum())):
        raise ValueError(
            "every query is undefined for at least one encoder; leave out that encoder"
        )
    defined_values = np.asarray(values[:, defined], np.float64)
    sums = unit_sums(defined_values, None if units is None else units[defined])
    rows = sums - sums.mean(axis=0)
    squares, fourths = _moments(rows)
    mean: FloatArray = defined_values.mean(axis=1)
    return Moments(mean, rows, _step(sums), n_defined, squares, fourths, _variance(rows))


def pairwise_means(tasks: Sequence[Moments]) -> Pairwise:
    """Compare the mean scores of all pairs of encoders on one or more tasks.

    The test is a sign-flip test over the queries of all tasks (see `sign_flip_p`). Every task has
    the same total weight, shared equally by its queries. Values on a lattice, such as 0 and 1, get
    a continuity correction by the smallest step of all tasks, which is conservative for several
    tasks. The test assumes that queries of different tasks are independent.

    Args:
        tasks: The moments of each task, see `unit_moments`.

    Returns:
        The comparison of all pairs. If p comes from flips, it is at least 1 / (`N_FLIPS` + 1).

    Raises:
        ValueError: If there is no task, or if the tasks do not have the same encoders.

    Example:
        The second encoder equals the first. The third is 0.5 lower on each of 100 queries:

        >>> one = np.arange(100) / 100
        >>> comparison = pairwise_means([unit_moments(np.stack([one, one, one - 0.5]))])
        >>> comparison.difference[0].round(6).tolist(), comparison.p[0].round(6).tolist()
        ([0.0, 0.0, 0.5], [1.0, 1.0, 0.0])
    """
    if len({len(task.mean) for task in tasks}) != 1:
        raise ValueError(
            f"every task must have the same encoders, got {[len(t.mean) for t in tasks]} encoders"
        )
    weights = [1 / (task.n_defined * len(tasks)) for task in tasks]
    weighed = list(zip(tasks, weights, strict=True))
    scores = np.mean([task.mean for task in tasks], axis=0)
    squares = sum((w**2 * task.squares for task, w in weighed), np.zeros((len(scores),) * 2))
    fourths = sum((w**4 * task.fourths for task, w in weighed), np.zeros_like(squares))
    error = np.sqrt(sum((w**2 * task.variance for task, w in weighed), np.zeros_like(squares)))
    difference = scores[:, None] - scores[None, :]
    step = min(w * task.step for task, w in weighed)
    p = _normal_p(np.maximum(np.abs(difference) - step, 0), np.sqrt(squares))
    few = (squares > 0) & (squares**2 < ENOUGH * fourths)
    if few.any():
        together = np.hstack([w * task.rows for task, w in weighed])
        p = np.where(few, _sign_flip_p_values(together, few, squares), p)
    return Pairwise(scores, difference, error, p)


def pairwise_resampled(scores: FloatArray, resampled: FloatArray) -> Pairwise:
    """Compare all pairs of encoders by bootstrap samples, for statistics that are not means.

    Args:
        scores: Score of each encoder, (n,).
        resampled: Scores of each encoder over the same resampled queries, (n, b). For a mean over
            tasks, average the samples of the tasks, which must be drawn with different seeds. A
            sample that is nan for any encoder is left out for all encoders.

    Returns:
        The comparison of all pairs. p is computed from the normal distribution, with the standard
        deviation of the resampled differences. If that deviation is 0, p is 1 for equal scores and
        0 otherwise.

    Raises:
        ValueError: If the shapes do not match, or if fewer than two samples are defined for every
            encoder.

    References:
        Efron and Tibshirani (1993), An Introduction to the Bootstrap, algorithm 6.1.

    Example:
        The difference of 0.1 is one standard error:

        >>> scores, samples = np.array([0.5, 0.4]), np.array([[0.4, 0.6, 0.5], [0.4, 0.4, 0.4]])
        >>> comparison = pairwise_resampled(scores, samples)
        >>> comparison.error[0].round(4).tolist(), comparison.p[0].round(4).tolist()
        ([0.0, 0.1], [1.0, 0.3173])
    """
    if resampled.ndim != 2 or scores.shape != resampled.shape[:1]:
        raise ValueError(
            f"scores of shape {scores.shape} do not match samples of shape {resampled.shape}"
        )
    complete = resampled[:, ~np.isnan(resampled).any(axis=0)]
    if complete.shape[1] < 2:
        raise ValueError(
            "at least 2 samples must be defined for every encoder, got "
            f"{complete.shape[1]} of {resampled.shape[1]}"
        )
    error = np.sqrt(_variance(complete - complete.mean(axis=0)) / complete.shape[1])
    difference = scores[:, None] - scores[None, :]
    return Pairwise(scores, difference, error, _normal_p(np.abs(difference), error))


def pairwise_t(values: FloatArray) -> Pairwise:
    """Compare the mean scores of all pairs of encoders by Student's paired t-test.

    The test is for few units, such as the tasks of a benchmark. A sign-flip test of few units
    cannot give the small p-values that Holm's correction of many pairs needs.

    Args:
        values: Score of each encoder on each unit, (n, u), all defined.

    Returns:
        The comparison of all pairs. If a pair has the same difference on all units, p is 1 for
        equal scores and 0 otherwise.

    Raises:
        ValueError: If there are fewer than two units, or a score is undefined.

    References:
        Student (1908), see `significance.paired_t`.

    Example:
        The differences are 1, 2 and 3, as in the example of `paired_t`:

        >>> round(float(pairwise_t(np.array([[2.0, 4.0, 6.0], [1.0, 2.0, 3.0]])).p[0, 1]), 4)
        0.0742
    """
    n_units = values.shape[1]
    if n_units < 2 or not np.isfinite(values).all():
        raise ValueError(f"expected defined scores on at least 2 units, got {values.shape}")
    scores = values.mean(axis=1)
    error = np.sqrt(_variance(values - values.mean(axis=0))) / n_units
    difference = scores[:, None] - scores[None, :]
    t = np.divide(np.abs(difference), error, out=_certain(difference), where=error > 0)
    return Pairwise(scores, difference, error, np.asarray(2 * stdtr(n_units - 1, -t)))


def holm_of_pairs(p: FloatArray) -> FloatArray:
    """Apply Holm's correction to the p-values of all pairs; each pair counts as one test.

    Args:
        p: Uncorrected p-values, symmetric, (n, n).

    Returns:
        Corrected p-values, (n, n); 1 on the diagonal.

    References:
        Holm (1979), see `significance.holm`.
    """
    above = np.triu_indices(len(p), k=1)
    corrected = np.ones_like(p)
    corrected[above] = holm(p[above])
    return np.asarray(np.minimum(corrected, corrected.T))


def rank_ranges(scores: FloatArray, p: FloatArray) -> IntArray:
    """Return the range of ranks of each encoder, from significant differences.

    The best rank is 1 plus the number of significantly better encoders. The worst rank is n minus
    the number of significantly worse encoders. If p is corrected for multiple tests, the ranges
    hold for all encoders simultaneously.

    Args:
        scores: Score of each encoder, higher is better, (n,).
        p: Corrected p-values of the pairs, (n, n). A pair differs if its p is below `LEVEL`.

    Returns:
        Best and worst rank of each encoder, from 1, (n, 2). The rank by score is in this range.

    Raises:
        ValueError: If a score is undefined, or if the shapes do not match.

    References:
        Mogstad et al. (2024), Inference for ranks with applications to mobility across
            neighbourhoods and academic achievement across countries, section 3,
            https://doi.org/10.1093/restud/rdad006

    Example:
        Only the first and the last differ significantly:

        >>> p = np.array([[1.0, 0.2, 0.01], [0.2, 1.0, 0.3], [0.01, 0.3, 1.0]])
        >>> rank_ranges(np.array([0.9, 0.8, 0.7]), p).tolist()
        [[1, 2], [1, 3], [2, 3]]
    """
    lead = scores[:, None] - scores[None, :]
    return rank_ranges_of_pairs(lead, _differ_significantly(scores, p))


def rank_ranges_of_pairs(lead: FloatArray, differ: BoolArray) -> IntArray:
    """Return the ranges of `rank_ranges` from differences of pairs, (n, 2).

    Args:
        lead: Difference of each row's encoder minus each column's, which need not be that of two
            scores, (n, n).
        differ: Whether the pairs differ significantly, (n, n).
    """
    n_better = (differ & (lead < 0)).sum(axis=1)
    n_worse = (differ & (lead > 0)).sum(axis=1)
    return np.column_stack([1 + n_better, len(lead) - n_worse])


def tie_groups(scores: FloatArray, p: FloatArray) -> list[tuple[int, ...]]:
    """Group encoders that do not differ significantly.

    A group is a maximal sequence of encoders, in the order of scores, without significant
    differences. Groups may overlap. An encoder that differs from both neighbours forms a group by
    itself. These groups are the bars of a critical-difference diagram. Two encoders that do not
    differ, but enclose one that differs from one of them, are a further group.

    Args:
        scores: Score of each encoder, higher is better, (n,).
        p: Corrected p-values of the pairs, (n, n). A pair differs if its p is below `LEVEL`.

    Returns:
        The positions of each group's encoders, best first. Each encoder is in at least one group,
        and two encoders are in a common group if and only if they do not differ.

    Raises:
        ValueError: If a score is undefined, or if the shapes do not match.

    References:
        Demšar (2006), Statistical comparisons of classifiers over multiple data sets, JMLR 7,
            section 3.2.4.

    Example:
        Only the first and the last differ significantly:

        >>> p = np.array([[1.0, 0.2, 0.01], [0.2, 1.0, 0.3], [0.01, 0.3, 1.0]])
        >>> tie_groups(np.array([0.9, 0.8, 0.7]), p)
        [(0, 1), (1, 2)]
    """
    significant = _differ_significantly(scores, p)
    order = np.argsort(-scores, kind="stable")
    apart = significant[np.ix_(order, order)]
    groups: list[tuple[int, ...]] = []  # places in the order of scores
    end = 0
    for start in range(len(order)):
        before = end
        while end < len(order) and not apart[start:end, end].any():
            end += 1
        if end > before:  # Otherwise the previous group contains this sequence.
            groups.append(tuple(range(start, end)))
    grouped = np.zeros_like(apart)
    for group in groups:
        grouped[np.ix_(group, group)] = True
    groups += map(tuple, np.argwhere(np.triu(~apart & ~grouped)).tolist())
    return [tuple(order[[*group]].tolist()) for group in sorted(groups)]


def detectable(found: Pairwise, n: int, *, power: float = 0.8, alpha: float = LEVEL) -> float:
    """Return the median of the minimum detectable differences of all pairs of encoders.

    The minimum detectable difference of a pair is `detectable_difference` of its standard error.
    Pairs without any difference are left out. The result applies to a single test, without a
    correction for multiple tests.

    Args:
        found: Comparison of all pairs.
        n: Number of independent units, such as queries or pairs of twins.
        power: Probability of detecting the difference.
        alpha: Level of the two-sided test.

    Returns:
        A difference in the unit of the scores, above 0. It is nan if no pair differs, or if n is
        below 2.

    References:
        Cohen (1988), see `significance.detectable_difference`; Card et al. (2020), With little
            power comes great responsibility, https://aclanthology.org/2020.emnlp-main.745

    Example:
        With 1,000 queries, the result is (1.96 + 0.84) standard errors:

        >>> error = np.array([[0.0, 0.01], [0.01, 0.0]])
        >>> pair = Pairwise(np.zeros(2), np.zeros((2, 2)), error, np.ones((2, 2)))
        >>> round(detectable(pair, 1000), 3)
        0.028
    """
    errors = found.error[np.triu_indices(len(found.error), k=1)]
    differing = errors[errors > 0]
    if not len(differing):
        return math.nan
    factor = detectable_difference(1.0, n, power=power, alpha=alpha) * math.sqrt(n)
    return factor * float(np.median(differing))


def _differ_significantly(scores: FloatArray, p: FloatArray) -> BoolArray:
    """Return whether each pair differs significantly, (n, n)."""
    if p.shape != (len(scores), len(scores)):
        raise ValueError(f"{len(scores)} scores do not match p-values of shape {p.shape}")
    if undefined := int(np.isnan(scores).sum()):
        raise ValueError(
            f"{undefined} of {len(scores)} scores are undefined; leave these encoders out"
        )
    return np.asarray((p < LEVEL) & (scores[:, None] != scores[None, :]))


def _normal_p(distance: FloatArray, deviation: FloatArray) -> FloatArray:
    """Return two-sided p-values of distances from 0, for given standard deviations."""
    z = np.divide(distance, deviation, out=_certain(distance), where=deviation > 0)
    return np.asarray(2 * ndtr(-z))


def _certain(distance: FloatArray) -> FloatArray:
    """Return the number of standard deviations of a distance if the deviation is 0."""
    return np.where(distance != 0, np.inf, 0.0)


def _moments(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the sums of squares and fourth powers of the differences of all rows, (n, n) each."""
    squares, close = _squared_distances(rows)
    second = rows**2
    fourth = (second**2).sum(axis=1)
    mixed = (rows * second) @ rows.T
    fourths = fourth[:, None] + fourth - 4 * (mixed + mixed.T) + 6 * (second @ second.T)
    for i, j in close:
        fourths[i, j] = fourths[j, i] = ((rows[i] - rows[j]) ** 4).sum()
    np.fill_diagonal(fourths, 0.0)
    return squares, fourths


def _variance(rows: FloatArray) -> FloatArray:
    """Return the variance of the sum of differences, for each pair of rows, (n, n).

    It is an unbiased estimate, with n - 1 in the denominator; nan for a single unit.
    """
    n_units = rows.shape[1]
    if n_units < 2:
        return np.full((len(rows), len(rows)), np.nan)
    squares, _ = _squared_distances(rows - rows.mean(axis=1, keepdims=True))
    return np.asarray(squares * (n_units / (n_units - 1)))


def _squared_distances(rows: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the squared distances of all rows, (n, n), and the nearly equal pairs, (pairs, 2)."""
    square = (rows**2).sum(axis=1)
    squares = square[:, None] + square - 2 * (rows @ rows.T)
    close = np.argwhere(np.triu(squares <= _CLOSE * (square[:, None] + square), k=1))
    # The products lose too many digits for rows that are nearly equal, so subtract these rows.
    for i, j in close:
        squares[i, j] = squares[j, i] = ((rows[i] - rows[j]) ** 2).sum()
    np.fill_diagonal(squares, 0.0)
    return squares, close


def _sign_flip_p_values(rows: FloatArray, wanted: BoolArray, squares: FloatArray) -> FloatArray:
    """Return p-values from sign flips for the pairs in the mask `wanted`, (n, n)."""
    observed = rows.sum(axis=1)
    n_far = np.zeros_like(squares)
    tie = TIE * np.sqrt(squares * rows.shape[1])  # This is at least TIE · Σ|d|.
    far = np.abs(observed[:, None] - observed) - tie
    columns = [np.flatnonzero(row) for row in np.triu(wanted)]
    for flipped in flipped_sums(rows, N_FLIPS):
        for i, others in enumerate(columns):
            if len(others):
                distance = np.abs(flipped[:, others] - flipped[:, [i]])
                n_far[i, others] += (distance >= far[i, others]).sum(axis=0)
    return np.asarray((n_far + n_far.T + 1) / (N_FLIPS + 1))


def _step(values: FloatArray) -> float:
    """Return the step of the lattice of the values; 0 if they are not on a lattice."""
    distinct = np.unique(values)
    gaps = np.diff(distinct)
    if not 0 < len(gaps) <= _STEPS:
        return 0.0
    step = float(gaps.min())
    multiples = gaps / step
    return step if bool((np.abs(multiples - np.round(multiples)) < 0.01).all()) else 0.0
