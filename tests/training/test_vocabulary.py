"""The trimmed vocabulary trains what the whole one does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from standins import tiny_encoder
from torch import nn

from polarity_bench.classifiers.tokens import TokenRows, encode, tokenize
from polarity_bench.encoders.load import SentenceTransformerEncoder, load_encoder
from polarity_bench.training.loops.descent import DescentPlan, descend
from polarity_bench.training.loops.vocabulary import trimmed

TEXTS = ["a good film", "a bad film", "good good good", "bad"]


def transformer(model: Any) -> Any:
    return model[0].auto_model


def trained(folder: Path, *, trim: bool) -> dict[str, torch.Tensor]:
    encoder = load_encoder(str(folder))
    assert isinstance(encoder, SentenceTransformerEncoder)
    model = encoder.model.train()
    plan = DescentPlan(n_steps=6, rate=1e-2, weight_decay=0.1, seed=1)
    rows, labels = tokenize(model, TEXTS), torch.tensor([1, 0, 1, 0])
    torch.manual_seed(0)
    both = nn.ModuleList([model, nn.Linear(model.get_embedding_dimension() or 0, 2)])

    def loss_over(rows: TokenRows) -> torch.Tensor:
        made = encode(model, rows, np.arange(4), chunk_texts=3)
        return nn.functional.cross_entropy(both[1](made.sentences), labels)

    if trim:
        with trimmed(transformer(model), rows, plan) as fewer:
            assert max(ids.max() for ids in fewer.ids) < max(ids.max() for ids in rows.ids)
            descend(both, lambda _: loss_over(fewer), plan)
    else:
        descend(both, lambda _: loss_over(rows), plan)
    return {name: weight.detach() for name, weight in model.named_parameters()}


def test_what_is_trained_is_the_same(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path / "tiny")
    whole, cut = trained(folder, trim=False), trained(folder, trim=True)
    assert set(whole) == set(cut)
    for name, weight in whole.items():
        torch.testing.assert_close(cut[name], weight, rtol=1e-5, atol=1e-6)


def test_tokens_that_do_not_occur_have_decayed(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path / "tiny")
    before = load_encoder(str(folder))
    assert isinstance(before, SentenceTransformerEncoder)
    table = transformer(before.model).get_input_embeddings().weight
    (name,) = (
        n for n, _ in before.model.named_parameters() if n.endswith("word_embeddings.weight")
    )
    after = trained(folder, trim=True)[name]
    seen = {token for ids in tokenize(before.model, TEXTS).ids for token in ids.tolist()}
    unseen = [token for token in range(1, len(table)) if token not in seen]
    plan = DescentPlan(n_steps=6, rate=1e-2, weight_decay=0.1)
    share = np.prod([1 - 1e-2 * plan.factor(step) * 0.1 for step in range(6)])
    assert share == pytest.approx(0.9966, abs=1e-3)
    torch.testing.assert_close(after[unseen], table[unseen] * float(share))
