"""Correlations and their bootstrap samples, for one encoder or for many encoders.

Shapes: n pairs, b bootstrap samples.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from polarity_bench.metrics.statistics import draws, interval, ratio
from polarity_bench.values import FloatArray, IntArray

_ROUNDING = 1e-12
"""Relative variance below which a column counts as constant."""

Coefficient = Literal["pearson", "spearman"]
COEFFICIENTS: tuple[Coefficient, ...] = get_args(Coefficient)


@dataclass(frozen=True)
class Correlation:
    """Correlation of similarities with human scores.

    Attributes:
        pearson: Pearson's correlation, in [-1, 1]; nan if a column is constant.
        spearman: Spearman's rank correlation, in [-1, 1]; nan if a column is constant.
        n: Number of pairs.
    """

    pearson: float
    spearman: float
    n: int


def correlate(similarities: FloatArray, gold: FloatArray) -> Correlation:
    """Compute Pearson's and Spearman's correlation of two columns.

    Args:
        similarities: Similarity of each pair, (n,).
        gold: Human score of each pair, (n,).

    Example:
        >>> correlate(np.array([0.0, 0.5, 0.5, 1.0]), np.array([1.0, 2.0, 3.0, 2.5])).n
        4
    """
    from scipy import stats

    with warnings.catch_warnings():
        # Constant columns need no warning, because their correlation is nan.
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        pearson = stats.pearsonr(similarities, gold).statistic
        spearman = stats.spearmanr(similarities, gold).statistic
    return Correlation(float(pearson), float(spearman), len(gold))


def spearman_interval(one: FloatArray, other: FloatArray) -> tuple[float, float]:
    """Return a bootstrap interval of Spearman's rank correlation, by resampling the pairs.

    Args:
        one: First column, (n,).
        other: Second column, (n,).

    Returns:
        The 95 % percentile interval, in [-1, 1]. Both ends are nan if every sample has a constant
        column, or if there are fewer than six pairs.
    """
    n = len(one)
    samples = [weighted_correlation("spearman", one, other, weights) for _, weights in draws(n)]
    return interval(np.concatenate(samples), n)


def weighted_correlation(
    coefficient: Coefficient, one: FloatArray, other: FloatArray, weights: FloatArray
) -> FloatArray:
    """Correlate two columns in bootstrap samples, which are given as weights of the pairs.

    The result equals the correlation of the resampled columns, but columns are sorted only once.
    The rank of a value in a sample is l + (t + 1) / 2, if l pairs have lower values and t pairs
    have the same value.

    Args:
        coefficient: Correlation coefficient to compute.
        one: First column, (n,).
        other: Second column, (n,).
        weights: Number of times that each pair occurs in each sample, (b, n).

    Returns:
        The correlation in each sample, in [-1, 1], (b,); nan if a column of the sample is constant.

    Raises:
        ValueError: If the shapes do not match.

    References:
        Spearman (1904), The proof and measurement of association between two things. Tied values
        get their mean rank, as in `scipy.stats.spearmanr`.

    Example:
        The first sample contains the pair (1, 1) twice, and the second contains each pair once:

        >>> one, other = np.array([1.0, 2, 3]), np.array([1.0, 3, 2])
        >>> times = np.array([[2.0, 1, 1], [1, 1, 1]])
        >>> weighted_correlation("spearman", one, other, times).round(4)
        array([0.7778, 0.5   ])
    """
    if one.shape != other.shape or one.shape != weights.shape[1:]:
        shapes = [one.shape, other.shape, weights.shape]
        raise ValueError(f"expected two columns (n,) and weights (b, n), got shapes {shapes}")
    sides: list[FloatArray] = [one, other]
    total = weights.sum(axis=1, keepdims=True)
    if coefficient == "spearman":
        x, y = (_weighted_ranks(side, weights) - (total + 1) / 2 for side in sides)
    else:
        sides = [side - side[0] for side in sides]  # The mean of a constant would be rounded.
        means = [(weights @ side)[:, None] / total for side in sides]
        x, y = (side - mean for side, mean in zip(sides, means, strict=True))
    norms = np.sqrt((weights * x**2).sum(axis=1) * (weights * y**2).sum(axis=1))
    return ratio((weights * x * y).sum(axis=1), norms)


def many_correlations(
    coefficient: Coefficient, columns: FloatArray, other: FloatArray, weights: FloatArray
) -> FloatArray:
    """Correlate many columns with another column in each bootstrap sample, by matrix products.

    Pearson's correlation is exact. Spearman's correlation is a first-order approximation:
    resampling changes the ranks of both columns, and the product of both changes is neglected. With
    1,000 pairs or more, the standard deviation over samples is accurate to 0.5 %, while the
    sampling error of 1,000 samples is 2 %. The approximation is exact in a sample that contains
    every pair once.

    Args:
        coefficient: Correlation coefficient to compute.
        columns: Columns to correlate with `other`, (c, n).
        other: The other column, (n,).
        weights: Number of times that each pair occurs in each sample, (b, n). Each row sums to n.

    Returns:
        The correlation of each column in each sample, in [-1, 1], (c, b); nan if either column is
        constant.

    References:
        Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapter 22, on linear
        approximations of bootstrapped statistics.

    Example:
        >>> one, other = np.array([1.0, 2, 3]), np.array([1.0, 3, 2])
        >>> many_correlations("spearman", one[None], other, np.ones((1, 3))).round(4)
        array([[0.5]])
    """
    if coefficient == "pearson":
        return _many_pearson(columns, other, weights)
    total = weights.sum(axis=1)
    y = _weighted_ranks(other, weights) - (total[:, None] + 1) / 2
    weighed = weights * y
    norm = (weighed * y).sum(axis=1)
    once = mean_ranks(other) - (len(other) + 1) / 2
    ranks, above = np.empty(columns.shape), np.empty(columns.shape)
    cubes = np.tile((weights**3).sum(axis=1), (len(columns), 1))
    for i, column in enumerate(columns):
        _, code, counts = np.unique(column, return_inverse=True, return_counts=True)
        ranks[i] = _ranks_of_distinct(counts)[code]
        at = np.bincount(code, once)
        above[i] = (at.sum() - np.cumsum(at) + at / 2)[code]
        if len(counts) < len(column):
            cubes[i] += _cubes_of_ties(code, counts, weights)
    products = ranks @ weighed.T + above @ (weights - 1).T
    return ratio(products, np.sqrt((total**3 - cubes) / 12 * norm))


def mean_ranks(values: FloatArray) -> FloatArray:
    """Return the rank of each value, from 1; equal values get their mean rank, (n,).

    The ranks are those of `scipy.stats.rankdata`, but scipy.stats takes a second to import.
    """
    _, code, counts = np.unique(values, return_inverse=True, return_counts=True)
    return _ranks_of_distinct(counts)[code]


def _ranks_of_distinct(counts: IntArray) -> FloatArray:
    """Return the mean rank of each distinct value, in ascending order of the values."""
    return np.asarray(np.cumsum(counts) - (counts - 1) / 2)


def _many_pearson(columns: FloatArray, other: FloatArray, weights: FloatArray) -> FloatArray:
    """Compute `many_correlations` for Pearson's correlation, (c, b)."""
    total = weights.sum(axis=1)
    x, y = columns - columns.mean(axis=1, keepdims=True), other - other.mean()
    mean_x, mean_y = x @ weights.T / total, weights @ y / total
    products = (x * y) @ weights.T - total * mean_x * mean_y
    square_x = x**2 @ weights.T - total * mean_x**2
    square_y = weights @ y**2 - total * mean_y**2
    square_x[square_x <= _ROUNDING * (columns**2).sum(axis=1, keepdims=True)] = 0.0
    square_y[square_y <= _ROUNDING * (other**2).sum()] = 0.0
    return ratio(products, np.sqrt(square_x * square_y))


