"""Fine-tuning of one encoder for classes, preserving its vectors by distillation.

Shapes: n texts, d dimensions, c classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from polarity_bench.classifiers.tokens import EncodedTexts, TokenRows
from polarity_bench.training.loops.classifier import descend_over_texts
from polarity_bench.training.loops.descent import FRESH, Steps
from polarity_bench.training.recipes.axis.probe import Probe
from polarity_bench.values import FloatArray, IntArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from polarity_bench.training.objective import Objective


def fit_shared(
    model: SentenceTransformer,
    rows: TokenRows,
    labels: IntArray,
    vectors: FloatArray,
    probe: Probe,
    objective: Objective,
    *,
    keep: float,
    seed: int,
    steps: Steps = FRESH,
) -> tuple[Probe, Sequence[float]]:
    """Train an encoder, which is changed, and the linear classifier that reads its vectors.

    The loss is cross-entropy + `keep` · (1 - cosine of a text's vectors after and before). The
    second term is sentence-transformers' `EmbedDistillLoss`.

    Args:
        model: The encoder, up to the vector of unit length.
        rows: The training texts.
        labels: Class of each text, (n,).
        vectors: Vectors of the texts before training, (n, d).
        probe: Initial classifier.
        objective: Steps, batches and rates.
        keep: Weight of the distillation.
        seed: Seed of the order and of dropout.
        steps: Where to resume from, and whom to tell.

    Returns:
        The classifier, and the loss of each step.

    References:
        Kim et al. (2023), EmbedDistill: A Geometric Knowledge Distillation for Information
        Retrieval, equation 7.
    """
    from sentence_transformers.sentence_transformer.losses import EmbedDistillLoss

    dense = nn.Linear(probe.weight.shape[1], len(probe.weight))
    with torch.no_grad():
        dense.weight.copy_(torch.from_numpy(probe.weight))
        dense.bias.copy_(torch.from_numpy(probe.bias))
    modules = nn.ModuleDict({"encoder": model, "dense": dense}).to(model.device)
    distillation = EmbedDistillLoss(model)
    targets, before = torch.from_numpy(labels), torch.from_numpy(vectors)

    def loss_of_batch(made: EncodedTexts, chosen: IntArray) -> Tensor:
        wanted, teacher = (each[chosen].to(model.device) for each in (targets, before))
        entropy = cross_entropy(modules["dense"](made.sentences).float(), wanted)
        kept = distillation.compute_loss_from_embeddings([made.sentences], [teacher])
        return entropy + keep * kept

    losses = descend_over_texts(
        modules,
        model,
        rows,
        objective,
        loss_of_batch,
        seed=seed,
        steps=steps,
    )
    weight, bias = (each.detach().cpu().numpy() for each in (dense.weight, dense.bias))
    return Probe(weight, bias, math.nan, math.nan), losses
