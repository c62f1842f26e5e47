"""The program that measures SparseCL beside the dial."""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from polarity_bench.embedding.arrays import Embeddings
from polarity_bench.tasks.catalogue import load_task
from polarity_bench.values import FloatArray

DEPTH, K, ALPHA = 6, 3, 1.5


@pytest.fixture
def sparsecl(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    return import_module("sparsecl")


def units(rng: np.random.Generator, n: int) -> FloatArray:
    vectors = rng.normal(size=(n, 4))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def slow_hoyer(first: FloatArray, second: FloatArray) -> float:
    """The formula of the paper, number by number."""
    pairs = zip(first.tolist(), second.tolist(), strict=True)
    differences: list[float] = [a - b for a, b in pairs]
    l1 = sum(abs(each) for each in differences)
    l2 = math.sqrt(sum(each**2 for each in differences))
    root = math.sqrt(len(differences))
    return (root - l1 / l2) / (root - 1)


def test_the_sparsity_is_that_of_a_slow_loop(sparsecl: Any) -> None:
    rng = np.random.default_rng(0)
    first, second = units(rng, 3), units(rng, 5)
    found = sparsecl.hoyer(torch.tensor(first), torch.tensor(second)).numpy()
    expected = [[slow_hoyer(one, other) for other in second] for one in first]
    assert found == pytest.approx(np.array(expected), abs=1e-12)


@pytest.mark.parametrize(
    ("difference", "expected"),
    [
        ([0.0, 2, 0, 0], 1.0),
        ([1.0, -1, 1, 1], 0.0),
        ([1.0, 1, 0, 0], 2 - math.sqrt(2)),
        ([0.0] * 4, 0),  # as the released code has it
    ],
)
def test_the_sparsity_of_differences_by_hand(
    sparsecl: Any, difference: list[float], expected: float
) -> None:
    first = torch.tensor([difference], dtype=torch.float64)
    assert sparsecl.hoyer(first, torch.zeros_like(first)).item() == pytest.approx(expected)


@pytest.mark.parametrize("length", [1.0, 3.0])
def test_the_losses_by_hand(sparsecl: Any, length: float) -> None:
    """An anchor differs from its own positive in one coordinate, and from the other in two."""
    east, north = torch.eye(4, dtype=torch.float64)[:2]
    anchor, positive = torch.stack([east, north]), -length * torch.stack([east, north])
    found = {
        (name, swapped): sparsecl.contrastive_loss(
            anchor, positive.flip(0) if swapped else positive, name
        ).item()
        for name in ("sparsecl", "cl")
        for swapped in (False, True)
    }
    gap = (1 - (2 - math.sqrt(2))) / 0.02  # sparsity 1 of its own, 2 - sqrt(2) of the other
    assert found["sparsecl", False] == pytest.approx(math.log1p(math.exp(-gap)), rel=1e-6)
    assert found["sparsecl", True] == pytest.approx(gap + math.log1p(math.exp(-gap)))
    assert found["cl", False] == pytest.approx((0 - -1) / 0.02)  # cosine -1, and 0 of the other
    assert found["cl", True] == pytest.approx(0, abs=1e-12)


def test_the_candidates_of_the_base_are_sorted_again_with_the_sparsity(
    sparsecl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a slow loop: the base's nearest sources that are allowed, then the best of them."""
    monkeypatch.setattr(sparsecl, "DEPTH", DEPTH)
    rng = np.random.default_rng(0)
    base, trained = ([units(rng, n) for n in (5, 20)] for _ in range(2))
    excluded = [[row] for row in range(5)]
    sides = [tuple(Embeddings(side, "cosine") for side in each) for each in (base, trained)]
    found = sparsecl.Candidates.of(*sides, excluded).first(K, ALPHA)
    moved = 0
    for row in range(5):
        cosine = base[1] @ base[0][row]
        sparsity = np.array([slow_hoyer(trained[0][row], source) for source in trained[1]])
        total = cosine + ALPHA * sparsity
        allowed = [place for place in range(20) if place != row]
        nearest = sorted(allowed, key=lambda place: -cosine[place])[:DEPTH]
        first = sorted(nearest, key=lambda place: -total[place])[:K]
        assert found.index[row].tolist() == first
        assert found.similarity[row] == pytest.approx(total[first], abs=1e-7)
        moved += first != nearest[:K]
    assert moved


def test_alpha_is_the_lower_end_of_the_best_interval(sparsecl: Any) -> None:
    assert sparsecl.best_alpha(lambda alpha: -abs(alpha - 3.473)) == 3.47
    assert sparsecl.best_alpha(lambda alpha: float(alpha > 7)) == 7  # the first of equal ones
    assert sparsecl.best_alpha(lambda _: 0.0) == 0


def test_the_pairs_are_twins_and_none_is_a_query(
    sparsecl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sparsecl, "load_encoder", lambda _: None)
    contrast: Any = load_task("contrast")
    given, source = sparsecl.Twins.load(), contrast.source
    pair_of = dict(zip(source.texts, source.columns["pair"], strict=True))
    class_of = dict(zip(source.texts, source.labels, strict=True))
    assert (len(given.texts), len(given.pairs)) == (1200, 595)
    assert all(pair_of[one] == pair_of[other] for one, other in given.pairs)
    assert all({class_of[text] for text in pair} == {*class_of.values()} for pair in given.pairs)
    assert not {*contrast.query.texts} & {*given.texts}
