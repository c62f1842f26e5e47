"""Classification metrics and intervals of correlations against scikit-learn, scipy and loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.metrics import accuracy_score, f1_score, recall_score

from polarity_bench.metrics.classification import classification_scores
from polarity_bench.metrics.correlation import spearman_interval

NAMES = ["very bad", "so-so", "good"]
RECALLS = ["recall_very_bad", "recall_so-so", "recall_good"]
CLASSES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=40)


@given(CLASSES)
def test_means_are_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    labels, predicted = (np.array(side) for side in zip(*pairs, strict=True))
    scores = classification_scores(labels, predicted, NAMES)
    options = {"labels": [0, 1, 2], "average": "macro", "zero_division": 0}
    assert scores["exact_accuracy"].mean == pytest.approx(accuracy_score(labels, predicted))
    assert scores["macro_f1"].mean == pytest.approx(f1_score(labels, predicted, **options))
    recalls = recall_score(labels, predicted, labels=[0, 1, 2], average=None, zero_division=np.nan)
    for name, recall in zip(RECALLS, recalls, strict=True):
        assert scores[name].mean == pytest.approx(recall, nan_ok=True)
    for score in scores.values():
        low, high = score.ci95
        assert math.isnan(score.mean) or 0 <= low <= high <= 1
    assert list(scores) == ["exact_accuracy", "macro_f1", *RECALLS]


def test_intervals_hold_their_mean_and_narrow_with_more_samples() -> None:
    draw = np.random.default_rng(0)
    widths = []
    for n in (50, 500):
        labels = draw.integers(3, size=n)
        predicted = np.where(draw.random(n) < 0.7, labels, draw.integers(3, size=n))
        score = classification_scores(labels, predicted, NAMES)["macro_f1"]
        assert score.ci95[0] < score.mean < score.ci95[1]
        widths.append(score.ci95[1] - score.ci95[0])
    assert widths[1] < widths[0] / 2


def test_a_perfect_classifier_has_no_spread() -> None:
    labels = np.array([0, 1, 2] * 20)
    for score in classification_scores(labels, labels, NAMES).values():
        assert (score.mean, score.ci95) == (1.0, (1.0, 1.0))


def test_a_classifier_of_one_class_scores_by_hand() -> None:
    labels = np.array([0, 0, 0, 1])
    scores = classification_scores(labels, np.zeros(4, dtype=np.int64), ["a", "b"])
    assert scores["exact_accuracy"].mean == 0.75
    assert scores["macro_f1"].mean == pytest.approx((2 * 0.75 / 1.75) / 2)  # b has none
    assert (scores["recall_a"].mean, scores["recall_b"].mean) == (1.0, 0.0)


# Spearman's interval


def test_the_interval_is_that_of_a_slow_loop() -> None:
    draw = np.random.default_rng(1)
    one = draw.normal(size=30)
    other = np.round(one + draw.normal(size=30), 1)  # with ties
    generator = np.random.default_rng(7)
    slow = [
        spearmanr(one[drawn], other[drawn]).statistic
        for drawn in generator.integers(30, size=(100, 30))
    ]
    expected = np.percentile(slow, [2.5, 97.5])
    found = spearman_interval(one, other, n_samples=100, seed=7)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert found[0] < spearmanr(one, other).statistic < found[1]


def test_as_many_samples_are_drawn_as_asked_for() -> None:
    draw = np.random.default_rng(2)
    one, other = draw.normal(size=(2, 20))
    generator = np.random.default_rng(7)
    positions = np.concatenate([generator.integers(20, size=(n, 20)) for n in (100, 50)])
    slow = [spearmanr(one[drawn], other[drawn]).statistic for drawn in positions]
    found = spearman_interval(one, other, n_samples=150, seed=7)
    np.testing.assert_allclose(found, np.percentile(slow, [2.5, 97.5]), atol=1e-12)


def test_a_constant_side_has_no_interval() -> None:
    found = spearman_interval(np.ones(10), np.arange(10.0), n_samples=100)
    assert all(map(math.isnan, found))


def test_the_interval_is_the_same_again_and_blind_to_scale() -> None:
    draw = np.random.default_rng(3)
    one, other = draw.normal(size=(2, 25))
    found = spearman_interval(one, other)
    assert found == spearman_interval(one, other)
    assert found == spearman_interval(np.exp(one), 3 * other + 1)
