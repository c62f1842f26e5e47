"""One seed gives one encoder, whatever the store holds and whoever stored it first."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from standins import Bench, HashEncoder, tiny_encoder, write_task
from standins.models import WORDS
from standins.training import SMALL, run

from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.embedding.store import EmbeddingStore
from polarity_bench.encoders.load import EncoderOptions, SentenceTransformerEncoder, load_encoder
from polarity_bench.encoders.probe import TEXTS as PROBE
from polarity_bench.sweeps.execute import make
from polarity_bench.sweeps.grid import read_grid
from polarity_bench.sweeps.items import Setup
from polarity_bench.sweeps.state_files import SweepState
from polarity_bench.tasks.catalogue import load_tasks
from polarity_bench.tasks.types.base import Settings
from polarity_bench.training.examples.source import generate_examples
from polarity_bench.training.examples.spec import ExampleSpec
from polarity_bench.training.recipes.axis.recipe import Axis
from polarity_bench.training.recipes.base import Recipe
from polarity_bench.values import FloatArray

RECIPES: dict[str, Recipe] = {
    "axis": Axis(),
    "shared": Axis(head="shared", epochs=1, batch_size=12, rate=3e-3, keep=1.0),
    "some labels": Axis(labels=20),
    "margins": SMALL,
}
GRID = """
title = "Two recipes"
[all]
model = "{model}"
task = "mini"
[[train]]
recipe = "margins"
examples = 32
batch_size = 8
epochs = 1
threshold = -1
neighbours = 4
held_out = 6
seed = [1, 2]
[[train]]
recipe = "axis"
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder whose last bits depend on the length that a text is padded to, as real ones' do.

    At a width of 96 they do here, at 64 they do not; what is promised holds at any.
    """
    return tiny_encoder(
        tmp_path_factory.mktemp("models") / "wide", n_layers=1, width=96, max_tokens=30
    )


@pytest.fixture
def task_dir(tmp_path: Path) -> Path:
    """The task `mini` with 60 sources of many lengths, of which 16 are drawn."""
    generator = np.random.default_rng(0)
    texts = [
        (" ".join(generator.choice(WORDS, size=generator.integers(3, 24))), str(label))
        for label in [0, 1] * 34
    ]
    folder = tmp_path / "tasks"
    folder.mkdir()
    file = write_task(folder, sources=texts[:60], queries=texts[60:])
    said = file.read_text().replace("sources_per_query = 0", "sources_per_query = 2")
    file.write_text(said)
    return folder


@pytest.fixture
def moved_by_mates(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Move every vector by its batch, far more than padding does; returns the batches."""
    tokenize = SentenceTransformerEncoder.tokenize
    encode_tokens = SentenceTransformerEncoder.encode_tokens
    batches, tokenized = list[list[str]](), deque[list[str]]()

    def noted(self: SentenceTransformerEncoder, texts: Sequence[str]) -> dict[str, Any]:
        tokenized.append(list(texts))
        return tokenize(self, texts)

    def moved(self: SentenceTransformerEncoder, features: dict[str, Any]) -> FloatArray:
        batch = tokenized.popleft()
        if not {*batch} <= {*PROBE}:
            batches.append(batch)
        vectors = encode_tokens(self, features)
        return np.asarray(vectors + _noise(batch, vectors.shape[1]), dtype=np.float32)

    monkeypatch.setattr(SentenceTransformerEncoder, "tokenize", noted)
    monkeypatch.setattr(SentenceTransformerEncoder, "encode_tokens", moved)
    return batches


def _noise(texts: Sequence[str], size: int) -> FloatArray:
    """A vector that only the batch decides, whatever the order of its texts."""
    digest = hashlib.blake2b("\n".join(sorted(texts)).encode(), digest_size=8).digest()
    generator = np.random.default_rng(int.from_bytes(digest))
    return np.asarray(0.2 * generator.standard_normal(size))


