"""Curves of made-up encoders with a dial: their points, their fronts, and what makes none."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standins import write_task
from standins.dial import DialEncoder, results_at
from standins.encoders import BagEncoder

from polarity_bench.data.sources import DataAccess
from polarity_bench.errors import InputError
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.metrics.statistics import SEED
from polarity_bench.results.curve import Curve, make_curve
from polarity_bench.results.result_files import Result, write_result
from polarity_bench.scores import WEIGHTINGS, ScoreKey
from polarity_bench.tasks.catalogue import load_task, read_task
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity.task import PolarityTask

STRENGTHS = (0.0, 0.3, 0.6, 1.5)
Stored = dict[float, Result]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("curves")


@pytest.fixture(scope="module")
def task(folder: Path) -> PolarityTask:
    loaded = read_task(write_task(folder)).load(DataAccess(offline=True), Settings(ks=(2, 4)))
    assert isinstance(loaded, PolarityTask)
    return loaded


@pytest.fixture(scope="module")
def stored(task: PolarityTask, folder: Path) -> Stored:
    return results_at(task, STRENGTHS, folder / "results")


@pytest.fixture(scope="module")
def curve(stored: Stored) -> Curve:
    return make_curve("dial", "strength", stored)


def slow_front(points: list[dict[str, float]], ending: str) -> float:
    """From means by name: places, then the cells of the oracle's rectangle that a point covers."""

    def place(means: dict[str, float], whose: str) -> tuple[float, float]:
        p, chance = means[f"polarity{whose}{ending}"], means["polarity_chance"]
        s, s_chance = means[f"similarity{whose}{ending}"], means["similarity_chance"]
        s_reference = means[f"similarity_reference{ending}"]
        return (s - s_chance) / (s_reference - s_chance), (p - chance) / (1 - chance)

    oracle = place(points[0], "_oracle")
    places = [
        tuple(min(max(side, 0), most) for side, most in zip(place(m, ""), oracle, strict=True))
        for m in points
    ]
    edges = sorted({0.0, *(x for x, _ in places)})
    area = 0.0
    for left, right in pairwise(edges):
        area += (right - left) * max(y for x, y in places if x >= right)
    return area / (oracle[0] * oracle[1])


def names_of(ending: str) -> list[str]:
    own = ["polarity", "similarity", "similarity_reference", "polarity_oracle", "similarity_oracle"]
    return ["polarity_chance", "similarity_chance", *(f"{name}{ending}" for name in own)]


@pytest.mark.parametrize("ending", ["_at_2", "_uniform_at_2", "_at_4", "_uniform_at_4"])
def test_a_front_and_its_interval_are_those_of_a_slow_loop(
    curve: Curve, stored: Stored, ending: str
) -> None:
    """All points, and the oracle, are means over the same draws of queries."""
    found = curve.fronts[ScoreKey.parse(f"front{ending}")]
    means = [
        {name: r.scores[ScoreKey.parse(name)].mean for name in names_of(ending)}
        for r in stored.values()
    ]
    assert found.mean == pytest.approx(slow_front(means, ending), abs=1e-12)
    generator = np.random.default_rng(SEED)
    resampled = []
    for _ in range(4):
        for drawn in generator.integers(8, size=(250, 8)):
            part = [
                {name: float(r.arrays[name][drawn].mean()) for name in names_of(ending)}
                for r in stored.values()
            ]
            resampled.append(slow_front(part, ending))
    assert found.ci95 == pytest.approx(np.nanpercentile(resampled, [2.5, 97.5]), abs=1e-5)
    assert found.ci95[0] < found.mean < found.ci95[1]
    assert found.n == 8


def test_the_scores_of_a_point_have_one_order(curve: Curve) -> None:
    """A file has them in this order, so that equal curves give equal bytes in every process."""
    metrics = ("polarity", "similarity", "retention", "joint", "lift")
    keys = [ScoreKey(name, k, w) for k in (2, 4) for w in WEIGHTINGS for name in metrics]
    assert [[*point.scores] for point in curve.points] == [keys] * len(STRENGTHS)


def test_a_curve_dominates_more_than_each_of_its_points(curve: Curve, stored: Stored) -> None:
    for key, front in curve.fronts.items():
        alone = [result.scores[key].mean for result in stored.values()]
        assert front.mean >= max(alone)
    key = ScoreKey("front", 4)
    assert curve.fronts[key].mean > max(r.scores[key].mean for r in stored.values()) + 0.01


def test_a_curve_of_one_point_is_a_plain_encoder(stored: Stored) -> None:
    for at, one in stored.items():
        curve = make_curve("one", "strength", {at: one})
        for key, front in curve.fronts.items():
            assert front.mean == pytest.approx(one.scores[key].mean, abs=1e-15)
            assert front.ci95 == pytest.approx(one.scores[key].ci95, abs=1e-6)


