"""Distance metric learning: losses of vectors and labels that stand beside cross-entropy.

Each is a dataclass of its own parameters, which says what vectors it reads and builds a module.
Proxy losses read every token's state with the label of its sentence, and learn proxies, vectors
that stand for classes; the others compare the sentences of a batch by the state of their first
token. Defaults are those of pytorch-metric-learning where it has the loss. It and torch are
imported where a module is built, so that the command line can list the losses at once.

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
    """A loss of vectors (m, d) and their labels (m,), a scalar."""

    family: ClassVar[str] = "loss"
    title: ClassVar[str]
    """Its name in the literature."""
    reads: ClassVar[Literal["tokens", "first"]]
    """Every token's state, with proxies to compare it with, or the first token's of a sentence."""

    def build(self, n_classes: int, size: int) -> nn.Module:
        """Return it as a module, whose proxies are drawn from torch's global generator.

        A module computes in float32 at least, under autocast too. One that learns proxies has them
        as `proxies` (c classes, k proxies of each, d dimensions), and no parameters but them. The
        others give 0, without a gradient, for a batch where no two vectors are of one class or
        none of two, and count such batches as `n_empty`.

        Args:
            n_classes: Labels are below it.
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
    """Every anchor must lie nearer its positives than its negatives, by a margin: equation 1.

    Of all triplets of the batch, in squared Euclidean distance of the vectors as they are: the
    library's `TripletMarginLoss` with `LpDistance(normalize_embeddings=False, p=2, power=2)`. The
    equation sums; here it is the mean over all triplets (`MeanReducer`), since cross-entropy and
    the other equations are means too: a sum of cubically many terms would make β weigh something
    else at every batch size. The library's own mean, over the triplets that violate the margin,
    would weigh the last of them like the first thousands.

    References:
        Schroff et al. (2015), FaceNet, https://arxiv.org/abs/1503.03832
    """

    margin: float = parameter(1.0, "least wanted gap of two squared distances", above=0)

    name: ClassVar[str] = "triplet"
    title: ClassVar[str] = "Triplet"
    reads: ClassVar[Literal["tokens", "first"]] = "first"

    def _module(self, n_classes: int, size: int) -> nn.Module:  # noqa: ARG002
        from pytorch_metric_learning.distances import LpDistance
        from pytorch_metric_learning.losses import TripletMarginLoss
        from pytorch_metric_learning.reducers import MeanReducer

        from polarity_bench.training.losses.metric_modules import InBatch

        distance = LpDistance(normalize_embeddings=False, p=2, power=2)
        return InBatch(TripletMarginLoss(self.margin, distance=distance, reducer=MeanReducer()))


@dataclass(frozen=True)
class NPairs(MetricLoss):
    """Each anchor's positive must stand out among all its negatives: `formulas.n_pairs`."""

    name: ClassVar[str] = "npairs"
    title: ClassVar[str] = "NPairs"
    reads: ClassVar[Literal["tokens", "first"]] = "first"

    def _module(self, n_classes: int, size: int) -> nn.Module:  # noqa: ARG002
        from polarity_bench.training.losses.metric_formulas import n_pairs
        from polarity_bench.training.losses.metric_modules import InBatch

        return InBatch(n_pairs)


@dataclass(frozen=True)
class SupCon(MetricLoss):
    """Each anchor's positives must stand out among all others of the batch: equation 3.

    The equation has dot products; the vectors are brought to unit length first, as its sources do,
    so that similarity is the cosine. It sums over the anchors; here it is the mean over those that
    have a positive: the library's `SupConLoss` with `SumReducer`, divided by their number.

    References:
        Khosla et al. (2020), Supervised Contrastive Learning, https://arxiv.org/abs/2004.11362
        Gunel et al. (2020), https://arxiv.org/abs/2011.01403
    """

    temperature: float = parameter(0.1, "what cosines are divided by", above=0)

    name: ClassVar[str] = "supcon"
    title: ClassVar[str] = "SupCon"
    reads: ClassVar[Literal["tokens", "first"]] = "first"

    def _module(self, n_classes: int, size: int) -> nn.Module:  # noqa: ARG002
        from pytorch_metric_learning.losses import SupConLoss
        from pytorch_metric_learning.reducers import SumReducer

        from polarity_bench.training.losses.metric_formulas import per_anchor
        from polarity_bench.training.losses.metric_modules import InBatch

        return InBatch(per_anchor(SupConLoss(self.temperature, reducer=SumReducer())))


@dataclass(frozen=True)
class ProxyNCA(MetricLoss):
    """Each vector must lie nearer its class's proxy than the others: `formulas.proxy_nca`."""

    scale: float = parameter(1.0, "what distances to proxies are multiplied by", above=0)

    name: ClassVar[str] = "proxynca"
    title: ClassVar[str] = "ProxyNCA"
    reads: ClassVar[Literal["tokens", "first"]] = "tokens"

    def _module(self, n_classes: int, size: int) -> nn.Module:
        from polarity_bench.training.losses.metric_modules import NearestProxy

        return NearestProxy(n_classes, size, self.scale)


@dataclass(frozen=True)
class SoftTriple(MetricLoss):
    """Each vector must be like one of the several proxies of its class: equations 5 and 6.

    The library's `SoftTripleLoss`, whose similarity is the cosine, without its regulariser: δ is
    the margin, λ the scale. TripleEntropy is this beside cross-entropy.

    References:
        Qian et al. (2019), SoftTriple Loss, https://arxiv.org/abs/1909.05235
    """

    proxies_per_class: int = parameter(10, "proxies that each class has", least=1)
    gamma: float = parameter(0.1, "temperature of the softmax over a class's proxies", above=0)
    scale: float = parameter(20.0, "what similarities to classes are multiplied by", above=0)
    margin: float = parameter(0.01, "taken off the similarity to the own class", least=0)

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
    """Each proxy, as an anchor, must be like the vectors of its class alone: equation 7.

    The library's `ProxyAnchorLoss`: δ is the margin.

    References:
        Kim et al. (2020), Proxy Anchor Loss, https://arxiv.org/abs/2003.13911
    """

    alpha: float = parameter(32.0, "what cosines of proxies and vectors are multiplied by", above=0)
    margin: float = parameter(0.1, "how far beyond 0 a cosine is wanted, either way", least=0)

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
"""The registry."""
