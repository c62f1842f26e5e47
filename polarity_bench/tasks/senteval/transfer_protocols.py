"""Transfer protocols: classifiers are trained and tested on frozen embeddings.

The splits of a data set determine the protocol:

- `nested_kfold`, for a single set (MR, CR, SUBJ, MPQA). Each fold is the test set once. The
  regularization is chosen by inner cross-validation on the other folds.
- `kfold`, for training and test sets (TREC, MRPC). The regularization is chosen by cross-validation
  on the training set.
- `dev_split`, for training, dev and test sets (SST2, SST5, SICK-E, probing tasks). The
  regularization is chosen on the dev set.

Accuracies are in [0, 1]. Samples are sorted as in the SentEval toolkit before they are split,
because folds depend on the order. Predictions are returned in the caller's order. The toolkit
rounds mean accuracies to 0.01 percent before it compares or averages them, and chooses the first of
equally good regularizations. Both affect scores, so this module does the same. Results do not
depend on the number of workers.

Shapes: n samples, d dimensions.

References:
    Conneau and Kiela (2018), SentEval, https://arxiv.org/abs/1803.05449
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polarity_bench.tasks.senteval.classifiers import (
    ClassifierFamily,
    Fit,
    Predict,
    single_threaded_processes,
)
from polarity_bench.values import FloatArray, IntArray

# For nested folds, the toolkit hard-codes this seed and ignores the classifier's seed.
_NESTED_SEED = 1111


@dataclass(frozen=True)
class Samples:
    """Samples for training or testing a classifier.

    Attributes:
        features: Embeddings of texts, or `pair_features` of pairs, (n, d).
        labels: Class numbers from 0, or scores, (n,).
        n_tokens: Number of tokens of each text, (n,), or of both texts of each pair, (n, 2).
    """

    features: FloatArray
    labels: NDArray[Any]
    n_tokens: IntArray

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class TransferOutcome:
    """Result of a transfer protocol: accuracies and predictions.

    Attributes:
        dev_accuracy: Dev accuracy of the chosen regularization, rounded as in the toolkit.
        test_accuracy: Accuracy on the test set, rounded as in the toolkit.
        fold_accuracies: Unrounded test accuracy of each outer fold.
        regularizations: Chosen regularization of each outer fold.
        predictions: Predicted classes of the test samples, (n,), in the caller's order.
        labels: True classes of the test samples, (n,), in the same order.
    """

    dev_accuracy: float
    test_accuracy: float
    fold_accuracies: tuple[float, ...]
    regularizations: tuple[float, ...]
    predictions: IntArray
    labels: IntArray


def sorted_positions(labels: FloatArray | IntArray, n_tokens: IntArray) -> IntArray:
    """Return the positions of samples in the toolkit's order: by number of tokens, then by label.

    The sort is stable.

    Args:
        labels: Labels or scores, (n,).
        n_tokens: Number of tokens of each text, (n,), or of both texts of each pair, (n, 2).

    Example:
        >>> sorted_positions(np.array([1, 0, 1]), n_tokens=np.array([[2, 9], [2, 9], [2, 8]]))
        array([2, 1, 0])
    """
    return np.lexsort((labels, *n_tokens.reshape(len(labels), -1).T[::-1]))


def pair_features(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the features of pairs of embeddings u and v: |u - v| and u * v, concatenated.

    Args:
        first: Embedding u of each pair, (n, d).
        second: Embedding v of each pair, (n, d).

    Returns:
        The features, (n, 2d).

    Example:
        >>> pair_features(np.array([[1.0, 2.0]]), np.array([[3.0, -1.0]]))
        array([[ 2.,  3.,  3., -2.]])
    """
    return np.hstack([np.abs(first - second), first * second])


