"""The history of a run and its card: rows of a log, the same bytes, nothing unescaped."""

from __future__ import annotations

import csv
import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard
from standins import write_task

from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.reference_encoder import Base
from polarity_bench.results.score_names import explain
from polarity_bench.tasks.catalogue import read_task
from polarity_bench.tasks.types.polarity.task import PolaritySpec
from polarity_bench.training.history import Row, draw_history, history_rows, kept_row, write_history
from polarity_bench.training.model_card import history_table, model_card
from polarity_bench.training.recipes.base import FitResult
from polarity_bench.training.recipes.margins.recipe import Margins
from polarity_bench.training.run_folder import RunIdentity

SCORES = {"polarity": 0.6, "similarity": 0.5, "retention": 0.9, "joint": 0.4}
SCORES |= {"joint_low": 0.35, "joint_high": 0.45}
HELD_OUT = {"held_out_joint": 0.3, "held_out_joint_high": 0.4, "held_out_joint_low": 0.2}
LOG: list[dict[str, Any]] = [
    {"epoch": 0, "step": 0, "eval_runtime": 2.5}
    | {f"eval_{name}": value for name, value in (SCORES | HELD_OUT).items()},
    {"epoch": 1.0, "step": 8, "loss": 0.25, "learning_rate": 3e-5, "grad_norm": 1.0},
    {"epoch": 1.0, "step": 8, "eval_samples_per_second": 3.0}
    | {f"eval_{name}": value + 0.1 for name, value in (SCORES | HELD_OUT).items()},
    {"epoch": 1.0, "step": 8, "train_runtime": 9.0, "train_loss": 0.25},
]


@pytest.fixture
def task(tmp_path: Path) -> PolaritySpec:
    spec = read_task(write_task(tmp_path))
    assert isinstance(spec, PolaritySpec)
    return spec


def test_a_log_becomes_one_row_for_each_evaluation() -> None:
    before, after = history_rows(LOG)
    untrained = {"epoch": 0, "step": 0, "loss": None, "learning_rate": None}
    assert before == untrained | SCORES | HELD_OUT
    assert after["loss"] == 0.25
    assert after["learning_rate"] == 3e-5
    assert after["polarity"] == pytest.approx(0.7)
    assert list(after)[-1].startswith("held_out_")


def figure(rows: Sequence[Row], folder: Path, title: str = "title") -> bytes:
    draw_history(rows, folder, title)
    return (folder / "history.svg").read_bytes()


@pytest.mark.usefixtures("drawn_history")
def test_what_is_undefined_is_empty_in_the_csv_and_a_gap_in_the_figure(tmp_path: Path) -> None:
    undefined = {"eval_joint_low": math.nan, "eval_retention": math.nan}
    rows = history_rows([LOG[0] | undefined, *LOG[1:]])
    assert (rows[0]["joint_low"], rows[0]["retention"]) == (None, None)
    write_history(rows, tmp_path)
    with (tmp_path / "history.csv").open(newline="") as file:
        assert next(csv.DictReader(file))["joint_low"] == ""
    drawn = figure(rows, tmp_path)
    assert drawn == figure(rows, tmp_path)
    assert drawn != figure([rows[0] | {"retention": 0.0}, rows[1]], tmp_path)


def test_an_epoch_that_was_begun_again_is_one_row() -> None:
    assert history_rows([*LOG, *LOG[1:]]) == history_rows(LOG)


@pytest.mark.parametrize(
    ("joint", "p", "kept"),
    [
        ((0.4, 0.3, 0.5), (0.6, 0.6, 0.6), 2),
        ((0.4, 0.3, 0.2), (0.6, 0.7, 0.8), 0),
        ((0.0, 0.0, 0.0), (0.5, 0.4, 0.45), 0),  # clipped
        ((0.0, 0.0, 0.0), (0.4, 0.45, 0.48), 2),
        ((0.4, 0.4, 0.4), (0.6, 0.6, 0.6), 0),
    ],
)
def test_the_base_is_kept_where_no_epoch_is_better(
    joint: Sequence[float], p: Sequence[float], kept: int
) -> None:
    scores = zip(joint, p, strict=True)
    rows: list[Row] = [
        {"epoch": i, "step": i, "held_out_joint": j, "held_out_polarity": q}
        for i, (j, q) in enumerate(scores)
    ]
    assert kept_row(rows, "held_out_joint")["step"] == kept


