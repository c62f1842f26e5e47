"""Similarity metrics: how similar the retrieved sources are to the query.

A reference encoder determines the similarity. S is not comparable between references, because the
cosines of one encoder may be around 0.85 and of another around 0.45. `retention` therefore rescales
S: random retrieval scores 0, and the reference's own retrieval scores 1.

Shapes: q queries, k ranks.
"""

from __future__ import annotations

import numpy as np

from polarity_bench.metrics.pareto_front import lift
from polarity_bench.metrics.polarity import rank_weights
from polarity_bench.values import FloatArray, IntArray


def similarity(reference_cosine: FloatArray, weighting: str) -> FloatArray:
    """Return the Semantic Similarity Score S, the weighted mean of the cosines over the ranks.

    Args:
        reference_cosine: Cosine similarity, by the reference encoder, of each query and the sources
            that the encoder under test retrieved, (q, k).
        weighting: Weighting of the ranks.

    Returns:
        S of each query, (q,), in [-1, 1].

    References:
        Jørgensen and Breitung (2025), Margins in Contrastive Learning, equation 2.

    Example:
        >>> similarity(np.array([[0.9, 0.6]]), "linear")  # 2/3 * 0.9 + 1/3 * 0.6
        array([0.8])
    """
    return np.asarray(reference_cosine @ rank_weights(reference_cosine.shape[1], weighting))


def retention(s: FloatArray, s_random: FloatArray, s_reference: FloatArray) -> FloatArray:
    """Rescale S so that random retrieval is 0 and the reference's own retrieval is 1.

    Args:
        s: Mean S of the encoder under test.
        s_random: Mean S of random retrieval.
        s_reference: Mean S of the reference encoder's own retrieval.

    Returns:
        (s - s_random) / (s_reference - s_random), which is 1 for the reference itself, 0 at chance,
        and nan if the reference is not above chance.

    Example:
        >>> retention(np.array(0.4), np.array(0.2), np.array(0.5))
        array(0.66666667)
    """
    gap = np.asarray(s_reference - s_random, dtype=np.float64)
    safe = np.where(gap > 1e-9, gap, np.nan)
    return np.asarray((s - s_random) / safe)


def joint(p: FloatArray, p_chance: FloatArray, kept: FloatArray) -> FloatArray:
    """Return the joint score, the harmonic mean of lift and retention.

    The lift is (p - p_chance) / (1 - p_chance). Retention is clipped to [-1, 1]. If the lift or
    retention is negative, the score is minus the harmonic mean of their absolute values, so that
    noise below chance cancels noise above chance in means. Tables show a score below 0 as 0 (see
    `Metric.shown`).

    Args:
        p: Mean P.
        p_chance: Mean P of random retrieval.
        kept: Retention.

    Returns:
        The joint score, higher is better; 0 if the lift or retention is 0. It is in [-1, 1] if
        p_chance is at most 0.5.

    Example:
        >>> joint(np.array([0.75, 0.25]), np.array(0.5), np.array([1.0, 1.0]))  # 2 * 0.5 / 1.5
        array([ 0.66666667, -0.66666667])
    """
    lifted, kept = lift(p, p_chance), np.clip(kept, -1.0, 1.0)
    total = np.abs(lifted) + np.abs(kept)
    mean = 2 * np.abs(lifted) * np.abs(kept) / np.where(total > 0, total, 1.0)
    is_0 = (lifted == 0) | (kept == 0)
    return np.where(is_0, 0.0, np.where(np.minimum(lifted, kept) < 0, -mean, mean))


def overlap(found: IntArray, reference_found: IntArray) -> FloatArray:
    """Return the share of the k retrieved sources that the reference encoder also retrieves.

    Args:
        found: Positions of the sources that the encoder under test retrieved, (q, k), distinct in
            each row.
        reference_found: Positions of the sources that the reference retrieved, (q, k), distinct in
            each row.

    Returns:
        The share for each query, (q,).

    Example:
        >>> overlap(np.array([[3, 1, 2]]), np.array([[1, 3, 9]]))
        array([0.66666667])
    """
    positions = np.sort(np.concatenate([found, reference_found], axis=1), axis=1)
    return np.asarray((positions[:, 1:] == positions[:, :-1]).sum(axis=1) / found.shape[1])


def cosine(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the cosine of each pair of rows in float64, (n,).

    Args:
        first: First vector of each pair, (n, d).
        second: Second vector of each pair, (n, d).

    Raises:
        ValueError: If the shapes differ, or if a vector is zero.

    Example:
        >>> cosine(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[0.0, 2.0], [3.0, 3.0]]))
        array([0., 1.])
    """
    first, second = (side.astype(np.float64) for side in (first, second))
    products = dot(first, second)
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    if not norms.all():
        raise ValueError(
            f"pair {int(np.argmin(norms))} has a zero vector, but cosines need vectors that are "
            "not zero"
        )
    return np.asarray(products / norms)


def dot(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the inner product of each pair of rows in float64, (n,).

    Args:
        first: First vector of each pair, (n, d).
        second: Second vector of each pair, (n, d).

    Raises:
        ValueError: If the shapes differ.

    Example:
        >>> dot(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[0.0, 2.0], [3.0, 3.0]]))
        array([0., 6.])
    """
    if first.shape != second.shape:
        raise ValueError(
            f"both sides must have the same shape, got {first.shape} and {second.shape}"
        )
    return np.asarray(np.einsum("nd,nd->n", first.astype(np.float64), second))
