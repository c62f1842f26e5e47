"""Semantic textual similarity without training: does cosine rank pairs as people do?

Each subset of a year (STS12 to STS16) is correlated on its own. Three figures sum a year up, and
publications differ in which they print: `mean` over the subsets, `weighted` by their number of
pairs (the toolkit's wmean), and `all`, one correlation over all pairs laid together (SimCSE,
mteb). Correlations are in [-1, 1]; one with a constant is undefined: nan.

Shapes: n pairs, d dimensions.

References:
    Agirre et al. (2012), SemEval-2012 task 6, https://aclanthology.org/S12-1051
    Gao et al. (2021), SimCSE, appendix B, https://arxiv.org/abs/2104.08821
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from polarity_bench.types import FloatArray

__all__ = ["Correlation", "StsOutcome", "correlate", "cosine", "sts"]


@dataclass(frozen=True)
class Correlation:
    """Correlation of similarities with people's scores, over n pairs."""

    pearson: float
    spearman: float
    n: int


@dataclass(frozen=True)
class StsOutcome:
    """What one year of STS measured.

    Attributes:
        subsets: Each subset's correlation, by name.
        mean: The mean over subsets.
        weighted: The mean over subsets, weighted by their pairs.
        all: The correlation over all pairs together.
    """

    subsets: Mapping[str, Correlation]
    mean: Correlation
    weighted: Correlation
    all: Correlation


def cosine(first: FloatArray, second: FloatArray) -> FloatArray:
    """Compute the cosine of each pair in float64, (n,) from two (n, d).

    Raises:
        ValueError: If the shapes differ or a vector is zero: it has no direction.

    Example:
        >>> cosine(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[0.0, 2.0], [3.0, 3.0]]))
        array([0., 1.])
    """
    if first.shape != second.shape:
        raise ValueError(f"both sides must have one shape, got {first.shape} and {second.shape}")
    first, second = (side.astype(np.float64) for side in (first, second))
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    if not norms.all():
        raise ValueError(f"pair {int(np.argmin(norms))} has a zero vector, which has no cosine")
    cosines: FloatArray = np.einsum("nd,nd->n", first, second) / norms
    return cosines


def sts(similarities: Mapping[str, FloatArray], gold: Mapping[str, FloatArray]) -> StsOutcome:
    """Correlate similarities with people's scores, subset by subset.

    Args:
        similarities: Of the pairs of each subset, (n,), in the subset's order.
        gold: People's scores of the same pairs, (n,).

    Raises:
        ValueError: If there is no subset, or the two sides do not name the same ones.
    """
    if not gold or similarities.keys() != gold.keys():
        raise ValueError(
            f"similarities of {sorted(similarities)} do not match scores of {sorted(gold)}"
        )
    subsets = {name: correlate(similarities[name], gold[name]) for name in gold}
    return StsOutcome(
        subsets=subsets,
        mean=_average(subsets, weighted=False),
        weighted=_average(subsets, weighted=True),
        all=correlate(
            np.concatenate([similarities[name] for name in gold]),
            np.concatenate([gold[name] for name in gold]),
        ),
    )


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


def _average(subsets: Mapping[str, Correlation], *, weighted: bool) -> Correlation:
    n_pairs = [subset.n for subset in subsets.values()]
    weights = n_pairs if weighted else None
    return Correlation(
        pearson=float(np.average([s.pearson for s in subsets.values()], weights=weights)),
        spearman=float(np.average([s.spearman for s in subsets.values()], weights=weights)),
        n=sum(n_pairs),
    )
