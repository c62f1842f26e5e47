"""Distillation that preserves the vectors of an encoder during fine-tuning as a classifier.

Shapes: n texts, d dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from polarity_bench.classifiers.tokens import EncodedTexts
from polarity_bench.values import FloatArray, IntArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def distillation(
    model: SentenceTransformer, vectors: FloatArray, keep: float
) -> Callable[[EncodedTexts, IntArray], Tensor]:
    """Return a distillation loss: `keep` · (1 - cosine of a text's current and original vector).

    The loss uses sentence-transformers' `EmbedDistillLoss`.

    Args:
        model: The encoder in training, without the axis.
        vectors: Original vectors of the training texts, (n, d).
        keep: Weight of the loss.

    Returns:
        A function that takes encoded texts and their positions among the training texts, and
        returns the mean loss.

    References:
        Kim et al. (2023), EmbedDistill: A Geometric Knowledge Distillation for Information
        Retrieval, equation 7.
    """
    from sentence_transformers.sentence_transformer.losses import EmbedDistillLoss

    teacher, before = EmbedDistillLoss(model), torch.from_numpy(vectors)

    def loss_of_batch(made: EncodedTexts, chosen: IntArray) -> Tensor:
        wanted = before[chosen].to(model.device)
        moved: Tensor = teacher.compute_loss_from_embeddings([made.sentences], [wanted])
        return keep * moved

    return loss_of_batch
