"""Metrics of retrieval with right answers: how early the answers of a query come.

Every metric reads hits: whether the source at each rank is an answer. Values are in [0, 1], and
higher is better. The definitions are those of trec_eval, with answers of equal gain.

Shapes: q queries, k ranks.
"""

from __future__ import annotations

import numpy as np

from polarity_bench.values import BoolArray, FloatArray, IntArray


def recall(hits: BoolArray, n_answers: IntArray) -> FloatArray:
    """Return the share of each query's answers among the k ranks, (q,).

    Example:
        >>> recall(np.array([[False, True]]), np.array([2]))
        array([0.5])
    """
    return np.asarray(hits.sum(axis=1) / n_answers)


def reciprocal_rank(hits: BoolArray) -> FloatArray:
    """Return 1 / rank of each query's first answer, (q,); 0 if no answer is among the k ranks.

    Example:
        >>> reciprocal_rank(np.array([[False, True, True], [False, False, False]]))
        array([0.5, 0. ])
    """
    return np.where(hits.any(axis=1), 1 / (hits.argmax(axis=1) + 1), 0.0)


def ndcg(hits: BoolArray, n_answers: IntArray) -> FloatArray:
    """Return the normalised discounted cumulative gain of each query over the k ranks, (q,).

    References:
        Järvelin and Kekäläinen (2002), https://doi.org/10.1145/582415.582418

    Example:
        The only answer, at rank 3, is worth log2(2) / log2(4):

        >>> ndcg(np.array([[False, False, True]]), np.array([1]))
        array([0.5])
    """
    discount = 1 / np.log2(np.arange(hits.shape[1]) + 2)
    ideal = np.cumsum(discount)[np.minimum(n_answers, len(discount)) - 1]
    return np.asarray((hits * discount).sum(axis=1) / ideal)
