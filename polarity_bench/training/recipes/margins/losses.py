"""Losses on pairs and triplets. Each is a dataclass that declares the examples it takes.

All losses except `mnrl-masked` are those of sentence-transformers. Distances are cosine distances,
1 - cos, and margins are in the same units, so distances range from 0 to 2. With a margin of 2 or
more, the triplet hinge is always active. Such margins only add a constant to the loss and train the
same encoder.

torch is imported only when a loss is built, so the command line can list the losses without delay.

Shapes: b examples, d dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from polarity_bench.training.examples import ExampleKind
from polarity_bench.training.parameters import Parameters, parameter

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Loss(Parameters):
    """Base class of the losses on pairs and triplets."""

    family: ClassVar[str] = "loss"
    title: ClassVar[str]
    """Name of the loss in the literature."""
    examples: ClassVar[ExampleKind]
    """Kind of examples that the loss takes."""
    theirs: ClassVar[str]
    """Name of the loss's class in sentence-transformers."""
    compares_batch: ClassVar[bool] = False
    """Whether the loss of an example depends on the other examples of its batch."""

    def build(self, model: Any) -> nn.Module:
        """Return the loss for a model, as a module for the trainer of sentence-transformers."""
        from sentence_transformers.sentence_transformer import losses

        built: nn.Module = getattr(losses, self.theirs)(model, **self.arguments)
        return built

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments for the loss's class in sentence-transformers."""
        return {}


@dataclass(frozen=True)
class Contrastive(Loss):
    """Contrastive loss: pulls pairs of one class together and pushes other pairs apart to a margin.

    References:
        Hadsell et al. (2006), Dimensionality reduction by learning an invariant mapping.
    """

    margin: float = parameter(
        0.5, "minimum cosine distance between texts of different classes", above=0
    )

    name: ClassVar[str] = "contrastive"
    title: ClassVar[str] = "Contrastive"
    examples: ClassVar[ExampleKind] = "labelled-pairs"
    theirs: ClassVar[str] = "ContrastiveLoss"
    endless: ClassVar[str] = (
        "no pair is far enough apart, and the loss pushes all pairs further apart"
    )
    """Effect of a margin of 2 or more, for the warning in `remarks`."""

    @property
    def arguments(self) -> dict[str, Any]:
        """The margin, as an argument for sentence-transformers."""
        return {"margin": self.margin}

    @property
    def remarks(self) -> tuple[str, ...]:
        """A warning if the margin is 2 or more, because cosine distances are at most 2."""
        remark = (
            f"margin {self.margin:g}: cosine distances are at most 2; from a margin of 2 on, "
            f"{self.endless}; use a smaller margin"
        )
        return (remark,) if self.margin >= 2 else ()


@dataclass(frozen=True)
class OnlineContrastive(Contrastive):
    """Contrastive loss, summed over only the hard pairs of a batch."""

    name: ClassVar[str] = "online-contrastive"
    title: ClassVar[str] = "OnlineContrastive"
    compares_batch: ClassVar[bool] = True
    theirs: ClassVar[str] = "OnlineContrastiveLoss"


@dataclass(frozen=True)
class Triplet(Contrastive):
    """Triplet loss: pulls the anchor nearer to its positive than to its negative, by a margin.

    References:
        Schroff et al. (2015), FaceNet, https://arxiv.org/abs/1503.03832
    """

    margin: float = parameter(0.1, "minimum gap between the two cosine distances", above=0)

    name: ClassVar[str] = "triplet"
    title: ClassVar[str] = "Triplet"
    examples: ClassVar[ExampleKind] = "triplets"
    theirs: ClassVar[str] = "TripletLoss"
    endless: ClassVar[str] = (
        "the hinge is always active, and all such margins train the same encoder"
    )

    @property
    def arguments(self) -> dict[str, Any]:
        """The distance and the margin, as arguments for sentence-transformers."""
        from sentence_transformers.sentence_transformer.losses import TripletDistanceMetric

        return {"distance_metric": TripletDistanceMetric.COSINE, "triplet_margin": self.margin}


