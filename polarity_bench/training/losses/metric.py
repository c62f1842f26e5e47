"""Metric losses: losses of vectors and labels, to be combined with cross-entropy.

Each loss is a dataclass of its parameters. It declares which vectors it reads, and builds a module.
Proxy losses read the state of every token, with the label of the token's sentence, and learn
proxies, vectors that represent classes. The other losses compare the sentences of a batch by the
state of the first token. Defaults are those of pytorch-metric-learning ("the library") if it has
the loss. The library and torch are imported only when a module is built, so the command line can
list the losses without delay.

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
    """A scalar loss of vectors (m, d) and their labels (m,)."""

    family: ClassVar[str] = "loss"
    title: ClassVar[str]
    """Name of the loss in the literature."""
    reads: ClassVar[Literal["tokens", "first"]] = "first"
    """What the loss reads: the state of every token, for proxies, or only of each first token."""

    def build(self, n_classes: int, size: int) -> nn.Module:
        """Return the loss as a module; proxies are initialised by torch's global generator.

        The module computes in float32 or wider, even under autocast. A loss that learns proxies has
        them as `proxies` (c classes, k proxies per class, d dimensions), and has no other
        parameters. The other losses give 0, without a gradient, for a batch without two vectors of
        the same class or without two of different classes, and count such batches in `n_empty`.

        Args:
            n_classes: Number of classes; labels are below it.
            size: Dimensions of a vector.

        Raises:
            InputError: If there are fewer than two classes.
        """
        if n_classes < 2:
            raise InputError(f"the loss {self.name!r} needs at least 2 classes, got {n_classes}")
        return self._module(n_classes, size)

    def _module(self, n_classes: int, size: int) -> nn.Module:
        raise NotImplementedError


@dataclass(frozen=True)
class TripletMargin(MetricLoss):
    """Triplet loss: anchors are nearer to their positives than to their negatives (equation 1).

    It is computed over all triplets of the batch, from squared Euclidean distances between the
    vectors without normalisation: the library's `TripletMarginLoss` with
    `LpDistance(normalize_embeddings=False, p=2, power=2)`. The equation is a sum. Here the loss is
    the mean over all triplets (`MeanReducer`), because cross-entropy and the other equations are
    means too: a sum of cubically many terms would change the meaning of β with every batch size.
    The library's own mean is over the triplets that violate the margin, which would give the last
    of them as much weight as the first thousands.

    References:
        Schroff et al. (2015), FaceNet, https://arxiv.org/abs/1503.03832
    """

    margin: float = parameter(1.0, "minimum gap between the two squared distances", above=0)

    name: ClassVar[str] = "triplet"
    title: ClassVar[str] = "Triplet"

    def _module(self, n_classes: int, size: int) -> nn.Module:  # noqa: ARG002
        from pytorch_metric_learning.distances import LpDistance
        from pytorch_metric_learning.losses import TripletMarginLoss
        from pytorch_metric_learning.reducers import MeanReducer

        from polarity_bench.training.losses.metric_modules import InBatch

        distance = LpDistance(normalize_embeddings=False, p=2, power=2)
        return InBatch(TripletMarginLoss(self.margin, distance=distance, reducer=MeanReducer()))


@dataclass(frozen=True)
class NPairs(MetricLoss):
    """N-pair loss: each anchor's positive stands out among its negatives.

    See `metric_formulas.n_pairs`.
    """

    name: ClassVar[str] = "npairs"
    title: ClassVar[str] = "NPairs"

    def _module(self, n_classes: int, size: int) -> nn.Module:  # noqa: ARG002
        from polarity_bench.training.losses.metric_formulas import n_pairs
        from polarity_bench.training.losses.metric_modules import InBatch

        return InBatch(n_pairs)


@dataclass(frozen=True)
class SupCon(MetricLoss):
    """Supervised contrastive loss: positives stand out among all others of the batch (equation 3).

    The equation uses dot products. As in its sources, the vectors are normalised first, so
    similarity is the cosine. The equation sums over the anchors. Here the loss is the mean over the
    anchors that have a positive: the library's `SupConLoss` with `SumReducer`, divided by the
    number of these anchors.

    References:
        Khosla et al. (2020), Supervised Contrastive Learning, https://arxiv.org/abs/2004.11362
        Gunel et al. (2020), https://arxiv.org/abs/2011.01403
    """

    temperature: float = parameter(0.1, "divisor of the cosines", above=0)

    name: ClassVar[str] = "supcon"
    title: ClassVar[str] = "SupCon"

    def _module(self, n_classes: int, size: int) -> nn.Module:  # noqa: ARG002
        from pytorch_metric_learning.losses import SupConLoss
        from pytorch_metric_learning.reducers import SumReducer

        from polarity_bench.training.losses.metric_formulas import per_anchor
        from polarity_bench.training.losses.metric_modules import InBatch

        return InBatch(per_anchor(SupConLoss(self.temperature, reducer=SumReducer())))


@dataclass(frozen=True)
class ProxyNCA(MetricLoss):
    """ProxyNCA: each vector is nearer to its class's proxy than to the others.

    See `metric_formulas.proxy_nca`.
    """

    scale: float = parameter(1.0, "factor of the distances to proxies", above=0)

    name: ClassVar[str] = "proxynca"
    title: ClassVar[str] = "ProxyNCA"
    reads: ClassVar[Literal["tokens", "first"]] = "tokens"

    def _module(self, n_classes: int, size: int) -> nn.Module:
        from polarity_bench.training.losses.metric_modules import NearestProxy

        return NearestProxy(n_classes, size, self.scale)


@dataclass(frozen=True)
class SoftTriple(MetricLoss):
    """SoftTriple: each vector is similar to one of its class's several proxies (equations 5 and 6).

    The library's `SoftTripleLoss`, which uses the cosine, without its regulariser: δ is the margin,
    λ the scale. TripleEntropy is this loss combined with cross-entropy.

    References:
        Qian et al. (2019), SoftTriple Loss, https://arxiv.org/abs/1909.05235
    """

    proxies_per_class: int = parameter(10, "number of proxies per class", least=1)
    gamma: float = parameter(0.1, "temperature of the softmax over a class's proxies", above=0)
    scale: float = parameter(20.0, "factor of the similarities to classes", above=0)
    margin: float = parameter(0.01, "subtracted from the similarity to the own class", least=0)

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
    """Proxy Anchor: each proxy, as an anchor, is similar only to vectors of its class (equation 7).

    The library's `ProxyAnchorLoss`: δ is the margin.

    References:
        Kim et al. (2020), Proxy Anchor Loss, https://arxiv.org/abs/2003.13911
    """

    alpha: float = parameter(32.0, "factor of the cosines of proxies and vectors", above=0)
    margin: float = parameter(0.1, "how far a cosine must be above or below 0", least=0)

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
