"""Metric losses: functions of vectors and labels that are combined with cross-entropy.

Each loss is a dataclass of its parameters, which declares the vectors that the loss reads and
builds a module. Proxy losses learn proxies, which are vectors that represent classes. They read the
state of every token, with the label of the token's text. The other losses compare the texts of a
batch by one vector for each text.

The defaults are those of pytorch-metric-learning ("the library") if the library has the loss. The
library and torch are imported only when a module is built, so the command line can list the losses
without delay.

Equations are numbered as in the few-shot paper (2023), *Revisiting distance metric learning for
few-shot natural language classification*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from polarity_bench.errors import InputError
from polarity_bench.training.parameters import Parameters, parameter

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class MetricLoss(Parameters):
    """Base class of metric losses: scalar functions of vectors, (m, d), and labels, (m,)."""

    family: ClassVar[str] = "loss"
    title: ClassVar[str]
    """Name of the loss in the literature."""
    reads: ClassVar[Literal["tokens", "first"]] = "first"
    """Vectors that the loss reads: the states of all tokens, or one vector for each text."""

    def build(self, n_classes: int, size: int) -> nn.Module:
        """Return the loss as a module, which computes in float32 or wider, even under autocast.

        The only parameters of a proxy loss are its `proxies`, (c classes, k proxies per class, d
        dimensions). Torch's global generator initialises them.

        The other losses need two vectors of the same class and two of different classes. Without
        them, the loss of a batch is 0 with a zero gradient, and `n_empty` counts the batch.

        Args:
            n_classes: Number of classes. Labels are integers from 0 to `n_classes` - 1.
            size: Dimensions of a vector.

        Raises:
            InputError: If there are fewer than two classes.
        """
        if n_classes < 2:
            raise InputError(
                f"the loss {self.name!r} needs at least 2 classes, got {n_classes}; "
                "add rows of another class"
            )
        return self._module(n_classes, size)

    def _module(self, n_classes: int, size: int) -> nn.Module:
        raise NotImplementedError


@dataclass(frozen=True)
class TripletMargin(MetricLoss):
    """Triplet loss: pulls anchors nearer to their positives than to their negatives (equation 1).

    The loss uses all triplets of the batch and squared Euclidean distances between vectors that are
    not normalised. It is the library's `TripletMarginLoss` with
    `LpDistance(normalize_embeddings=False, p=2, power=2)`.

    The equation is a sum, but this loss is the mean over all triplets (`MeanReducer`), because
    cross-entropy and the other equations are means too. The number of triplets grows cubically with
    the batch size, so with a sum the meaning of β would depend on the batch size. The library's
    default is the mean over the triplets that violate the margin. The fewer such triplets are left,
    the more weight that mean gives to each of them.

    References:
        Schroff et al. (2015), FaceNet, https://arxiv.org/abs/1503.03832
    """

    margin: float = parameter(1.0, "minimum gap between the two squared distances", above=0)

    name: ClassVar[str] = "triplet"
    title: ClassVar[str] = "Triplet"

    def _module(self, n_classes: int, size: int) -> nn.Module:
        from pytorch_metric_learning.distances import LpDistance
        from pytorch_metric_learning.losses import TripletMarginLoss
        from pytorch_metric_learning.reducers import MeanReducer

        from polarity_bench.training.losses.metric_modules import InBatch

        distance = LpDistance(normalize_embeddings=False, p=2, power=2)
        return InBatch(TripletMarginLoss(self.margin, distance=distance, reducer=MeanReducer()))


@dataclass(frozen=True)
class NPairs(MetricLoss):
    """N-pair loss: makes anchors more similar to their positive than to negatives (equation 2).

    See `metric_formulas.n_pairs`.
    """

    name: ClassVar[str] = "npairs"
    title: ClassVar[str] = "NPairs"

    def _module(self, n_classes: int, size: int) -> nn.Module:
        from polarity_bench.training.losses.metric_formulas import n_pairs
        from polarity_bench.training.losses.metric_modules import InBatch

        return InBatch(n_pairs)


@dataclass(frozen=True)
class SupCon(MetricLoss):
    """Supervised contrastive loss: contrasts positives with the rest of the batch (equation 3).

    The equation uses dot products. As in the papers that introduced the loss, the vectors are
    normalised first, so similarity is the cosine. The equation is a sum over the anchors, but this
    loss is the mean over the anchors that have a positive. It is the library's `SupConLoss` with
    `SumReducer`, divided by the number of these anchors.

    References:
        Khosla et al. (2020), Supervised Contrastive Learning, https://arxiv.org/abs/2004.11362
        Gunel et al. (2020), https://arxiv.org/abs/2011.01403
    """

    temperature: float = parameter(0.1, "divisor of the cosine similarities", above=0)

    name: ClassVar[str] = "supcon"
    title: ClassVar[str] = "SupCon"

    def _module(self, n_classes: int, size: int) -> nn.Module:
        from pytorch_metric_learning.losses import SupConLoss
        from pytorch_metric_learning.reducers import SumReducer

        from polarity_bench.training.losses.metric_formulas import per_anchor
        from polarity_bench.training.losses.metric_modules import InBatch

        return InBatch(per_anchor(SupConLoss(self.temperature, reducer=SumReducer())))


@dataclass(frozen=True)
class ProxyNCA(MetricLoss):
    """ProxyNCA: pulls vectors nearer to their class's proxy than to other proxies (equation 4).

    See `metric_formulas.proxy_nca`.
    """

    scale: float = parameter(1.0, "multiplier of the distances from vectors to proxies", above=0)

    name: ClassVar[str] = "proxynca"
    title: ClassVar[str] = "ProxyNCA"
    reads: ClassVar[Literal["tokens", "first"]] = "tokens"

    def _module(self, n_classes: int, size: int) -> nn.Module:
        from polarity_bench.training.losses.metric_modules import NearestProxy

        return NearestProxy(n_classes, size, self.scale)


@dataclass(frozen=True)
class SoftTriple(MetricLoss):
    """SoftTriple: makes vectors similar to one of several proxies of their class (equations 5, 6).

    The loss is the library's `SoftTripleLoss` without its regulariser. The similarity is the
    cosine, δ is the margin and λ is the scale. TripleEntropy is this loss combined with
    cross-entropy.

    References:
        Qian et al. (2019), SoftTriple Loss, https://arxiv.org/abs/1909.05235
    """

    proxies_per_class: int = parameter(10, "number of proxies per class", least=1)
    gamma: float = parameter(0.1, "temperature of the softmax over a class's proxies", above=0)
    scale: float = parameter(
        20.0, "multiplier of the similarities between vectors and classes", above=0
    )
    margin: float = parameter(
        0.01, "margin subtracted from the similarity to a vector's class", least=0
    )

    name: ClassVar[str] = "softtriple"
    title: ClassVar[str] = "SoftTriple"
    reads: ClassVar[Literal["tokens", "first"]] = "tokens"

    def _module(self, n_classes: int, size: int) -> nn.Module:
        from pytorch_metric_learning.losses import SoftTripleLoss

        from polarity_bench.training.losses.metric_modules import LibraryProxies

        return LibraryProxies(
            SoftTripleLoss(
                n_classes,
                size,
                centers_per_class=self.proxies_per_class,
                la=self.scale,
                gamma=self.gamma,
                margin=self.margin,
            )
        )


@dataclass(frozen=True)
class ProxyAnchor(MetricLoss):
    """Proxy Anchor: makes each proxy similar to the vectors of its class only (equation 7).

    The loss is the library's `ProxyAnchorLoss`. δ is the margin.

    References:
        Kim et al. (2020), Proxy Anchor Loss, https://arxiv.org/abs/2003.13911
    """

    alpha: float = parameter(
        32.0, "multiplier of the cosine similarities of proxies and vectors", above=0
    )
    margin: float = parameter(
        0.1, "cosine threshold: +margin for the vector's class, -margin for others", least=0
    )

    name: ClassVar[str] = "proxyanchor"
    title: ClassVar[str] = "ProxyAnchor"
    reads: ClassVar[Literal["tokens", "first"]] = "tokens"

    def _module(self, n_classes: int, size: int) -> nn.Module:
        from pytorch_metric_learning.losses import ProxyAnchorLoss

        from polarity_bench.training.losses.metric_modules import LibraryProxies

        return LibraryProxies(
            ProxyAnchorLoss(n_classes, size, margin=self.margin, alpha=self.alpha)
        )


METRIC_LOSSES: dict[str, type[MetricLoss]] = {
    loss.name: loss for loss in (TripletMargin, NPairs, SupCon, ProxyNCA, SoftTriple, ProxyAnchor)
}
"""All metric losses, by name."""
