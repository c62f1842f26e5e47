"""Metric losses as modules, which hold the proxies and set the dtype of the computation.

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
    """A formula of vectors and labels, computed in float32 or wider."""

    def __init__(self, formula: Callable[..., Tensor]) -> None:
        super().__init__()
        self.formula = formula

    def forward(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of vectors (m, d) with these labels (m,), a scalar."""
        with torch.autocast(vectors.device.type, enabled=False):
            wide = torch.promote_types(vectors.dtype, torch.float32)
            return self.compute(vectors.to(wide), labels)

    def compute(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of vectors in float32 or wider."""
        return self.formula(vectors, labels)


class InBatch(MetricModule):
    """A loss that compares the vectors of a batch.

    Attributes:
        n_empty: Number of batches without a positive or without a negative. It is part of the
            state, so a resumed run continues the count.
    """

    n_empty: Tensor

    def __init__(self, formula: Formula) -> None:
        super().__init__(formula)
        self.register_buffer("n_empty", torch.zeros((), dtype=torch.int64))

    def compute(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Return the formula's value, or 0 without a gradient if there is nothing to compare."""
        counts = torch.unique(labels, return_counts=True)[1]
        if len(counts) < 2 or counts.max() < 2:
            self.n_empty += 1
            return vectors[:0].sum()
        return self.formula(vectors, labels)


class NearestProxy(MetricModule):
    """`proxy_nca` with one proxy per class, initialised as in the library."""

    def __init__(self, n_classes: int, size: int, scale: float) -> None:
        super().__init__(proxy_nca)
        drawn = nn.init.kaiming_uniform_(torch.empty(n_classes, size), a=math.sqrt(5))
        self.proxies = nn.Parameter(drawn[:, None])
        self.scale = scale

    def compute(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Return the formula's value."""
        proxies = self.proxies[:, 0].to(vectors.dtype)
        return self.formula(vectors, labels, proxies, scale=self.scale)


class LibraryProxies(MetricModule):
    """A proxy loss of pytorch-metric-learning, whose layout of proxies depends on the loss."""

    formula: Any

    @property
    def proxies(self) -> Tensor:
        """The library's learnt proxies, (c, k, d)."""
        from pytorch_metric_learning.losses import SoftTripleLoss

        several = isinstance(self.formula, SoftTripleLoss)
        rows: Tensor = self.formula.fc.T if several else self.formula.proxies
        return rows.reshape(self.formula.num_classes, -1, rows.shape[1])
