"""Sweeps on this machine: made, killed, gone on with, shared by two drivers."""

from __future__ import annotations

import errno
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.torch import load_file, save_file
from standins import Bench, Done, call, write_task
from standins.board import placed
from standins.sweeps import (
    GRID,
    begun,
    made,
    made_here,
    read_small,
    run_here,
    small_grid,
    sweep_words,
)

from polarity_bench.boards.sweep_tables import read_sweep
from polarity_bench.cli.output import LINE_SECONDS
from polarity_bench.cli.sweep import show_progress
from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.load import EncoderOptions, load_encoder
from polarity_bench.errors import InputError
from polarity_bench.results.result_files import read_results, write_result
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.sweeps import execute as making
from polarity_bench.sweeps import remaining_items
from polarity_bench.sweeps.engines import local
from polarity_bench.sweeps.external_results import find_external_results
from polarity_bench.sweeps.items import Training
from polarity_bench.sweeps.plan import PlanItem, SweepPlan, merge_plans, write_plan
from polarity_bench.sweeps.remaining_items import find_sweep
from polarity_bench.sweeps.state_files import GREATEST_ATTEMPTS, ItemOutcome, SweepState, files_of
from polarity_bench.sweeps.status import Watch
from polarity_bench.training.job import Job
from polarity_bench.training.recipes.margins.recipe import Margins
from polarity_bench.training.train import TrainingRun, train

VALIDATED = """
[[cross-validate]]
task = "mini"
model = "{model}"
loss = "frozen"
folds = 2
rows = 4
sample = 16
"""
"""What a grid may validate too."""


@pytest.fixture
def grid(tmp_path: Path, tiny_model: Path) -> Path:
    """Four trainings of a second each, and their base."""
    return small_grid(tmp_path, tiny_model)


