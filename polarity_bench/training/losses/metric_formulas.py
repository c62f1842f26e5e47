"""The equations that pytorch-metric-learning does not compute.

Pure functions of vectors, labels and proxies.

Shapes: m vectors, d dimensions, c classes, k proxies of a class.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, normalize

Formula = Callable[[Tensor, Tensor], Tensor]
"""Vectors (m, d) and labels (m,) to a scalar."""


def n_pairs(vectors: Tensor, labels: Tensor) -> Tensor:
    """Contrast each anchor's positive with all its negatives, by dot product: equation 2.

    The equation gives an anchor one positive and does not say which of the batch; this is the mean
    over all that it might be, so that none is drawn. The library takes one pair of each class,
    which is two of a batch where there are two classes.

    Args:
        vectors: Of any norm, two of one class and two of different ones among them, (m, d).
        labels: Their classes, (m,).

    Returns:
        The mean over the anchors that have a positive, at least 0.

    References:
        Sohn (2016), Improved deep metric learning with multi-class N-pair loss objective.

    Example:
        The first two have each other and one negative, at dot products 1 and 0, the third none:

        >>> vectors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> n_pairs(vectors, torch.tensor([0, 0, 1]))  # log(1 + e^(0 - 1))
        tensor(0.3133)
    """
    similarity = vectors @ vectors.T
    same = labels[:, None] == labels
    positive = _others(same)
    negatives = similarity.masked_fill(same, -torch.inf).logsumexp(dim=1, keepdim=True)
    losses = -logsigmoid(similarity - negatives) * positive
    n_positives = positive.sum(dim=1)
    return (losses.sum(dim=1) / n_positives.clamp(min=1)).sum() / (n_positives > 0).sum()


def per_anchor(summed: Formula) -> Formula:
    """Divide what a formula sums over anchors by the number of those that have a positive."""

    def mean(vectors: Tensor, labels: Tensor) -> Tensor:
        has_positive = _others(labels[:, None] == labels).any(dim=1)
        return summed(vectors, labels) / has_positive.sum()

    return mean


def _others(same: Tensor) -> Tensor:
    """All but the diagonal, as nothing is its own positive."""
    return same & ~torch.eye(len(same), dtype=torch.bool, device=same.device)


def proxy_nca(vectors: Tensor, labels: Tensor, proxies: Tensor, *, scale: float = 1.0) -> Tensor:
    """Contrast the distance to the own class's proxy with those to the others: equation 4.

    The distance is Euclidean, between unit vectors as in the method's own paper, and 0 where a
    vector lies on a proxy, with a gradient of 0. The own proxy is no part of the denominator, so
    that the loss may be negative; of vectors of any length it would have no lower bound at all. The
    library squares the distance and has the own proxy in the denominator.

    Args:
        vectors: Of any norm, (m, d).
        labels: Their classes, below c, (m,).
        proxies: One of each class, of any norm, at least two, (c, d).
        scale: What distances are multiplied by, above 0.

    Returns:
        The mean over the vectors, at least -2 · scale.

    References:
        Movshovitz-Attias et al. (2017), https://arxiv.org/abs/1703.07464

    Example:
        The vector lies on its proxy; the other, at a right angle, is √2 away:

        >>> proxies = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
        >>> proxy_nca(torch.tensor([[3.0, 0.0]]), torch.tensor([0]), proxies)
        tensor(-1.4142)
    """
    # Exact where two are near, which the faster way by a matrix product is not
    mode = "donot_use_mm_for_euclid_dist"
    distances = torch.cdist(normalize(vectors), normalize(proxies), compute_mode=mode)
    own = labels[:, None] == torch.arange(len(proxies), device=labels.device)
    others = (-scale * distances).masked_fill(own, -torch.inf).logsumexp(dim=1)
    return (scale * distances.gather(1, labels[:, None])[:, 0] + others).mean()