@dataclass(frozen=True)
class Ranking(Loss):
    """Multiple negatives ranking loss: ranks an anchor's positive above all others in the batch.

    References:
        Henderson et al. (2017), https://arxiv.org/abs/1705.00652
    """

    temperature: float = parameter(0.05, "divisor of the cosine similarities", above=0)

    name: ClassVar[str] = "mnrl"
    title: ClassVar[str] = "Multiple negatives ranking"
    examples: ClassVar[ExampleKind] = "pairs"
    theirs: ClassVar[str] = "MultipleNegativesRankingLoss"
    compares_batch: ClassVar[bool] = True

    @property
    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of the loss.

        `scale`, which multiplies the cosine similarities, is 1 / temperature.
        """
        return {"scale": 1 / self.temperature}


@dataclass(frozen=True)
class MaskedRanking(Ranking):
    """Multiple negatives ranking loss that masks other positives of the anchor's class.

    See `masked_ranking`.
    """

    name: ClassVar[str] = "mnrl-masked"
    title: ClassVar[str] = "Multiple negatives ranking, contradicting pairs masked"

    def build(self, model: Any) -> nn.Module:
        """Return the mean of `masked_ranking` over a batch, as a module for the trainer."""
        from polarity_bench.training.recipes.margins.length_sorted import MeanLoss

        return MeanLoss(model, partial(masked_ranking, temperature=self.temperature))


@dataclass(frozen=True)
class CosineSimilarity(Loss):
    """Cosine similarity loss: the target cosine of a pair is 1 for the same class, else 0."""

    name: ClassVar[str] = "cosine-similarity"
    title: ClassVar[str] = "Cosine similarity"
    examples: ClassVar[ExampleKind] = "labelled-pairs"
    theirs: ClassVar[str] = "CosineSimilarityLoss"


LOSSES: dict[str, type[Loss]] = {
    loss.name: loss
    for loss in (Triplet, Contrastive, OnlineContrastive, Ranking, MaskedRanking, CosineSimilarity)
}
"""All losses, by name."""


def masked_ranking(
    anchor: Tensor, positive: Tensor, labels: Tensor, *, temperature: float = 0.05
) -> Tensor:
    """Return the multiple negatives ranking loss with positives of the anchor's class masked.

    The plain loss treats every other positive of the batch as a negative. With two classes, about
    half of these share the anchor's label, and some belong to the same anchor. The margins paper
    suspects that this flaw explains its results. This function excludes such positives. Two pairs
    with the same anchor have the same label, so one mask covers both cases.

    Args:
        anchor: Embeddings of the anchors, of any norm, (b, d).
        positive: Embeddings of the positives, of any norm, (b, d).
        labels: Class of each pair, (b,).
        temperature: Divisor of the cosine similarities, above 0.

    Returns:
        The loss of each pair, at least 0, (b,). It is 0 if all pairs of the batch have the same
        class.

    References:
        Henderson et al. (2017), https://arxiv.org/abs/1705.00652; the mask is that of Khosla et
        al. (2020), Supervised Contrastive Learning, https://arxiv.org/abs/2004.11362

    Example:
        The first two pairs have the same label, so each is masked for the other. The third is not
        masked:

        >>> import torch
        >>> a = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> masked_ranking(a, a, torch.tensor([0, 0, 1]), temperature=1.0)  # log(1 + e^(0 - 1))
        tensor([0.3133, 0.3133, 0.5514])
    """
    import torch
    from torch.nn.functional import cross_entropy, normalize

    similarity = normalize(anchor, dim=-1) @ normalize(positive, dim=-1).T / temperature
    is_own = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    contradicting = (labels[:, None] == labels[None, :]) & ~is_own
    similarity = similarity.masked_fill(contradicting, -torch.inf)
    targets = torch.arange(len(labels), device=labels.device)
    return cross_entropy(similarity, targets, reduction="none")
