"""The program that trains the dials of a map of transfer: names, resumption, and equal weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from standins import QUERIES, SOURCES, Bench
from standins.programs import load_program
from standins.training import OFFLINE, run

from polarity_bench.encoders.probe import TEXTS as PROBE
from polarity_bench.encoders.sentence_transformer_encoder import SentenceTransformerEncoder

FILE = Path(__file__).parents[2] / "benchmarks" / "transfer.py"


@pytest.fixture(scope="module")
def program() -> Any:
    return load_program(FILE)


def test_a_dial_is_named_by_the_settings_that_differ(program: Any) -> None:
    folder = Path("dials")
    job = program.job_of(folder, "minilm", "sst2", program.LABELS, 0)
    assert (job.output, job.task, job.recipe.labels_from) == (folder / "sst2-minilm", "sst2", None)
    assert (job.recipe.head, job.recipe.labels, job.recipe.strength) == ("linear", 1200, 0.25)
    job = program.job_of(folder, "e5-small", "cr", 20, 3, "query: ")
    assert (job.output, job.task, job.recipe.labels_from) == (
        folder / "cr-e5-small-20-3",
        "sst2",
        "cr",
    )
    assert (job.recipe.seed, job.options.prompt) == (3, "query: ")


def test_a_dial_has_the_weights_of_the_command_and_encodes_its_labelled_texts_alone(
    program: Any,
    bench: Bench,
    tiny_model: Path,
    task_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded: list[str] = []
    tokenize = SentenceTransformerEncoder.tokenize

    def counted(encoder: SentenceTransformerEncoder, texts: Sequence[str]) -> dict[str, Any]:
        encoded.extend(text for text in texts if text not in PROBE)
        return tokenize(encoder, texts)

    monkeypatch.setattr(SentenceTransformerEncoder, "tokenize", counted)
    done = bench("run", "--model", tiny_model, "--tasks", "mini", "--task-dir", task_dir)
    assert done.code == 0, done.err
    assert set(encoded) == {text for text, _ in [*SOURCES, *QUERIES]}
    job = program.job_of(tmp_path, str(tiny_model), "mini", 8, 0)
    folder = tmp_path / "dial"
    job = replace(job, output=folder, task_dir=task_dir, options=OFFLINE)
    encoded.clear()
    said = program.train_with_stored_vectors(job)
    assert said.startswith("dial: P ")
    assert len(encoded) == len(set(encoded)) == 8
    assert program.train_with_stored_vectors(job) == f"{said}, already there"
    run(tiny_model, task_dir, tmp_path / "plain", job.recipe)
    for file in ("model.safetensors", "3_Axis/model.safetensors", "3_Axis/config.json"):
        assert (folder / file).read_bytes() == (tmp_path / "plain" / file).read_bytes(), file
