"""Suites: many tasks embedded once, reused, killed, and scored in other processes too."""

from __future__ import annotations

import json
import os
import pickle
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from standins import (
    QUICK,
    BagEncoder,
    HashEncoder,
    Workshop,
    exit_code_of_copy,
    without_times,
    write_task,
)

import polarity_bench
from polarity_bench.boards.board import board, find_board
from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import EmbeddedTexts, Embedder
from polarity_bench.embedding.store import EmbeddingStore
from polarity_bench.encoders.base import Encoder
from polarity_bench.errors import InputError
from polarity_bench.evaluation import many_tasks
from polarity_bench.evaluation.many_tasks import EvaluationPlan, SuiteReport, run_suite
from polarity_bench.render.markdown import render
from polarity_bench.results.result_files import TRAINED_BY, read_result, read_results
from polarity_bench.tasks.catalogue import read_task
from polarity_bench.tasks.senteval.presets import PRESETS, Preset, choose_preset
from polarity_bench.tasks.types.base import Settings, TaskScores, TaskSpec
from polarity_bench.tasks.types.relatedness import RelatednessTask
from polarity_bench.tasks.types.transfer import TransferTask
from polarity_bench.values import FloatArray, IntArray

TWO = replace(QUICK, workers=2)


def run(
    workshop: Workshop,
    specs: Sequence[TaskSpec],
    output: Path,
    settings: Settings = QUICK,
    *,
    encoder: Encoder | None = None,
    embedder: Embedder | None = None,
    overwrite: bool = False,
) -> SuiteReport:
    contest = EvaluationPlan(
        encoder or BagEncoder(), embedder=embedder or Embedder(), workers=settings.workers
    )
    tasks = [workshop.load(spec, settings) for spec in specs]
    return run_suite(contest, tasks, output, overwrite=overwrite)


def whole(report: SuiteReport) -> SuiteReport:
    assert report.failures == {}
    assert report.exit_code == 0
    return report


# Embedded once


def test_texts_of_two_tasks_are_encoded_once(workshop: Workshop, tmp_path: Path) -> None:
    specs = [workshop.sick(relatedness=False), workshop.sick(relatedness=True)]
    asked = [text for spec in specs for text in workshop.load(spec).texts]
    encoder = BagEncoder()
    with EmbeddingStore() as store:
        embedder = Embedder(store, batch_size=16)
        report = whole(run(workshop, specs, tmp_path / "out", encoder=encoder, embedder=embedder))
        (usage,) = report.usage.values()
        assert sorted(encoder.encoded) == sorted(set(asked))
        assert (usage.n_texts, usage.n_distinct) == (len(asked), len(set(asked)))
        assert (usage.n_encoded, usage.n_read) == (len(set(asked)), 0)
        assert 2 * usage.n_distinct < usage.n_texts

        warm = whole(run(workshop, specs, tmp_path / "out", overwrite=True, embedder=embedder))
        (usage,) = warm.usage.values()
        assert (usage.n_encoded, usage.n_read) == (0, len(set(asked)))


def test_tfidf_has_a_vocabulary_for_each_task(workshop: Workshop, tmp_path: Path) -> None:
    encoder = polarity_bench.load_encoder("tfidf")
    specs = [workshop.sst_binary(), workshop.sts()]
    report = whole(run(workshop, specs, tmp_path / "out", encoder=encoder))
    alone, *_ = run(workshop, specs[:1], tmp_path / "alone", encoder=encoder).results
    assert dict(alone.flat) == dict(report.results[0].flat)


def test_every_kind_runs_together(workshop: Workshop, tmp_path: Path) -> None:
    workshop.tasks.mkdir(parents=True)
    specs = [
        read_task(write_task(workshop.tasks)),
        workshop.mrpc(),
        workshop.sick(relatedness=False),
        workshop.stsb(relatedness=True),
        workshop.sts(),
        workshop.probing(),
    ]
    report = whole(run(workshop, specs, tmp_path / "out"))
    kinds = [result.kind for result in report.results]
    assert kinds == ["polarity", "transfer", "transfer", "relatedness", "sts", "probing"]
    assert len({result.key.digest for result in report.results}) == len(specs)


