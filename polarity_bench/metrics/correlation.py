"""Correlation of two columns, and the bootstrap interval of rank correlation.

Shapes: n pairs.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from polarity_bench.metrics.statistics import N_SAMPLES, SEED, interval, ratio
from polarity_bench.types import FloatArray

_BLOCK = 100


@dataclass(frozen=True)
class Correlation:
    """Correlation of similarities with people's scores, over n pairs."""

    pearson: float
    spearman: float
    n: int


def correlate(similarities: FloatArray, gold: FloatArray) -> Correlation:
    """Correlate two columns of equal length.

    Example:
        >>> correlate(np.array([0.0, 0.5, 0.5, 1.0]), np.array([1.0, 2.0, 3.0, 2.5])).n
        4
    """
    from scipy import stats

    if similarities.shape != gold.shape:
        raise ValueError(f"{len(similarities)} similarities do not match {len(gold)} scores")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)  # nan says it
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        pearson = stats.pearsonr(similarities, gold).statistic
        spearman = stats.spearmanr(similarities, gold).statistic
    return Correlation(float(pearson), float(spearman), len(gold))


def spearman_interval(
    one: FloatArray, other: FloatArray, n_samples: int = N_SAMPLES, seed: int = SEED
) -> tuple[float, float]:
    """Bootstrap Spearman's rank correlation of two columns, (n,) each, over the pairs.

    Returns:
        The 95 % percentile interval, in [-1, 1]; nan if every sample has a constant side,
        or there are fewer than six pairs.
    """
    generator = np.random.default_rng(seed)
    found = []
    for start in range(0, n_samples, _BLOCK):
        n_drawn = min(_BLOCK, n_samples - start)
        drawn = generator.integers(len(one), size=(n_drawn, len(one)))
        x, y = (_centred_ranks(side[drawn]) for side in (one, other))
        norms = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
        found.append(ratio((x * y).sum(axis=1), norms))
    return interval(np.concatenate(found), len(one))


def _centred_ranks(values: FloatArray) -> FloatArray:
    ranks = rankdata(values, axis=1)
    centred: FloatArray = ranks - ranks.mean(axis=1, keepdims=True)
    return centred
