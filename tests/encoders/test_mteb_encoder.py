"""Encoders by mteb's own implementation: prompts by task, identity, storing and errors."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mteb
import numpy as np
import pytest
from mteb.models import ModelMeta
from mteb.models.model_implementations import MODEL_REGISTRY
from mteb.models.sentence_transformer_wrapper import SentenceTransformerEncoderWrapper
from standins import Bench, write_task

from polarity_bench import evaluate, load_task
from polarity_bench.encoders.load import EncoderOptions, load_encoder
from polarity_bench.errors import InputError
from polarity_bench.integrations.mteb_tasks import register
from polarity_bench.tasks.types.base import Task

NAME = "testers/tiny"
RANDOM = "mteb/baseline-random-encoder"


class Recording(SentenceTransformerEncoderWrapper):
    """Wrapper that records the number of texts and the prompt of each call."""

    calls: list[tuple[int, str | None]]

    def __init__(self, model: str, **kwargs: Any) -> None:
        super().__init__(model, **kwargs)
        self.calls = CALLS

    def encode(self, inputs: Any, **where: Any) -> Any:
        where["show_progress_bar"] = False
        vectors = super().encode(inputs, **where)
        prompt = self.get_prompt_name(where["task_metadata"], where.get("prompt_type"))
        self.calls.append((len(vectors), prompt))
        return vectors


CALLS: list[tuple[int, str | None]] = []


def meta(**values: Any) -> ModelMeta:
    return ModelMeta.create_empty(
        overwrites={"name": NAME, "revision": "r1", "loader": None, **values}
    )


@pytest.fixture
def registered(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Register a tiny model with prompts for task types and sides; yield the list of its calls."""

    def load(name: str, revision: str | None = None, device: str | None = None, **_: Any) -> Any:
        prompts = {"Retrieval": "The ", "STS": "What a ", "query": "Such a ", "document": "A "}
        return Recording(str(tiny_model), device="cpu", model_prompts=prompts)

    monkeypatch.setitem(MODEL_REGISTRY, NAME, meta(loader=load))
    monkeypatch.setitem(MODEL_REGISTRY, "testers/sided", meta(name="testers/sided", loader=sided))
    monkeypatch.setattr(f"{__name__}.TINY", str(tiny_model), raising=False)
    CALLS.clear()
    yield CALLS
    CALLS.clear()


def sided(name: str, revision: str | None = None, device: str | None = None, **_: Any) -> Any:
    tiny: str = globals()["TINY"]
    prompts = {"query": "Such a ", "document": "A "}
    return Recording(tiny, device="cpu", model_prompts=prompts)


@pytest.fixture
def mini(task_dir: Path) -> Task:
    return load_task("mini", task_dir=task_dir)


def test_scores_are_those_of_mteb(registered: list[Any], task_dir: Path, mini: Task) -> None:
    register(task_dir)
    ours = evaluate(f"mteb:{NAME}", mini)
    assert registered == [(32, "Retrieval")]
    for name, result in ((NAME, ours), (RANDOM, evaluate(f"mteb:{RANDOM}", mini))):
        with warnings.catch_warnings(action="ignore"):  # mteb's remarks about prompts
            model = mteb.get_model(name)
        task: Any = mteb.get_task(mini.spec.result_name)
        done = mteb.evaluate(model, task, cache=None, show_progress_bar=False)
        assert done.task_results[0].get_score() == pytest.approx(result.main.mean, abs=1e-6)


def test_the_identity_is_the_name_and_the_revision(registered: list[Any], mini: Task) -> None:
    encoder = load_encoder(f"mteb:{NAME}")
    assert (encoder.id.name, encoder.id.revision) == (NAME, "r1")
    assert encoder.id.weights == f"mteb:{NAME}@r1"
    assert evaluate(encoder, mini).key.encoder == encoder.id
    assert evaluate("random", mini, reference=encoder).key.reference == encoder.id
    with pytest.raises(InputError, match=r"'mteb:testers/tiny' encodes only the texts of a task"):
        encoder.encode(["a"])