# Stored and reused


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("protocol", ["", "n_queries = 4"])
def test_the_result_of_another_task_is_never_replaced(
    workshop: Workshop, tmp_path: Path, protocol: str, overwrite: bool
) -> None:
    """Two task files with one `mteb_name` share the file name of their results."""
    workshop.tasks.mkdir(parents=True)
    workshop.data.mkdir(parents=True, exist_ok=True)
    named = 'mteb_name = "SharedPolarityRetrieval"'
    first = read_task(write_task(workshop.tasks, head=named))
    copy = read_task(write_task(workshop.tasks, "copy", head=named, protocol=protocol))
    stored = whole(run(workshop, [first], tmp_path / "out"))
    before = without_times(tmp_path / "out")
    report = run(workshop, [copy], tmp_path / "out", overwrite=overwrite)
    assert report.exit_code == 2
    assert report.failures["copy"] == (
        f"{copy.file}: {stored.results[0].path} has the result of the task 'mini'; set another "
        "`mteb_name` in the task file, or choose another `output`"
    )
    assert without_times(tmp_path / "out") == before


def test_results_come_back_from_disk_and_are_reused(workshop: Workshop, tmp_path: Path) -> None:
    specs = [
        workshop.labelled_lines(),
        workshop.sick(relatedness=True),
        workshop.stsb(relatedness=False),
    ]
    first = whole(run(workshop, specs, tmp_path / "out"))
    assert [result.task for result in first.results] == [spec.name for spec in specs]
    for result in first.results:
        back = read_result(result.path)
        assert dict(back.flat) == dict(result.flat)
        assert (back.key.digest, back.kind, back.main_score) == (
            result.key.digest,
            result.kind,
            result.main_score,
        )
        stored = load_file(result.path.with_suffix(".queries.safetensors"))
        for name, values in result.arrays.items():
            np.testing.assert_array_equal(stored[name], values)
        row = json.loads(result.path.read_text())["scores"]["test"][0]
        assert row["main_score"] == result.main.mean
    before = without_times(tmp_path / "out")
    encoder = BagEncoder()
    again = whole(run(workshop, specs, tmp_path / "out", encoder=encoder))
    assert again.reused == [spec.name for spec in specs]
    assert encoder.encoded == []
    assert without_times(tmp_path / "out") == before


def test_protocols_do_not_overwrite_each_other(workshop: Workshop, tmp_path: Path) -> None:
    specs = [workshop.labelled_lines(), workshop.sick(relatedness=True)]
    short = "max_epoch=2,epoch_size=1"
    presets = {
        "default": PRESETS["exact"],
        "sklearn": PRESETS["sklearn"],
        "k = 3": QUICK.of(Preset),
        "papers": choose_preset(preset="papers", classifier=short),
        "literature": choose_preset(preset="literature", kfold=3, classifier=short),
    }
    paths, scores = set(), {}
    for name, preset in presets.items():
        report = whole(run(workshop, specs, tmp_path / "out", Settings(of_types=(preset,))))
        result = report.results[0]
        paths.add(result.path)
        scores[name] = dict(result.flat)
        assert ("experiments" in result.path.parts) == (name != "default")
        reused = {"default": 0, "sklearn": 1, "k = 3": 1, "papers": 0, "literature": 1}[name]
        assert len(report.reused) == reused  # relatedness has no folds, but lower-cased texts
    assert len(paths) == len(presets)
    for name, preset in presets.items():
        report = whole(run(workshop, specs, tmp_path / "out", Settings(of_types=(preset,))))
        assert len(report.reused) == 2
        assert dict(report.results[0].flat) == scores[name]
    kinds = [result.kind for result in read_results(tmp_path / "out")]
    assert sorted(kinds) == ["relatedness"] * 2 + ["transfer"] * 5


