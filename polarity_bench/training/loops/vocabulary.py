"""Train the embeddings of the tokens that occur, and none else.

Most of a small encoder's weights are embeddings of tokens that a small training set never shows:
their gradient is zero, and AdamW only lets them decay. So the table is cut to the tokens that
occur while training, and put back whole afterwards, the rows left out decayed by the product of
all steps' decays. What comes out is the same but for the rounding of that product.
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
    """Cut a transformer's token embeddings to those of some texts until the end of the block.

    Args:
        transformer: A model of transformers.
        rows: The texts; the block is given them with the tokens of the smaller table.
        plan: How the weights will have moved when the block ends.
    """
    table = transformer.get_input_embeddings()
    # all up to the padding's keep their numbers: RoBERTa counts positions by that of the padding
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
    """Return what AdamW leaves of a weight without gradients at the end of a plan."""
    rates = (plan.rate * plan.factor(step) for step in range(plan.n_steps))
    return float(np.prod([1 - rate * plan.weight_decay for rate in rates]))
