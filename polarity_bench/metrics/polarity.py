"""Polarity metrics: how many of the k nearest sources have the query's label.

The inputs are labels in the order of the ranks, because `retrieval` has sorted the sources and
broken ties. Each metric returns one value per query in [0, 1]; higher is better.

Shapes: n sources, q queries, k ranks.
"""

from __future__ import annotations

import math

import numpy as np

from polarity_bench.errors import InputError
from polarity_bench.scores import WEIGHTINGS
from polarity_bench.values import BoolArray, FloatArray, IntArray

_VOTED_AT_ONCE = 1024
"""Number of queries whose votes are counted at once, each for every label."""


def rank_weights(k: int, weighting: str) -> FloatArray:
    """Return the weights of the ranks 1 to k, which sum to 1.

    Args:
        k: Number of ranks.
        weighting: Name of the weighting: `linear` is the papers' equation, and `uniform` is their
            released code.

    Returns:
        The weight of each rank, (k,).

    Raises:
        InputError: If a weighting of another package gives no k weights with the sum 1.

    References:
        Jørgensen and Breitung (2025), Margins in Contrastive Learning, section 3.1.

    Example:
        >>> rank_weights(3, "linear") * 6  # 2 (k + 1 - i) / (k (k + 1))
        array([3., 2., 1.])
    """
    weights = np.asarray(WEIGHTINGS[weighting].weights(k), dtype=np.float64)
    is_right = weights.shape == (k,) and bool((weights >= 0).all())  # NaN is not at least 0
    if not is_right or not math.isclose(weights.sum(), 1, abs_tol=1e-9):
        shown = np.array2string(weights, precision=4, threshold=6)
        raise InputError(
            f"{WEIGHTINGS.label(weighting)}: for k = {k}, expected {k} weights of at least 0 with "
            f"the sum 1, got {shown}; correct the weighting, or uninstall the package"
        )
    return weights


def polarity(hits: BoolArray, weighting: str) -> FloatArray:
    """Return the Polarity Score P, the sum of the rank weights of same-label sources.

    Args:
        hits: Whether each retrieved source has the query's label, (q, k).
        weighting: Weighting of the ranks.

    Returns:
        P of each query, (q,).

    References:
        Jørgensen and Breitung (2025), Margins in Contrastive Learning, equation 1.

    Example:
        >>> polarity(np.array([[True, False, True]]), "linear")  # 3/6 + 1/6
        array([0.66666667])
    """
    return np.asarray(hits @ rank_weights(hits.shape[1], weighting))


def chance_polarity(query_labels: IntArray, source_labels: IntArray) -> FloatArray:
    """Return P of random retrieval, the share of sources with the query's label.

    Args:
        query_labels: Label of each query, (q,), from 0.
        source_labels: Label of each source, (n,), from 0.

    Returns:
        The share for each query, (q,).

    Example:
        >>> chance_polarity(np.array([0, 1]), np.array([0, 0, 0, 1]))
        array([0.75, 0.25])
    """
    n_labels = int(max(query_labels.max(), source_labels.max())) + 1
    counts = np.bincount(source_labels, minlength=n_labels)
    return np.asarray(counts[query_labels] / len(source_labels))


def neighbour_vote(query_labels: IntArray, found_labels: IntArray, weighting: str) -> FloatArray:
    """Classify each query by the weighted vote of its k nearest sources.

    If labels tie, the label that occurs at the better rank wins.

    Args:
        query_labels: Label of each query, (q,), from 0.
        found_labels: Label of each retrieved source, (q, k), from 0.
        weighting: Weighting of the ranks.

    Returns:
        1 if the vote is the query's label, otherwise 0, (q,).

    References:
        Dudani (1976), The distance-weighted k-nearest-neighbor rule.

    Example:
        The first vote is 1/2 against 1/2, and label 1 comes first:

        >>> neighbour_vote(np.array([1, 0]), np.array([[1, 0], [1, 1]]), "uniform")
        array([1., 0.])
    """
    n_labels = int(max(query_labels.max(), found_labels.max())) + 1
    right = np.zeros(len(query_labels))
    for start in range(0, len(right), _VOTED_AT_ONCE):
        block = slice(start, start + _VOTED_AT_ONCE)
        right[block] = _winners(found_labels[block], n_labels, weighting) == query_labels[block]
    return right


def _winners(found_labels: IntArray, n_labels: int, weighting: str) -> IntArray:
    """Return the label with the greatest vote of each query, (q,)."""
    n_queries, k = found_labels.shape
    rows = np.arange(n_queries)
    votes = np.zeros((n_queries, n_labels))
    first_rank = np.full((n_queries, n_labels), k)
    for rank, weight in enumerate(rank_weights(k, weighting)):
        labels = found_labels[:, rank]
        votes[rows, labels] += weight
        first_rank[rows, labels] = np.minimum(first_rank[rows, labels], rank)
    leading = votes >= votes.max(axis=1, keepdims=True) - 1e-9
    return np.asarray(np.where(leading, first_rank, k).argmin(axis=1))