@pytest.mark.parametrize("change", ["task", "data", "encoder", "reference", "damaged"])
def test_a_result_of_something_else_is_made_again(
    task_dir: Path, tmp_path: Path, change: str
) -> None:
    file = task_dir / "mini.toml"
    encoder, reference = HashEncoder(), HashEncoder("reference")

    def made() -> SuiteReport:
        task = read_task(file).load(DataAccess(offline=True), Settings())
        return whole(run_suite(EvaluationPlan(encoder, reference), [task], tmp_path / "out"))

    before, *_ = made().results
    assert made().reused == ["mini"]
    if change == "task":
        file.write_text(file.read_text().replace('title = "Task mini"', 'title = "M"\nversion = 2'))
    elif change == "data":
        query = task_dir / "mini-query.csv"
        query.write_text(query.read_text().replace("warm", "dull"))
    elif change == "encoder":
        encoder.id = replace(encoder.id, weights="others")
    elif change == "reference":
        reference.id = replace(reference.id, weights="others")
    else:
        before.path.with_suffix(".provenance.json").write_text("{")
    report = made()
    assert report.reused == []
    assert any("is replaced; to keep both" in said for said in report.warnings) == (
        change == "data"
    )
    after, *_ = report.results
    assert (after.key == before.key) == (change == "damaged")
    assert made().reused == ["mini"]


@pytest.mark.parametrize("damage", ["values", "pointer", "missing"])
def test_a_result_with_damaged_values_per_query_is_made_again(
    task_dir: Path, tmp_path: Path, damage: str
) -> None:
    """Or a comparison would refuse it, say "run it again", and running it would change nothing."""
    task = read_task(task_dir / "mini.toml").load(DataAccess(offline=True), Settings())
    contest = EvaluationPlan(HashEncoder())
    (result,) = whole(run_suite(contest, [task], tmp_path / "out")).results
    values = result.path.with_suffix(".queries.safetensors")
    right = values.read_bytes()
    if damage == "values":
        arrays = {name: array.copy() for name, array in load_file(values).items()}
        arrays["polarity_at_4"] *= 0.9
        save_file(arrays, values)
    elif damage == "pointer":
        values.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 12345\n")
    else:
        values.unlink()
    assert whole(run_suite(contest, [task], tmp_path / "out")).reused == []
    assert values.read_bytes() == right
    assert whole(run_suite(contest, [task], tmp_path / "out")).reused == ["mini"]


@pytest.mark.parametrize("damage", ["values", "pointer"])
def test_damaged_values_per_query_leave_a_board_without_ranks(
    task_dir: Path, tmp_path: Path, damage: str
) -> None:
    task = read_task(task_dir / "mini.toml").load(DataAccess(offline=True), Settings())
    for name in ("ash", "maple"):
        (result,) = whole(run_suite(EvaluationPlan(HashEncoder(name)), [task], tmp_path)).results
    values = result.path.with_suffix(".queries.safetensors")
    if damage == "values":
        arrays = {name: array.copy() for name, array in load_file(values).items()}
        arrays["polarity_at_4"] *= 0.9
        save_file(arrays, values)
    else:
        values.write_text("version https://git-lfs.github.com/spec/v1\n")
    found = find_board(tmp_path)
    assert "Ranks by P are unknown: the values per query are missing." in render(board(found))
    (remark, *_) = found.standings.unknown
    assert str(values) in remark
    assert "run " in remark


# In other processes


def test_results_do_not_depend_on_the_number_of_workers(workshop: Workshop, tmp_path: Path) -> None:
    specs = [workshop.labelled_lines(), workshop.trec(), workshop.sst_binary()]
    for settings in (QUICK, TWO):
        whole(run(workshop, specs, tmp_path / str(settings.workers), settings))
    assert without_times(tmp_path / "1") == without_times(tmp_path / "2")


def mixed(workshop: Workshop) -> list[TaskSpec]:
    """Three tasks that take one core, and are scored elsewhere, and one that is scored here."""
    made = [workshop.sick(relatedness=True), workshop.trec(), workshop.stsb(relatedness=True)]
    return [*made, workshop.sts()]


