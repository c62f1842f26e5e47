"""The objective of the recipe `scl`: a weighted sum of cross-entropy and a contrastive loss.

Each distinct text of a batch is encoded once, although a premise occurs in three or more pairs. The
pairs of a premise therefore share one dropout mask.

Shapes: n pairs, b pairs of a batch, d dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from polarity_bench.classifiers.tokens import CHUNK_TEXTS, TokenRows, encode, tokenize
from polarity_bench.data.nli import NliPairs
from polarity_bench.training.recipes.scl.batches import Batch, augmented_pairs
from polarity_bench.training.recipes.scl.loss import PairClassifier, scl_loss
from polarity_bench.values import IntArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

BFLOAT16_CHUNK_TEXTS = 2 * CHUNK_TEXTS
"""Number of texts in a chunk for bfloat16 on a CPU, where `CHUNK_TEXTS` is a sixth slower."""


@dataclass(frozen=True)
class PairTokens:
    """Tokenized distinct texts, and pairs as positions of these texts.

    Attributes:
        texts: The tokenized texts, without duplicates.
        premises: Position of each pair's premise, (n,).
        hypotheses: Position of each pair's hypothesis, (n,).
    """

    texts: TokenRows
    premises: IntArray
    hypotheses: IntArray


def tokenize_pairs(model: SentenceTransformer, pairs: NliPairs, prompt: str) -> PairTokens:
    """Tokenize the distinct texts of all pairs."""
    both = [*pairs.premises, *pairs.hypotheses]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(both))}
    positions = np.array([numbers[text] for text in both])
    texts = tokenize(model, list(numbers), prompt)
    return PairTokens(texts, positions[: len(pairs)], positions[len(pairs) :])


class PairObjective(nn.Module):
    """The encoder and the pair classifier, as a module that computes the loss of a batch.

    Args:
        encoder: The encoder to train.
        pairs: All pairs, tokenized.
        share: The weight λ of the contrastive loss; if it is 1, there is no classifier.
        augmented: Whether cross-entropy also reads the candidates of the anchors.
        seed: Seed of the classifier.
        **contrast: Temperature and similarity of the contrastive loss.
    """

    def __init__(
        self,
        encoder: SentenceTransformer,
        pairs: PairTokens,
        share: float,
        *,
        augmented: bool = False,
        seed: int = 0,
        **contrast: Any,
    ) -> None:
        super().__init__()
        self.encoder, self.pairs = encoder, pairs
        self.share, self.augmented, self.contrast = share, augmented, contrast
        self.classifier: PairClassifier | None = None
        if share < 1:
            with torch.random.fork_rng([]):  # keeps the state of the global generator
                torch.manual_seed(seed)
                classifier = PairClassifier(encoder.get_embedding_dimension() or 0)
            self.classifier = classifier.to(encoder.device)
        self.n_encoded = 0
        """Number of texts encoded so far."""

    def forward(self, rows: slice, batch: Batch) -> Tensor:
        """Compute the loss of a batch: (1 - λ) L_CE + λ L_SCL, a scalar.

        The encoder computes in the dtype of autocast, and the loss is computed in float32.

        Args:
            rows: Positions of the batch's pairs.
            batch: Anchors, positives and negatives of the batch.
        """
        premises, hypotheses = self._encode(rows)
        share = self.share
        with torch.autocast(premises.device.type, enabled=False):
            loss = premises.new_zeros(())
            if self.classifier is not None:
                loss = loss + (1 - share) * self._cross_entropy(premises, hypotheses, batch)
            if share > 0:
                loss = loss + share * self._contrast(premises, hypotheses, batch)
        return loss

    def _encode(self, rows: slice) -> tuple[Tensor, Tensor]:
        """Encode the premises and the hypotheses of pairs, (b, d) each, in float32."""
        pairs, device = self.pairs, self.encoder.device
        both = np.concatenate([pairs.premises[rows], pairs.hypotheses[rows]])
        texts, positions = np.unique(both, return_inverse=True)
        self.n_encoded += len(texts)
        on_cpu = BFLOAT16_CHUNK_TEXTS if torch.is_autocast_enabled("cpu") else CHUNK_TEXTS
        chunk_texts = on_cpu if device.type == "cpu" else len(texts)
        encoded = encode(self.encoder, pairs.texts, texts, chunk_texts=chunk_texts)
        left, right = encoded.sentences.float()[positions].chunk(2)
        return left, right

    def _cross_entropy(self, premises: Tensor, hypotheses: Tensor, batch: Batch) -> Tensor:
        assert self.classifier is not None  # noqa: S101  `forward` checks it
        rows = np.arange(len(batch.labels))
        lefts, rights, labels = (
            augmented_pairs(batch) if self.augmented else (rows, rows, batch.labels)
        )
        logits = self.classifier(premises[lefts], hypotheses[rights])
        return cross_entropy(logits, torch.as_tensor(labels, device=logits.device))

    def _contrast(self, premises: Tensor, hypotheses: Tensor, batch: Batch) -> Tensor:
        """Compute the mean contrastive loss over the anchors; 0 if there are no anchors."""
        device = premises.device
        losses = scl_loss(
            premises[batch.anchors],
            hypotheses,
            torch.as_tensor(batch.positives, device=device),
            torch.as_tensor(batch.negatives, device=device),
            **self.contrast,
        )
        return losses.sum() / max(1, len(losses))
