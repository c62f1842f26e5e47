"""The recipe `scl` end to end: a tiny encoder on made-up pairs, killed, gone on with, refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import softmax
from standins import SOURCES, call
from standins.training import equal, job_of, run, weights

from polarity_bench.classifiers.classifier import Classifier
from polarity_bench.classifiers.head import HEAD_FILE
from polarity_bench.data.nli import CLASSES
from polarity_bench.encoders.load import EncoderOptions, load_encoder
from polarity_bench.errors import InputError
from polarity_bench.training.job import Job
from polarity_bench.training.loops.descent import Checkpoints
from polarity_bench.training.parameters import ParameterWarning
from polarity_bench.training.recipes.scl.pair_objective import PairObjective
from polarity_bench.training.recipes.scl.recipe import Scl

TEXTS = [text for text, _ in SOURCES]


def write_pairs(path: Path, n_premises: int = 12) -> Path:
    """Three pairs a premise, one of each class, then one without a label."""
    lines = []
    for i, premise in enumerate(TEXTS[:n_premises]):
        labels = [*CLASSES, *(["-"] if i % 4 == 0 else [])]
        for step, label in enumerate(labels, start=1):
            hypothesis = TEXTS[(i + 5 * step) % len(TEXTS)].replace("The", "A")
            record = {"gold_label": label, "sentence1": premise, "sentence2": hypothesis}
            lines.append(json.dumps(record) + "\n")
    path.write_text("".join(lines))
    return path


@pytest.fixture
def small(tmp_path: Path) -> Scl:
    """12 batches of one premise each."""
    return Scl(pairs=str(write_pairs(tmp_path / "pairs.jsonl")), batch_size=3, rate=1e-3)


def test_a_run_leaves_an_encoder_its_classifier_and_what_was_counted(
    small: Scl, tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    from sentence_transformers import SentenceTransformer

    done = run(tiny_model, task_dir, tmp_path / "x", small)
    assert [(row["epoch"], row["step"]) for row in done.rows] == [(0, 0), (1, 12)]
    assert done.rows[0]["retention"] == pytest.approx(1.0)
    assert done.kept == 12
    assert done.figures == {
        "pairs": 36,
        "pairs_without_label": 3,
        "batches": 12,
        "batches_without_positives": 0,
        "queries_among_pairs": 0,
        "held_out": 0,
    }
    assert done.speed is not None
    assert done.speed > 0
    loaded = SentenceTransformer(str(tmp_path / "x"), device="cpu")
    assert [type(part).__name__ for part in loaded] == ["Transformer", "WordWeights", "Pooling"]
    found, base = weights(tmp_path / "x"), weights(tiny_model)
    moved = "encoder.layer.0.output.dense.weight"
    assert not torch.equal(found[moved], base[moved])
    classifier = Classifier.load(tmp_path / "x")
    assert list(classifier.classes) == list(CLASSES)
    assert classifier.head.weight.shape == (3, 96)
    pairs = [("The a was warm.", "The b was cold."), ("The a was warm.", "The a was warm.")]
    shares = classifier.predict_proba(pairs)
    encoder = SentenceTransformer(str(tmp_path / "x"), device="cpu")
    u, v = (encoder.encode([pair[side] for pair in pairs]) for side in (0, 1))
    logits = np.hstack([u, v, abs(u - v)]) @ classifier.head.weight.T + classifier.head.bias
    assert_allclose(shares, softmax(logits, axis=1), atol=1e-5)
    assert not (tmp_path / "x" / "checkpoints").exists()
    card = (tmp_path / "x" / "README.md").read_text()
    for said in (
        "trained with polarity-bench on pairs of natural language inference (pairs.jsonl).",
        "0.7 cross-entropy + 0.3 contrastive loss",
        "temperature 1.0, similarity dot, positives all, negatives all, reading as-written",
        "36; 3 more have no label",
        "12 in one epoch, 0 without a positive",
        "On Task mini, in percent",
        "supervised-contrastive",
    ):
        assert said in card
    assert "datasets:" not in card


def test_the_published_encoder_is_judged_as_the_history_says(
    small: Scl, tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    from polarity_bench.evaluation.one_task import evaluate
    from polarity_bench.scores import ScoreKey
    from polarity_bench.tasks.catalogue import load_task

    done = run(tiny_model, task_dir, tmp_path / "x", small)
    encoder = load_encoder(str(tmp_path / "x"), EncoderOptions(device="cpu"))
    result = evaluate(encoder, load_task("mini", task_dir=task_dir))
    assert result.scores[ScoreKey("polarity", 4)].mean == done.rows[1]["polarity"]


def test_training_lowers_the_loss(
    small: Scl, tiny_model: Path, task_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thrice the same pairs: the last of three rounds is easier than the first."""
    losses: list[float] = []
    original = PairObjective.forward

    def noted(self: Any, *args: Any) -> Any:
        loss = original(self, *args)
        losses.append(loss.item())
        return loss

    monkeypatch.setattr(PairObjective, "forward", noted)
    recipe = replace(small, pairs=",".join([str(small.pairs)] * 8))
    run(tiny_model, task_dir, tmp_path / "x", recipe)
    assert np.mean(losses[-12:]) < 0.9 * np.mean(losses[:12])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_one_seed_gives_the_same_bytes(
    dtype: Any, small: Scl, tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    small = replace(small, dtype=dtype)
    for name, recipe in (("a", small), ("b", small), ("c", replace(small, seed=1))):
        run(tiny_model, task_dir, tmp_path / name, recipe)
    for file in ("model.safetensors", HEAD_FILE):
        first, second, third = ((tmp_path / name / file).read_bytes() for name in "abc")
        assert first == second != third


@pytest.mark.parametrize("die_at", [2, 7])
@pytest.mark.parametrize("more", [{}, {"lambda_": 1.0, "positives": 1, "reading": "as-released"}])
def test_a_run_killed_at_a_step_ends_with_the_same_bytes(
    die_at: int,
    more: dict[str, Any],
    small: Scl,
    tiny_model: Path,
    task_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Checkpoints.__init__, "__defaults__", (3,))
    small = replace(small, **more)
    whole = run(tiny_model, task_dir, tmp_path / "whole", small)
    original = PairObjective.forward
    calls: list[slice] = []

    def counted(self: Any, rows: slice, *args: Any) -> Any:
        calls.append(rows)
        if len(calls) == die_at and not died:
            died.append(rows)
            raise KeyboardInterrupt
        return original(self, rows, *args)

    died: list[slice] = []
    monkeypatch.setattr(PairObjective, "forward", counted)
    with pytest.raises(KeyboardInterrupt):
        run(tiny_model, task_dir, tmp_path / "killed", small)
    assert not (tmp_path / "killed" / "modules.json").exists()
    calls.clear()
    again = run(tiny_model, task_dir, tmp_path / "killed", small)
    assert len(calls) == 12 - 3 * ((die_at - 1) // 3)
    assert [dict(row) for row in again.rows] == [dict(row) for row in whole.rows]
    files = ["model.safetensors", "1_WordWeights/model.safetensors", "history.csv"]
    for file in files + ([HEAD_FILE] if small.lambda_ < 1 else []):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "killed" / file).read_bytes()


def test_an_encoder_that_cuts_its_vectors_is_refused(
    small: Scl, tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    from sentence_transformers import SentenceTransformer

    cut = SentenceTransformer(str(tiny_model), device="cpu", truncate_dim=12)
    cut.save_pretrained(str(tmp_path / "cut"), create_model_card=False)
    with pytest.raises(
        InputError, match=r"`model`: the encoder truncates its vectors to 12 dimensions"
    ):
        run(tmp_path / "cut", task_dir, tmp_path / "x", small)


def test_with_contrast_alone_there_is_no_classifier(
    small: Scl, tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    run(tiny_model, task_dir, tmp_path / "x", replace(small, lambda_=1.0))
    assert not (tmp_path / "x" / HEAD_FILE).exists()
    card = (tmp_path / "x" / "README.md").read_text()
    assert HEAD_FILE not in card
    assert ", temperature 1.0, similarity dot, " in card


def test_the_baselines_of_more_data_train_another_encoder(
    small: Scl, tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    small = replace(small, lambda_=0.0, batch_size=6)
    recipes = {
        "sbert": small,
        "all": replace(small, cross_entropy="augmented"),
        "3p3n": replace(small, cross_entropy="augmented", positives=3, negatives=3),
    }
    for name, recipe in recipes.items():
        run(tiny_model, task_dir, tmp_path / name, recipe)
    found = [weights(tmp_path / name) for name in recipes]
    assert not any(equal(found[i], found[j]) for i in range(3) for j in range(i))


def test_batches_without_positives_are_counted_and_harm_nothing(
    tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    file = write_pairs(tmp_path / "pairs.jsonl", 4)
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines[4:] if "entailment" not in line) + lines[0])
    recipe = Scl(pairs=str(file), batch_size=2, lambda_=1.0, weight_decay=0.0)
    done = run(tiny_model, task_dir, tmp_path / "x", recipe)
    assert done.figures["batches"] == 4
    assert done.figures["batches_without_positives"] == 3
    assert all(tensor.isfinite().all() for tensor in weights(tmp_path / "x").values())


def test_the_tasks_queries_among_the_pairs_are_counted(
    small: Scl, tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    file = Path(str(small.pairs))
    known = file.read_text().replace(TEXTS[0], "what a warm, and honest evening")
    file.write_text(known)
    with pytest.warns(ParameterWarning, match="the pairs contain 1 of the 8 queries of mini"):
        done = run(tiny_model, task_dir, tmp_path / "x", small)
    assert done.figures["queries_among_pairs"] == 1


def test_pairs_of_a_premise_that_stand_apart_are_warned_of(
    small: Scl, tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    """As in MultiNLI's files: no order of batches would bring them together."""
    lines = Path(str(small.pairs)).read_text().splitlines(keepends=True)
    labelled = [line for line in lines if '"-"' not in line]
    apart = tmp_path / "apart.jsonl"
    apart.write_text("".join(labelled[0::3] + labelled[1::3] + labelled[2::3]))
    job = replace(small, pairs=str(apart))
    with pytest.warns(ParameterWarning, match="pairs of 12 of the 12 premises are not consecutive"):
        run(tiny_model, task_dir, tmp_path / "x", job)
    once = tmp_path / "once.jsonl"
    once.write_text("".join([*labelled[1:], labelled[0]]))
    with pytest.warns(ParameterWarning, match="pairs of 1 of the 12 premises are not consecutive"):
        run(tiny_model, task_dir, tmp_path / "y", replace(small, pairs=str(once)))


def test_other_pairs_are_another_run_wherever_they_lie(
    small: Scl, tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    first = run(tiny_model, task_dir, tmp_path / "x", small)
    moved = Path(str(small.pairs)).rename(tmp_path / "moved.jsonl")
    again = run(tiny_model, task_dir, tmp_path / "x", replace(small, pairs=str(moved)))
    assert again.reused
    assert again.run == first.run
    moved.write_text(moved.read_text().replace("neutral", "contradiction"))
    with pytest.raises(InputError, match="contains another run"):
        run(tiny_model, task_dir, tmp_path / "x", replace(small, pairs=str(moved)))


def test_as_released_a_limit_of_negatives_is_said_to_do_nothing(small: Scl) -> None:
    (said,) = replace(small, reading="as-released", negatives=3).remarks
    assert said.startswith(
        "negatives 3, as-released: as in the released code, the limit is ignored"
    )
    assert not replace(small, negatives=3).remarks


def test_a_loss_that_is_no_number_stops_with_its_step(
    small: Scl, tiny_model: Path, task_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = PairObjective.forward
    monkeypatch.setattr(PairObjective, "forward", lambda *args: original(*args) * float("nan"))
    with pytest.raises(InputError, match=r"step 1 of 12: the loss is nan; use a lower `rate`"):
        run(tiny_model, task_dir, tmp_path / "x", small)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"lambda_": 1.1}, "`lambda_` must be at most 1, got 1.1"),
        ({"lambda_": -0.1}, "`lambda_` must be at least 0, got -0.1"),
        ({"lambda_": float("nan")}, "`lambda_` must be finite, got nan"),
        ({"temperature": 0.0}, "`temperature` must be above 0, got 0.0"),
        ({"temperature": -1.0}, "`temperature` must be above 0, got -1.0"),
        ({"positives": 0}, "`positives` must be at least 1, got 0"),
        ({"negatives": "some"}, "`negatives` must be an integer or 'all', got 'some'"),
        ({"warm_up": 1.0}, "`warm_up` must be below 1, got 1"),
        ({"cross_entropy": "augmented"}, "`cross_entropy` augmented is a baseline .* got 0.3"),
        ({"lambda_": 0.0, "temperature": 0.5}, "`temperature` 0.5 has no effect without the"),
        ({"lambda_": 0.0, "similarity": "cosine"}, "`similarity` cosine has no effect without"),
        ({"lambda_": 0.0, "negatives": 3}, "`negatives` 3 has no effect without the"),
        ({"similarity": "cosin"}, "`similarity`: unknown value 'cosin'; did you mean 'cosine'"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Scl(pairs="x.jsonl", **changes)


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (None, "`pairs` is required; set it to files of NLI pairs"),
        (" , ", "`pairs` is required; set it to files of NLI pairs"),
        ("none.jsonl", "`pairs`: no such file: none.jsonl"),
    ],
)
def test_pairs_that_are_not_there_are_refused_before_anything_is_written(
    pairs: str | None, said: str, tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=said):
        run(tiny_model, task_dir, tmp_path / "x", Scl(pairs=pairs))
    assert not (tmp_path / "x").exists()


def test_a_job_with_it_is_written_and_read(small: Scl, tiny_model: Path, tmp_path: Path) -> None:
    job = job_of(tiny_model, tmp_path, tmp_path / "x", replace(small, positives=3))
    assert Job.from_toml(job.to_toml()) == job


def test_the_command_trains_and_names_its_options(
    small: Scl,
    tiny_model: Path,
    task_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["train", "--recipe", "scl", "--pairs", str(small.pairs), "--task", "mini"]
    given += ["--task-dir", str(task_dir), "--model", str(tiny_model), "--batch-size", "3"]
    done = call(monkeypatch, capsys, *given, "--lambda", "0.5", "--output", "x", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["figures"]["batches"] == 12
    stored = json.loads((tmp_path / "x" / "train.json").read_text())
    assert stored["spec"]["recipe"]["lambda_"] == 0.5
    assert "texts per second" in done.err
    refused = call(monkeypatch, capsys, *given, "--lambda", "2", "--output", "y")
    assert refused.code == 2
    assert "--lambda must be at most 1, got 2" in refused.err
