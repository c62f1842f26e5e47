"""Training of only those token embeddings whose tokens occur in the training texts.

Most weights of a small encoder are embeddings of tokens that a small training set does not contain:
their gradient is zero, and AdamW only makes them decay. So the table is reduced to the tokens that
occur while training. Afterwards the whole table is restored, and the rows that were left out decay
by the product of all steps' decays. The result is the same except for the rounding of that product.
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
    """Reduce a transformer's token embeddings to those of some texts until the end of the block.

    Args:
        transformer: A model of transformers.
        rows: The texts. The block gets them with token ids of the smaller table.
        plan: The training in the block; sets how far the other embeddings decay.
    """
    table = transformer.get_input_embeddings()
    # Ids up to the padding's do not change, because RoBERTa derives positions from the padding id
    known = np.arange(rows.padding + 1)
    used = np.unique(np.concatenate([known, *rows.ids]))
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
    """Return the factor that AdamW leaves of a weight without gradients by the end of a plan."""
    rates = (plan.rate * plan.factor(step) for step in range(plan.n_steps))
    return float(np.prod([1 - rate * plan.weight_decay for rate in rates]))
