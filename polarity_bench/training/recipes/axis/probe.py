"""Probes: linear classifiers on the vectors of a frozen encoder.

Shapes: n texts, d dimensions, c classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from polarity_bench.data.sampling import sample
from polarity_bench.values import FloatArray, IntArray

STRENGTHS_OF_PENALTY = (0.1, 1.0, 10.0, 100.0)
"""Candidates for the inverse regularisation strength of the logistic regression."""

N_FOLDS = 3
MOST_ROWS = 20_000
"""Maximum number of rows for choosing the regularisation; more rows hardly change the choice."""


@dataclass(frozen=True)
class Probe:
    """Weights and biases of a linear classifier of vectors.

    Attributes:
        weight: Weights, (c, d).
        bias: Biases, (c,).
        inverse_penalty: Chosen inverse regularisation strength of a logistic regression; NaN for
            other probes.
        log_loss: Mean log loss: cross-validated for a logistic regression, and on the training rows
            for other probes.
    """

    weight: FloatArray
    bias: FloatArray
    inverse_penalty: float
    log_loss: float

    @property
    def directions(self) -> FloatArray:
        """An orthonormal basis of the directions that separate the classes, (c - 1, d)."""
        differences = np.asarray(self.weight - self.weight.mean(axis=0), dtype=np.float64)
        _, _, basis = np.linalg.svd(differences, full_matrices=False)
        return basis[: len(self.weight) - 1]


def logistic(
    vectors: FloatArray, labels: IntArray, seed: int, soft: FloatArray | None = None
) -> Probe:
    """Fit a multinomial logistic regression; cross-validation chooses the regularisation.

    Args:
        vectors: Vectors of unit length, (n, d).
        labels: Class of each vector, (n,); each class occurs at least twice.
        seed: Seed of the folds.
        soft: Class probabilities to learn instead of `labels`, (n, c). The labels then only
            stratify the folds.
    """
    from sklearn.model_selection import StratifiedKFold

    n_folds = min(N_FOLDS, int(np.bincount(labels).min()))
    some = sample(labels, min(len(labels), MOST_ROWS), seed)
    # Every fold needs rows of every class, so all rows of a class are used if it is too rare.
    is_rare = np.bincount(labels[some]) < n_folds
    some = np.union1d(some, np.flatnonzero(is_rare[labels]))
    splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    held_out = [
        _held_out_losses(vectors, labels, soft, some[train], some[test])
        for train, test in splitter.split(some, labels[some])
    ]
    means = np.average(held_out, axis=0)
    best = int(means.argmin())
    chosen = STRENGTHS_OF_PENALTY[best]
    fitted = _regression(chosen).fit(*_weighted(vectors, labels, soft))
    weight, bias = np.asarray(fitted.coef_), np.asarray(fitted.intercept_)
    if len(weight) == 1:  # for two classes, scikit-learn has only the row of the second class
        weight, bias = (np.concatenate([-half, half]) / 2 for half in (weight, bias))
    return Probe(weight, bias, chosen, float(means[best]))


def mean_difference(vectors: FloatArray, labels: IntArray) -> Probe:
    """Fit a probe whose weights are the class means, with a fitted scale and fitted biases.

    With two classes, the probe's direction is the difference between the class means.
    """
    from scipy.optimize import minimize
    from scipy.special import logsumexp

    n_classes = int(labels.max()) + 1
    means = np.stack(
        [vectors[labels == c].mean(axis=0, dtype=np.float64) for c in range(n_classes)]
    )
    near = vectors @ means.T
    rows = np.arange(len(labels))

    def loss(given: FloatArray) -> tuple[float, FloatArray]:
        logits = given[0] * near + given[1:]
        shares = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
        off = shares.copy()
        off[rows, labels] -= 1
        gradient = np.concatenate([[np.mean((off * near).sum(axis=1))], off.mean(axis=0)])
        return float(-np.log(shares[rows, labels]).mean()), gradient

    minimum = minimize(loss, np.zeros(n_classes + 1), jac=True, method="L-BFGS-B")
    return Probe(minimum.x[0] * means, minimum.x[1:], math.nan, float(minimum.fun))


def fisher_weights(vectors: FloatArray, labels: IntArray) -> FloatArray:
    """Return Fisher's ratio of each dimension, divided by the mean ratio, (d,).

    Fisher's ratio is the variance between classes divided by the variance within classes. A
    training-free diagonal adapter weights the dimensions by these ratios.

    References:
        Fisher (1936), The use of multiple measurements in taxonomic problems; as a training-free
        adapter of embeddings: arXiv 2504.00584.
    """
    classes, counts = np.unique(labels, return_counts=True)
    groups = [vectors[labels == c].astype(np.float64) for c in classes]
    overall = vectors.mean(axis=0, dtype=np.float64)
    offsets = [group.mean(axis=0) - overall for group in groups]
    between = np.average(np.square(offsets), axis=0, weights=counts)
    within = np.average([group.var(axis=0) for group in groups], axis=0, weights=counts)
    ratio: FloatArray = between / np.maximum(within, np.finfo(np.float64).tiny)
    ratio /= ratio.mean()
    return ratio


def _regression(inverse_penalty: float) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=inverse_penalty, tol=1e-5, max_iter=500, warm_start=True)


def _weighted(
    rows: FloatArray, labels: IntArray, soft: FloatArray | None
) -> tuple[FloatArray, IntArray, FloatArray | None]:
    """Return rows with their labels and weights; soft labels repeat each row for each class."""
    if soft is None:
        return rows, labels, None
    n_rows, n_classes = soft.shape
    return np.tile(rows, (n_classes, 1)), np.arange(n_classes).repeat(n_rows), soft.T.ravel()


def _held_out_losses(
    vectors: FloatArray, labels: IntArray, soft: FloatArray | None, train: IntArray, test: IntArray
) -> list[float]:
    """Return the log loss of a fold for each regularisation strength.

    Each fit starts from the coefficients of the previous one, which saves time.
    """
    from sklearn.metrics import log_loss

    regression, losses = _regression(1.0), []
    of_train, of_test = (None if soft is None else soft[rows] for rows in (train, test))
    for inverse_penalty in STRENGTHS_OF_PENALTY:
        regression.set_params(C=inverse_penalty)
        regression.fit(*_weighted(vectors[train], labels[train], of_train))
        shares = regression.predict_proba(vectors[test])
        shares, truth, weights = _weighted(shares, labels[test], of_test)
        loss = log_loss(truth, shares, sample_weight=weights, labels=regression.classes_)
        losses.append(float(loss))
    return losses
