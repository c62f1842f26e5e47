"""What a step minimises: each text encoded once, both terms as they are by themselves, λ's ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from polarity_bench.data.nli import CONTRADICTION, ENTAILMENT, NEUTRAL, NliPairs
from polarity_bench.training.recipes.scl.batches import Batch, make_batch
from polarity_bench.training.recipes.scl.loss import scl_loss
from polarity_bench.training.recipes.scl.pair_objective import (
    PairObjective,
    tokenize_pairs,
)

SOUP, DOOR = "The soup was sweet .", "A calm and solid door was there ."
PAIRS = NliPairs(
    premises=(SOUP, SOUP, SOUP, DOOR, DOOR),
    hypotheses=("sweet soup", "bitter soup", "the soup .", "bitter soup", "a door was solid"),
    labels=np.array([ENTAILMENT, CONTRADICTION, ENTAILMENT, NEUTRAL, ENTAILMENT]),
)
PREMISES = np.array([0, 0, 0, 1, 1])
ALL = slice(0, 5)


@pytest.fixture
def encoder(tiny_model: Path) -> SentenceTransformer:
    """In eval mode: without dropout."""
    return SentenceTransformer(str(tiny_model), device="cpu").eval()


def objective(encoder: SentenceTransformer, share: float, **more: Any) -> PairObjective:
    return PairObjective(encoder, tokenize_pairs(encoder, PAIRS, ""), share, **more)


def whole_batch(labels: Any = PAIRS.labels) -> Batch:
    return make_batch(PREMISES, labels, [0])


def plainly(encoder: SentenceTransformer) -> tuple[Tensor, Tensor]:
    u, v = (
        encoder.encode(list(texts), convert_to_tensor=True)
        for texts in (PAIRS.premises, PAIRS.hypotheses)
    )
    return u, v


def test_the_ends_of_lambda_are_the_two_terms_and_between_them_a_line(
    encoder: SentenceTransformer,
) -> None:
    u, v = plainly(encoder)
    batch = whole_batch()
    one = objective(encoder, 0.0)
    assert one.classifier is not None
    pairs_term = cross_entropy(one.classifier(u, v), torch.from_numpy(PAIRS.labels))
    contrast = scl_loss(
        u[[0, 3]], v, torch.from_numpy(batch.positives), torch.from_numpy(batch.negatives)
    ).mean()
    assert contrast > 0.1
    for share in (0.0, 0.3, 1.0):
        found = objective(encoder, share)(ALL, batch)
        wanted = (1 - share) * pairs_term + share * contrast
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_without_cross_entropy_there_is_no_classifier(encoder: SentenceTransformer) -> None:
    assert objective(encoder, 1.0).classifier is None


def test_temperature_and_similarity_reach_the_term(encoder: SentenceTransformer) -> None:
    plain = objective(encoder, 1.0)(ALL, whole_batch())
    for more in ({"temperature": 0.5}, {"similarity": "cosine"}):
        assert (objective(encoder, 1.0, **more)(ALL, whole_batch()) - plain).abs() > 1e-3


def test_the_augmented_baseline_is_cross_entropy_on_more_pairs(
    encoder: SentenceTransformer,
) -> None:
    made = objective(encoder, 0.0, augmented=True)
    assert made.classifier is not None
    u, v = plainly(encoder)
    lefts, rights = [0] * 5 + [3] * 5, [*range(5)] * 2
    labels = [0, 2, 0, 2, 2, 2, 2, 2, 1, 0]  # of the other premise: contradictions
    wanted = cross_entropy(made.classifier(u[lefts], v[rights]), torch.tensor(labels))
    torch.testing.assert_close(made(ALL, whole_batch()), wanted, rtol=1e-4, atol=1e-5)


def test_a_batch_without_a_positive_has_a_contrastive_term_of_0(
    encoder: SentenceTransformer,
) -> None:
    batch = whole_batch(np.full(5, NEUTRAL))
    made = objective(encoder, 1.0)
    loss = made(ALL, batch)
    torch.autograd.backward(loss)
    assert loss.item() == 0
    moved = [p.grad.abs().max().item() for p in encoder.parameters() if p.grad is not None]
    assert moved
    assert max(moved) == 0


def test_every_distinct_text_is_encoded_once(encoder: SentenceTransformer) -> None:
    made = objective(encoder, 0.3)
    seen: list[int] = []
    made.encoder.register_forward_hook(lambda _, given, __: seen.append(len(given[0]["input_ids"])))
    made(ALL, whole_batch())
    assert sum(seen) == made.n_encoded == len({*PAIRS.premises, *PAIRS.hypotheses}) == 6


def test_the_order_of_the_pairs_is_irrelevant(encoder: SentenceTransformer) -> None:
    order = np.array([4, 0, 3, 2, 1])
    shuffled = NliPairs(
        tuple(PAIRS.premises[i] for i in order),
        tuple(PAIRS.hypotheses[i] for i in order),
        PAIRS.labels[order],
    )
    other = PairObjective(encoder, tokenize_pairs(encoder, shuffled, ""), 0.5)
    batch = make_batch(PREMISES[order], shuffled.labels, [0])
    found, wanted = other(ALL, batch), objective(encoder, 0.5)(ALL, whole_batch())
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_under_bfloat16_only_the_encoder_rounds(encoder: SentenceTransformer) -> None:
    made = objective(encoder, 0.3)
    assert isinstance(made.classifier, nn.Module)
    dtypes: list[torch.dtype] = []
    made.classifier.register_forward_hook(lambda *called: dtypes.append(called[2].dtype))
    plain = made(ALL, whole_batch())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = made(ALL, whole_batch())
    assert dtypes == [torch.float32] * 2
    assert rounded.dtype == torch.float32
    assert 0 < (rounded - plain).abs() < 0.1


def test_the_prompt_is_a_part_of_every_text(encoder: SentenceTransformer) -> None:
    rows = tokenize_pairs(encoder, PAIRS, "What a ").texts
    plain = tokenize_pairs(encoder, PAIRS, "").texts
    assert [len(ids) for ids in rows.ids] == [len(ids) + 2 for ids in plain.ids]