def test_points_are_the_results_in_order_of_the_dial(curve: Curve, stored: Stored) -> None:
    backwards = {at: stored[at] for at in STRENGTHS[::-1]}
    again = make_curve("dial", "strength", backwards)
    assert again.points == curve.points
    assert {key: front.ci95 for key, front in again.fronts.items()} == {
        key: front.ci95 for key, front in curve.fronts.items()
    }
    assert [point.at for point in curve.points] == list(STRENGTHS)
    for point, result in zip(curve.points, stored.values(), strict=True):
        assert point.encoder == result.key.encoder.digest
        assert point.run == result.key.digest
        for key, value in point.scores.items():
            if key.metric == "lift":
                chance = result.scores[ScoreKey("polarity_chance")].mean
                p = result.scores[replace(key, metric="polarity")].mean
                assert value == pytest.approx((p - chance) / (1 - chance))
            else:
                assert value == result.scores[key].mean
        metrics = {"polarity", "similarity", "retention", "joint", "lift"}
        assert {(k.metric, k.k, k.weighting) for k in point.scores} == {
            (metric, k, w) for metric in metrics for k in (2, 4) for w in WEIGHTINGS
        }


def test_the_reference_itself_may_be_a_point(
    task: PolarityTask, stored: Stored, folder: Path
) -> None:
    """Of a blend, the base is the point of weight 0; its own result names no reference."""
    base = evaluate(BagEncoder("bag"), task)
    assert base.key.reference is None
    base = replace(base, path=write_result(base, folder / "results"))
    curve = make_curve("blend", "weight", {0.0: base, 1.0: stored[0.6]})
    assert curve.reference == BagEncoder("bag").id
    assert curve.points[0].scores[ScoreKey("retention", 4)] == 1


def test_pairs_of_twins_are_drawn_whole(tmp_path: Path) -> None:
    """The front of one point on `contrast` has the interval of the result, which draws pairs."""
    contrast = load_task("contrast", access=DataAccess(offline=True))
    assert isinstance(contrast, PolarityTask)
    assert contrast.resampling is not None
    result = evaluate(BagEncoder(), contrast)
    result = replace(result, path=write_result(result, tmp_path))
    curve = make_curve("bag", "strength", {1.0: result})
    key = ScoreKey("front", 16)
    assert curve.fronts[key].ci95 == pytest.approx(result.scores[key].ci95, abs=1e-6)


# What makes no curve


def without_oracle(result: Result) -> Result:
    scores = {key: s for key, s in result.scores.items() if "oracle" not in key.metric}
    return replace(result, scores=scores)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"task": "other"},
            "cannot form a curve, because they differ in task, data, reference encoder or protocol",
        ),
        (
            {"data": "other"},
            "cannot form a curve, because they differ in task, data, reference encoder or protocol",
        ),
        (
            {"protocol": {"k": [4]}},
            "cannot form a curve, because they differ in task, data, reference encoder or proto",
        ),
        (
            {"reference": None},
            "cannot form a curve, because they differ in task, data, reference encoder or protocol",
        ),
    ],
)
def test_answers_to_other_questions_make_no_curve(
    stored: Stored, change: dict[str, Any], message: str
) -> None:
    result = stored[0.6]
    other = replace(result, key=replace(result.key, **change))
    with pytest.raises(InputError, match=message) as refused:
        make_curve("dial", "strength", {0.0: stored[0.0], 0.6: other})
    for named in (stored[0.0], stored[0.6]):
        assert str(named.path) in str(refused.value)


def test_a_result_without_what_a_curve_needs_is_refused(stored: Stored, tmp_path: Path) -> None:
    result = stored[0.6]
    for changed, message in (
        (replace(result, kind="sts"), "a curve needs results of a polarity task, got 'mini'"),
        (without_oracle(result), r"MiniPolarityRetrieval\.json: the oracle scores are missing"),
    ):
        with pytest.raises(InputError, match=message):
            make_curve("dial", "strength", {0.6: changed})
    moved = replace(result, path=tmp_path / "Mini.json")
    with pytest.raises(InputError, match=r"Mini\.queries\.safetensors: the values per query are"):
        make_curve("dial", "strength", {0.6: moved})
    gone = replace(BagEncoder("bag").id, weights="absent 1")
    lacking = replace(result, key=replace(result.key, reference=gone))
    with pytest.raises(
        InputError, match="S is undefined, because the reference encoder was not available"
    ):
        make_curve("dial", "strength", {0.6: lacking})


def test_the_stand_in_has_a_dial(task: PolarityTask, stored: Stored) -> None:
    """Without strength it is the bag of words; more of it is more polarity and less meaning."""
    p, s = (
        [r.scores[ScoreKey(m, 4)].mean for r in stored.values()] for m in ("polarity", "similarity")
    )
    assert p == sorted(p)
    assert s == sorted(s, reverse=True)
    assert stored[0.0].scores[ScoreKey("retention", 4)].mean == pytest.approx(1)
    assert len({DialEncoder(strength).id.digest for strength in STRENGTHS}) == len(STRENGTHS)