def split_texts(task_dir: Path) -> list[str]:
    spec: Any = load_tasks(task_dir)["mini"]
    return list(spec.load_split("source", DataAccess(offline=True)).texts)


def warm(model: Path, task_dir: Path, how: str, bench: Bench) -> None:
    """Store vectors in other batches than a training's, as other commands do."""
    if how == "other texts":
        texts = split_texts(task_dir)
        with EmbeddingStore() as store:
            encoder = load_encoder(str(model))
            Embedder(store, batch_size=7).embed(encoder, texts[::3])
            Embedder(store).embed(encoder, texts[1::3])
        return
    words = ["--task-dir", task_dir, "--model", model]
    if how == "run":
        done = bench("run", "--tasks", "mini", "--limit", "5", *words)
    elif how == "train":
        small = ["--examples", "32", "--batch-size", "8", "--epochs", "1", "--threshold", "-1"]
        small += ["--neighbours", "4", "--held-out", "9", "--seed", "7", "--output", "other"]
        done = bench("train", "--task", "mini", *small, *words)
    else:
        small = ["--examples", "32", "--threshold", "-1", "--neighbours", "4", "--output", "made"]
        done = bench("examples", "--task", "mini", *small, *words)
    assert done.code == 0, done.err


def made(folder: Path) -> dict[str, bytes]:
    """All weights that a run left, and its history."""
    files = [*folder.rglob("*.safetensors"), folder / "history.csv"]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@pytest.mark.parametrize(
    ("recipe", "how"),
    [
        *((recipe, "other texts") for recipe in RECIPES),
        *(("axis", how) for how in ("run", "train", "examples")),
    ],
)
def test_weights_do_not_depend_on_what_other_commands_stored(
    recipe: str,
    how: str,
    model: Path,
    task_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bench: Bench,
    moved_by_mates: list[list[str]],
) -> None:
    fresh = run(model, task_dir, tmp_path / "fresh", RECIPES[recipe], store=True)
    monkeypatch.setenv("POLARITY_BENCH_CACHE", str(tmp_path / "warm"))
    warm(model, task_dir, how, bench)
    warmed = run(model, task_dir, tmp_path / "warmed", RECIPES[recipe], store=True)
    assert moved_by_mates
    assert made(warmed.folder) == made(fresh.folder)


def test_weights_of_a_real_encoder_do_not_depend_on_the_store(
    model: Path, task_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bench: Bench
) -> None:
    """Here nothing but padding moves the vectors, by their last bits."""
    fresh = run(model, task_dir, tmp_path / "fresh", RECIPES["axis"], store=True)
    unstored = run(model, task_dir, tmp_path / "unstored", RECIPES["axis"], store=False)
    assert made(unstored.folder) == made(fresh.folder)
    monkeypatch.setenv("POLARITY_BENCH_CACHE", str(tmp_path / "warm"))
    warm(model, task_dir, "other texts", bench)
    warmed = run(model, task_dir, tmp_path / "warmed", RECIPES["axis"], store=True)
    assert made(warmed.folder) == made(fresh.folder)


def test_examples_do_not_depend_on_the_store(task_dir: Path, tmp_path: Path) -> None:
    class Mates(HashEncoder):
        def encode(self, texts: Sequence[str]) -> FloatArray:
            vectors = super().encode(texts)
            return np.asarray(vectors / 2**15 + 5 * _noise(texts, 16), dtype=np.float32)

    found = []
    for warmed in (False, True):
        with EmbeddingStore(tmp_path / str(warmed)) as store:
            embedder = Embedder(store)
            if warmed:
                embedder.embed(Mates(), split_texts(task_dir)[::2])
            spec = ExampleSpec(examples=40, neighbours=3, threshold=-1.0)
            drawn = generate_examples(
                "mini", encoder=Mates(), spec=spec, task_dir=task_dir, embedder=embedder
            )
            found.append(drawn.to_dict())
    assert found[0] == found[1]


