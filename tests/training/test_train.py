"""Training, end to end: a tiny encoder on a tiny task, interrupted, resumed, refused."""

from __future__ import annotations

import csv
import json
import math
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from standins import QUERIES, SOURCES, tiny_encoder, write_task
from standins.training import SMALL, equal, job_of, run, weights
from torch.utils.data import BatchSampler

from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.load import EncoderOptions, load_encoder
from polarity_bench.encoders.reference_encoder import Base, find_base
from polarity_bench.encoders.train_file import training_of
from polarity_bench.errors import InputError
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.progress import no_bar
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.catalogue import load_task
from polarity_bench.training.epoch_scores import EpochScorer
from polarity_bench.training.examples.spec import ExampleSpec
from polarity_bench.training.history import Row, best_row, is_over, kept_row
from polarity_bench.training.job import Job
from polarity_bench.training.recipes.margins import length_sorted
from polarity_bench.training.recipes.margins.length_sorted import (
    BFLOAT16_CHUNK_TOKENS,
    CHUNK_TOKENS,
)
from polarity_bench.training.recipes.margins.losses import LOSSES, Triplet
from polarity_bench.training.recipes.margins.recipe import Margins
from polarity_bench.training.recipes.margins.settings import TrainDtype
from polarity_bench.training.recipes.margins.trainer import EpochRows, PolarityTrainer
from polarity_bench.training.run_folder import run_folder
from polarity_bench.training.train import train