@pytest.fixture
def bench(
    tmp_path: Path,
    task_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Bench:
    monkeypatch.chdir(tmp_path)
    return lambda *words: call(monkeypatch, capsys, *words, "--task-dir", task_dir)


@pytest.fixture
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what is run, when and after what, not of the processes of the engine."""
    monkeypatch.setattr(local, "run_local", run_here)


@dataclass
class Whole:
    """What an undisturbed sweep makes, and its folder."""

    folder: Path
    made: dict[str, Any] = field(default_factory=dict)

    def __call__(self, grid: Path, task_dir: Path) -> dict[str, Any]:
        """Return the weights and scores; the sweep is made once, for all equal grids."""
        if not self.made:
            self.made.update(made_here(grid, self.folder, task_dir))
        return self.made


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Whole:
    return Whole(tmp_path_factory.mktemp("whole"))


@pytest.mark.slow
def test_a_sweep_is_made_and_then_there_is_nothing_to_do(
    bench: Bench,
    grid: Path,
    task_dir: Path,
    whole: Whole,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dry = bench("sweep", grid, "--dry-run")
    assert dry.out.startswith("Small: 5 in all, 5 left\n")
    assert "mini: 32 texts, 24 training rows" in dry.out
    assert "estimated from a short test of each base" in dry.out
    assert not Path("sweeps").exists()
    done = bench("sweep", grid, "--workers", "1")
    assert done.code == 0, done.err
    assert made(Path("sweeps/small")) == whole(grid, task_dir)
    assert "next: polarity-bench leaderboard" in done.err
    monkeypatch.setattr(local, "run_local", lambda *_, **__: pytest.fail("nothing is left"))
    again = bench("sweep", grid, "--json")
    assert again.code == 0, again.err
    said = json.loads(again.out)
    assert said["counts"] == {"done": 5, "running": 0, "left": 0, "failed": 0}
    assert {item["state"] for item in said["items"]} == {"done"}
    assert set(begun(Path("sweeps/small")).values()) == {1}


@pytest.mark.slow
def test_what_was_trained_elsewhere_is_done_where_all_its_results_are(
    bench: Bench,
    grid: Path,
    task_dir: Path,
    whole: Whole,
    tmp_path: Path,
) -> None:
    """As a board's, which has no encoders, no state and no arrays."""
    whole(grid, task_dir)
    without = shutil.ignore_patterns("*.safetensors")
    shutil.copytree(whole.folder / "results", "here/results", ignore=without)
    gone, changed, failed, kept = sorted(Path("here/results").glob("*-seed*"))
    shutil.rmtree(gone)
    (said_of,) = changed.rglob("*.provenance.json")
    (first,) = read_results(changed)
    encoder, reference = first.key.encoder, first.key.reference
    assert reference
    items, setup = read_small(grid, Path("here").absolute(), task_dir)
    bases = making.check(items.items, setup)
    changed_item = next(i for i in items.trainings if i.job.output.name == changed.name)
    otherwise = "loaded differently from its base"
    cases: list[tuple[dict[str, Any], str]] = [
        ({"encoder": replace(encoder, prompt="query: ")}, otherwise),
        ({"encoder": replace(encoder, dtype="bfloat16")}, otherwise),
        ({"encoder": replace(encoder, max_tokens=8)}, otherwise),
        ({"encoder": replace(encoder, strength=2.0)}, otherwise),
        ({"encoder": replace(encoder, name="another")}, "for another encoder"),
        ({"reference": replace(reference, weights="0" * 16)}, ", but the base is "),
        ({"limit": 2000}, "for a part of the task"),
        ({"format": 1}, "damaged or written by another version"),
        ({"task": "0" * 16}, "for another version of the task"),
        ({"protocol": {**first.key.protocol, "version": 1}}, "with another protocol"),
        ({"data": "0" * 16}, "for other data"),
    ]
    for n, (other, why) in enumerate(cases):
        (field,) = other
        if field == "format":
            said_of.write_text(json.dumps({**json.loads(said_of.read_text()), **other}))
        else:
            key = first.key if field == "limit" else replace(first.key, **other)
            result = replace(first, key=key, **(other if field == "limit" else {}))
            written = write_result(result, tmp_path / f"other-{n}")
            shutil.copy(written.with_suffix(".provenance.json"), said_of)
        found = find_external_results(items.items, setup, bases)
        assert len(found.outcomes) == 2, other
        assert found.rejected.keys() == {changed_item.digest}
        assert why in found.rejected[changed_item.digest], other
    state = SweepState(setup.output)
    state.make_folders()
    (left,) = (each for each in items.trainings if each.job.output.name == failed.name)
    state.record(left.digest, ItemOutcome("failed", left.name, "no room"))
    wider = grid.with_name("wider.toml")
    wider.write_text(grid.read_text().replace("1e-3", "[1e-3, 2e-3]"))
    there = ("-o", "here")
    assert "9 in all, 7 left" in bench("sweep", wider, *there, "--dry-run").out
    dry = bench("sweep", grid, *there, "--dry-run")
    assert dry.out.startswith("Small: 5 in all, 3 left\n"), dry.err
    assert "1 of the remaining items have results that do not count, for other data" in dry.err
    done = bench("sweep", grid, *there, "--workers", "1")
    assert done.code == 0, done.err
    assert "2 items are not run, because all their results already exist" in done.err
    assert "5 in all" in done.out
    assert {each.name for each in Path("here/runs").iterdir()} == {gone.name, changed.name}
    assert made(Path("here")).items() <= whole(grid, task_dir).items()
    assert len(made(Path("here"))) == len(whole(grid, task_dir)) - len([failed, kept])
    shutil.rmtree(next(kept.iterdir()))
    dry = bench("sweep", grid, "-o", "here", "--dry-run", "--workers", "64")
    assert dry.out.startswith("Small: 5 in all, 1 left\n"), dry.err
    assert " in 1 process, " in dry.out


@pytest.mark.usefixtures("_in_this_process")
def test_one_that_fails_is_recorded_and_stops_nobody(
    bench: Bench,
    grid: Path,
    tiny_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = GRID.format(model=tiny_model, rate="[1e-3, 1e30]").replace("seed = [0, 1]", "")
    text = text.replace('["triplet", "mnrl"]', '"triplet"')
    grid.write_text('tasks = ["contrast"]' + text)
    done = bench("sweep", grid, "-o", "out", "--workers", "1")
    assert done.code == 1
    assert re.search(
        r"^the grid's other tasks: polarity-bench leaderboard .*/results$", done.err, re.M
    )
    assert "failed: rate 1e+30: " in done.out
    assert "loss is" in done.out
    status = json.loads(call(monkeypatch, capsys, "sweep", "status", "out", "--json").out)
    assert status["counts"] == {"done": 2, "running": 0, "left": 0, "failed": 1}
    (failed,) = status["failed"]
    assert "begun by" in Path(failed["log"]).read_text()
    bench("sweep", grid, "-o", "out", "--workers", "1")
    assert max(begun(Path("out")).values()) == 1, "what failed is not tried again unless asked for"
    bench("sweep", grid, "-o", "out", "--workers", "1", "--retry-failed")
    assert begun(Path("out"))[failed["digest"]] == 2


def sweep_command(grid: Path, folder: Path, task_dir: Path) -> list[str]:
    return [*sweep_words(grid, folder, task_dir), "--workers", "1"]


@pytest.mark.slow
def test_a_driver_that_is_interrupted_and_one_that_is_killed_leave_what_the_next_goes_on_with(
    grid: Path,
    tmp_path: Path,
    task_dir: Path,
    whole: Whole,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def status(*named: str | Path) -> Done:
        return call(monkeypatch, capsys, "sweep", "status", *named)

    folder = tmp_path / "out"
    words = sweep_command(grid, folder, task_dir)
    command = shlex.join(["polarity-bench", *words[3:]]) + "\n"
    # A shell lets what it starts in the background ignore the signal, and children inherit that.
    driver = subprocess.Popen(
        words,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    while len(SweepState(folder).ended()) < 2:  # the base and a training, by the one worker
        time.sleep(0.02)
        assert driver.poll() is None
    driver.send_signal(signal.SIGINT)
    said = driver.communicate()[1]
    assert driver.returncode == 130
    assert f" are left; to resume: {command}interrupted; " in said
    assert "leaked" not in said, "its worker leaves no semaphore behind"
    named: list[list[str | Path]] = [["-o", folder], [grid, "-o", folder], [folder]]
    for each in named:
        done = status(*each)
        assert (done.code, done.err.endswith(f"next: {command}")) == (0, True), done.err
    other = status("other.toml", "-o", folder)
    assert (other.code, "contains a sweep of" in other.err) == (2, True), other.err
    state = SweepState(folder)
    n_ended = len(state.ended())
    killed = subprocess.Popen(words)
    while len(state.ended()) <= n_ended or not list(folder.glob("state/*.begun")):
        time.sleep(0.02)
        assert killed.poll() is None
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    subprocess.run(words, check=True)
    assert "next: polarity-bench leaderboard" in status("-o", folder).err
    assert made(folder) == whole(grid, task_dir)
    assert sum(begun(folder).values()) <= 7, "at most the two that were ended were begun twice"


def test_an_item_that_takes_its_process_with_it_fails_in_the_end(
    grid: Path, tmp_path: Path, task_dir: Path
) -> None:
    items, setup = read_small(grid, tmp_path / "out", task_dir)
    state, item = SweepState(tmp_path / "out"), items.items[-1]
    state.make_folders()
    assert [state.begin(item.digest, "other") for _ in range(9)] == list(range(9))
    assert [state.begin(item.digest, setup.driver) for _ in range(GREATEST_ATTEMPTS)] == [0, 1, 2]
    outcome = making.make(item, setup, state)
    assert (outcome.state, outcome.name) == ("failed", "loss mnrl, seed 1")
    assert "ended 3 times, perhaps because memory ran out" in outcome.why
    assert state.outcome(item.digest) == outcome
    state.forget(item.digest)
    assert state.begin(item.digest, setup.driver) == 0


def test_a_training_without_its_base_has_failed_and_is_done_when_the_base_is_back(
    grid: Path, tmp_path: Path, task_dir: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, away = tmp_path / "base", tmp_path / "away"
    shutil.copytree(tiny_model, base)
    grid.write_text(grid.read_text().replace(str(tiny_model), str(base)))
    items, setup = read_small(grid, tmp_path / "out", task_dir)
    state, item = SweepState(setup.output), items.trainings[0]
    state.make_folders()

    def train_and_lose_the_base(job: Job, **_: Any) -> TrainingRun:
        found = train(job)
        base.rename(away)
        return found

    monkeypatch.setattr(making, "train", train_and_lose_the_base)
    outcome = making.make(item, setup, state)
    assert outcome.state == "failed"
    assert "the reference for S, is not available" in outcome.why
    assert not list(setup.output.glob("results/*/*"))
    away.rename(base)
    monkeypatch.undo()
    assert making.make(item, setup, state).state == "done"
    assert state.log(item.digest).read_text().count("begun by") == 2


def test_a_training_of_two_items_is_waited_for(
    grid: Path, tmp_path: Path, task_dir: Path, tiny_model: Path
) -> None:
    """As where a grid is given another task to evaluate on while a driver is at work on it."""
    write_task(task_dir, name="other")
    items, setup = read_small(grid, tmp_path / "out", task_dir)
    grown = grid.with_name("grown.toml")
    grown.write_text(f'tasks = ["other"]\n{grid.read_text()}')
    more, _ = read_small(grown, tmp_path / "out", task_dir)
    first, second = items.trainings[0], more.trainings[0]
    assert first.job.output == second.job.output
    assert first.digest != second.digest
    state = SweepState(setup.output)
    state.make_folders()
    with ThreadPoolExecutor() as pool:
        with state.wait_for_lock(first.job.output.name):
            waiting = pool.submit(making.make, second, setup, state)
            time.sleep(1)
            assert not waiting.done()
        assert waiting.result().state == "done"
    weights = first.job.output / "model.safetensors"
    trained = weights.stat().st_mtime_ns
    assert making.make(first, setup, state).state == "done"
    assert weights.stat().st_mtime_ns == trained


def test_one_process_holds_an_item(tmp_path: Path) -> None:
    state = SweepState(tmp_path)
    state.make_folders()
    with state.try_lock("a") as free:
        state.begin("a", "x")
        assert free
        with state.try_lock("a") as other:
            assert not other
        assert list(state.running()) == ["a"]
        with state.try_lock("b") as another:
            assert another
    assert state.running() == {}
    state.record("a", ItemOutcome("done", "A"))
    assert state.ended() == {"a"}


@pytest.mark.usefixtures("_in_this_process")
def test_a_sweep_goes_on_with_what_it_began_with_or_not_at_all(
    bench: Bench, grid: Path, task_dir: Path, tiny_model: Path, tmp_path: Path
) -> None:
    text = grid.read_text().replace('loss = ["triplet", "mnrl"]\nseed = [0, 1]', 'loss = "mnrl"')
    base = tmp_path / "base"
    shutil.copytree(tiny_model, base)
    grid.write_text(text.replace(str(tiny_model), str(base)))
    done = bench("sweep", grid, "-o", "out", "--workers", "1")
    assert done.code == 0
    assert "other tasks" not in done.err
    seen = {r.key.encoder.name: r.seen for r in read_results(Path("out/results"))}
    assert sorted(name for name, counts in seen.items() if counts is None) == [base.name]
    assert len(seen) == 2
    results = sorted(Path("out/results").iterdir())
    shutil.rmtree(results[0])
    again = bench("sweep", grid, "-o", "out", "--workers", "1")
    assert again.code == 0, again.err
    assert sorted(Path("out/results").iterdir()) == results, "what is gone is made again"
    assert sorted(begun(Path("out")).values()) == [1, 2]
    weights = load_file(base / "model.safetensors")
    save_file({n: w * 1.5 for n, w in weights.items()}, base / "model.safetensors")
    other = bench("sweep", grid, "-o", "out", "--workers", "1")
    assert other.code == 2
    assert f"the encoder {base} has changed since the sweep began" in other.err
    save_file(weights, base / "model.safetensors")
    assert bench("sweep", grid, "-o", "out", "--workers", "1").code == 0
    data = next(file for file in task_dir.rglob("*.csv"))
    data.write_text(data.read_text() + "one row more,good\n")
    edited = bench("sweep", grid, "-o", "out", "--workers", "1")
    assert edited.code == 2, edited.err


@pytest.mark.usefixtures("_in_this_process")
def test_a_base_replaced_between_two_items_fails_the_second_until_it_is_put_back(
    bench: Bench, grid: Path, task_dir: Path, tiny_model: Path, tmp_path: Path
) -> None:
    base = tmp_path / "base"
    shutil.copytree(tiny_model, base)
    grid.write_text(
        grid.read_text().replace(str(tiny_model), str(base)) + VALIDATED.format(model=base)
    )
    items, setup = read_small(grid, tmp_path / "out", task_dir)
    state = SweepState(setup.output)
    state.make_folders()
    find_sweep(items, setup, grid).write_state()
    evaluation, first, second, *_, validation = items.items
    for item in (evaluation, first):
        assert making.make(item, setup, state).state == "done"
    began = load_encoder(str(base)).id.digest
    weights = load_file(base / "model.safetensors")
    save_file({n: w * 1.5 for n, w in weights.items()}, base / "model.safetensors")
    now = load_encoder(str(base)).id.digest
    for item in (evaluation, second, validation):
        outcome = making.make(item, setup, state)
        assert outcome.state == "failed"
        assert f"the sweep began with the encoder {began}, got {now}; restore" in outcome.why
        assert "run the same command again with `retry_failed`" in outcome.why
    assert not list(setup.output.glob("fewshot/**/*.json"))
    assert isinstance(second, Training)
    assert not (setup.output / "results" / second.job.output.name).exists()
    save_file(weights, base / "model.safetensors")
    done = bench("sweep", grid, "-o", "out", "--workers", "1", "--retry-failed")
    assert done.code == 0, done.err
    trainings = read_sweep(setup.output).of_kind("training")
    assert {run["reference"] for run in trainings if run["state"] == "done"} == {began}


def test_a_base_replaced_after_a_training_fails_its_evaluation(
    grid: Path, task_dir: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / "base"
    shutil.copytree(tiny_model, base)
    grid.write_text(grid.read_text().replace(str(tiny_model), str(base)))
    items, setup = read_small(grid, tmp_path / "out", task_dir)
    state, item = SweepState(setup.output), items.trainings[0]
    state.make_folders()
    find_sweep(items, setup, grid).write_state()
    weights = load_file(base / "model.safetensors")
    began = load_encoder(str(base)).id.digest

    def train_and_replace_the_base(job: Job, **options: Any) -> TrainingRun:
        found = train(job, **options)
        save_file({n: w * 1.5 for n, w in weights.items()}, base / "model.safetensors")
        return found

    monkeypatch.setattr(making, "train", train_and_replace_the_base)
    outcome = making.make(item, setup, state)
    assert outcome.state == "failed"
    for digest in (began, load_encoder(str(base)).id.digest):
        assert digest in outcome.why
    assert (
        "restore the base encoder, then run the same command again with `retry_failed`"
        in outcome.why
    )
    monkeypatch.undo()
    save_file(weights, base / "model.safetensors")
    assert making.make(item, setup, state).state == "done"


@pytest.mark.usefixtures("_in_this_process")
def test_two_grids_of_one_name_do_not_share_a_folder(
    bench: Bench, grid: Path, tmp_path: Path
) -> None:
    text = grid.read_text().replace('loss = ["triplet", "mnrl"]\nseed = [0, 1]', 'loss = "mnrl"')
    grid.write_text(text)
    assert bench("sweep", grid, "--workers", "1").code == 0
    (tmp_path / "two").mkdir()
    other = tmp_path / "two" / grid.name
    other.write_text(text.replace("epochs = 1", "epochs = 2"))
    done = bench("sweep", other, "--workers", "1")
    assert done.code == 2
    assert "contains the sweep of another grid" in done.err
    assert bench("sweep", grid, "--workers", "1").code == 0


def test_status_is_of_the_folder_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    places = {"sweeps/a": "near", "sweeps/a.v3": "third", "elsewhere/a": "far"}
    for place, title in places.items():
        Path(place).mkdir(parents=True)
        write_plan(SweepPlan(title, []), Path(place))
    wanted = {"a": "near", "a.toml": "near", "a.v3": "third", "elsewhere/a": "far"}
    wanted |= {str(tmp_path / "elsewhere" / "a"): "far", "sweeps/a.v3": "third"}
    for word, title in wanted.items():
        said = json.loads(call(monkeypatch, capsys, "sweep", "status", word, "--json").out)
        assert said["title"] == title, word
    assert call(monkeypatch, capsys, "sweep", "status", "b").code == 2


def test_time_left_is_weighed_by_what_is_planned(tmp_path: Path) -> None:
    state = SweepState(tmp_path)
    state.make_folders()
    plan = SweepPlan("x", [PlanItem(name, "training", name, 10.0, {}, name, "t") for name in "abc"])
    state.record("a", ItemOutcome("done", "a", seconds=20.0, scores={"t": 0.4}))
    state.record("old", ItemOutcome("done", "old", seconds=3600.0, scores={"t": 0.9}))
    state.begin("b", "x")
    with state.try_lock("b"):
        seen = Watch(plan, state).read_progress()
    assert seen.counts == {"done": 1, "running": 1, "left": 1, "failed": 0}
    assert seen.seconds_left == pytest.approx(20.0 / 10 * (10 + 10 / 2))
    assert [(best.task, best.score) for best in seen.best] == [("t", 0.4)]


@pytest.mark.parametrize(
    ("ends", "score", "said"),
    [
        ((0.30, 0.35), 0.3261, "; the intervals overlap, so the difference may be due to chance"),
        ((0.30, 0.35), 0.3258, "; no training run scores above its base"),
        ((0.40, 0.45), 0.4261, ""),
    ],
)
def test_the_best_names_its_score_and_how_it_compares_with_its_base(
    tmp_path: Path, ends: tuple[float, float], score: float, said: str
) -> None:
    own = {"base": (0.3258, (0.30, 0.35)), "a": (0.3, (0.29, 0.31)), "b": (score, ends)}
    state = SweepState(tmp_path)
    state.make_folders()
    for name, (mean, interval) in own.items():
        made = placed(EncoderId(name, name), "t", mean, 0.5)
        key = ScoreKey("polarity", 16)
        scores = {**made.scores, key: Score(mean, 0.1, interval, 8)}
        path = write_result(replace(made, main_score=key, scores=scores), tmp_path / "results")
        outcome = ItemOutcome("done", name, scores={"t": mean}, files=files_of([path], tmp_path))
        state.record(name, outcome)
    items = [PlanItem("base", "evaluation", "base", 1.0, {}, "base")]
    items += [PlanItem(n, "training", n, 1.0, {}, n, "t", after="base") for n in ("a", "b")]
    (best,) = Watch(SweepPlan("x", items), state).read_progress().best
    low, high = (f"{100 * each:.2f}" for each in ends)
    assert best.words == (
        f"best on t by P (k = 16, linear weights): {100 * score:.2f} (95 % interval {low} to "
        f"{high}), b; its base: 32.58 (95 % interval 30.00 to 35.00){said}"
    )


def test_time_left_is_not_weighed_by_what_was_made_elsewhere(tmp_path: Path) -> None:
    state = SweepState(tmp_path)
    state.make_folders()
    plan = SweepPlan(
        "x", [PlanItem(name, "training", name, 10.0, {}, name, "t") for name in "abcd"]
    )
    state.record("a", ItemOutcome("done", "a", seconds=20.0))
    state.record("d", ItemOutcome("done", "d", scores={"t": 0.4}))
    state.begin("b", "x")
    with state.try_lock("b"):
        seen = Watch(plan, state).read_progress()
    assert seen.counts == {"done": 2, "running": 1, "left": 1, "failed": 0}
    assert seen.seconds_left == pytest.approx(20.0 / 10 * (10 + 10 / 2))


def test_time_left_of_trainings_is_unknown_while_only_evaluations_are_done(tmp_path: Path) -> None:
    """One with stored vectors takes seconds, whatever its effort."""
    state = SweepState(tmp_path)
    state.make_folders()
    kinds = {"a": "evaluation", "b": "training", "c": "training"}
    items = [PlanItem(name, kind, name, 10.0, {}, name, "t") for name, kind in kinds.items()]
    state.record("a", ItemOutcome("done", "a", seconds=1.0))
    state.begin("b", "x")
    with state.try_lock("b"):
        assert Watch(SweepPlan("x", items), state).read_progress().seconds_left is None
    state.record("b", ItemOutcome("done", "b", seconds=40.0))
    state.begin("c", "x")
    with state.try_lock("c"):
        assert Watch(SweepPlan("x", items), state).read_progress().seconds_left == 40.0 / 2


def test_a_log_has_a_line_for_each_change_and_one_for_five_minutes_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = SweepState(tmp_path)
    state.make_folders()
    items = [PlanItem(name, "evaluation", name, 1.0, {}, name, "t") for name in "ab"]
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with show_progress(Watch(SweepPlan("x", items), state)) as look:
        for _ in range(20):  # ten minutes without a change
            now += LINE_SECONDS + 1
            look()
        state.record("a", ItemOutcome("done", "a", seconds=20.0))
        now += LINE_SECONDS + 1
        look()
    assert capsys.readouterr().err == "x: 2 left\n" * 3 + "x: 1 done, 1 left\n"


def test_what_another_driver_makes_again_is_no_failure_any_more(tmp_path: Path) -> None:
    state = SweepState(tmp_path)
    state.make_folders()
    watch = Watch(SweepPlan("x", [PlanItem("a", "training", "a", 1.0, {}, "a", "t")]), state)
    state.record("a", ItemOutcome("failed", "a", "no room"))
    assert watch.read_progress().counts["failed"] == 1
    state.forget("a")
    assert watch.read_progress().counts == {"done": 0, "running": 0, "left": 1, "failed": 0}
    state.record("a", ItemOutcome("failed", "a", "no room"))
    watch.read_progress()
    state.forget("a")
    state.record("a", ItemOutcome("done", "a"))
    assert watch.read_progress().counts == {"done": 1, "running": 0, "left": 0, "failed": 0}


def test_what_one_grid_leaves_out_must_be_the_same_when_another_names_it_again() -> None:
    began = SweepPlan("x", [], made_from={"the encoder A": "1", "the encoder B": "2"})
    grown = merge_plans(
        began, SweepPlan("x", [], made_from={"the encoder A": "1", "C": "3"}), Path("x")
    )
    assert grown.made_from == {"the encoder A": "1", "the encoder B": "2", "C": "3"}
    with pytest.raises(
        InputError, match="the encoder B has changed since the sweep began, from 2 to 4"
    ):
        merge_plans(grown, SweepPlan("x", [], made_from={"the encoder B": "4"}), Path("x"))


@pytest.mark.skipif(sys.platform == "win32", reason="its locks are others")
def test_a_folder_without_locks_is_refused(
    bench: Bench, grid: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    done = bench("sweep", grid, "-o", "out")
    assert done.code == 2
    assert "--output" in done.err
    assert "files cannot be locked there" in done.err
    assert not list(Path("out/runs").glob("*"))


def test_without_locks_that_hold_an_item_is_made_twice_with_the_same_bytes(
    grid: Path, tmp_path: Path, task_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a network folder whose locks each machine keeps to itself."""
    monkeypatch.setattr(SweepState, "try_lock", lambda *_: nullcontext(True))
    items, setup = read_small(grid, tmp_path / "out", task_dir)
    state, last = SweepState(tmp_path / "out"), items.items[-1]
    state.make_folders()
    making.make(last, setup, state)
    once = made(tmp_path / "out")
    state.forget(last.digest)
    making.make(last, setup, state)
    assert made(tmp_path / "out") == once
    assert begun(tmp_path / "out") == {last.digest: 2}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["small.toml", "--workers", "0"], "--workers must be at least 1, got 0"),
        (["none.toml"], "grid none.toml: no such file or packaged grid; known: "),
    ],
)
def test_what_cannot_begin_is_said(
    bench: Bench, grid: Path, words: list[str], message: str
) -> None:
    done = bench("sweep", *words)
    assert (done.code, message in done.err) == (2, True), done.err


def test_a_base_or_data_that_is_not_there_is_said_before_anything_is_made(
    bench: Bench, grid: Path, tiny_model: Path
) -> None:
    for wrong in ('model = "nowhere"', 'task = "nothing"'):
        key = wrong.split()[0]
        text = GRID.format(model=tiny_model, rate=1e-3)
        lines = [wrong if line.startswith(f"{key} =") else line for line in text.splitlines()]
        grid.write_text("\n".join(lines))
        done = bench("sweep", grid, "-o", "out")
        assert done.code == 2
        assert wrong.split('"')[1] in done.err
        assert not list(Path("out/state").glob("*.json"))


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ('model = "random"', "a baseline has no weights"),
        ('example_encoder = "nowhere"', "nowhere"),
        ('examples_from = "none.parquet"', "no such file"),
        ('task = "sst2-unseen"', "must stay unseen in training"),
        ('task = "stsb"', "expected a polarity task, got a sts task"),
    ],
)
def test_what_cannot_be_trained_is_said_before_anything_is_made(
    bench: Bench, grid: Path, said: str, message: str
) -> None:
    lines = [line for line in grid.read_text().splitlines() if not line.startswith(said.split()[0])]
    if "examples_from" in said:
        lines = [line for line in lines if not line.startswith(("threshold", "neighbours"))]
    grid.write_text("\n".join(lines).replace("[all]", f"[all]\n{said}"))
    done = bench("sweep", grid, "-o", "out")
    assert (done.code, message in done.err) == (2, True), done.err
    assert not list(Path("out/logs").glob("*"))


@pytest.mark.parametrize("words", [["--dry-run"], ["--workers", "1"]])
def test_more_examples_than_there_are_are_refused_with_their_line(
    bench: Bench, grid: Path, words: list[str]
) -> None:
    """24 rows, 12 of a class: each has 4 neighbours of either sort, which makes 16 triplets."""
    assert bench("sweep", grid, "-o", "out", "--dry-run").code == 0
    grid.write_text(grid.read_text().replace("examples = 32", "examples = [32, 385]"))
    done = bench("sweep", grid, "-o", "out", *words)
    assert done.code == 2
    line = next(n for n, said in enumerate(grid.read_text().splitlines(), 1) if "examples" in said)
    said = (
        f"{grid}, line {line}: the neighbours allow {24 * 4 * 4} triplets, but 385 were requested; "
    )
    assert said in done.err, done.err
    assert not list(Path("out").glob("runs/*"))
    assert not list(Path("out").glob("state/*.json"))


def test_examples_are_counted_for_some_pools_only(
    bench: Bench, grid: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each seed holds out other rows; 1,000 seeds took 12 GB and half an hour before the start."""
    grid.write_text(grid.read_text().replace("held_out = 0", "held_out = 2"))
    counted = []
    monkeypatch.setattr(remaining_items, "_POOLS", 1)
    count = remaining_items._neighbours

    def counting(*args: Any) -> Any:
        counted.append(args)
        return count(*args)

    monkeypatch.setattr(remaining_items, "_neighbours", counting)
    done = bench("sweep", grid, "-o", "out", "--dry-run")
    assert (done.code, len(counted)) == (0, 1), done.err


def test_one_encoder_by_two_names_is_refused(bench: Bench, grid: Path, tiny_model: Path) -> None:
    twice = f'["{tiny_model}", "{tiny_model.parent}/../{tiny_model.parent.name}/{tiny_model.name}"]'
    grid.write_text(grid.read_text().replace(f'"{tiny_model}"', twice))
    done = bench("sweep", grid, "-o", "out")
    assert (done.code, "are the same encoder, tiny; use one of these names only" in done.err) == (
        2,
        True,
    )


def test_examples_from_outside_must_stay_what_they_were(tmp_path: Path) -> None:
    def digest() -> str:
        (digest,) = recipe.additional_inputs(DataAccess(), None, EncoderOptions()).values()
        return digest()

    rows = {"anchor": ["a", "b"], "positive": ["c", "d"], "negative": ["e", "f"]}
    file = tmp_path / "train.parquet"
    recipe = Margins(examples_from=file)
    pq.write_table(pa.table(rows), file)
    before = digest()
    assert digest() == before
    pq.write_table(pa.table({**rows, "negative": ["e", "g"]}), file)
    assert digest() != before
