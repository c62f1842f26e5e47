"""An encoder class of one's own: what it needs, and when its vectors are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from polarity_bench import (
    Embedder,
    EmbeddingStore,
    Encoder,
    EncoderId,
    evaluate,
    load_task,
)
from polarity_bench.encoders.load import SentenceTransformerEncoder
from polarity_bench.errors import InputWarning
from polarity_bench.tasks.types.base import Task
from polarity_bench.training import ExampleSpec, generate_examples
from polarity_bench.values import FloatArray, IntArray


class Waves:
    """What a user writes: `speed` stands for the code that changes."""

    def __init__(self, speed: float) -> None:
        self.id = EncoderId(name="waves", weights="waves-v1")
        self._speed = speed

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        return np.array([len(text.split()) for text in texts])

    def encode(self, texts: Sequence[str]) -> FloatArray:
        rows = [[1, np.sin(self._speed * sum(text.encode()))] for text in texts]
        return np.array(rows, dtype=np.float32)


class Kept(Waves):
    stores_vectors = True


class Above(Kept):
    """It inherits what its base class says of itself alone."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddingStore]:
    with EmbeddingStore(tmp_path / "store") as store:
        yield store


@pytest.fixture
def task(task_dir: Path) -> Task:
    return load_task("mini", task_dir=task_dir)


def vectors_of(encoder: Encoder, task: Task, store: EmbeddingStore | None) -> FloatArray:
    return Embedder(store).embed(encoder, task.texts).sources(task.texts).vectors


@pytest.mark.parametrize("kind", [Waves, Above])
def test_changed_code_under_the_same_weights_gets_its_own_vectors(
    kind: type[Waves], task: Task, store: EmbeddingStore
) -> None:
    found = []
    for speed in (1.0, 2.0):
        scored = evaluate(kind(speed), task, embedder=Embedder(store))
        assert scored.flat == pytest.approx(evaluate(kind(speed), task).flat, nan_ok=True)
        found.append(vectors_of(kind(speed), task, store))
        assert np.array_equal(found[-1], kind(speed).encode(task.texts))
    assert not np.array_equal(found[0], found[1])
    assert store.usage() == ()


def test_changed_code_gets_its_own_neighbours(task_dir: Path, store: EmbeddingStore) -> None:
    found = []
    for speed in (0.1, 2.0):
        given: dict[str, Any] = {
            "encoder": Waves(speed),
            "spec": ExampleSpec(threshold=-1, neighbours=1),
            "task_dir": task_dir,
            "held_out": 0,
        }
        found.append(generate_examples("mini", embedder=Embedder(store), **given).to_dict())
        assert found[-1] == generate_examples("mini", **given).to_dict()
    assert found[0] != found[1]


def test_a_class_that_asks_for_the_store_is_stored_with_a_warning(
    task: Task, store: EmbeddingStore
) -> None:
    says = r"waves only by its `weights`, 'waves-v1'; change `weights` whenever Kept"
    with pytest.warns(InputWarning, match=says):
        first = vectors_of(Kept(1.0), task, store)
    with pytest.warns(InputWarning, match=says):
        again = vectors_of(Kept(2.0), task, store)
    assert np.array_equal(first, again)


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_a_subclass_of_our_encoder_is_not_stored(
    task: Task,
    store: EmbeddingStore,
    tiny_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    device: str,
) -> None:
    """Its digest is that of the model, whatever its own `encode` does."""

    class Signs(SentenceTransformerEncoder):
        def encode(self, texts: Sequence[str]) -> FloatArray:
            return np.sign(super().encode(texts))

    # The code for GPUs runs without one.
    monkeypatch.setattr(SentenceTransformerEncoder, "device", device)
    model = SentenceTransformer(str(tiny_model), device="cpu")
    ours = vectors_of(SentenceTransformerEncoder(model, name="ours"), task, store)
    signs = vectors_of(Signs(model, name="signs"), task, store)
    assert np.array_equal(signs, np.sign(vectors_of(Signs(model, name="signs"), task, None)))
    assert not np.array_equal(ours, signs)
    assert np.array_equal(
        ours, vectors_of(SentenceTransformerEncoder(model, name="ours"), task, store)
    )
