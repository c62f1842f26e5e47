"""What is said of one encoder's results, by the committed ones of MiniLM."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from polarity_bench.boards.run_report import as_json, column_titles, tables
from polarity_bench.cli.output import json_text
from polarity_bench.encoders.load import load_encoder
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.render.markdown import section
from polarity_bench.render.table import Table
from polarity_bench.results.result_files import Result, read_results
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.catalogue import load_task
from polarity_bench.tasks.types.base import Settings

BOARD = Path(__file__).parent.parent / "leaderboards" / "polarity"


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return [r for r in read_results(BOARD) if r.key.encoder.name.endswith("all-MiniLM-L6-v2")]


def titles(table: Table) -> list[str]:
    return [column.title for column in table.columns]


def test_every_kind_has_a_table_and_what_only_some_tasks_have_comes_after(
    results: list[Result],
) -> None:
    polarity, transfer, relatedness, sts, *details = tables(results, columns=["all"])
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
    details = tables([result], columns=["all"])[1]
    assert details.heads == [("task", ["contrast"] * 2), ("k", ["4", "8"])]
    for column in details.columns:
        if column.title == "P, negation":
            scores = [result.scores[ScoreKey("polarity", k, part="negation")] for k in (4, 8)]
            assert column.values == [score.mean for score in scores]
        assert None not in column.values


def test_the_weighting_asked_for_comes_first(results: list[Result]) -> None:
    (sst2,) = (result for result in results if result.task == "sst2")
    linear, uniform = (tables([sst2], weighting, ["all"])[0] for weighting in ("linear", "uniform"))
    assert round(100 * (linear.columns[5].values[0] or 0), 3) == 63.016  # the released code's
    assert uniform.columns[0].values == linear.columns[5].values
    assert titles(uniform)[5:7] == ["P linear", "S linear"]


def test_main_scores_stand_with_their_intervals(results: list[Result]) -> None:
    columns = {column.title: column for column in tables(results, columns=["all"])[0].columns}
    with_intervals = {title for title, column in columns.items() if any(column.intervals)}
    assert with_intervals == {"P", "S", "joint", "front"}  # its retention is 1 by definition
    for title in with_intervals:
        column = columns[title]
        for value, interval in zip(column.values, column.intervals, strict=True):
            assert value is not None
            assert interval is not None
            assert interval[0] < value < interval[1]


def test_retention_has_an_interval_under_another_reference() -> None:
    encoder = load_encoder("random")
    result = evaluate(encoder, "contrast", reference="tfidf")
    (retention,) = (c for c in tables([result])[0].columns if c.title == "retention")
    assert retention.intervals == [result.scores[ScoreKey("retention", 16)].ci95]


def test_by_default_only_the_main_scores_are_shown(results: list[Result]) -> None:
    polarity, transfer, relatedness, sts = tables(results)
    assert titles(polarity) == ["P", "S", "retention", "joint"]
    assert (titles(transfer), titles(relatedness)) == (["accuracy"], ["Pearson"])
    assert titles(sts) == ["Spearman all"]
    by_task = {result.task: result.scores for result in results}
    for table, main, interval_of in (
        (transfer, "accuracy", "exact_accuracy"),  # SentEval rounds accuracy, without an interval
        (relatedness, "pearson", None),
        (sts, "spearman_all", "spearman_all"),
    ):
        (column,) = table.columns
        scores = [by_task[name] for name in table.heads[0][1]]
        assert column.values == [own[ScoreKey.parse(main)].mean for own in scores]
        assert column.intervals == [
            own[ScoreKey.parse(interval_of)].ci95 if interval_of else None for own in scores
        ]


def test_the_columns_asked_for_are_shown_wherever_they_stand(results: list[Result]) -> None:
    shown = tables(results, columns=["P", "front", "P, negation", "Spearman mean"])
    assert [titles(table) for table in shown] == [
        ["P", "front"],
        ["Spearman mean"],
        ["P, negation"],
    ]


def test_every_column_of_every_table_can_be_asked_for(results: list[Result]) -> None:
    known = column_titles([load_task("contrast")])
    for weighting in ("linear", "uniform"):
        for table in tables(results, weighting, ["all"]):
            assert set(titles(table)) <= known


def test_the_readme_shows_what_a_run_prints(results: list[Result]) -> None:
    (contrast,) = (result for result in results if result.task == "contrast")
    text = (BOARD.parents[1] / "README.md").read_text(encoding="utf-8")
    assert section(tables([contrast])[0]) in text


def test_json_holds_fractions_as_they_are_and_null(results: list[Result]) -> None:
    (sick,) = (result for result in results if result.task == "sick-r")
    undefined = {ScoreKey("spearman"): Score.single(math.nan, 3)}
    made = json.loads(json_text(as_json(replace(sick, scores={**sick.scores, **undefined}))))
    assert made["main_score"] == "pearson"
    assert made["scores"]["mse"] == sick.scores[ScoreKey("mse")].mean
    assert made["scores"]["pearson"] == sick.main.mean
    assert made["scores"]["spearman"] is None