@pytest.fixture
def gaining(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every epoch score better by the held-out queries, of which there are few."""
    original = EpochScorer.__call__

    def better(self: Any, model: Any) -> dict[str, float]:
        self.n_calls = getattr(self, "n_calls", 0) + 1
        return original(self, model) | {"held_out_joint": self.n_calls / 1000}

    monkeypatch.setattr(EpochScorer, "__call__", better)


@pytest.mark.usefixtures("gaining", "drawn_history")
def test_a_run_leaves_an_encoder_its_history_and_its_card(
    tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    from sentence_transformers import SentenceTransformer

    done = run(tiny_model, task_dir, tmp_path / "x")
    assert [row["epoch"] for row in done.rows] == [0, 1, 2]
    assert done.rows[0]["retention"] == pytest.approx(1.0)
    assert done.rows[0]["loss"] is None
    assert done.speed is not None
    assert done.speed > 0
    loaded = SentenceTransformer(str(tmp_path / "x"), device="cpu")
    assert loaded.encode("The soup was sweet.").shape == (32,)
    assert not equal(weights(tmp_path / "x"), weights(tiny_model))
    with (tmp_path / "x" / "history.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["epoch"]) for row in rows] == [0, 1, 2]
    assert float(rows[2]["polarity"]) == done.rows[2]["polarity"]
    assert (tmp_path / "x" / "history.svg").read_text().startswith("<?xml")
    stored = json.loads((tmp_path / "x" / "train.json").read_text())
    assert stored["finished"] is True
    assert stored["run"] == done.run
    assert stored["base"] == str(tiny_model)
    assert stored["task"] == "mini"
    for package in ("polarity-bench", "torch", "transformers", "sentence-transformers"):
        assert stored["environment"][package]
    assert stored["environment"]["command"]
    assert stored["figures"] == done.figures == {"held_out": 6, "examples_per_epoch": 32}
    card = (tmp_path / "x" / "README.md").read_text()
    for said in (
        "loss triplet (margin 0.1)",
        "licence",
        "tiny",
        "polarity_at_4",
        "held-out joint",
        "**Held out**: 6 ",
    ):
        assert said in card
    assert not (tmp_path / "x" / "checkpoints").exists()


def test_undefined_scores_are_null_in_every_file_and_the_run_is_found_finished(
    tiny_model: Path, tmp_path: Path
) -> None:
    write_task(tmp_path, queries=[*QUERIES[:2], *QUERIES[4:6]])  # too few for an interval
    recipe = replace(SMALL, epochs=1, held_out=0)
    done = run(tiny_model, tmp_path, tmp_path / "x", recipe)
    assert done.rows[0]["joint_low"] is None
    content = (tmp_path / "x" / "train.json").read_text()
    json.loads(content, parse_constant=pytest.fail)  # NaN is no JSON
    again = run(tiny_model, tmp_path, tmp_path / "x", recipe)
    assert again.reused
    assert list(again.rows) == list(done.rows)


@pytest.mark.usefixtures("gaining")
def test_one_seed_gives_the_same_weights_bit_for_bit(
    tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    run(tiny_model, task_dir, tmp_path / "a")
    run(tiny_model, task_dir, tmp_path / "b")
    run(tiny_model, task_dir, tmp_path / "c", replace(SMALL, seed=1))
    assert equal(weights(tmp_path / "a"), weights(tmp_path / "b"))
    assert not equal(weights(tmp_path / "a"), weights(tmp_path / "c"))
    assert (tmp_path / "a" / "history.csv").read_bytes() == (
        tmp_path / "b" / "history.csv"
    ).read_bytes()
    assert (tmp_path / "a" / "history.svg").read_bytes() == (
        tmp_path / "b" / "history.svg"
    ).read_bytes()


@pytest.mark.parametrize("warm_up", [0.1, "as-released"])
@pytest.mark.parametrize("when", ["in the second epoch", "while the checkpoint is written"])
def test_an_interrupted_run_ends_with_the_same_weights(
    warm_up: Any,
    when: str,
    tiny_model: Path,
    task_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = replace(SMALL, warm_up=warm_up, epochs=3)
    run(tiny_model, task_dir, tmp_path / "whole", spec)

    class Killed(BaseException):
        pass

    original_step, original_save = PolarityTrainer.compute_loss, PolarityTrainer._save_checkpoint

    def die_in_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.state.global_step == 6:  # of 4 in an epoch
            raise Killed
        return original_step(self, *args, **kwargs)

    def die_in_save(self: Any, *args: Any, **kwargs: Any) -> None:
        if self.state.global_step == 8:
            broken = self._folder.checkpoint(8)
            broken.mkdir(parents=True)
            (broken / "model.safetensors").write_bytes(b"half")
            raise Killed
        original_save(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        if when == "in the second epoch":
            patch.setattr(PolarityTrainer, "compute_loss", die_in_step)
        else:
            patch.setattr(PolarityTrainer, "_save_checkpoint", die_in_save)
        with pytest.raises(Killed):
            run(tiny_model, task_dir, tmp_path / "killed", spec)
    assert not (tmp_path / "killed" / "modules.json").exists()
    titles: list[str] = []

    def bar(title: str, total: int) -> Any:
        titles.append(title)
        return no_bar(title, total)

    resumed = train(job_of(tiny_model, task_dir, tmp_path / "killed", spec), bar=bar)
    assert "scoring tiny" in titles
    assert titles[-1] == "training killed, resumed after step 4"
    assert equal(weights(tmp_path / "whole"), weights(tmp_path / "killed"))
    assert [row["step"] for row in resumed.rows] == [0, 4, 8, 12]
    assert (tmp_path / "whole" / "history.csv").read_text() == (
        tmp_path / "killed" / "history.csv"
    ).read_text()


def test_a_finished_run_is_not_made_again(tiny_model: Path, task_dir: Path, tmp_path: Path) -> None:
    first = run(tiny_model, task_dir, tmp_path / "x")
    assert not (tmp_path / "x" / "checkpoints").exists()
    before = (tmp_path / "x" / "model.safetensors").stat().st_mtime_ns
    (tmp_path / "x" / "checkpoints" / "checkpoint-4").mkdir(parents=True)  # killed at the very end
    again = run(tiny_model, task_dir, tmp_path / "x")
    assert again.reused
    assert not (tmp_path / "x" / "checkpoints").exists()
    assert (tmp_path / "x" / "model.safetensors").stat().st_mtime_ns == before
    assert [dict(row) for row in again.rows] == [dict(row) for row in first.rows]


def test_anothers_folder_is_refused_and_overwritten_only_when_told(
    tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    run(tiny_model, task_dir, tmp_path / "x")
    other = replace(SMALL, loss=Triplet(margin=0.5))
    with pytest.raises(
        InputError, match=r"contains another run .*recipe.loss.margin: expected 0.5, got 0.1"
    ):
        run(tiny_model, task_dir, tmp_path / "x", other)
    (tmp_path / "x" / "notes.txt").write_text("mine")
    run(tiny_model, task_dir, tmp_path / "x", other, overwrite=True)
    assert (tmp_path / "x" / "notes.txt").read_text() == "mine"
    assert (
        json.loads((tmp_path / "x" / "train.json").read_text())["spec"]["recipe"]["loss"]["margin"]
        == 0.5
    )


def test_a_loss_that_is_no_number_stops_with_its_step_and_keeps_the_last_checkpoint(
    tiny_model: Path, task_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polarity_bench.training.recipes.margins.length_sorted import LengthSortedLoss

    original = LengthSortedLoss.forward
    calls = []

    def spoiled(self: Any, *args: Any) -> Any:
        calls.append(1)
        loss = original(self, *args)
        return loss * float("nan") if len(calls) == 6 else loss

    monkeypatch.setattr(LengthSortedLoss, "forward", spoiled)
    said = r"step 6 \(epoch 2\): the loss is nan\. The last good .*-4"
    with pytest.raises(InputError, match=said):
        run(tiny_model, task_dir, tmp_path / "x")
    checkpoint = tmp_path / "x" / "checkpoints" / "checkpoint-4"
    assert (checkpoint / "whole").exists()
    monkeypatch.undo()
    optimizer = checkpoint / "optimizer.pt"
    content = bytearray(optimizer.read_bytes())
    content[len(content) // 2] ^= 1
    optimizer.write_bytes(content)
    with pytest.raises(InputError, match=f"{checkpoint}: the checkpoint is damaged; delete this"):
        run(tiny_model, task_dir, tmp_path / "x")
    base = find_base(load_encoder(str(checkpoint)))
    assert base is not None, "else it would be scored as its own reference"
    assert base.encoder.digest == load_encoder(str(tiny_model)).id.digest


@pytest.mark.parametrize(
    ("dtype", "limit"), [("float32", CHUNK_TOKENS), ("bfloat16", BFLOAT16_CHUNK_TOKENS)]
)
def test_the_precision_decides_how_many_tokens_are_encoded_at_once(
    dtype: TrainDtype,
    limit: int,
    tiny_model: Path,
    task_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = length_sorted.encode_sorted
    limits = []

    def noted(model: Any, columns: Any, chunk_tokens: int) -> Any:
        limits.append(chunk_tokens)
        return original(model, columns, chunk_tokens)

    monkeypatch.setattr(length_sorted, "encode_sorted", noted)
    run(tiny_model, task_dir, tmp_path / "x", replace(SMALL, dtype=dtype, epochs=1))
    assert set(limits) == {limit}


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), SafetensorError("full")])
def test_weights_that_cannot_be_written_are_named(
    tiny_model: Path,
    task_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("polarity_bench.training.train.publish", full)
    with pytest.raises(InputError, match=r"`output` .*/x: .*run the same command again to resume"):
        run(tiny_model, task_dir, tmp_path / "x", replace(SMALL, epochs=1))


def test_a_tokenizer_that_cannot_be_written_is_named(
    tiny_model: Path, task_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library tokenizers raises a bare `Exception` if the disk is full."""

    def full(*_: Any, **__: Any) -> None:
        raise Exception("No space left on device (os error 28)")

    monkeypatch.setattr("transformers.PreTrainedTokenizerFast.save_pretrained", full)
    with pytest.raises(InputError, match=r"x.*: No space left .*run the same command again"):
        run(tiny_model, task_dir, tmp_path / "x", replace(SMALL, epochs=1))


def test_a_full_disk_leaves_the_checkpoint_before_whole(
    tiny_model: Path, task_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = PolarityTrainer._save_optimizer_and_scheduler

    def full(self: Any, output_dir: str) -> None:
        if output_dir.endswith("-8"):
            raise OSError(28, "No space left on device")
        original(self, output_dir)

    with monkeypatch.context() as patch:
        patch.setattr(PolarityTrainer, "_save_optimizer_and_scheduler", full)
        with pytest.raises(InputError, match=r"No space left .*checkpoint-4"):
            run(tiny_model, task_dir, tmp_path / "x")
    run(tiny_model, task_dir, tmp_path / "x")
    run(tiny_model, task_dir, tmp_path / "whole")
    assert equal(weights(tmp_path / "x"), weights(tmp_path / "whole"))


@pytest.mark.usefixtures("gaining")
@pytest.mark.parametrize(
    "loss", ["contrastive", "online-contrastive", "mnrl", "mnrl-masked", "cosine-similarity"]
)
def test_every_loss_trains(loss: str, tiny_model: Path, task_dir: Path, tmp_path: Path) -> None:
    done = run(tiny_model, task_dir, tmp_path / "x", replace(SMALL, loss=LOSSES[loss](), epochs=1))
    assert done.rows[1]["loss"] is not None
    assert not equal(weights(tmp_path / "x"), weights(tiny_model))


@pytest.mark.usefixtures("gaining")
def test_triplet_margins_of_two_and_more_train_the_same_encoder(
    tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    for margin in (5.0, 7.5, 10.0):
        with pytest.warns(UserWarning, match=r"from a margin of 2 on, the hinge is always"):
            run(
                tiny_model,
                task_dir,
                tmp_path / f"{margin}",
                replace(SMALL, loss=Triplet(margin=margin)),
            )
    five, seven, ten = (weights(tmp_path / f"{margin}") for margin in (5.0, 7.5, 10.0))
    for name in five:
        torch.testing.assert_close(seven[name], five[name], rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(ten[name], five[name], rtol=1e-4, atol=1e-6)
    run(tiny_model, task_dir, tmp_path / "small", replace(SMALL, loss=Triplet(margin=0.001)))
    moved = weights(tmp_path / "small")
    assert any((moved[name] - five[name]).abs().max() > 1e-4 for name in five)


TRIPLETS = {
    "anchor": ["Such warm soup.", "Such cold soup."] * 8,
    "positive": ["Such kind soup.", "Such cruel soup."] * 8,
    "negative": ["Such dull soup.", "Such bright soup."] * 8,
}
GIVEN = Margins(epochs=1, batch_size=8, rate=1e-3, held_out=6)


def write_triplets(file: Path, **changes: list[str]) -> Path:
    pq.write_table(pa.table(TRIPLETS | changes), file)
    return file


def test_examples_of_the_users_own_are_trained_on(
    tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    file = write_triplets(tmp_path / "mine.parquet")
    done = run(tiny_model, task_dir, tmp_path / "x", replace(GIVEN, examples_from=file))
    assert done.figures == {"held_out": 6, "examples_per_epoch": 16}
    assert "provided by the user" in (tmp_path / "x" / "README.md").read_text()
    moved = file.rename(tmp_path / "moved.parquet")
    assert run(tiny_model, task_dir, tmp_path / "x", replace(GIVEN, examples_from=moved)).reused
    mnrl = replace(GIVEN, examples_from=moved, loss=LOSSES["mnrl"]())
    with pytest.raises(
        InputError, match=r"the loss takes pairs in the columns anchor, positive, l"
    ):
        run(tiny_model, task_dir, tmp_path / "y", mnrl)
    with pytest.raises(InputError, match=r"`examples`: expected at most 16, .* got 17"):
        run(tiny_model, task_dir, tmp_path / "y", replace(GIVEN, examples_from=moved, examples=17))
    with pytest.raises(InputError, match="`neighbours` 4 has no effect on existing examples"):
        replace(GIVEN, examples_from=moved, neighbours=4)


@pytest.mark.usefixtures("gaining")
def test_examples_made_with_the_same_seed_hold_nothing_held_out(
    tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    from polarity_bench.encoders.load import load_encoder
    from polarity_bench.training.examples.source import generate_examples, write_examples

    for held_out in (0, 6):
        made = generate_examples(
            "mini",
            encoder=load_encoder(str(tiny_model)),
            spec=ExampleSpec(threshold=-1.0, neighbours=4),
            held_out=held_out,
            access=DataAccess(offline=True),
            task_dir=task_dir,
        )
        write_examples(made, tmp_path / str(held_out))
    with pytest.raises(InputError, match=r"row \d+: (anchor|positive|negative) equals, contains"):
        run(tiny_model, task_dir, tmp_path / "x", replace(GIVEN, examples_from=tmp_path / "0"))
    assert run(
        tiny_model, task_dir, tmp_path / "x", replace(GIVEN, examples_from=tmp_path / "6")
    ).kept


@pytest.mark.parametrize("held_out", [0, 6])
def test_examples_that_hold_a_query_of_the_task_are_refused_with_the_row(
    held_out: int, tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    """Up to case and punctuation, wherever it stands."""
    positives = [*TRIPLETS["positive"][:-1], QUERIES[0][0].upper().replace(".", "!")]
    file = write_triplets(tmp_path / "mine.parquet", positive=positives)
    recipe = replace(GIVEN, examples_from=file, held_out=held_out)
    with pytest.raises(InputError, match=r"the examples, row 15: positive is a query of the task"):
        run(tiny_model, task_dir, tmp_path / "x", recipe)
    assert not (tmp_path / "x").exists()


def test_a_tracker_that_is_not_there_is_refused_at_once(
    tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"`report_to` nowhere: "):
        run(tiny_model, task_dir, tmp_path / "x", replace(SMALL, report_to="nowhere"))
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("chosen", [None, "elsewhere"])
def test_tensorboard_writes_into_the_run_unless_the_user_names_a_folder(
    chosen: str | None,
    tiny_model: Path,
    task_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from transformers.integrations import integration_utils

    opened: list[str] = []

    class Writer:
        def __init__(self, log_dir: str) -> None:
            opened.append(log_dir)

        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: None

    module = SimpleNamespace(SummaryWriter=Writer)
    monkeypatch.setattr(integration_utils, "is_tensorboard_available", lambda: True)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    if chosen:
        monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", chosen)
    run(tiny_model, task_dir, tmp_path / "x", replace(SMALL, report_to="tensorboard", epochs=1))
    assert opened == [chosen or str(tmp_path / "x" / "tensorboard")]


def test_fewer_examples_than_a_batch_are_refused(
    tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"one batch of 64 examples, got 32 examples"):
        replace(SMALL, batch_size=64)
    file = write_triplets(tmp_path / "mine.parquet")
    with pytest.raises(InputError, match=r"one batch of 17 examples, got 16 examples"):
        run(tiny_model, task_dir, tmp_path / "x", replace(GIVEN, examples_from=file, batch_size=17))


def test_more_examples_than_there_are_are_refused(
    tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    spec = replace(SMALL, examples=10**6)
    with pytest.raises(InputError, match=r"triplets, but 1,000,000 were requested"):
        run(tiny_model, task_dir, tmp_path / "x", spec)


def test_a_baseline_cannot_be_trained(task_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"`model` random: a baseline has no weights"):
        train(Job(SMALL, "random", "mini", tmp_path / "x", task_dir=task_dir))


def test_a_prompt_is_kept(tiny_model: Path, task_dir: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    run(tiny_model, task_dir, tmp_path / "x", options=EncoderOptions(prompt="What a "))
    loaded = SentenceTransformer(str(tmp_path / "x"), device="cpu")
    assert loaded.prompts[str(loaded.default_prompt_name)] == "What a "
    assert load_encoder(str(tmp_path / "x")).id.prompt == "What a "


@pytest.mark.parametrize("prompt", ["What a ", ""])
def test_both_sides_are_encoded_with_the_prompt_of_the_training(
    task_dir: Path, tmp_path: Path, prompt: str
) -> None:
    """In plain sentence-transformers, whatever the base declares for its sides."""
    from sentence_transformers import SentenceTransformer

    declared = {"query": "cold ", "document": "slow ", "passage": "dull "}
    base = tiny_encoder(tmp_path / "base", prompts=declared, default_prompt_name="query")
    run(base, task_dir, tmp_path / "x", options=EncoderOptions(prompt=prompt))
    model = SentenceTransformer(str(tmp_path / "x"), device="cpu")
    texts = [text for text, _ in QUERIES]
    expected = model.encode([prompt + text for text in texts], prompt="")
    for encode in (model.encode, model.encode_query, model.encode_document):
        np.testing.assert_allclose(encode(texts), expected, atol=1e-6)
    assert load_encoder(str(tmp_path / "x")).id.prompt == (prompt or None)


def test_a_base_used_without_its_prompt_is_judged_published_and_referred_to_without(
    tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    """None asked for is not the default."""
    from sentence_transformers import SentenceTransformer

    prompted = SentenceTransformer(str(tiny_model), device="cpu")
    prompted.prompts["query"] = "What a "
    prompted.default_prompt_name = "query"
    prompted.save_pretrained(str(tmp_path / "prompted"))
    assert load_encoder(str(tmp_path / "prompted")).id.prompt == "What a "
    options = EncoderOptions(prompt="")
    done = run(tmp_path / "prompted", task_dir, tmp_path / "x", options=options)
    assert done.rows[0]["retention"] == 1.0
    assert load_encoder(str(tmp_path / "x")).id.prompt is None
    assert SentenceTransformer(str(tmp_path / "x"), device="cpu").default_prompt_name is None
    base = find_base(load_encoder(str(tmp_path / "x")))
    assert base is not None
    assert base.load(EncoderOptions()).id.prompt is None
    plain = run(tiny_model, task_dir, tmp_path / "y", options=options)
    assert done.rows == plain.rows


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_history_is_what_evaluating_the_encoder_gives(
    dtype: Any, tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    done = run(tiny_model, task_dir, tmp_path / "x", replace(SMALL, dtype=dtype))
    task = load_task("mini", task_dir=task_dir)
    later = evaluate(str(tmp_path / "x"), task, reference=str(tiny_model))
    kept = next(row for row in done.rows if row["step"] == done.kept)
    for metric in ("polarity", "similarity", "retention", "joint"):
        assert kept[metric] == later.shown(ScoreKey(metric, 4)).mean
        assert kept[f"{metric}_uniform"] == later.shown(ScoreKey(metric, 4, "uniform")).mean
    interval = later.shown(ScoreKey("joint", 4)).ci95
    assert (kept["joint_low"], kept["joint_high"]) == interval


def test_vectors_are_float32s_whatever_the_trainer_made_of_the_model(
    tiny_model: Path,
) -> None:
    """As accelerate does, with a `forward` on the instance."""
    encoder: Any = load_encoder(str(tiny_model))
    texts = ["What a warm and honest evening.", "The soup was bitter."]
    wanted = encoder.encode(texts)
    inner = encoder.model.forward
    encoder.model.forward = torch.autocast("cpu", torch.bfloat16)(inner)
    assert (encoder.model.encode(texts) != wanted).any()
    assert (encoder.encode(texts) == wanted).all()
    assert (encoder.model.encode(texts) != wanted).any()  # and is put back


def test_the_base_is_ranked_once(
    tiny_model: Path, task_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polarity_bench.tasks.types.polarity import scoring

    ranked = []
    rank = scoring.rank

    def counted(task: Any, embedded: Any) -> Any:
        ranked.append(embedded.encoder.name)
        return rank(task, embedded)

    monkeypatch.setattr("polarity_bench.training.epoch_scores.rank", counted)
    run(tiny_model, task_dir, tmp_path / "x")  # two task_dir; epochs 0, 1, 2
    assert ranked == ["tiny"] * 2 + ["in training"] * 4


def scripted(monkeypatch: pytest.MonkeyPatch, *joints: float) -> None:
    """Have the judge give these joint scores of the held-out queries, one after the other."""
    original, left = EpochScorer.__call__, iter(joints)
    monkeypatch.setattr(
        EpochScorer, "__call__", lambda *args: original(*args) | {"held_out_joint": next(left)}
    )


def test_training_stops_early_and_keeps_the_best(
    tiny_model: Path, task_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, 0.1, 0.5, 0.4, 0.3, 0.2, 0.1)
    done = run(tiny_model, task_dir, tmp_path / "x", replace(SMALL, epochs=5, patience=2))
    assert [row["epoch"] for row in done.rows] == [0, 1, 2, 3]
    assert done.kept == 4


def test_the_last_epoch_is_kept_where_it_is_asked_for(
    tiny_model: Path, task_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, 0.9, 0.5, 0.4, 0.3)
    recipe = replace(SMALL, epochs=3, patience=1, checkpoint="last")
    done = run(tiny_model, task_dir, tmp_path / "x", recipe)
    assert [row["epoch"] for row in done.rows] == [0, 1, 2, 3]
    assert done.kept == done.rows[-1]["step"] == 12
    assert not equal(weights(tmp_path / "x"), weights(tiny_model))
    assert "after step 12 (epoch 3), the last" in (tmp_path / "x" / "README.md").read_text()


def test_the_last_epoch_is_kept_where_no_epoch_has_a_joint_score(
    tiny_model: Path, task_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, *[math.nan] * 3)
    done = run(tiny_model, task_dir, tmp_path / "x", replace(SMALL, checkpoint="last"))
    assert [row["held_out_joint"] for row in done.rows] == [None] * 3
    assert done.kept == done.rows[-1]["step"] == 8


def test_where_every_epoch_is_worse_the_base_is_kept_and_that_is_said(
    tiny_model: Path, task_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, 0.9, 0.5, 0.6)
    done = run(tiny_model, task_dir, tmp_path / "x")
    assert done.kept == 0
    assert [row["epoch"] for row in done.rows] == [0, 1, 2]
    assert equal(weights(tmp_path / "x"), weights(tiny_model))
    assert load_encoder(str(tmp_path / "x")).id.digest == load_encoder(str(tiny_model)).id.digest
    card = (tmp_path / "x" / "README.md").read_text()
    assert "the unchanged base: no epoch scored better" in card
    assert run(tiny_model, task_dir, tmp_path / "x").reused


def test_a_base_replaced_while_it_is_trained_is_not_published_in_its_place(
    tiny_model: Path, task_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / "base"
    shutil.copytree(tiny_model, base)
    stored = weights(base)
    scripted(monkeypatch, 0.5, 0.4, 0.3)
    judged = EpochScorer.__call__

    def judge_and_replace(*args: Any) -> dict[str, float]:
        save_file({name: 1.5 * each for name, each in stored.items()}, base / "model.safetensors")
        return judged(*args)

    monkeypatch.setattr(EpochScorer, "__call__", judge_and_replace)
    with pytest.raises(InputError, match="but its weights have changed: expected"):
        run(base, task_dir, tmp_path / "x")
    save_file(stored, base / "model.safetensors")
    assert run(base, task_dir, tmp_path / "x").kept == 0


def test_a_run_that_had_stopped_early_stays_stopped_when_it_was_killed_before_its_end(
    tiny_model: Path, task_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, 0.1, 0.5, 0.4, 0.3)
    recipe = replace(SMALL, epochs=5, patience=2)

    def killed(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("polarity_bench.training.run_folder.RunFolder.publish", killed)
        with pytest.raises(KeyboardInterrupt):
            run(tiny_model, task_dir, tmp_path / "x", recipe)
    done = run(tiny_model, task_dir, tmp_path / "x", recipe)  # a fifth score would end the iterator
    assert done.kept == 4
    assert [row["epoch"] for row in done.rows] == [0, 1, 2, 3]


@pytest.mark.parametrize("part", ["task", "held-out queries"])
def test_edited_labels_are_another_run(
    part: str, tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    """Else a finished run would be given back with its old scores."""
    run(tiny_model, task_dir, tmp_path / "x")
    first = (QUERIES[0][0], "0")
    if part == "task":
        write_task(task_dir, queries=[first, *QUERIES[1:]])
    else:
        write_task(task_dir, sources=[*SOURCES[:-1], (SOURCES[-1][0], "1")])
    with pytest.raises(InputError, match=r"contains another run .*judged: "):
        run(tiny_model, task_dir, tmp_path / "x")


def interrupted(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def test_a_second_process_on_the_folder_is_told_who_holds_it(
    tiny_model: Path, task_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process stops where it would load the base: it need not import torch."""
    job = job_of(tiny_model, task_dir, tmp_path / "x")
    (tmp_path / "job.toml").write_text(job.to_toml())
    with monkeypatch.context() as patch:
        patch.setattr(PolarityTrainer, "compute_loss", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(job)
    code = f"""
import time
from pathlib import Path
import polarity_bench.training.train as training
from polarity_bench.training.job import Job

def wait(*_, **__):
    Path({str(tmp_path / "begun")!r}).touch()
    time.sleep(100)

training.load_base = wait
training.train(Job.read(Path({str(tmp_path / "job.toml")!r})))
"""
    other = subprocess.Popen([sys.executable, "-c", code])
    try:
        while not (tmp_path / "begun").exists():
            assert other.poll() is None
            time.sleep(0.1)
        held = rf"`output` .*x: process {other.pid} on \S+, since 2\d{{3}}-.*, is training in "
        with pytest.raises(InputError, match=held):
            train(job)
        before = (tmp_path / "x" / "train.json").read_bytes()
        with pytest.raises(InputError, match="is training in this folder"):
            train(job, overwrite=True)
        assert (tmp_path / "x" / "train.json").read_bytes() == before
    finally:
        other.kill()
        other.wait()
    assert not train(job).reused  # a lock dies with its process
    assert not {".lock", ".holder"} & {path.name for path in (tmp_path / "x").iterdir()}


def test_who_holds_the_folder_is_said_before_anything_is_loaded(
    task_dir: Path, tmp_path: Path
) -> None:
    job = job_of(tmp_path / "no model", task_dir, tmp_path / "x")
    with (
        run_folder(job.model, job.output).locked(),
        pytest.raises(InputError, match="is training in this folder"),
    ):
        train(job)


def test_a_refused_run_leaves_no_folder_that_it_made(
    tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "there").mkdir()
    spec = replace(SMALL, examples=10**6)
    for place in ("there", "runs/x"):
        with pytest.raises(InputError, match="were requested"):
            run(tiny_model, task_dir, tmp_path / place, spec)
    assert not list((tmp_path / "there").iterdir())
    assert not (tmp_path / "runs").exists()


def test_a_run_is_over_when_its_epochs_or_its_patience_are() -> None:
    def rows(*joints: float) -> list[Row]:
        return [{"epoch": float(i), "step": i, "joint": joint} for i, joint in enumerate(joints)]

    def over(*joints: float, patience: int = 2) -> bool:
        return is_over(rows(*joints), "joint", epochs=5, patience=patience)

    assert not over(0.1)
    assert not over(0.9, 0.5, 0.4)
    assert over(0.9, 0.5, 0.4, 0.5)  # as good is not better
    assert not over(0.9, 0.5, 0.4, 0.5, patience=0)
    assert over(0.9, 0.5, 0.4, 0.5, 0.5, 0.5, patience=0)


def test_a_failed_run_leaves_its_folder_to_another(
    tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    spec = replace(SMALL, examples=10**6)
    with pytest.raises(InputError, match="were requested"):
        run(tiny_model, task_dir, tmp_path / "x", spec)
    run(tiny_model, task_dir, tmp_path / "x")


def test_the_best_is_the_earliest_of_equals_and_the_base_where_none_is_better() -> None:
    def rows(*joints: float | None) -> list[Row]:
        return [{"step": 4 * i, "joint": joint} for i, joint in enumerate(joints)]

    assert best_row(rows(0.9, 0.3, 0.5, 0.5), "joint")["step"] == 8
    assert kept_row(rows(0.9, 0.3, 0.5, 0.5), "joint")["step"] == 0
    assert kept_row(rows(0.5, 0.3, 0.5, 0.5), "joint")["step"] == 0
    assert kept_row(rows(None, 0.3), "joint")["step"] == 4
    with pytest.raises(InputError, match="joint is undefined for every epoch"):
        best_row(rows(0.9, None), "joint")


def test_each_epoch_has_the_batches_of_its_own_draw() -> None:
    rows = EpochRows(per_epoch=5)
    batches = BatchSampler(rows, batch_size=2, drop_last=False)
    assert list(batches) == [[0, 1], [2, 3], [4]]
    rows.set_epoch(2)
    assert list(batches) == [[10, 11], [12, 13], [14]]
    assert len(batches) == 3


def test_a_moved_run_still_knows_its_base(tiny_model: Path, task_dir: Path, tmp_path: Path) -> None:
    run(tiny_model, task_dir, tmp_path / "x")
    shutil.move(tmp_path / "x", tmp_path / "elsewhere")
    encoder = load_encoder(str(tmp_path / "elsewhere"))
    record = training_of(encoder)
    assert record is not None
    assert record.content["base"] == str(tiny_model)
    assert find_base(encoder) == Base(str(tiny_model), record.base)