def test_tasks_of_one_core_score_the_same_in_another_process(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = mixed(workshop)
    before = torch.get_num_threads()
    torch.set_num_threads(2)  # as anyone may have done; a number of its own, for torch's MKL too
    try:
        whole(run(workshop, specs, tmp_path / "1"))
    finally:
        torch.set_num_threads(before)

    def not_here(*_: object) -> None:
        raise AssertionError("a task of one core was scored in this process")

    monkeypatch.setattr(RelatednessTask, "score", not_here)
    monkeypatch.setattr(TransferTask, "score", not_here)
    report = whole(run(workshop, specs, tmp_path / "2", TWO))
    assert [result.task for result in report.results] == [spec.name for spec in specs]
    assert without_times(tmp_path / "1") == without_times(tmp_path / "2")


def test_a_task_scored_in_another_process_records_the_training_too(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "polarity-bench train axis"
    training = {"recipe": {"name": "axis"}, "seed": 0, "base": "org/base"}
    monkeypatch.setattr(many_tasks, "training_facts", lambda _: (command, training))
    report = whole(run(workshop, mixed(workshop), tmp_path / "out", TWO))
    assert all(result.training == training for result in report.results)
    assert all(result.environment[TRAINED_BY] == command for result in report.results)


@dataclass(frozen=True)
class Elsewhere(RelatednessTask):
    """Fails, or ends the process that it is scored in, unless that is the one that made it."""

    home: int = 0
    deadly: bool = False

    def score(self, embedded: EmbeddedTexts, reference: EmbeddedTexts | None) -> TaskScores:
        if os.getpid() == self.home:
            return super().score(embedded, reference)
        if self.deadly:
            os._exit(3)
        raise InputError(f"cannot be scored with {len(embedded)} texts")


def run_elsewhere(
    workshop: Workshop, specs: Sequence[TaskSpec], output: Path, *, deadly: bool
) -> SuiteReport:
    tasks = [workshop.load(spec, TWO) for spec in specs]
    spoiled = [
        Elsewhere(task.spec, task.parts, task.settings, home=os.getpid(), deadly=deadly)
        if isinstance(task, RelatednessTask)
        else task
        for task in tasks
    ]
    return run_suite(EvaluationPlan(BagEncoder(), workers=2), spoiled, output)


def test_a_task_that_fails_in_another_process_leaves_the_others(
    workshop: Workshop, tmp_path: Path
) -> None:
    specs = mixed(workshop)
    names = [spec.name for spec in specs]
    n_texts = [len(set(workshop.load(spec).texts)) for spec in specs]
    report = run_elsewhere(workshop, specs, tmp_path / "out", deadly=False)
    assert report.failures == {  # each process is sent the texts of its task alone
        name: f"cannot be scored with {n} texts"
        for name, n in list(zip(names, n_texts, strict=True))[::2]
    }
    assert [result.task for result in report.results] == names[1::2]
    assert report.exit_code == 1


def test_what_a_process_left_undone_is_made_here(workshop: Workshop, tmp_path: Path) -> None:
    specs = [spec for spec in mixed(workshop) if spec.kind != "transfer"]  # uses these processes
    report = whole(run_elsewhere(workshop, specs, tmp_path / "out", deadly=True))
    assert [result.task for result in report.results] == [spec.name for spec in specs]


def test_a_loaded_task_pickles(workshop: Workshop) -> None:
    workshop.tasks.mkdir(parents=True)
    for spec in [read_task(write_task(workshop.tasks)), *mixed(workshop)]:
        task = workshop.load(spec)
        back = pickle.loads(pickle.dumps(task))
        assert (back.digest, list(back.texts)) == (task.digest, list(task.texts))
        assert back.protocol == task.protocol


# Killed


class DyingEncoder(BagEncoder):
    """An encoder that writes down its batches, and kills its process in one of them, if any."""

    stores_vectors = True

    def __init__(self, log: Path, last: int | None = None) -> None:
        super().__init__()
        self._log, self._last = log, last

    def encode(self, texts: Sequence[str]) -> FloatArray:
        with self._log.open("a") as file:
            file.write("\t".join(texts) + "\n")
        if len(batches(self._log)) == self._last:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().encode(texts)


def evaluated(workshop: Workshop, output: Path, encoder: Encoder) -> None:
    with EmbeddingStore(output / "store") as store:
        embedder = Embedder(store, batch_size=8)
        specs = list(workshop.specs.values())
        whole(run(workshop, specs, output, encoder=encoder, embedder=embedder))


def batches(log: Path) -> list[list[str]]:
    text = log.read_text() if log.exists() else ""
    return [line.split("\t") for line in text.splitlines()]


def test_a_killed_run_goes_on_where_it_was(workshop: Workshop, tmp_path: Path) -> None:
    workshop.labelled_lines()
    workshop.sts()
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    evaluated(workshop, unbroken, DyingEncoder(tmp_path / "unbroken.log"))
    log = tmp_path / "broken.log"
    dying = DyingEncoder(log, last=4)
    killed = exit_code_of_copy(lambda: evaluated(workshop, broken, dying))
    assert killed == -signal.SIGKILL
    before = batches(log)
    assert len(before) == 4
    assert list(read_results(broken)) == []

    evaluated(workshop, broken, DyingEncoder(log))
    after = batches(log)[len(before) :]
    stored, in_flight = before[:-1], before[-1]
    assert after[0] == in_flight  # nothing of it was stored
    once = [text for batch in stored + after for text in batch]
    assert len(once) == len(set(once))
    assert stored + after == batches(tmp_path / "unbroken.log")
    for folder in (unbroken, broken):
        for file in (folder / "store").iterdir():
            file.unlink()
    assert without_times(broken) == without_times(unbroken)


# What cannot be


@pytest.mark.parametrize("workers", [1, 2])
def test_an_encoder_that_fails_one_task_leaves_the_others(
    workshop: Workshop, tmp_path: Path, workers: int
) -> None:
    specs = [workshop.sst_binary(), workshop.trec(), workshop.stsb(relatedness=True)]
    encoder = HashEncoder(spoiled=workshop.load(specs[0]).texts[:1], spoil=float("inf"))
    settings = replace(QUICK, workers=workers)
    report = run(workshop, specs, tmp_path / "out", settings, encoder=encoder)
    assert list(report.failures) == ["little-sst2"]
    assert [result.task for result in report.results] == ["little-trec", specs[2].name]
    assert report.exit_code == 1


def test_input_that_fails_every_task_is_told_from_a_fault_of_ours(
    workshop: Workshop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken(BagEncoder):
        stores_vectors = True

        def encode(self, texts: Sequence[str]) -> FloatArray:
            raise ZeroDivisionError("a fault of ours")

    spec = workshop.sts()
    spoiled = HashEncoder(spoiled=workshop.load(spec).texts, spoil=0.0)
    assert run(workshop, [spec], tmp_path / "out", encoder=spoiled).exit_code == 2
    assert "Traceback" not in capsys.readouterr().err
    report = run(workshop, [spec], tmp_path / "out", encoder=Broken())
    assert report.failures == {"little-sts": "ZeroDivisionError: a fault of ours"}
    assert report.exit_code == 1
    assert "Traceback" in capsys.readouterr().err


def test_why_all_tasks_could_not_be_encoded_together_is_told(
    workshop: Workshop, tmp_path: Path
) -> None:
    specs = [workshop.sst_binary(), workshop.trec()]
    most = max(len(set(workshop.load(spec).texts)) for spec in specs)

    class Small(HashEncoder):
        """As a device without memory for the texts of both tasks."""

        def count_tokens(self, texts: Sequence[str]) -> IntArray:
            if len(texts) > most:
                raise MemoryError("too many texts")
            return super().count_tokens(texts)

    report = run(workshop, specs, tmp_path / "out", encoder=Small())
    assert [result.task for result in report.results] == [spec.name for spec in specs]
    assert report.failures == {}
    (warning,) = report.warnings
    assert "could not be encoded together (MemoryError: too many texts)" in warning


def test_an_output_that_cannot_be_written_to_is_refused_before_encoding(
    workshop: Workshop, tmp_path: Path
) -> None:
    encoder = BagEncoder()
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="file"):
        run(workshop, [workshop.sts()], tmp_path / "file", encoder=encoder)
    assert encoder.encoded == []


def test_a_task_that_cannot_be_prepared_for_one_core_is_scored_here(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("of a plug-in")

    monkeypatch.setattr(RelatednessTask, "for_one_core", fails)
    specs = mixed(workshop)
    report = whole(run(workshop, specs, tmp_path, TWO))
    assert [result.task for result in report.results] == [spec.name for spec in specs]
