"""The equations that pytorch-metric-learning ("the library") does not implement.

All are pure functions of vectors, labels and proxies.

Shapes: m vectors, d dimensions, c classes, k proxies of a class.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, normalize

Formula = Callable[[Tensor, Tensor], Tensor]
"""Maps vectors (m, d) and labels (m,) to a scalar."""


def n_pairs(vectors: Tensor, labels: Tensor) -> Tensor:
    """Contrast each anchor's positive with all its negatives by dot products: equation 2.

    The equation has one positive per anchor and does not say which one of the batch. This function
    takes the mean over all possible positives instead of drawing one. The library takes one pair of
    each class, so only two pairs of a batch if there are two classes.

    Args:
        vectors: Vectors of any norm, at least two of the same class and two of different classes,
            (m, d).
        labels: Class of each vector, (m,).

    Returns:
        The mean over the anchors that have a positive; at least 0.

    References:
        Sohn (2016), Improved deep metric learning with multi-class N-pair loss objective.

    Example:
        The first two vectors are each other's positive (dot product 1), with one negative (dot
        product 0); the third has no positive:

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
    """Return a formula that divides a sum over anchors by the number of anchors with a positive."""

    def mean(vectors: Tensor, labels: Tensor) -> Tensor:
        has_positive = _others(labels[:, None] == labels).any(dim=1)
        return summed(vectors, labels) / has_positive.sum()

    return mean


def _others(same: Tensor) -> Tensor:
    """Return the mask without its diagonal: no vector is its own positive."""
    return same & ~torch.eye(len(same), dtype=torch.bool, device=same.device)


def proxy_nca(vectors: Tensor, labels: Tensor, proxies: Tensor, *, scale: float = 1.0) -> Tensor:
    """Contrast the distance to the own class's proxy with those to the others: equation 4.

    The distance is Euclidean, between unit vectors as in the method's own paper. If a vector equals
    a proxy, the distance and its gradient are 0. The denominator does not include the own proxy, so
    the loss can be negative; without normalisation it would have no lower bound. The library
    squares the distance and includes the own proxy in the denominator.

    Args:
        vectors: Vectors of any norm, (m, d).
        labels: Class of each vector, below c, (m,).
        proxies: One proxy per class, of any norm, at least two, (c, d).
        scale: Factor of the distances, above 0.

    Returns:
        The mean over the vectors; at least -2 · scale.

    References:
        Movshovitz-Attias et al. (2017), https://arxiv.org/abs/1703.07464

    Example:
        The vector has the direction of its proxy; the other proxy, at a right angle, is √2 away:

        >>> proxies = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
        >>> proxy_nca(torch.tensor([[3.0, 0.0]]), torch.tensor([0]), proxies)
        tensor(-1.4142)
    """
    # The faster computation by a matrix product is inexact for small distances
    mode = "donot_use_mm_for_euclid_dist"
    distances = torch.cdist(normalize(vectors), normalize(proxies), compute_mode=mode)
    own = labels[:, None] == torch.arange(len(proxies), device=labels.device)
    others = (-scale * distances).masked_fill(own, -torch.inf).logsumexp(dim=1)
    return (scale * distances.gather(1, labels[:, None])[:, 0] + others).mean()