def nested_kfold(
    samples: Samples, classifier: ClassifierFamily, *, n_folds: int = 10, workers: int = 1
) -> TransferOutcome:
    """Run nested cross-validation, in which each sample is tested once.

    The regularization of each outer fold is chosen by cross-validation on the other folds. The dev
    accuracy is the mean accuracy of these inner cross-validations.

    Args:
        samples: All samples of the data set.
        classifier: Classifier family with its parameters.
        n_folds: Number of outer folds, and of inner folds per outer fold.
        workers: Number of processes.
    """
    study = _Study(classifier, workers, samples)
    (everything,) = study.parts
    outer = study.folds(everything, n_folds, _NESTED_SEED)
    inner = [
        Fit(fit, classifier.grid, dev)
        for train, _ in outer
        for fit, dev in study.folds(train, n_folds, _NESTED_SEED)
    ]
    trials = study.run(inner)
    choices = [
        _choose(trials[start : start + n_folds], classifier.grid)
        for start in range(0, len(trials), n_folds)
    ]
    tests = [
        Fit(train, (regularization,), test=test)
        for (train, test), (regularization, _) in zip(outer, choices, strict=True)
    ]
    tested = [trial for (trial,) in study.run(tests)]
    return _outcome(study, samples, [test for _, test in outer], choices, tested)


def kfold(
    train: Samples,
    test: Samples,
    classifier: ClassifierFamily,
    *,
    n_folds: int = 10,
    workers: int = 1,
) -> TransferOutcome:
    """Choose the regularization by cross-validation on the training set, then train and test once.

    Args:
        train: Training samples.
        test: Test samples.
        classifier: Classifier family with its parameters.
        n_folds: Number of folds of the training set.
        workers: Number of processes.
    """
    study = _Study(classifier, workers, train, test)
    train_part, test_part = study.parts
    grid = classifier.wide_grid
    folds = study.folds(train_part, n_folds, classifier.seed)
    choice = _choose(study.run([Fit(fit, grid, dev) for fit, dev in folds]), grid)
    ((trial,),) = study.run([Fit(train_part, choice[:1], test=test_part)])
    return _outcome(study, test, [test_part], [choice], [trial])


def dev_split(
    train: Samples, dev: Samples, test: Samples, classifier: ClassifierFamily, *, workers: int = 1
) -> TransferOutcome:
    """Choose the regularization on the dev set, and test the classifier.

    Args:
        train: Training samples.
        dev: Dev samples.
        test: Test samples.
        classifier: Classifier family with its parameters.
        workers: Number of processes.
    """
    study = _Study(classifier, workers, train, dev, test)
    fit_on, stop_on, test_on = study.parts
    grid = classifier.grid
    n_shares = 1 if classifier.together else min(workers, len(grid))
    shares = [grid[share::n_shares] for share in range(n_shares)]
    done = study.run([Fit(fit_on, share, stop_on, test_on) for share in shares])
    trials = dict(zip(chain(*shares), chain(*done), strict=True))
    choice = _choose([[trials[value] for value in grid]], grid)
    # The toolkit fits the chosen regularization a second time. Seed and data are the same, so the
    # first fit is reused.
    return _outcome(study, test, [test_on], [choice], [trials[choice[0]]])


@dataclass(frozen=True)
class _Trial:
    """Dev accuracy, in [0, 1] or NaN without dev samples, and test predictions of one fit."""

    dev_accuracy: float
    predictions: IntArray


_Choice = tuple[float, float]
"""The chosen regularization, and its rounded dev accuracy in percent."""


