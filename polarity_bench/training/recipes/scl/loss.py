"""The supervised contrastive loss of sentence embeddings, and the pair classifier used with it.

Shapes: a anchors, b candidates, n pairs, d dimensions.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from polarity_bench.classifiers.head import Head
from polarity_bench.data.nli import CLASSES

Similarity = Literal["dot", "cosine"]


def scl_loss(
    anchors: Tensor,
    candidates: Tensor,
    positives: Tensor,
    negatives: Tensor,
    *,
    temperature: float = 1.0,
    similarity: Similarity = "dot",
) -> Tensor:
    """Contrast each anchor's positives with its negatives by a softmax over both.

    The loss of an anchor is the mean over its positives j of -log(exp(s_j / τ) / Σ_k exp(s_k / τ)),
    where k runs over its positives and negatives. So positives also compete with each other: with
    two positives of equal similarity, the loss is never below log 2.

    Args:
        anchors: Embeddings of the anchors, of any norm, (a, d).
        candidates: Embeddings of the possible positives and negatives, (b, d).
        positives: Which candidates are positives of each anchor, (a, b).
        negatives: Which candidates are negatives of each anchor, (a, b); all others are ignored.
        temperature: Divisor of the similarities, above 0.
        similarity: The dot product, as in the paper's text, or the cosine.

    Returns:
        The loss of each anchor, at least 0, (a,); 0 if it has no positive.

    References:
        Liao (2021), Sentence Embeddings using Supervised Contrastive Learning, equation 2,
        https://arxiv.org/abs/2106.04791

    Example:
        >>> anchor, both = torch.tensor([[1.0, 0.0]]), torch.eye(2)
        >>> first, second = torch.tensor([[True, False]]), torch.tensor([[False, True]])
        >>> scl_loss(anchor, both, first, second)  # log(1 + e^(0 - 1))
        tensor([0.3133])
    """
    if similarity == "cosine":
        anchors = nn.functional.normalize(anchors, dim=-1)
        candidates = nn.functional.normalize(candidates, dim=-1)
    logits = anchors @ candidates.T / temperature
    logits = logits.masked_fill(~(positives | negatives), -torch.inf)
    log_shares = logits - logits.logsumexp(dim=1, keepdim=True)
    summed = log_shares.masked_fill(~positives, 0.0).sum(dim=1)
    return -summed / positives.sum(dim=1).clamp(min=1)


class PairClassifier(nn.Module):
    """A classifier of pairs by (u, v, |u - v|): two linear layers, no activation between them.

    Args:
        size: Dimensions of the embeddings.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(3 * size, 3 * size // 2)
        self.output = nn.Linear(3 * size // 2, len(CLASSES))

    def forward(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        """Return the logits of each pair's classes, (n, 3), from embeddings (n, d)."""
        together = torch.cat([premises, hypotheses, (premises - hypotheses).abs()], dim=-1)
        logits: Tensor = self.output(self.hidden(together))
        return logits

    def head(self) -> Head:
        """Return both layers combined into one linear layer."""
        first, second = (
            (each.weight.detach().cpu().double().numpy(), each.bias.detach().cpu().double().numpy())
            for each in (self.hidden, self.output)
        )
        weight, bias = second[0] @ first[0], second[0] @ first[1] + second[1]
        return Head(CLASSES, weight, bias, of_pairs=True)
