"""Classification metrics beyond accuracy: F1, macro-F1 and the recall of each class.

The metrics are ratios of means over the samples, so `Bootstrap.derived` can resample them.

Shapes: n samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from polarity_bench.metrics.statistics import Bootstrap, ratio
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.values import FloatArray, IntArray


def classification_scores(
    labels: IntArray, predictions: IntArray, names: Sequence[str], positive: int | None = None
) -> dict[ScoreKey, Score]:
    """Score predicted classes, with bootstrap intervals over the samples.

    Args:
        labels: True classes, numbered from 0, (n,).
        predictions: Predicted classes, numbered from 0, (n,).
        names: Names of the classes.
        positive: Class whose F1 is scored too, as `f1`.

    Returns:
        `exact_accuracy`, `macro_f1`, the recall of each class and `f1` with `positive`, all in
        [0, 1]; higher is better. A class that is neither present nor predicted counts as 0 in
        `macro_f1`, as in scikit-learn with the `labels` of all classes; its `f1` is nan. The recall
        of a class without samples is nan.

    Example:
        >>> result = classification_scores(np.array([0, 0, 1]), np.array([0, 1, 1]), ["a", "b"])
        >>> round(result[ScoreKey("macro_f1")].mean, 4), result[ScoreKey("recall", part="a")].mean
        (0.6667, 0.5)
    """
    values: dict[str, FloatArray] = {"right": (labels == predictions).astype(np.float64)}
    for number in range(len(names)):
        actual, predicted = labels == number, predictions == number
        values[f"hit{number}"] = (actual & predicted).astype(np.float64)
        values[f"actual{number}"] = actual.astype(np.float64)
        values[f"predicted{number}"] = predicted.astype(np.float64)
    bootstrap = Bootstrap(values)

    def f1(means: Mapping[str, FloatArray], i: int, empty: float = np.nan) -> FloatArray:
        total = means[f"actual{i}"] + means[f"predicted{i}"]
        return ratio(2 * means[f"hit{i}"], total, empty=empty)

    def recall(means: Mapping[str, FloatArray], i: int) -> FloatArray:
        return ratio(means[f"hit{i}"], means[f"actual{i}"])

    def macro_f1(means: Mapping[str, FloatArray]) -> FloatArray:
        return np.asarray(np.mean([f1(means, i, empty=0.0) for i in range(len(names))], axis=0))

    scores = {
        ScoreKey("exact_accuracy"): bootstrap.score("right"),
        ScoreKey("macro_f1"): bootstrap.derived(macro_f1),
    }
    if positive is not None:
        scores[ScoreKey("f1")] = bootstrap.derived(partial(f1, i=positive))
    for number, name in enumerate(names):
        key = ScoreKey("recall", part=name.replace(" ", "_"))
        scores[key] = bootstrap.derived(partial(recall, i=number))
    return scores