def test_a_run_encodes_each_text_once_and_another_seed_its_held_out_queries_alone(
    model: Path, task_dir: Path, tmp_path: Path, moved_by_mates: list[list[str]]
) -> None:
    base = replace(SMALL, rate=1e-9, epochs=1)
    run(model, task_dir, tmp_path / "first", replace(base, examples=8), store=True)
    whole = {*split_texts(task_dir), *texts_of_task(task_dir)}
    stored = moved_by_mates[: n_of_base(moved_by_mates, len(whole))]
    encoded = [text for batch in stored for text in batch]
    assert set(encoded) == whole
    assert len(encoded) <= len(whole) + 6, "the held-out queries are encoded with the rest, too"
    del moved_by_mates[:]
    run(model, task_dir, tmp_path / "axis", Axis(), store=True)
    assert not moved_by_mates, "the axis is trained and scored on the stored vectors of the base"
    run(model, task_dir, tmp_path / "few", Axis(labels=20), store=True)
    encoded = [text for batch in moved_by_mates for text in batch]
    assert len(encoded) == 20, "texts that were drawn are a group of their own"


def texts_of_task(task_dir: Path) -> set[str]:
    spec: Any = load_tasks(task_dir)["mini"]
    return set(spec.load(DataAccess(offline=True), Settings()).texts)


def n_of_base(batches: Sequence[Sequence[str]], n_texts: int) -> int:
    """How many batches there are until all texts were encoded once."""
    seen: set[str] = set()
    for number, batch in enumerate(batches, start=1):
        seen |= set(batch)
        if len(seen) == n_texts:
            return number
    raise AssertionError(f"{len(seen)} of {n_texts} texts were encoded")


def test_vectors_of_another_number_of_threads_are_not_used(
    model: Path, task_dir: Path, tmp_path: Path, moved_by_mates: list[list[str]]
) -> None:
    """Sums, and so last bits, depend on it."""
    before = torch.get_num_threads()
    n_encoded = []
    try:
        for number, n_threads in enumerate((1, 1, 2)):
            torch.set_num_threads(n_threads)
            del moved_by_mates[:]
            run(model, task_dir, tmp_path / str(number), Axis(), store=True)
            n_encoded.append(sum(map(len, moved_by_mates)))
    finally:
        torch.set_num_threads(before)
    assert n_encoded[0] == n_encoded[2] > n_encoded[1]


def test_weights_of_a_sweep_do_not_depend_on_which_item_came_first(
    model: Path,
    task_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    moved_by_mates: list[list[str]],
) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(GRID.format(model=model))
    found = []
    for order in (1, -1):
        monkeypatch.setenv("POLARITY_BENCH_CACHE", str(tmp_path / f"cache{order}"))
        setup = Setup(tmp_path / f"sweep{order}", EncoderOptions(offline=True), task_dir=task_dir)
        items = read_grid(grid, setup)
        state = SweepState(setup.output)
        state.make_folders()
        bases = [item for item in items.items if item.kind == "evaluation"]
        for item in [*bases, *items.trainings[::order]]:
            outcome = make(item, setup, state)
            assert outcome.state == "done", outcome.why
        runs = sorted((setup.output / "runs").iterdir())
        found.append({folder.name: made(folder) for folder in runs})
    assert len(found[0]) == 3
    assert found[0] == found[1]
    assert moved_by_mates


@pytest.mark.slow
def test_weights_of_a_sweep_do_not_depend_on_the_number_of_workers(
    model: Path, task_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bench: Bench
) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(GRID.format(model=model))
    found = []
    for n in (1, 2):
        monkeypatch.setenv("POLARITY_BENCH_CACHE", str(tmp_path / f"cache{n}"))
        words = ["sweep", grid, "--workers", str(n), "--task-dir", task_dir, "-o", f"sweep{n}"]
        done = bench(*words)
        assert done.code == 0, done.err
        runs = sorted((tmp_path / f"sweep{n}" / "runs").iterdir())
        found.append({folder.name: made(folder) for folder in runs})
    assert found[0] == found[1]
