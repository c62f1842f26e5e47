"""A clock that is set back: between two commands, and while a command runs.

Dates are for people. Durations, locks, and whether a file is new or stale do not depend on them.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from pathlib import Path

import pytest
from standins import Bench, HashEncoder

from polarity_bench.embedding.embedder import Embedder
from polarity_bench.embedding.store import EmbeddingStore
from polarity_bench.results.packed_results import PACKED, _contents
from polarity_bench.sweeps.state_files import SweepState

NOW, HOUR, YEAR = time.time(), 3600.0, 365 * 86_400.0


def set_clock(monkeypatch: pytest.MonkeyPatch, start: float, step: float = 0.0) -> None:
    """Set the clock, which then moves by `step` each time that it is read."""
    times = itertools.count(start, step)
    monkeypatch.setattr(time, "time", lambda: next(times))


def test_results_and_vectors_are_used_again_after_the_clock_was_set_back(
    bench: Bench, task_dir: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*more: str) -> tuple[str, dict[str, float]]:
        done = bench("run", "-m", tiny_model, "-t", "mini", "--task-dir", task_dir, "--json", *more)
        assert done.code == 0, done.err
        (result,) = json.loads(done.out)["results"]
        return done.err, result["scores"]

    set_clock(monkeypatch, NOW, -HOUR)  # it also goes back while the command runs
    _, scores = run()
    (file,) = Path("results").rglob("MiniPolarityRetrieval.json")
    stored = file.read_bytes()
    assert 0 <= json.loads(stored)["evaluation_time"] < HOUR
    for moment in (NOW - 10 * YEAR, 0.0):
        set_clock(monkeypatch, moment)
        said, found = run()
        assert found == scores
        assert "encoded" not in said
    assert file.read_bytes() == stored
    said, found = run("--overwrite")
    assert found == scores
    assert " 0 encoded " in said
    assert json.loads(file.read_text())["date"] == 0
    assert "1970-01-01T00:00:00" in bench("cache", "--json").out


def test_vectors_from_a_later_time_are_not_pruned_as_old_ones(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddingStore() as store:
        set_clock(monkeypatch, NOW + YEAR)
        Embedder(store).embed(HashEncoder("ahead"), ["a"])
    assert bench("cache", "prune", "--older-than", "1").out.startswith(
        "removed the embeddings of 0"
    )
    assert json.loads(bench("cache", "--json").out)["encoders"]


def test_packed_results_are_read_again_if_the_new_file_is_older(tmp_path: Path) -> None:
    file = tmp_path / PACKED
    for i, date in enumerate((NOW, NOW - YEAR)):
        made = tmp_path / "made"
        made.write_text(json.dumps({"path": f"a/b/{i}.json", "scores": {}, "provenance": {}}))
        os.utime(made, (date, date))
        made.replace(file)
        assert f"a/b/{i}.json" in _contents(file)


def test_an_item_of_a_sweep_runs_as_long_as_its_lock_is_held(tmp_path: Path) -> None:
    state = SweepState(tmp_path)
    state.make_folders()
    with state.try_lock("a"):
        state.begin("a", "x")
        for date in (NOW - YEAR, NOW + YEAR):
            for file in state.files.iterdir():
                os.utime(file, (date, date))
            assert list(state.running()) == ["a"]
    assert state.running() == {}
