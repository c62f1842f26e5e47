"""Losses by name: which examples each eats, what its parameter means, how it is built.

All but one are sentence-transformers' own, with cosine distance, 1 - cos, in [0, 2]. So a margin is
in those units, and from 2 on the triplet hinge never closes: every such margin only adds a
constant to the loss and trains the same encoder.

Shapes: b examples, d dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from polarity_bench.training.examples import ExampleKind

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def masked_ranking(
    anchor: Tensor, positive: Tensor, labels: Tensor, *, temperature: float = 0.05
) -> Tensor:
    """Rank each anchor's positive above the in-batch positives of other classes.

    Plain multiple negatives ranking takes every other positive of the batch for a negative, though
    about half of them share the anchor's label, and some belong to the same anchor: the flaw that
    the margins paper suspects behind its results. Here those are no candidates. Two pairs of one
    anchor share its label, so that one mask leaves out both.

    Args:
        anchor: Embeddings of the anchors, of any norm, (b, d).
        positive: Embeddings of texts of the same class as their anchor, (b, d).
        labels: The class of each pair, (b,).
        temperature: What cosines are divided by, above 0.

    Returns:
        The loss of each pair, at least 0, (b,); 0 where all pairs of the batch are of one class.

    References:
        Henderson et al. (2017), https://arxiv.org/abs/1705.00652; the mask is that of Khosla et
        al. (2020), Supervised Contrastive Learning, https://arxiv.org/abs/2004.11362

    Example:
        The second pair shares the first one's label and is masked; the third does not:

        >>> a = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> masked_ranking(a, a, torch.tensor([0, 0, 1]), temperature=1.0)  # log(1 + e^(0 - 1))
        tensor([0.3133, 0.3133, 0.5514])
    """
    similarity = normalize(anchor, dim=-1) @ normalize(positive, dim=-1).T / temperature
    own = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    contradicting = (labels[:, None] == labels[None, :]) & ~own
    similarity = similarity.masked_fill(contradicting, -torch.inf)
    targets = torch.arange(len(labels), device=labels.device)
    return cross_entropy(similarity, targets, reduction="none")


class MaskedRankingLoss(nn.Module):
    """`masked_ranking` in the shape that sentence-transformers' trainer wants, meaned."""

    def __init__(self, model: SentenceTransformer, temperature: float = 0.05) -> None:
        super().__init__()
        self.model = model
        self.temperature = temperature

    def forward(self, sentence_features: Sequence[dict[str, Any]], labels: Tensor) -> Tensor:
        """Encode the columns and return the mean loss."""
        embeddings = [self.model(features)["sentence_embedding"] for features in sentence_features]
        return self.compute_loss_from_embeddings(embeddings, labels)

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        """Return the mean loss of columns that are encoded already."""
        anchor, positive = embeddings
        return masked_ranking(anchor, positive, labels, temperature=self.temperature).mean()

    def get_config_dict(self) -> dict[str, Any]:
        """Return what a model card says of the loss."""
        return {"temperature": self.temperature}


@dataclass(frozen=True)
class LossKind:
    """A loss that encoders may be trained with.

    Attributes:
        name: Its name here.
        title: Its name in the literature.
        examples: The examples that it eats.
        margin: The papers' margin, where it has one.
        temperature: Its usual temperature, where it has one.
        build: Makes it: the model and its parameter in.
    """

    name: str
    title: str
    examples: ExampleKind
    build: Callable[[Any, float], nn.Module]
    margin: float | None = None
    temperature: float | None = None


def _triplet(model: Any, margin: float) -> nn.Module:
    from sentence_transformers.sentence_transformer.losses import (
        TripletDistanceMetric,
        TripletLoss,
    )

    return TripletLoss(model, TripletDistanceMetric.COSINE, triplet_margin=margin)


def _contrastive(model: Any, margin: float) -> nn.Module:
    from sentence_transformers.sentence_transformer.losses import ContrastiveLoss

    return ContrastiveLoss(model, margin=margin)


def _online_contrastive(model: Any, margin: float) -> nn.Module:
    from sentence_transformers.sentence_transformer.losses import OnlineContrastiveLoss

    return OnlineContrastiveLoss(model, margin=margin)


def _ranking(model: Any, temperature: float) -> nn.Module:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    return MultipleNegativesRankingLoss(model, scale=1 / temperature)


def _cosine_similarity(model: Any, _: float) -> nn.Module:
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

    return CosineSimilarityLoss(model)


_KINDS = (
    LossKind("triplet", "Triplet", "triplets", _triplet, margin=0.1),
    LossKind("contrastive", "Contrastive", "labelled-pairs", _contrastive, margin=0.5),
    LossKind(
        "online-contrastive", "OnlineContrastive", "labelled-pairs", _online_contrastive, margin=0.5
    ),
    LossKind("mnrl", "Multiple negatives ranking", "pairs", _ranking, temperature=0.05),
    LossKind(
        "mnrl-masked",
        "Multiple negatives ranking, contradicting pairs masked",
        "pairs",
        MaskedRankingLoss,
        temperature=0.05,
    ),
    LossKind("cosine-similarity", "Cosine similarity", "labelled-pairs", _cosine_similarity),
)
LOSSES: dict[str, LossKind] = {kind.name: kind for kind in _KINDS}
"""The registry: a loss declares which examples it eats."""
