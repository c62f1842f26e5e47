"""Chance level: the scores of guessing, and a test of whether a method beats them.

A classifier that always predicts the majority class has a high accuracy if that class is common.
Guesses by class prior draw a class for each row with the class's frequency in the data. Their macro
F1 is 1 / classes, usually above that of the majority class.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polarity_bench.metrics.significance import paired_t
from polarity_bench.values import FloatArray

MAJORITY = "Majority class"
PRIOR = "Guesses by class prior"


def guessed(counts: Sequence[int], measure: str) -> dict[str, float]:
    """Return the score of each way of guessing, a fraction, from the rows of each class.

    Args:
        counts: Number of rows of each class.
        measure: `macro_f1` or `accuracy`.

    Example:
        With 3 rows and 1 row, the majority class has precision 3/4, recall 1 and F1 6/7; the other
        class has F1 0.

        >>> [round(score, 4) for score in guessed([3, 1], "macro_f1").values()]
        [0.4286, 0.5]
        >>> list(guessed([3, 1], "accuracy").values())
        [0.75, 0.625]
    """
    shares = np.array(counts) / sum(counts)
    most = float(shares.max())
    if measure == "accuracy":
        return {MAJORITY: most, PRIOR: float((shares**2).sum())}
    return {MAJORITY: 2 * most / (1 + most) / len(shares), PRIOR: 1 / len(shares)}


def is_at_chance(values: FloatArray, counts: Sequence[int], measure: str) -> bool:
    """Return whether a method's folds do not show it to be better than guessing.

    This is so if the 95 % interval of the method's mean, by Student's t, starts at or below the
    better of the guesses; with a single fold, if its score is at most that guess.

    Args:
        values: Score of each fold, (n,).
        counts: Number of rows of each class.
        measure: Measure of these scores, `macro_f1` or `accuracy`.
    """
    best = max(guessed(counts, measure).values())
    test = paired_t(values, np.full_like(values, best))
    return not test.interval[0] > 0 if len(values) > 1 else bool(values.mean() <= best)
