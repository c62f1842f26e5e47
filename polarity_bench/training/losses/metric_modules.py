"""Metric losses as torch modules, which contain the proxies and set the dtype.

Shapes: m vectors, d dimensions, c classes, k proxies of a class.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from polarity_bench.training.losses.metric_formulas import Formula, proxy_nca


class MetricModule(nn.Module):
    """Module that computes a function of vectors and labels in float32 or wider."""

    def __init__(self, formula: Callable[..., Tensor]) -> None:
        super().__init__()
        self.formula = formula

    def forward(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Return the scalar loss of vectors, (m, d), given their labels, (m,)."""
        with torch.autocast(vectors.device.type, enabled=False):
            wide = torch.promote_types(vectors.dtype, torch.float32)
            return self.compute(vectors.to(wide), labels)

    def compute(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of vectors that have dtype float32 or wider."""
        return self.formula(vectors, labels)


class InBatch(MetricModule):
    """Loss that compares the vectors of a batch with each other.

    Attributes:
        n_empty: Number of batches without a positive or without a negative. The number is a buffer,
            so checkpoints contain it and a resumed run continues the count.
    """

    n_empty: Tensor

    def __init__(self, formula: Formula) -> None:
        super().__init__(formula)
        self.register_buffer("n_empty", torch.zeros((), dtype=torch.int64))

    def compute(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Return the loss, or 0 if the batch has no positives or no negatives."""
        counts = torch.unique(labels, return_counts=True)[1]
        if len(counts) < 2 or counts.max() < 2:
            self.n_empty += 1
            return vectors[:0].sum()  # 0 that autograd can differentiate
        return self.formula(vectors, labels)


class NearestProxy(MetricModule):
    """ProxyNCA loss with one learnt proxy per class, initialised as in the library."""

    def __init__(self, n_classes: int, size: int, scale: float) -> None:
        super().__init__(proxy_nca)
        drawn = nn.init.kaiming_uniform_(torch.empty(n_classes, size), a=math.sqrt(5))
        self.proxies = nn.Parameter(drawn[:, None])
        self.scale = scale

    def compute(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Return the loss."""
        proxies = self.proxies[:, 0].to(vectors.dtype)
        return self.formula(vectors, labels, proxies, scale=self.scale)


class LibraryProxies(MetricModule):
    """Proxy loss of pytorch-metric-learning."""

    formula: Any

    @property
    def proxies(self) -> Tensor:
        """Learnt proxies, (c, k, d). The library's own layout depends on the loss."""
        from pytorch_metric_learning.losses import SoftTripleLoss

        has_several = isinstance(self.formula, SoftTripleLoss)
        rows: Tensor = self.formula.fc.T if has_several else self.formula.proxies
        return rows.reshape(self.formula.num_classes, -1, rows.shape[1])