class _Study:
    """All samples of a task, sorted within each part, and the fits on them.

    Attributes:
        features: Features of the samples, (n, d).
        labels: Labels of the samples, (n,).
        origin: Position of each sample in its part in the caller's order, (n,).
        parts: Positions of the samples of each part.
    """

    def __init__(self, classifier: ClassifierFamily, workers: int, *parts: Samples) -> None:
        self.classifier, self.workers = classifier, workers
        orders = [sorted_positions(part.labels, part.n_tokens) for part in parts]
        ordered = list(zip(parts, orders, strict=True))
        self.features = np.concatenate([part.features[order] for part, order in ordered])
        self.labels = np.concatenate([part.labels[order] for part, order in ordered])
        self.origin = np.concatenate(orders)
        ends = np.cumsum([len(part) for part in parts])
        self.parts = np.split(np.arange(ends[-1]), ends[:-1])

    def folds(self, part: IntArray, n_folds: int, seed: int) -> list[tuple[IntArray, IntArray]]:
        """Split a part into stratified folds.

        Returns:
            Positions of the training samples and the held-out samples of each fold.
        """
        from sklearn.model_selection import StratifiedKFold

        splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        return [
            (part[train], part[held_out])
            for train, held_out in splitter.split(np.zeros(len(part)), self.labels[part])
        ]

    def run(self, fits: Sequence[Fit]) -> list[list[_Trial]]:
        """Run all fits, and return the trials of each, one per regularization."""
        if self.workers == 1 or self.classifier.together:
            return self._run(fits)
        from sklearn.utils.parallel import delayed

        processes = single_threaded_processes(self.workers)
        trials: list[list[list[_Trial]]] = processes(delayed(self._run)([fit]) for fit in fits)
        return [each for (each,) in trials]

    def _run(self, fits: Sequence[Fit]) -> list[list[_Trial]]:
        classifier, examples = self.classifier, (self.features, self.labels)
        with classifier.limit_threads(self.workers):
            fitted = classifier.fit_subsets(examples, fits, n_classes=int(self.labels.max()) + 1)
            return [
                [self._trial(predict, fit) for predict in classifiers]
                for fit, classifiers in zip(fits, fitted, strict=True)
            ]

    def _trial(self, predict: Predict, fit: Fit) -> _Trial:
        return _Trial(
            dev_accuracy=np.nan
            if fit.dev is None
            else float((predict(self.features[fit.dev]) == self.labels[fit.dev]).mean()),
            predictions=np.empty(0, dtype=np.int64)
            if fit.test is None
            else predict(self.features[fit.test]),
        )


def _choose(folds: Sequence[Sequence[_Trial]], grid: Sequence[float]) -> _Choice:
    """Return the first regularization with the best rounded mean dev accuracy, and this accuracy.

    Args:
        folds: Trials of each fold, one per regularization.
        grid: The regularizations.
    """
    accuracies = [[fold[i].dev_accuracy for fold in folds] for i in range(len(grid))]
    rounded = [float(np.round(100 * np.mean(values), 2)) for values in accuracies]
    best = int(np.argmax(rounded))
    return grid[best], rounded[best]


def _outcome(
    study: _Study,
    tested: Samples,
    parts: Sequence[IntArray],
    choices: Sequence[_Choice],
    trials: Sequence[_Trial],
) -> TransferOutcome:
    """Combine the trials on disjoint parts of the test samples.

    Args:
        study: All samples of the task.
        tested: Test samples in the caller's order.
        parts: Positions of the samples in each part.
        choices: Chosen regularization and dev accuracy of each part.
        trials: Trial with the predictions for each part.
    """
    predictions = np.empty(len(tested), dtype=np.int64)
    positions = [study.origin[part] for part in parts]
    for tested_rows, trial in zip(positions, trials, strict=True):
        predictions[tested_rows] = trial.predictions
    hits = predictions == tested.labels
    accuracies = [float(hits[tested_rows].mean()) for tested_rows in positions]
    regularizations, dev_percents = zip(*choices, strict=True)
    return TransferOutcome(
        dev_accuracy=_mean_percent(dev_percents) / 100,
        test_accuracy=_mean_percent([round(100 * a, 2) for a in accuracies]) / 100,
        fold_accuracies=tuple(accuracies),
        regularizations=regularizations,
        predictions=predictions,
        labels=tested.labels,
    )


def _mean_percent(percent: Sequence[float]) -> float:
    """Return the mean of percentages, rounded to two decimals as in the toolkit."""
    return float(np.round(np.mean(percent), 2))
