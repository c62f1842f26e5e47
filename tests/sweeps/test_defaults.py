"""A default of a recipe that changes later relabels no sweep that was planned before."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from standins.sweeps import read_small, small_grid

from polarity_bench.boards.sweep_tables import read_sweep
from polarity_bench.encoders.base import EncoderId
from polarity_bench.sweeps.cost import sizes
from polarity_bench.sweeps.plan import FILE, plan_of, read_plan, write_plan
from polarity_bench.training import parameters
from polarity_bench.training.recipes.axis.recipe import Axis
from polarity_bench.training.recipes.margins.losses import Ranking
from polarity_bench.training.recipes.margins.recipe import Margins

LEADERBOARDS = Path(__file__).parents[2] / "leaderboards"
CHANGED: dict[type[parameters.Parameters], dict[str, Any]] = {
    Margins: {"rate": 0.5, "epochs": 99, "schedule": "constant"},
    Ranking: {"temperature": 7.0},
    Axis: {"head": "tuned"},
}


@pytest.fixture
def changed_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    for cls, values in CHANGED.items():
        new = [
            replace(each, default=values.get(each.name, each.default))
            for each in parameters.declared(cls)
        ]
        monkeypatch.setitem(parameters._DECLARED, cls, new)


def labels(folder: Path) -> list[Mapping[str, Any]]:
    return [
        {
            name.removeprefix("settings."): value
            for name, value in record.items()
            if name.startswith("settings.")
        }
        for record in read_sweep(folder).of_kind("training")
        if record["metric"] == "polarity"
    ]


OLD = {"margins": ("rate", 3e-5), "margins-static": ("schedule", "linear")}
"""What no grid says of the trainings of a committed sweep, and its default then."""


@pytest.mark.parametrize("name", OLD)
@pytest.mark.usefixtures("changed_defaults")
def test_an_old_sweep_keeps_its_labels_when_a_default_changes(name: str) -> None:
    said = labels(LEADERBOARDS / name)
    setting, value = OLD[name]
    assert {each[setting] for each in said if each["recipe"] == "margins"} == {value}
    assert {each["temperature"] for each in said if each.get("loss") == "mnrl"} == {0.05}
    assert all(each["head"] == "linear" for each in said if each["recipe"] == "axis")


def test_a_plan_stores_the_defaults_by_which_its_trainings_are_made(
    tmp_path: Path, task_dir: Path, tiny_model: Path, request: pytest.FixtureRequest
) -> None:
    file = small_grid(tmp_path, tiny_model)
    grid, setup = read_small(file, tmp_path / "sweep", task_dir)
    names = {item.digest: EncoderId("tiny", "w") for item in grid.items}
    plan = plan_of(grid.title, grid.items, setup, sizes(grid.items, setup), names, file)
    write_plan(plan, tmp_path)
    request.getfixturevalue("changed_defaults")
    base, *trainings = read_plan(tmp_path).items
    assert base.resolved == {}
    assert len(trainings) == len(grid.trainings) == 4
    for item, training in zip(trainings, grid.trainings, strict=True):
        recipe = training.job.recipe.to_dict()
        loss = recipe.pop("loss")
        made = {"recipe": recipe.pop("name"), **recipe, "loss": loss.pop("name"), **loss}
        assert {key: item.resolved[key] for key in made} == made
        assert set(item.resolved) - set(made) == {"model", "task"}
        assert set(item.settings) < set(item.resolved)


def test_the_settings_that_a_plan_stores_are_those_that_tables_show(tmp_path: Path) -> None:
    for path in (LEADERBOARDS / "margins").iterdir():
        if path.name in {"results", "published.csv", "board.toml"}:
            (tmp_path / path.name).symlink_to(path)
    plan = json.loads((LEADERBOARDS / "margins" / FILE).read_bytes())
    before = labels(LEADERBOARDS / "margins")
    trainings = [item for item in plan["items"] if item["kind"] == "training"]
    for item, label in zip(trainings, before, strict=True):
        item["resolved"] = {**label, "rate": 0.125}
    (tmp_path / FILE).write_text(json.dumps(plan))
    assert labels(tmp_path) == [{**label, "rate": 0.125} for label in before]
