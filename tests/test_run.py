"""Run: what is scored in another process, and what becomes of it there."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from senteval_data import BagEncoder, Workshop, no_bar
from test_bind import QUICK, run_quick, without_times

from polarity_bench import run as runner
from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.kinds.relatedness import RelatednessTask
from polarity_bench.kinds.task import TaskSpec
from polarity_bench.results import Result
from polarity_bench.suite import RunReport


def specs(workshop: Workshop) -> list[TaskSpec]:
    made = [workshop.sick(relatedness=True), workshop.trec(), workshop.stsb(relatedness=True)]
    return [*made, workshop.sts()]


def test_relatedness_scores_the_same_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = Workshop(tmp_path / "made")
    tasks = specs(workshop)
    run_quick(workshop, tasks, tmp_path / "1")

    def not_here(*_: Any) -> None:
        raise AssertionError("relatedness was scored in this process")

    monkeypatch.setattr(RelatednessTask, "score", not_here)
    report = run_quick(workshop, tasks, tmp_path / "2", replace(QUICK, workers=2))
    assert [result.task for result, _ in report.results] == [task.name for task in tasks]
    assert without_times(tmp_path / "1") == without_times(tmp_path / "2")


def evaluate(workshop: Workshop, tasks: list[TaskSpec], output: Path) -> RunReport:
    return runner.run(
        BagEncoder(),
        tasks,
        DataAccess(workshop.data, offline=True),
        replace(QUICK, workers=2),
        output=output,
        embedder=Embedder(),
        bar=no_bar,
    )


def test_a_task_that_fails_in_another_process_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = Workshop(tmp_path / "made")
    tasks, part = specs(workshop), runner._part
    monkeypatch.setattr(runner, "_part", lambda corpus, texts: part(corpus, texts[:3]))
    report = evaluate(workshop, tasks, tmp_path / "out")
    assert set(report.failures) == {tasks[0].name, tasks[2].name}
    assert all("is not among the 3 texts embedded" in why for why in report.failures.values())
    assert [result.task for result, _ in report.results] == [tasks[1].name, tasks[3].name]
    assert report.exit_code == 1


@dataclass(frozen=True)
class Deadly:
    """Ends the process that it is called in, unless that is the one that made it."""

    make: Callable[[], Result]
    home: int

    def __call__(self) -> Result:
        if os.getpid() != self.home:
            os._exit(3)
        return self.make()


def test_what_a_process_left_undone_is_made_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = Workshop(tmp_path / "made")
    tasks = [task for task in specs(workshop) if task.kind != "transfer"]
    elsewhere = runner._attempt_elsewhere
    monkeypatch.setattr(
        runner,
        "_attempt_elsewhere",
        lambda made, output, workers: elsewhere(
            {name: Deadly(make, os.getpid()) for name, make in made.items()}, output, workers
        ),
    )
    report = evaluate(workshop, tasks, tmp_path / "out")
    assert report.failures == {}
    assert [result.task for result, _ in report.results] == [task.name for task in tasks]