def test_the_history_is_written_and_read_back(tmp_path: Path) -> None:
    write_history(history_rows(LOG), tmp_path)
    with (tmp_path / "history.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["loss"] for row in rows] == ["", "0.25"]
    assert float(rows[1]["joint"]) == pytest.approx(0.5)


def test_one_row_is_no_figure(tmp_path: Path) -> None:
    draw_history(history_rows(LOG)[:1], tmp_path, "title")
    assert not (tmp_path / "history.svg").exists()


@pytest.mark.usefixtures("drawn_history")
def test_the_figure_is_the_same_bytes_and_takes_any_title(tmp_path: Path) -> None:
    drawn = figure(history_rows(LOG), tmp_path, "a <b> & $c")
    assert drawn == figure(history_rows(LOG), tmp_path, "a <b> & $c")
    assert b"<b>" not in drawn
    root = ET.fromstring(drawn)
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"P", "S", "retention", "joint", "epoch"} <= set(words)


def test_the_table_is_in_percent_with_joints_interval_and_the_loss_is_not() -> None:
    lines = history_table(history_rows(LOG)).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    scores = ["epoch", "loss", "P", "S", "retention", "joint"]
    assert cells[0] == [*scores, "held-out joint"]
    assert cells[2][:4] == ["0", "-", "60.00", "50.00"]
    assert cells[2][-2:] == [r"40.00 [35.00, 45.00]", r"30.00 [20.00, 40.00]"]
    assert cells[3][:4] == ["1", "0.2500", "70.00", "60.00"]


def test_every_column_is_explained() -> None:
    rows = history_rows([LOG[0] | {"eval_joint_uniform": 0.4}, *LOG[1:]])
    for name in [*rows[0], *history_table(rows).splitlines()[0].strip("|").split("|")]:
        assert explain(name)


def card(task: PolaritySpec, rows: list[Row], kept: int = 8, **changes: Any) -> str:
    base = EncoderId("org/<script>|base", "abc")
    recipe = Margins(**changes)
    identity = RunIdentity(recipe, base, {"example_encoder": base}, *"tde")
    fitted = FitResult(kept, {"Examples": "2,000 an epoch, by <script>"})
    return model_card(Path("my_run"), recipe, identity, task, rows, fitted, Base("org/base", base))


def test_the_card_says_what_was_done_and_escapes_what_came_from_outside(task: PolaritySpec) -> None:
    text = card(task, [*history_rows(LOG)])
    assert "<script>" not in text.split("---\n")[2]
    assert "**Examples**: 2,000 an epoch, by &lt;script&gt;" in text
    assert "and the licence of that encoder applies" in text
    assert "unchanged base" not in text
    data: Any = ModelCard(text, ignore_metadata_errors=False).data
    found = {result.metric_type: result.metric_value for result in data.eval_results}
    assert found["polarity_at_4"] == pytest.approx(70.0)
    assert data.base_model == "org/<script>|base"
    assert (data.language, data.datasets) == (["en"], None)  # the data is not on the hub
    assert (data.license, data.license_name) == ("other", "that-of-the-base")


def test_the_card_of_a_base_that_was_kept_has_its_scores_and_says_so(task: PolaritySpec) -> None:
    text = card(task, [*history_rows(LOG)], kept=0)
    assert "**Kept**: the unchanged base: no epoch scored better" in text
    data: Any = ModelCard(text).data
    assert {r.metric_type: r.metric_value for r in data.eval_results}["polarity_at_4"] == 60.0


def test_an_undefined_score_is_in_no_card(task: PolaritySpec) -> None:
    rows: list[Row] = [dict(row) | {"similarity": None} for row in history_rows(LOG)]
    data: Any = ModelCard(card(task, rows)).data
    assert {result.metric_type for result in data.eval_results} == {
        *("polarity_at_4", "retention_at_4", "joint_at_4")
    }