def _cubes_of_ties(code: IntArray, counts: IntArray, weights: FloatArray) -> FloatArray:
    """Return the correction for ties in the variance of ranks of each sample, (b,).

    The correction is the sum of cubes of the weights of tied groups, minus the sum of cubes of the
    weights of the pairs in these groups.

    Args:
        code: Number of the distinct value of each pair, (n,).
        counts: Number of pairs with each distinct value.
        weights: Number of times that each pair occurs in each sample, (b, n).
    """
    tied = np.flatnonzero(counts[code] > 1)
    tied = tied[np.argsort(code[tied], kind="stable")]
    starts = np.flatnonzero(np.diff(code[tied], prepend=-1))
    of_tied = weights[:, tied]
    of_ties = np.add.reduceat(of_tied, starts, axis=1)
    return np.asarray((of_ties**3).sum(axis=1) - (of_tied**3).sum(axis=1))


def _weighted_ranks(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the mean rank of each value in each sample, (b, n)."""
    order = np.argsort(values, kind="stable")
    distinct, first, code = np.unique(values[order], return_index=True, return_inverse=True)
    sums = weights[:, order]
    if len(distinct) < len(values):
        sums = np.add.reduceat(sums, first, axis=1)
    ranks = np.cumsum(sums, axis=1) - sums + (sums + 1) / 2
    where = np.empty(len(values), dtype=np.int64)
    where[order] = code
    return np.asarray(ranks[:, where])
