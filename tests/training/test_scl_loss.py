"""The supervised contrastive loss, against a slow double loop written from the paper's equation."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from polarity_bench.classifiers.head import pair_vectors
from polarity_bench.training.recipes.scl.loss import PairClassifier, Similarity, scl_loss

SIMILARITIES: list[Similarity] = ["dot", "cosine"]
TEMPERATURES = st.floats(0.05, 5)


def by_loop(
    anchors: Tensor,
    candidates: Tensor,
    positives: Tensor,
    negatives: Tensor,
    temperature: float,
    similarity: Similarity,
) -> list[float]:
    """Equation 2, term by term in float64."""

    def s(i: int, k: int) -> float:
        dot = sum(float(x) * float(y) for x, y in zip(anchors[i], candidates[k], strict=True))
        if similarity == "cosine":
            dot /= math.dist(anchors[i], [0.0] * len(anchors[i]))
            dot /= math.dist(candidates[k], [0.0] * len(candidates[k]))
        return dot

    losses = []
    for i in range(len(anchors)):
        plus = [j for j in range(len(candidates)) if positives[i, j]]
        both = [k for k in range(len(candidates)) if positives[i, k] or negatives[i, k]]
        total = 0.0
        for j in plus:
            below = sum(math.exp(s(i, k) / temperature) for k in both)
            total += math.log(math.exp(s(i, j) / temperature) / below)
        losses.append(-total / len(plus) if plus else 0.0)
    return losses


def drawn(seed: int, n_anchors: int = 4, n_candidates: int = 7) -> tuple[Tensor, ...]:
    """Embeddings in float64, and masks that share no cell; each anchor has a positive."""
    generator = torch.Generator().manual_seed(seed)
    anchors = torch.randn(n_anchors, 3, generator=generator, dtype=torch.float64)
    candidates = torch.randn(n_candidates, 3, generator=generator, dtype=torch.float64)
    part = torch.randint(0, 3, (n_anchors, n_candidates), generator=generator)
    part[:, 0] = 1
    return anchors, candidates, part == 1, part == 2


@pytest.mark.parametrize("similarity", SIMILARITIES)
@given(seed=st.integers(0, 10**6), temperature=TEMPERATURES)
def test_it_is_the_equation(similarity: Similarity, seed: int, temperature: float) -> None:
    anchors, candidates, positives, negatives = drawn(seed)
    found = scl_loss(
        anchors, candidates, positives, negatives, temperature=temperature, similarity=similarity
    )
    wanted = by_loop(anchors, candidates, positives, negatives, temperature, similarity)
    assert found.tolist() == pytest.approx(wanted, rel=1e-9, abs=1e-9)
    assert (found >= 0).all()


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_its_gradients_are_those_of_its_value(similarity: Similarity) -> None:
    anchors, candidates, positives, negatives = drawn(1)
    positives[2] = False  # an anchor without a positive moves nothing

    def loss(left: Tensor, right: Tensor) -> Tensor:
        return scl_loss(left, right, positives, negatives, temperature=0.7, similarity=similarity)

    anchors.requires_grad_(True)
    candidates.requires_grad_(True)
    assert torch.autograd.gradcheck(loss, (anchors, candidates))
    (moved,) = torch.autograd.grad(loss(anchors, candidates).sum(), anchors)
    assert moved[2].tolist() == [0, 0, 0]


def test_an_anchor_without_candidates_is_0_with_gradients_that_are_numbers() -> None:
    anchors, candidates, positives, negatives = drawn(2)
    positives[1] = negatives[1] = False
    anchors.requires_grad_(True)
    found = scl_loss(anchors, candidates, positives, negatives)
    found.sum().backward()  # type: ignore[no-untyped-call]
    assert found[1] == 0
    assert anchors.grad is not None
    assert anchors.grad.isfinite().all()
    assert anchors.grad[1].tolist() == [0, 0, 0]


def test_no_anchors_have_no_losses() -> None:
    anchors, candidates, positives, negatives = drawn(3)
    assert scl_loss(anchors[:0], candidates, positives[:0], negatives[:0]).shape == (0,)


@given(seed=st.integers(0, 10**6))
def test_the_order_of_candidates_and_anchors_is_irrelevant(seed: int) -> None:
    anchors, candidates, positives, negatives = drawn(seed)
    found = scl_loss(anchors, candidates, positives, negatives)
    generator = torch.Generator().manual_seed(seed)
    one, two = torch.randperm(4, generator=generator), torch.randperm(7, generator=generator)
    again = scl_loss(anchors[one], candidates[two], positives[one][:, two], negatives[one][:, two])
    torch.testing.assert_close(again, found[one])


def test_a_candidate_that_is_neither_takes_no_part() -> None:
    anchors, candidates, positives, negatives = drawn(4)
    negatives[:, 6] = positives[:, 6] = False
    found = scl_loss(anchors, candidates, positives, negatives)
    candidates[6] = 1e6
    assert torch.equal(scl_loss(anchors, candidates, positives, negatives), found)


def test_large_dot_products_do_not_overflow() -> None:
    anchor = torch.tensor([[300.0, 0.0]])
    candidates = torch.tensor([[300.0, 0.0], [-300.0, 0.0]])
    both = torch.tensor([[True, False]])
    assert scl_loss(anchor, candidates, both, ~both).item() == 0
    assert scl_loss(anchor, candidates, ~both, both).item() == pytest.approx(180_000)


def test_only_the_cosine_is_blind_to_norms() -> None:
    anchors, candidates, positives, negatives = drawn(5)
    for similarity, blind in (("cosine", True), ("dot", False)):
        one, two = (
            scl_loss(anchors, scale * candidates, positives, negatives, similarity=similarity)  # type: ignore[arg-type]
            for scale in (1.0, 3.0)
        )
        assert torch.allclose(one, two) is blind


def test_the_classifier_reads_both_texts_and_their_distance() -> None:
    torch.manual_seed(0)
    classifier = PairClassifier(512).double()
    assert [tuple(p.shape) for p in classifier.parameters()] == [
        (768, 1536),
        (768,),
        (3, 768),
        (3,),
    ]
    u, v = torch.randn(2, 4, 512, dtype=torch.float64)
    together = torch.cat([u, v, (u - v).abs()], dim=1)
    hidden = together @ classifier.hidden.weight.T + classifier.hidden.bias
    wanted = hidden @ classifier.output.weight.T + classifier.output.bias
    torch.testing.assert_close(classifier(u, v), wanted)
    assert not torch.allclose(classifier(u, v), classifier(v, u))
    shares = classifier.head().probabilities(pair_vectors(u.numpy(), v.numpy()))
    torch.testing.assert_close(torch.from_numpy(shares), wanted.softmax(dim=1).detach())
