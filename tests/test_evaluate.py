"""`evaluate` in Python: what it takes, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from standins import HashEncoder

from polarity_bench import (
    InputError,
    PolarityEvaluator,
    ScoreKey,
    Settings,
    evaluate,
    load_task,
    score,
    training,
)
from polarity_bench.encoders.function_encoder import PROBES
from polarity_bench.encoders.load import EncoderOptions, load_folder
from polarity_bench.encoders.reference_encoder import name_of
from polarity_bench.tasks.types.polarity.task import PolarityTask
from polarity_bench.training.recipes import RECIPES


def test_a_sentence_transformer_is_evaluated_like_its_folder(
    task_dir: Path, tiny_model: Path
) -> None:
    task = load_task("mini", task_dir=task_dir)
    model = SentenceTransformer(str(tiny_model), device="cpu")
    for reference in (None, HashEncoder()):
        expected = evaluate(str(tiny_model), task, reference=reference)
        found = evaluate(model, task, reference=reference)
        assert found.flat == pytest.approx(expected.flat, abs=1e-9, nan_ok=True)
        assert found.key.digest == expected.key.digest
        assert found.key.encoder.name == "tiny"
    by_model, by_name = (
        evaluate(HashEncoder(), task, reference=reference).key.digest
        for reference in (model, str(tiny_model))
    )
    assert by_model == by_name


def test_a_model_that_was_loaded_by_name_keeps_it_until_it_is_trained(tiny_model: Path) -> None:
    model = load_folder(tiny_model, "org/tiny", None, EncoderOptions()).model
    assert name_of(model) == "org/tiny"
    with torch.no_grad():
        next(model.parameters()).add_(1)
    assert name_of(model) == "tiny"


def test_an_encoder_whose_id_is_no_encoder_id_and_a_class_are_refused(task_dir: Path) -> None:
    task = load_task("mini", task_dir=task_dir)

    class Named(HashEncoder):
        id: Any = "mine"

        def __init__(self) -> None:
            pass

    with pytest.raises(
        InputError, match=r"`encoder`: the encoder's `id` must be an EncoderId, got 'mine'"
    ):
        evaluate(Named(), task)
    given: Any = HashEncoder
    with pytest.raises(InputError, match=r"`encoder`: .* got the class HashEncoder; give HashE"):
        evaluate(given, task)


@pytest.mark.parametrize("field", ["encoder", "reference"])
def test_what_is_no_encoder_is_refused(task_dir: Path, field: str) -> None:
    task = load_task("mini", task_dir=task_dir)
    given: dict[str, Any] = {"encoder": HashEncoder(), field: object()}
    with pytest.raises(InputError, match=rf"`{field}`: expected a name, .* got object; see"):
        evaluate(task=task, **given)


@pytest.mark.parametrize(
    "use", [lambda *given, **more: evaluate(HashEncoder(), *given, **more), PolarityEvaluator]
)
def test_settings_that_a_loaded_task_would_ignore_are_refused(use: Any, task_dir: Path) -> None:
    task = load_task("mini", task_dir=task_dir)
    says = r"`settings`: the task 'mini' is already loaded.* load_task\('mini', settings="
    with pytest.raises(InputError, match=says):
        use(task, settings=Settings(limit=4))


def test_every_recipe_is_exported() -> None:
    for recipe in RECIPES.values():
        assert getattr(training, recipe.__name__) is recipe


def test_a_folder_and_a_function_are_encoders(task_dir: Path, tiny_model: Path) -> None:
    task, encoder = load_task("mini", task_dir=task_dir), HashEncoder()
    by_path, by_name = evaluate(tiny_model, task), evaluate(str(tiny_model), task)
    assert by_path.key.digest == by_name.key.digest
    found = evaluate(encoder.encode, task)
    assert found.flat == pytest.approx(evaluate(encoder, task).flat, abs=1e-6, nan_ok=True)
    other = evaluate(lambda texts: [[len(text), 1.0] for text in texts], task)
    assert other.key.encoder.digest != found.key.encoder.digest
    assert evaluate(encoder.encode, task, reference=encoder.encode).key.reference is None
    rare = next(text for text in task.texts if text not in PROBES)
    with pytest.raises(InputError, match=r"`reference`: the functions .* count as one encoder"):
        evaluate(
            encoder.encode,
            task,
            reference=lambda texts: [
                (-1) ** (text == rare) * row
                for text, row in zip(texts, encoder.encode(texts), strict=True)
            ],
        )
    with pytest.raises(InputError, match=r"shape \(4, d\) for 4 texts, got \(4,\)"):
        evaluate(lambda texts: [1.0 for _ in texts], task)


def test_vectors_score_as_the_encoder_that_made_them(task_dir: Path) -> None:
    task, encoder, reference = load_task("mini", task_dir=task_dir), HashEncoder(), HashEncoder("b")
    assert isinstance(task, PolarityTask)
    texts = task.query.texts, task.source.texts
    labels = task.query.labels, task.source.labels
    stored = evaluate(encoder, task, reference=reference).scores
    unweighted = {key.metric for key in stored if key.k is None} | {"overlap"}
    weightings: tuple[str, ...] = ("linear", "uniform")
    for weighting in weightings:
        found = score(
            encoder.encode(texts[0]),
            encoder.encode(texts[1]),
            labels[0],
            labels[1],
            reference_queries=reference.encode(texts[0]),
            reference_sources=reference.encode(texts[1]),
            k=4,
            weighting=weighting,
        )
        for metric in ("polarity", "similarity", "retention", "joint"):
            expected = stored[ScoreKey(metric, 4, weighting)]
            assert (found[metric].mean, found[metric].ci95) == (expected.mean, expected.ci95)
        assert set(found) == {key.metric for key in stored}
        for metric in unweighted:
            k = 4 if metric == "overlap" else None
            assert found[metric].mean == stored[ScoreKey(metric, k)].mean


def test_labels_are_compared_by_value() -> None:
    vectors = [[1.0, 0.0], [0.0, 1.0]]
    for sources in ([0, 1], [0.0, 1.0], [False, True], list(np.arange(2))):
        assert score(vectors, vectors, [0, 1], sources, k=1)["polarity"].mean == 1
    with pytest.raises(InputError, match="no source has the label 0"):
        score(vectors, vectors, [0, 1], ["0", "1"], k=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query_labels": "a"}, r"`queries`: expected vectors of shape \(1, d\), .* got \(2, 2\)"),
        ({"sources": [1.0, 2.0, 3.0]}, r"`sources`: expected vectors of shape \(3, d\)"),
        ({"reference_queries": [[1.0]]}, "give both `reference_queries` and `reference_sources`"),
        ({"k": 0}, "`k` must be at least 1, got 0"),
        ({"k": 4}, "k = 4 needs at least 4 sources, got 3"),
        ({"queries": [[0.0, 0.0], [1.0, 1.0]]}, "is all zero"),
        ({"query_labels": "ac"}, "`query_labels`: no source has the label 'c'"),
        ({"query_labels": "aa", "source_labels": "aaa"}, "at least two labels, .* got 'a'"),
        ({"weighting": "Linear"}, "unknown `weighting` 'Linear'; did you mean 'linear'"),
    ],
)
def test_vectors_that_cannot_be_scored_are_refused(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {
        "queries": [[1.0, 0.0], [0.0, 1.0]],
        "sources": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
        "query_labels": "ab",
        "source_labels": "aba",
        "k": 1,
    }
    with pytest.raises(InputError, match=message):
        score(**(given | change))
