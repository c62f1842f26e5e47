"""Joint and front below chance: stored as they are, shown as 0."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from standins.board import curve_of, placed

from polarity_bench.boards.run_report import as_json, curve_table, tables
from polarity_bench.boards.unseen_columns import unseen_table
from polarity_bench.compare.alignment import Alignment
from polarity_bench.compare.encoder_ranks import pairwise
from polarity_bench.compare.paired_comparison import compare
from polarity_bench.encoders.base import EncoderId
from polarity_bench.integrations.hub_card import select_scores
from polarity_bench.metrics.register import METRICS
from polarity_bench.results.frame import score_columns
from polarity_bench.results.means import mean_over_seeds, mean_over_tasks, score_of
from polarity_bench.results.result_files import Result, read_result, write_result
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.types.polarity.scoring import component_keys
from polarity_bench.values import FloatArray

JOINT, FRONT = ScoreKey("joint", 16), ScoreKey("front", 16)
LOW = Score.single(-0.25, 8, (-0.4, 0.1))


@pytest.fixture
def result() -> Result:
    made = placed(EncoderId("org/below", "1"), "contrast", 0.45, 0.5)
    return replace(made, scores={**made.scores, JOINT: LOW, FRONT: LOW})


def test_a_result_stores_the_score_and_mteb_reads_0(result: Result, tmp_path: Path) -> None:
    path = write_result(result, tmp_path)
    (row,) = json.loads(path.read_text())["scores"]["test"]
    stored = [row[f"joint_at_16{end}"] for end in ("", "_ci95_low", "_ci95_high")]
    assert stored == [-0.25, -0.4, 0.1]
    assert row["main_score"] == 0
    back = read_result(path)
    assert back.scores[JOINT] == LOW
    assert back.main == back.shown(FRONT) == replace(LOW, mean=0.0, ci95=(0.0, 0.1))


def test_what_people_read_shows_0(result: Result) -> None:
    scores = as_json(result)["scores"]
    assert [scores[f"front_at_16{end}"] for end in ("", "_ci95_low")] == [0, 0]
    table, *_ = tables([result])
    joint = next(column for column in table.columns if column.title == "joint")
    assert (joint.values, joint.intervals) == ([0.0], [(0.0, 0.1)])
    percents = {score.key: score.percent for score in select_scores([result])}
    assert percents[JOINT] == 0
    curve = curve_of("dial", {1.0: result}, -0.25, (-0.4, 0.1))
    (point,) = curve.points
    point = replace(point, scores={**point.scores, ScoreKey("lift", 16): -0.1})
    columns = curve_table(replace(curve, points=(point,))).columns
    shown = {column.title: column for column in columns}
    assert shown["lift"].values == [-0.1, None]
    assert shown["joint"].values == [0.0, None]
    assert (shown["front"].values, shown["front"].intervals[1]) == ([None, 0.0], (0.0, 0.1))


def test_unseen_queries_below_chance_show_0(result: Result) -> None:
    unseen = {"score": -0.1, "low": -0.2, "high": 0.1, "n": 6}
    names = ("joint_of_unseen_at_16", "joint_of_unseen_base_at_16")
    seen = {"queries": {"normalised": 2}}
    whole = replace(
        result, counts={"queries": 8}, seen=seen, unseen=dict.fromkeys(names, unseen), training={}
    )
    values = {c.title: c.values for c in unseen_table([("task", ["contrast"])], [whole]).columns}
    assert values == {"joint": [0], "seen": [0.25], "joint, unseen": [0], "base, unseen": [0]}


@pytest.mark.parametrize("mean_of", [mean_over_seeds, mean_over_tasks])
@pytest.mark.parametrize("metric", ["joint", "front"])
def test_means_are_of_the_stored_scores(mean_of: object, metric: str) -> None:
    assert callable(mean_of)
    key, high = ScoreKey(metric, 16), Score.single(0.35, 8, (0.2, 0.5))
    mean = mean_of([score_columns(key, score) for score in (LOW, high)])
    assert mean["value"] == pytest.approx(0.05)
    assert mean["ci_low"] < 0
    shown = score_of(mean)
    assert (shown.mean, shown.ci95[0]) == (mean["value"], 0)
    assert score_of(mean_of([score_columns(key, LOW)] * 2)).mean == 0


def test_undefined_scores_stay_undefined() -> None:
    shown = METRICS["joint"].shown_score(Score.single(math.nan, 8))
    assert all(map(math.isnan, (shown.mean, *shown.ci95)))


def test_differences_and_ranks_are_of_the_stored_scores() -> None:
    """Three encoders that keep all of S, with P .3, .4 and .7 where chance is .5."""
    n, keys = 40, component_keys("joint", 16)
    fixed = {"polarity_chance": 0.5, "similarity_chance": 0.2, "similarity_reference": 0.6}

    def arrays(p: float) -> dict[str, FloatArray]:
        whole = {**fixed, "similarity": 0.6, "polarity": p}
        own = {str(key): np.full(n, whole[key.metric]) for key in keys}
        return own | {"polarity_at_16": np.linspace(p - 0.1, p + 0.1, n)}

    results = [placed(EncoderId(name, name), "contrast", 0.3, 0.6) for name in "abc"]
    aligned = Alignment(tuple(results), JOINT, tuple(map(arrays, (0.3, 0.4, 0.7))))
    wanted = [-0.8 / 1.4, -0.4 / 1.2, 0.8 / 1.4]
    assert pairwise([aligned]).scores == pytest.approx(wanted)
    assert pairwise([aligned]).p[0, 1] < 0.05
    two = replace(aligned, results=aligned.results[:2], arrays=aligned.arrays[:2])
    found = compare(two)
    assert found.test.difference == pytest.approx(0.8 / 1.4 - 0.4 / 1.2)
    assert found.is_significant
