"""Classification metrics against scikit-learn and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, recall_score

from polarity_bench.metrics.classification import classification_scores
from polarity_bench.metrics.statistics import LEAST_DRAWN
from polarity_bench.scores import ScoreKey

NAMES = ["very bad", "so-so", "good"]
RECALLS = [ScoreKey("recall", part=name) for name in ("very_bad", "so-so", "good")]
EXACT, MACRO_F1, F1 = ScoreKey("exact_accuracy"), ScoreKey("macro_f1"), ScoreKey("f1")
CLASSES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=40)


@given(CLASSES)
def test_means_are_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    labels, predicted = (np.array(side) for side in zip(*pairs, strict=True))
    scores = classification_scores(labels, predicted, NAMES, positive=1)
    options = {"labels": [0, 1, 2], "average": "macro", "zero_division": 0}
    assert scores[EXACT].mean == pytest.approx(accuracy_score(labels, predicted))
    assert scores[MACRO_F1].mean == pytest.approx(f1_score(labels, predicted, **options))
    f1 = f1_score(labels, predicted, labels=[1], average=None, zero_division=np.nan)[0]
    assert scores[F1].mean == pytest.approx(f1, nan_ok=True)
    recalls = recall_score(labels, predicted, labels=[0, 1, 2], average=None, zero_division=np.nan)
    for name, recall in zip(RECALLS, recalls, strict=True):
        assert scores[name].mean == pytest.approx(recall, nan_ok=True)
    for score in scores.values():
        low, high = score.ci95
        assert math.isnan(low) == (len(labels) < LEAST_DRAWN or math.isnan(score.mean))
        assert math.isnan(low) or 0 <= low <= high <= 1
    assert list(scores) == [EXACT, MACRO_F1, F1, *RECALLS]
    assert F1 not in classification_scores(labels, predicted, NAMES)


def test_intervals_hold_their_mean_and_narrow_with_more_samples() -> None:
    draw = np.random.default_rng(0)
    widths = []
    for n in (50, 500):
        labels = draw.integers(3, size=n)
        predicted = np.where(draw.random(n) < 0.7, labels, draw.integers(3, size=n))
        scores = classification_scores(labels, predicted, NAMES, positive=2)
        for key in (MACRO_F1, F1):
            assert scores[key].ci95[0] < scores[key].mean < scores[key].ci95[1]
        score = scores[MACRO_F1]
        widths.append(score.ci95[1] - score.ci95[0])
    assert widths[1] < widths[0] / 2


def test_a_perfect_classifier_has_no_spread() -> None:
    labels = np.array([0, 1, 2] * 20)
    for score in classification_scores(labels, labels, NAMES).values():
        assert (score.mean, score.ci95) == (1.0, (1.0, 1.0))


def test_a_classifier_of_one_class_scores_by_hand() -> None:
    labels = np.array([0, 0, 0, 1])
    scores = classification_scores(labels, np.zeros(4, dtype=np.int64), ["a", "b"])
    assert scores[EXACT].mean == 0.75
    assert scores[MACRO_F1].mean == pytest.approx((2 * 0.75 / 1.75) / 2)  # b has none
    assert tuple(scores[ScoreKey("recall", part=name)].mean for name in "ab") == (1.0, 0.0)
