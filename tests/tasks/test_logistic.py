"""Fits on several training sets at once against scikit-learn's Newton method on each."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from standins.labelled_vectors import blobs

from polarity_bench.tasks.senteval import logistic
from polarity_bench.tasks.senteval.classifiers import ExactLogistic
from polarity_bench.tasks.senteval.logistic import LogisticFits, predict_classes
from polarity_bench.values import FloatArray, IntArray


def weights_of_sklearn(features: FloatArray, labels: IntArray, c: float) -> FloatArray:
    """The weights of each logit and, last, its intercept; those of several logits sum to 0."""
    model = LogisticRegression(C=c, solver="newton-cholesky", tol=1e-11, max_iter=500)
    model.fit(features.astype(np.float64), labels)
    weights = np.vstack([model.coef_.T, model.intercept_])
    return weights - weights.mean(1, keepdims=True) if weights.shape[1] > 1 else weights


def objective(weights: FloatArray, features: FloatArray, labels: IntArray, c: float) -> float:
    """C times the sum of the log losses, plus half the squared length of the weights."""
    logits = features.astype(np.float64) @ weights[:-1] + weights[-1]
    if logits.shape[1] == 1:
        logits = np.hstack([np.zeros_like(logits), logits])
    margins = logits - logits[np.arange(len(labels)), labels][:, None]
    return float(c * logsumexp(margins, axis=1).sum() + (weights[:-1] ** 2).sum() / 2)


@pytest.mark.parametrize("most_factored", [100, 1], ids=["Cholesky factor", "diagonal"])
@pytest.mark.parametrize("packed", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_each_fit_is_that_of_scikit_learn(
    n_classes: int, packed: type, most_factored: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logistic, "_MAX_FACTORED", most_factored)
    features, labels = blobs(400, n_classes, seed=1)
    folds = StratifiedKFold(3, shuffle=True, random_state=1)
    trains = [train for train, _ in folds.split(features, labels)]
    fits = LogisticFits(packed(features), labels, n_classes, trains)
    for inverse_regularizations in ([0.01, 0.25, 1.0], [4.0, 4.0, 4.0], [0.5, 32.0, 500.0]):
        weights = fits.solve(inverse_regularizations)
        for fit, (train, c) in enumerate(zip(trains, inverse_regularizations, strict=True)):
            expected = weights_of_sklearn(features[train], labels[train], c)
            assert weights[:, fit] == pytest.approx(expected, abs=1e-6)


def test_classes_apart_from_each_other_are_told() -> None:
    """Weights grow with C until all probabilities are near 0 and 1."""
    labels = np.repeat([0, 1, 2], 20)
    features = np.eye(3)[labels] * 1000 + np.random.default_rng(0).normal(size=(60, 3))
    for c in (0.25, 1e6):
        weights = LogisticFits(features, labels, 3, [np.arange(60)]).solve([c])
        assert predict_classes(weights[:, 0], features).tolist() == labels.tolist()


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("length", [1e-4, 30, 3e4, 1e6])
def test_vectors_of_any_length_have_an_optimum(length: float, n_classes: int) -> None:
    """Rounding errors of long vectors once kept the steps from ending.

    The optimum of the longest is not compared: their losses are below 1e-6.
    """
    draw = np.random.default_rng(11)
    features = (draw.normal(size=(40, 16)) * length).astype(np.float32)
    labels = np.arange(40) % n_classes
    trains = [np.flatnonzero(np.arange(40) % 3 != fold) for fold in range(3)]
    fits = LogisticFits(features, labels, n_classes, trains)
    for c in (0.0625, 0.25, 1.0, 8.0, 64.0):
        weights = fits.solve([c] * 3)
        assert np.isfinite(weights).all()
        for fit, train in enumerate(trains if length <= 30 else []):
            best = objective(weights[:, fit], features[train], labels[train], c)
            expected = weights_of_sklearn(features[train] / length, labels[train], c * length**2)
            expected[:-1] /= length
            assert best <= objective(expected, features[train], labels[train], c) * (1 + 1e-7)


def test_noise_moves_no_prediction() -> None:
    """L-BFGS stops too early for this: noise decides where."""
    features, labels = blobs(2_000, 6, seed=1, d=60)
    noise = 1e-7 * np.random.default_rng(1).standard_normal(features.shape)
    test, _ = blobs(5_000, 6, seed=2, d=60)
    of_each = [
        [
            predict(test).tolist()
            for predict in ExactLogistic().fit((given, labels), [0.25, 8.0], n_classes=6)
        ]
        for given in (features, features + noise)
    ]
    assert of_each[0] == of_each[1]


def test_a_class_without_training_samples_is_never_predicted() -> None:
    features, labels = blobs(300, 3, seed=1)
    train = np.flatnonzero(labels != 1)
    weights = LogisticFits(features, labels, 3, [train, np.arange(300)]).solve([1.0, 1.0])
    assert set(predict_classes(weights[:, 0], features)) == {0, 2}
    assert set(predict_classes(weights[:, 1], features)) == {0, 1, 2}


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("length", [1.0, 50.0])
def test_a_fit_for_known_samples_ends_earlier_with_the_classes_of_the_optimum(
    n_classes: int, length: float
) -> None:
    features, labels = blobs(1_500, n_classes, seed=1, d=30)
    features = features * (length / np.linalg.norm(features, axis=1).max())
    folds = StratifiedKFold(5, shuffle=True, random_state=1)
    trains, others = zip(*folds.split(features, labels), strict=True)
    whole = LogisticFits(features, labels, n_classes, trains)
    early = LogisticFits(features, labels, n_classes, trains, others)
    n_earlier = 0
    for c in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0):
        weights, optimum = early.solve([c] * 5), whole.solve([c] * 5)
        for fit, other in enumerate(others):
            found, expected = (
                predict_classes(each[:, fit], features[other]) for each in (weights, optimum)
            )
            assert found.tolist() == expected.tolist()
        n_earlier += bool(np.abs(weights - optimum).max() > 1e-7)
    assert n_earlier > 4
