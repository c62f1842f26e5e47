"""The program that measures other methods beside the dial."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from polarity_bench.embedding.arrays import Embeddings
from polarity_bench.tasks.types.polarity import scoring as polarity_scoring
from polarity_bench.values import FloatArray

DEPTH, K = 4, 3


@pytest.fixture
def comparators(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    return import_module("comparators")


scoring: Any = polarity_scoring
"""The module whose retrieval the program replaces."""


def units(rng: np.random.Generator, n: int) -> FloatArray:
    vectors = rng.normal(size=(n, 4))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def test_the_candidates_of_the_base_are_sorted_again_with_the_boost(comparators: Any) -> None:
    """By a slow loop: the base's nearest sources, then the best of them with the boost."""
    rng = np.random.default_rng(0)
    base, by_base = units(rng, 5), units(rng, 20)
    chosen, probability = 3 * np.eye(2)[rng.integers(0, 2, 5)], rng.uniform(size=(20, 2))
    query = Embeddings(np.hstack([chosen, base]).astype(np.float32), "dot")
    source = Embeddings(np.hstack([probability, by_base]).astype(np.float32), "dot")
    given = SimpleNamespace(
        vectors=lambda texts: base[: len(texts)],
        task=SimpleNamespace(query=SimpleNamespace(texts=["a text"])),
    )
    method = SimpleNamespace(depth=DEPTH, given=given)
    with comparators.candidates_of(method) as recall:
        found = scoring.top_k(query, source, K)
        own = scoring.top_k(Embeddings(base, "cosine"), Embeddings(by_base, "cosine"), K)
    hits = 0
    for row in range(5):
        cosine = by_base @ base[row]
        boosted = cosine + probability @ chosen[row]
        nearest = sorted(range(20), key=lambda place: -cosine[place])
        first = sorted(nearest[:DEPTH], key=lambda place: -boosted[place])[:K]
        assert found.index[row].tolist() == first
        assert own.index[row].tolist() == nearest[:K]
        hits += len({*first} & {*np.argsort(-boosted)[:K].tolist()})
    assert recall == pytest.approx([hits / (5 * K)])
    assert 0 < recall[0] < 1
