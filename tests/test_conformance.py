"""`polarity-bench test`: what a task of others must keep, and what is said if it does not."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from shutil import copytree

import pytest
from standins import Bench, write_task

from polarity_bench import conformance
from polarity_bench.conformance import check_tasks
from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.baselines import RandomEncoder
from polarity_bench.tasks import catalogue
from polarity_bench.tasks.types.base import TaskSpec
from polarity_bench.values import FloatArray

MOODS = Path(__file__).parents[1] / "docs/plugin/polarity_bench_moods"
CHECKS = ["reads", "loads", "size", "chance", "resumes", "repeats"]
_CALLS = count()


class Moody(RandomEncoder):
    """An encoder with other vectors at every call."""

    stores_vectors = False

    def encode(self, texts: Sequence[str]) -> FloatArray:
        return super().encode([f"{text} {next(_CALLS)}" for text in texts])


class Knowing(RandomEncoder):
    """An encoder that knows the labels."""

    def encode(self, texts: Sequence[str]) -> FloatArray:
        with next(MOODS.glob("*.csv")).open(encoding="utf-8", newline="") as file:
            moods = {row["sentence"]: row["mood"] for row in csv.DictReader(file)}
        return super().encode([moods[text] for text in texts])


@pytest.fixture
def moods(tmp_path: Path) -> Path:
    return copytree(MOODS, tmp_path / "moods")


def problems(file: Path) -> dict[str, str]:
    checks = [*check_tasks([file], DataAccess())]
    return {check.check: check.problem for check in checks if check.problem}


def test_the_example_plug_in_passes(moods: Path) -> None:
    checks = [*check_tasks([moods / "moods.toml"], DataAccess())]
    assert [check.check for check in checks] == CHECKS
    assert not any(check.problem for check in checks)


def test_a_name_that_is_taken_is_refused(moods: Path) -> None:
    file = moods / "moods.toml"
    file.write_text(file.read_text().replace('name = "moods"', 'name = "contrast"'))
    assert "already has the name 'contrast'" in problems(file)["reads"]


def test_a_name_that_is_taken_in_the_same_plug_in_is_refused(moods: Path) -> None:
    (moods / "other.toml").write_text((moods / "moods.toml").read_text())
    files = sorted(moods.glob("*.toml"))
    problem = [*check_tasks(files, DataAccess())][-1].problem
    assert "other.toml: the task 'moods' " in problem
    assert "already has the name 'moods'" in problem


def test_the_tasks_of_this_project_are_read_once(
    moods: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    whole = catalogue.read_task

    def read_task(path: Path) -> TaskSpec:
        read.append(Path(path).name)
        return whole(path)

    catalogue._shipped_tasks.cache_clear()
    monkeypatch.setattr(catalogue, "read_task", read_task)
    [*check_tasks([moods / "moods.toml", moods / "moods.toml"], DataAccess())]
    assert len(read) == len(set(read)) > 10


def test_a_file_that_is_no_task_is_named(moods: Path) -> None:
    file = moods / "moods.toml"
    file.write_text("kind = 5")
    assert "unknown kind 5" in problems(file)["reads"]


def test_missing_data_is_named(moods: Path) -> None:
    (data,) = moods.glob("*.csv")
    data.unlink()
    assert data.name in problems(moods / "moods.toml")["loads"]


def test_few_sources_beside_k_are_pointed_out(moods: Path) -> None:
    file = moods / "moods.toml"
    text = file.read_text()
    assert "k = " in text
    file.write_text("\n".join("k = 20" if x.startswith("k = ") else x for x in text.splitlines()))
    assert "more than a quarter of the" in problems(file)["size"]


def test_scores_above_chance_and_scores_that_move_are_found(
    moods: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = moods / "moods.toml"
    monkeypatch.setattr(conformance, "RandomEncoder", Knowing)
    assert (
        "the baseline `random` has 100.00 on polarity_at_4, and chance is 50.00"
        in (problems(file)["chance"])
    )
    monkeypatch.setattr(conformance, "RandomEncoder", Moody)
    assert "scores differ between two runs" in problems(file)["repeats"]


def test_the_command_prints_problems_and_exits_with_1(bench: Bench, moods: Path) -> None:
    assert bench("test", moods).code == 0
    write_task(moods)
    (moods / "broken.toml").write_text("kind = 5")
    done = bench("test", moods)
    assert done.code == 1
    assert "broken.toml" in done.out
    assert "6 checks" in done.out
    found = json.loads(bench("test", moods, "--json").out)["checks"]
    assert {each["name"] for each in found} >= {"moods", "broken.toml"}
    unknown = bench("test", "polarity-bench-nothing")
    assert unknown.code == 2
    assert "neither a folder nor an installed plug-in" in unknown.err
