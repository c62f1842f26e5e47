"""Chance level: the scores of guessing, and a test of whether a method is better than guessing.

There are two ways of guessing. The first always predicts the majority class, which gives a high
accuracy if that class is common. The second draws a class for each row, with the frequencies of the
classes in the data. Its macro F1 is 1 / classes, which is usually above the macro F1 of the first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polarity_bench.metrics.significance import paired_t
from polarity_bench.values import FloatArray

MAJORITY = "Majority class"
PRIOR = "Guesses by class prior"


def guess_scores(counts: Sequence[int], measure: str) -> dict[str, float]:
    """Return the expected score of each way of guessing.

    Args:
        counts: Number of rows of each class.
        measure: `macro_f1` or `accuracy`.

    Returns:
        The score of each way of guessing, in [0, 1].

    Example:
        The classes have 3 rows and 1 row. For guesses of the majority class, this class has
        precision 3/4, recall 1 and F1 6/7, and the other class has F1 0:

        >>> [round(score, 4) for score in guess_scores([3, 1], "macro_f1").values()]
        [0.4286, 0.5]
        >>> list(guess_scores([3, 1], "accuracy").values())
        [0.75, 0.625]
    """
    shares = np.array(counts) / sum(counts)
    most = float(shares.max())
    if measure == "accuracy":
        return {MAJORITY: most, PRIOR: float((shares**2).sum())}
    return {MAJORITY: 2 * most / (1 + most) / len(shares), PRIOR: 1 / len(shares)}


def is_at_chance(values: FloatArray, counts: Sequence[int], measure: str) -> bool:
    """Return whether a method is not significantly better than guessing.

    The method is at chance if the 95 % interval of its mean, by Student's t, contains or is below
    the better guess. With a single fold, the score itself is compared with the better guess.

    Args:
        values: Score of each fold, (n,).
        counts: Number of rows of each class.
        measure: Measure of the scores, `macro_f1` or `accuracy`.
    """
    best = max(guess_scores(counts, measure).values())
    test = paired_t(values, np.full_like(values, best))
    return not test.interval[0] > 0 if len(values) > 1 else bool(values.mean() <= best)
