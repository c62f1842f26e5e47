"""Training with only the token embeddings that occur in the training texts.

In a small encoder, most weights are token embeddings, and a small training set contains few of the
tokens. The gradients of the other embeddings are zero, so AdamW only applies weight decay to them.
Therefore the embedding table is reduced to the tokens of the training texts during training. Then
the full table is restored, and the decay of all steps is applied to the other rows at once. The
result is the same except for rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from polarity_bench.classifiers.tokens import TokenRows
from polarity_bench.training.loops.descent import DescentPlan


@contextmanager
def trimmed(transformer: Any, rows: TokenRows, plan: DescentPlan) -> Iterator[TokenRows]:
    """Reduce a transformer's token embeddings to the tokens of some texts, within a `with` block.

    Args:
        transformer: A model of the library `transformers`.
        rows: The tokenized texts.
        plan: Plan of the training in the block, which determines the decay of the other embeddings.

    Yields:
        The texts with the token ids of the smaller table.
    """
    table = transformer.get_input_embeddings()
    # RoBERTa derives positions from the padding id, so ids up to the padding id must not change.
    unchanged = np.arange(rows.padding + 1)
    used = np.unique(np.concatenate([unchanged, *rows.ids]))
    places = torch.from_numpy(used).to(table.weight.device)
    small = nn.Embedding(len(used), table.embedding_dim, padding_idx=table.padding_idx)
    small.weight = nn.Parameter(table.weight.detach()[places].clone())
    transformer.set_input_embeddings(small)
    try:
        yield replace(rows, ids=[np.searchsorted(used, ids) for ids in rows.ids])
    finally:
        with torch.no_grad():
            table.weight.mul_(decay(plan))
            table.weight[places] = small.weight
        transformer.set_input_embeddings(table)


def decay(plan: DescentPlan) -> float:
    """Return the factor by which AdamW shrinks a weight without gradients over a whole plan."""
    rates = (plan.rate * plan.factor(step) for step in range(plan.n_steps))
    return float(np.prod([1 - rate * plan.weight_decay for rate in rates]))
