"""Metric losses that pytorch-metric-learning ("the library") defines differently from the papers.

They are pure functions. The equations are those of the few-shot paper; see `metric`.

Shapes: m vectors, d dimensions, c classes, k proxies of a class.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, normalize

Formula = Callable[[Tensor, Tensor], Tensor]
"""Function of vectors, (m, d), and labels, (m,), that returns a scalar."""


def n_pairs(vectors: Tensor, labels: Tensor) -> Tensor:
    """Return the N-pair loss (equation 2): each positive against all negatives of its anchor.

    Similarity is the dot product. The equation has one positive for each anchor, but does not
    define which text of the batch is the positive. This function takes the mean over all possible
    positives. The library uses only one pair of each class, so with two classes only two pairs of a
    batch.

    Args:
        vectors: Vectors of any norm, (m, d). At least two have the same class, and at least two
            have different classes.
        labels: Class of each vector, (m,).

    Returns:
        The mean over the anchors that have a positive, at least 0.

    References:
        Sohn (2016), Improved deep metric learning with multi-class N-pair loss objective.

    Example:
        The first two vectors are positives of each other (dot product 1) and have one negative (dot
        product 0). The third vector has no positive:

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
    """Turn a sum over anchors into the mean over the anchors that have a positive."""

    def mean(vectors: Tensor, labels: Tensor) -> Tensor:
        has_positive = _others(labels[:, None] == labels).any(dim=1)
        return summed(vectors, labels) / has_positive.sum()

    return mean


def _others(same: Tensor) -> Tensor:
    """Return a mask, (m, m), with a false diagonal, because no vector is its own positive."""
    return same & ~torch.eye(len(same), dtype=torch.bool, device=same.device)


def proxy_nca(vectors: Tensor, labels: Tensor, proxies: Tensor, *, scale: float = 1.0) -> Tensor:
    """Return the ProxyNCA loss (equation 4): distance to a vector's proxy versus other proxies.

    The distance is Euclidean. Vectors and proxies are normalised first, as in the paper that
    introduced ProxyNCA. If a vector equals a proxy, the distance and its gradient are 0.

    The denominator excludes the proxy of the vector's class, so the loss can be negative. Without
    normalisation, the loss would have no lower bound. The library squares the distance and includes
    this proxy in the denominator.

    Args:
        vectors: Vectors of any norm, (m, d).
        labels: Class of each vector, from 0 to c - 1, (m,).
        proxies: One proxy per class, of any norm, for at least two classes, (c, d).
        scale: Multiplier of the distances, above 0.

    Returns:
        The mean over the vectors, at least -2 · scale.

    References:
        Movshovitz-Attias et al. (2017), https://arxiv.org/abs/1703.07464

    Example:
        The vector has the same direction as its proxy. The other proxy is orthogonal to the vector,
        so their distance is √2:

        >>> proxies = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
        >>> proxy_nca(torch.tensor([[3.0, 0.0]]), torch.tensor([0]), proxies)
        tensor(-1.4142)
    """
    # The default mode uses a matrix product, which is faster but inexact for small distances.
    mode = "donot_use_mm_for_euclid_dist"
    distances = torch.cdist(normalize(vectors), normalize(proxies), compute_mode=mode)
    is_own = labels[:, None] == torch.arange(len(proxies), device=labels.device)
    to_others = (-scale * distances).masked_fill(is_own, -torch.inf).logsumexp(dim=1)
    return (scale * distances.gather(1, labels[:, None])[:, 0] + to_others).mean()
