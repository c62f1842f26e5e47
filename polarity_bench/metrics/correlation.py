"""Rank correlation, with its bootstrap interval.

Shapes: n pairs.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from polarity_bench.metrics.statistics import N_SAMPLES, SEED, interval
from polarity_bench.types import FloatArray

_BLOCK = 100


def spearman_interval(
    one: FloatArray, other: FloatArray, n_samples: int = N_SAMPLES, seed: int = SEED
) -> tuple[float, float]:
    """Bootstrap Spearman's rank correlation over the pairs.

    Args:
        one: One value of each pair, (n,).
        other: The other, (n,).
        n_samples: How many samples of n pairs to draw with replacement.
        seed: Seed of the draws.

    Returns:
        The 95 % percentile interval, in [-1, 1]; nan if every sample has a constant side.
    """
    generator = np.random.default_rng(seed)
    found = []
    for start in range(0, n_samples, _BLOCK):
        n_drawn = min(_BLOCK, n_samples - start)
        drawn = generator.integers(len(one), size=(n_drawn, len(one)))
        x, y = (_centred_ranks(side[drawn]) for side in (one, other))
        norms = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
        found.append(np.where(norms > 0, (x * y).sum(axis=1) / np.maximum(norms, 1e-300), np.nan))
    return interval(np.concatenate(found))


def _centred_ranks(values: FloatArray) -> FloatArray:
    ranks = rankdata(values, axis=1)
    centred: FloatArray = ranks - ranks.mean(axis=1, keepdims=True)
    return centred
