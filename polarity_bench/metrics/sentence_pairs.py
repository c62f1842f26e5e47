"""Metrics over sentence pairs: minimal pairs and randomly drawn pairs.

Shapes: p pairs, c comparisons.
"""

from __future__ import annotations

import numpy as np

from polarity_bench.metrics.correlation import mean_ranks
from polarity_bench.values import BoolArray, FloatArray, IntArray


def draw_pairs(
    n_queries: int, n_sources: int, n_pairs: int, seed: int
) -> tuple[IntArray, IntArray]:
    """Draw pairs of a query and a source, uniformly and with replacement.

    Args:
        n_queries: Number of queries.
        n_sources: Number of sources.
        n_pairs: Number of pairs to draw, p.
        seed: Seed of the draw.

    Returns:
        Positions of the queries and of the sources, (p,) each.
    """
    generator = np.random.default_rng(seed)
    return generator.integers(n_queries, size=n_pairs), generator.integers(n_sources, size=n_pairs)


def sentiment_guided_similarity(cosine: FloatArray, same_label: BoolArray) -> float:
    """Return SgTS (sentiment-guided textual similarity).

    SgTS is the rank correlation between the cosine of a pair and the equality of its labels.

    Args:
        cosine: Cosine similarity of each pair, (p,).
        same_label: Whether both sentences have the same label, (p,).

    Returns:
        Spearman's rank correlation with ties, in [-1, 1]; nan if either side is constant.

    References:
        Kim et al. (2024), SentiCSE: A Sentiment-aware Contrastive Sentence Embedding Framework
        with Sentiment-guided Textual Similarity.

    Example:
        >>> round(sentiment_guided_similarity(np.array([0.9, 0.8, 0.1]), np.array([1, 1, 0])), 6)
        0.866025
    """
    ranks, equal = mean_ranks(cosine), same_label.astype(np.float64)
    if np.ptp(ranks) == 0 or np.ptp(equal) == 0:
        return float("nan")
    return float(np.corrcoef(ranks, equal)[0, 1])


def pairwise_accuracy(
    same: FloatArray, opposite: FloatArray, twin_same: FloatArray, twin_opposite: FloatArray
) -> FloatArray:
    """Score comparisons of two minimal pairs, one of queries and one of sources.

    A minimal pair consists of two twins with opposite polarity on the same subject. A comparison is
    correct if each query is strictly nearer to the source of its own polarity than to that source's
    twin. Random vectors are correct in a quarter of comparisons, and a constant encoder is never
    correct.

    Args:
        same: Cosine of each query to the source of its own polarity, (c,).
        opposite: Cosine of each query to that source's twin, (c,).
        twin_same: Cosine of the query's twin to the source of the twin's polarity, (c,).
        twin_opposite: Cosine of the query's twin to that source's twin, (c,).

    Returns:
        1 if both queries are correct, otherwise 0, (c,).

    References:
        Weller et al. (2023), NevIR: Negation in Neural Information Retrieval.

    Example:
        >>> one, half = np.array([1.0]), np.array([0.5])
        >>> pairwise_accuracy(one, half, one, half), pairwise_accuracy(one, half, half, one)
        (array([1.]), array([0.]))
    """
    return ((same > opposite) & (twin_same > twin_opposite)).astype(np.float64)
