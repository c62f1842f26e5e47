"""Means of joint and front over tasks, near chance: by hand and by simulation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from polarity_bench.metrics import statistics
from polarity_bench.metrics.statistics import Bootstrap
from polarity_bench.results.frame import score_columns
from polarity_bench.results.means import mean_over_tasks, score_of
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.types.polarity.scoring import derived_score

N_QUERIES, N_SAMPLES, K = 200, 400, 16


def mean_of(tasks: Sequence[Mapping[str, Score]], metric: str) -> Score:
    return mean_of_scores([task[metric] for task in tasks], metric)


def mean_of_scores(scores: Sequence[Score], metric: str) -> Score:
    key = ScoreKey(metric, K)
    return score_of(mean_over_tasks([score_columns(key, score) for score in scores]))


def at(p: float, *, width: float = 0.02, s: float = 0.6) -> dict[str, Score]:
    """Scores of a task with chance 0.5, S between 0.2 by chance and 0.6, and a perfect oracle."""
    fixed = {"polarity_chance": 0.5, "similarity_chance": 0.2, "similarity_reference": 0.6}
    fixed |= {"polarity_oracle": 1.0, "similarity_oracle": 0.6, "similarity": s}
    scores = {name: Score.single(value, 100) for name, value in fixed.items()}
    scores["polarity"] = Score(p, 0.2, (p - width, p + width), 100)

    def joint(p: float) -> float:
        lift, kept = 2 * p - 1, (s - 0.2) / 0.4
        return 2 * lift * kept / (abs(lift) + kept)

    def front(p: float) -> float:
        return (2 * p - 1) * (s - 0.2) / 0.4

    for name, score in (("joint", joint), ("front", front)):
        ends = (score(p - width), score(p + width))
        scores[name] = Score(score(p), math.nan, ends, 100)
    return scores


def test_what_lies_below_chance_cancels_what_lies_above() -> None:
    for metric in ("joint", "front"):
        assert mean_of([at(0.55), at(0.45)], metric).mean == pytest.approx(0, abs=1e-12)
        below = mean_of([at(0.45), at(0.48)], metric)
        assert below.mean == 0
        assert below.ci95[0] == 0


def test_above_chance_a_mean_is_that_of_the_scores_as_shown() -> None:
    tasks = [at(0.6), at(0.7, s=0.5)]
    for metric in ("joint", "front"):
        mean = mean_of(tasks, metric)
        assert mean.mean == pytest.approx(sum(task[metric].mean for task in tasks) / 2)
        halves = [(t[metric].mean - t[metric].ci95[0], t[metric]) for t in tasks]
        assert mean.ci95[0] == pytest.approx(mean.mean - math.hypot(*(h for h, _ in halves)) / 2)


def test_of_one_task_the_mean_is_the_score_of_the_task() -> None:
    for p in (0.49, 0.505, 0.6):
        task = at(p)
        for metric in ("joint", "front", "polarity"):
            mean, score = mean_of([task], metric), task[metric]
            assert mean.mean == pytest.approx(max(score.mean, 0))
            assert mean.ci95 == pytest.approx([max(end, 0) for end in score.ci95], abs=1e-12)


@pytest.fixture
def drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the samples of queries once: the seed gives every bootstrap the same samples."""
    blocks = list(statistics.draws(N_QUERIES, N_SAMPLES))
    monkeypatch.setattr(statistics, "draws", lambda *_: blocks)


def simulated(
    rng: np.random.Generator,
    lift: float,
    retention: float | None = None,
    metrics: Sequence[str] = ("joint", "front"),
) -> dict[str, Score]:
    """Scores of one task, by the project's own bootstrap; without retention, of the reference."""
    n = N_QUERIES
    s = rng.normal(0.45, 0.05, n)
    own = s if retention is None else rng.normal(0.15 + 0.3 * retention, 0.04, n)
    values = {
        ScoreKey("polarity", K): rng.binomial(K, 0.5 + lift / 2, n) / K,
        ScoreKey("similarity", K): own,
        ScoreKey("similarity_reference", K): s,
        ScoreKey("polarity_oracle", K): np.ones(n),
        ScoreKey("similarity_oracle", K): 0.95 * s,
        ScoreKey("polarity_chance"): np.full(n, 0.5),
        ScoreKey("similarity_chance"): rng.normal(0.15, 0.04, n),
    }
    bootstrap = Bootstrap(values, N_SAMPLES)
    return {metric: derived_score(bootstrap, metric, K) for metric in metrics}


@pytest.mark.slow
@pytest.mark.usefixtures("drawn_once")
@pytest.mark.parametrize("lift", [0.0, 0.005, 0.01, 0.03])
def test_the_interval_of_a_mean_holds_the_truth_as_often_as_it_says(lift: float) -> None:
    """Expected at chance: 97.5 %, since an interval whose lower end is clipped holds 0."""
    rng = np.random.default_rng(20)
    tasks = [simulated(rng, lift) for _ in range(3000)]
    truth = {"joint": 2 * lift / (lift + 1), "front": lift}  # retention is 1
    for n_tasks in (1, 2, 5):
        boards = [tasks[i : i + n_tasks] for i in range(0, len(tasks), n_tasks)]
        for metric, true in truth.items():
            ends = [mean_of(board, metric).ci95 for board in boards]
            covered = np.mean([low <= true + 1e-12 and true <= high for low, high in ends])
            assert covered >= 0.93, (n_tasks, metric, covered)
            assert covered <= (0.98 if lift == 0 else 1), (n_tasks, metric, covered)


@pytest.mark.slow
@pytest.mark.usefixtures("drawn_once")
@pytest.mark.parametrize("retention", [0.0, 0.01, 0.02])
def test_the_interval_holds_the_truth_of_an_encoder_that_forgot_meaning(retention: float) -> None:
    """P is far above chance, and retention is what the lower end of joint is clipped by."""
    rng = np.random.default_rng(21)
    tasks = [simulated(rng, 0.8, retention, ["joint"]) for _ in range(1500)]
    true = 2 * 0.8 * retention / (0.8 + retention)
    for n_tasks in (1, 2, 5):
        boards = [tasks[i : i + n_tasks] for i in range(0, len(tasks), n_tasks)]
        ends = [mean_of(board, "joint").ci95 for board in boards]
        covered = np.mean([low <= true + 1e-12 and true <= high for low, high in ends])
        assert covered >= 0.88, (n_tasks, covered)
