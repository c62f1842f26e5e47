"""The supervised contrastive loss for sentence embeddings, and the classifier of sentence pairs.

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
    """Compute the supervised contrastive loss of each anchor.

    The loss of an anchor is the mean over its positives j of -log(exp(s_j / τ) / Σ_k exp(s_k / τ)),
    where k runs over its positives and negatives. Positives therefore compete with each other: with
    two positives of equal similarity, the loss is at least log 2.

    Args:
        anchors: Embeddings of the anchors, of any norm, (a, d).
        candidates: Embeddings of all candidates for positives and negatives, (b, d).
        positives: Which candidates are positives of each anchor, (a, b).
        negatives: Which candidates are negatives of each anchor, (a, b). Candidates that are
            neither are ignored.
        temperature: Divisor of the similarities, above 0.
        similarity: The dot product, as in the paper's text, or the cosine.

    Returns:
        The loss of each anchor, at least 0, (a,); 0 for an anchor without positives.

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
    """Classifier of sentence pairs: two linear layers over (u, v, |u - v|), without activation.

    Args:
        size: Number of dimensions d of the embeddings.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(3 * size, 3 * size // 2)
        self.output = nn.Linear(3 * size // 2, len(CLASSES))

    def forward(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        """Compute the class logits of pairs, (n, 3), from two arrays of embeddings, (n, d) each."""
        together = torch.cat([premises, hypotheses, (premises - hypotheses).abs()], dim=-1)
        logits: Tensor = self.output(self.hidden(together))
        return logits

    def head(self) -> Head:
        """Combine the two linear layers into one, and return it as a `Head`."""
        first, second = (
            (each.weight.detach().cpu().double().numpy(), each.bias.detach().cpu().double().numpy())
            for each in (self.hidden, self.output)
        )
        weight, bias = second[0] @ first[0], second[0] @ first[1] + second[1]
        return Head(CLASSES, weight, bias, of_pairs=True)
