"""What is said of one encoder's results, by the committed ones of MiniLM."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from polarity_bench.boards.run_report import as_json, tables
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.render.table import Table
from polarity_bench.results.result_files import Result, read_results
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.catalogue import load_task
from polarity_bench.tasks.types.base import Settings

BOARD = Path(__file__).parent.parent / "leaderboards" / "polarity"


@pytest.fixture(scope="module")
def results() -> list[Result]:
    found = [result for _, result in read_results(BOARD)]
    return [result for result in found if result.key.encoder.name.endswith("all-MiniLM-L6-v2")]


def titles(table: Table) -> list[str]:
    return [column.title for column in table.columns]


def test_every_kind_has_a_table_and_what_only_some_tasks_have_comes_after(
    results: list[Result],
) -> None:
    polarity, transfer, relatedness, sts, *details = tables(results)
    assert titles(polarity) == [
        "P",
        "S",
        "retention",
        "joint",
        "front",
        "P uniform",
        "S uniform",
        "kNN accuracy",
        "SgTS",
    ]
    assert titles(transfer) == ["accuracy", "dev accuracy", "macro-F1", "F1"]
    assert titles(relatedness) == ["Pearson", "Spearman"]
    assert titles(sts)[0] == "Spearman all"
    assert [len(table.heads[0][1]) for table in (polarity, transfer, relatedness, sts)] == [
        5,
        9,
        2,
        6,
    ]
    (contrast,) = details
    assert contrast.heads == [("task", ["contrast"]), ("k", ["16"])]
    assert titles(contrast)[:4] == ["aspect", "topic", "minimal pairs", "P, antonym"]


def test_phenomena_stand_at_every_k() -> None:
    task = load_task("contrast", Settings(ks=(4, 8)))
    result = evaluate("random", task)
    details = tables([result])[1]
    assert details.heads == [("task", ["contrast"] * 2), ("k", ["4", "8"])]
    for column in details.columns:
        if column.title == "P, negation":
            scores = [result.scores[ScoreKey("polarity", k, part="negation")] for k in (4, 8)]
            assert column.values == [score.mean for score in scores]
        assert None not in column.values


def test_the_weighting_asked_for_comes_first(results: list[Result]) -> None:
    (sst2,) = (result for result in results if result.task == "sst2")
    linear, uniform = (tables([sst2], weighting)[0] for weighting in ("linear", "uniform"))
    assert round(100 * (linear.columns[5].values[0] or 0), 3) == 63.016  # the released code's
    assert uniform.columns[0].values == linear.columns[5].values
    assert titles(uniform)[5:7] == ["P linear", "S linear"]


def test_joint_and_front_alone_stand_with_their_intervals(results: list[Result]) -> None:
    columns = {column.title: column for column in tables(results)[0].columns}
    assert {title for title, column in columns.items() if column.intervals} == {"joint", "front"}
    joint = columns["joint"]
    for value, interval in zip(joint.values, joint.intervals, strict=True):
        assert value is not None
        assert interval is not None
        assert interval[0] < value < interval[1]


def test_json_holds_fractions_as_they_are_and_null(results: list[Result]) -> None:
    (sick,) = (result for result in results if result.task == "sick-r")
    undefined = {ScoreKey("spearman"): Score.single(math.nan, 3)}
    made = as_json(replace(sick, scores={**sick.scores, **undefined}))
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert made["main_score"] == "pearson"
    assert made["scores"]["mse"] == sick.scores[ScoreKey("mse")].mean
    assert made["scores"]["pearson"] == sick.main.mean
    assert made["scores"]["spearman"] is None