def test_sides_are_the_prompt_types_of_mteb(registered: list[Any], mini: Task) -> None:
    encoder = load_encoder("mteb:testers/sided", EncoderOptions(sides="query-document"))
    result = evaluate(encoder, mini)
    assert sorted(registered) == [(8, "query"), (24, "document")]
    assert result.key.encoder.label == "testers/sided (sides query-document)"
    one = load_encoder("mteb:testers/sided", EncoderOptions(sides="document"))
    assert evaluate(one, mini).key.encoder.digest != encoder.id.digest
    assert registered[2:] == [(32, "document")]


def test_vectors_are_stored_only_on_request_and_by_task(
    registered: list[Any], bench: Bench, task_dir: Path
) -> None:
    write_task(task_dir, "mini-again")
    run = ["run", "--tasks", "mini,mini-again", "--task-dir", task_dir, "--overwrite"]
    run += ["--model", f"mteb:{NAME}"]
    first = bench(*run)
    assert first.code == 0, first.err
    assert "64 texts, 64 distinct, 64 encoded" in first.err
    assert registered == [(32, "Retrieval")] * 2
    assert "64 encoded" in bench(*run).err
    stored = bench(*run, "--store-vectors")
    assert "64 encoded" in stored.err
    again = bench(*run, "--store-vectors", "--quantize", "int8")
    assert again.code == 0
    assert "0 encoded in" in again.err
    assert f"{NAME} (int8 vectors), reference: {NAME}" in again.out
    assert first.out == stored.out
    alone = bench(*run, "--quantize", "int8")
    assert alone.out == again.out
    assert len(registered) == 8  # the whole vectors of a task are encoded once, not twice


def test_other_commands_use_the_prompts_of_their_task(
    registered: list[Any], bench: Bench, task_dir: Path
) -> None:
    done = bench("neighbours", "What a warm evening.", "--model", f"mteb:{NAME}", "--no-store")
    assert done.code == 0, done.err
    assert {prompt for _, prompt in registered} == {"Retrieval"}
    run = ["--task", "mini", "--task-dir", task_dir, "--no-store"]
    done = bench("explain", "-m", f"mteb:{NAME}", "--against", f"mteb:{RANDOM}", *run)
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mteb", {}, r"the encoder 'mteb' is incomplete; use mteb:NAME"),
        ("mteb:testers/tini", {}, r"no such model; did you mean 'testers/tiny'"),
        (f"mteb:{NAME}", {"revision": "r2"}, r"ValueError: Model revision r2 not found"),
        (f"mteb:{NAME}", {"prompt": "a"}, r"'mteb:testers/tiny' takes no `prompt`"),
        (f"mteb:{NAME}", {"dtype": "bfloat16"}, r"'mteb:testers/tiny' takes no `dtype`"),
        (
            "mteb:mteb/baseline-bm25s",
            {},
            r"expected a model of type dense, .*, got .*; give another",
        ),
        ("mteb:testers/coded", {}, r"needs its own code: set `trust_remote_code` if you trust"),
        ("mteb:testers/broken", {}, r"broken cannot be loaded as an encoder: OSError: no key"),
    ],
)
def test_what_cannot_be_loaded_is_refused(
    registered: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    options: dict[str, Any],
    message: str,
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError("no\nkey")

    coded = meta(name="testers/coded", loader=fail, loader_kwargs={"trust_remote_code": True})
    monkeypatch.setitem(MODEL_REGISTRY, "testers/coded", coded)
    monkeypatch.setitem(MODEL_REGISTRY, "testers/broken", meta(name="testers/broken", loader=fail))
    with pytest.raises(InputError, match=message):
        load_encoder(name, EncoderOptions(**options))


def test_a_run_names_similar_models_as_json(bench: Bench, registered: list[Any]) -> None:
    done = bench("run", "--model", "mteb:sentence-transformers/all-MiniLM-L6", "--json")
    assert done.code == 2
    assert "'sentence-transformers/all-MiniLM-L6-v2'" in json.loads(done.out)["error"]


def test_a_renamed_model_is_found(mini: Task) -> None:
    encoder = load_encoder("mteb:baseline/random-encoder")
    assert encoder.id.name == RANDOM
    assert np.isfinite(evaluate(encoder, mini).main.mean)
