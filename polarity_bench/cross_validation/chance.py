"""Chance: what guesses score, and which methods are no better.

A classifier that gives every row the majority class has a high accuracy where that class is common.
Guesses by class prior draw a class for each row, as often as the class is in the data: their macro
F1 is 1 / classes, mostly above that of the majority class.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polarity_bench.metrics.significance import paired_t
from polarity_bench.values import FloatArray

MAJORITY = "Majority class"
PRIOR = "Guesses by class prior"


def guessed(counts: Sequence[int], measure: str) -> dict[str, float]:
    """Return what each way of guessing scores, a fraction, from the rows of each class.

    Args:
        counts: How many rows each class has.
        measure: `macro_f1` or `accuracy`.

    Example:
        Of 3 and 1 rows the majority has precision 3/4, recall 1 and F1 6/7; the other class has 0.

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
    """Say whether a method is not shown to be better than guesses, over its folds.

    It is if the 95 % interval of its mean by Student's t begins at the better guess or below.

    Args:
        values: The score of each fold, (n,).
        counts: How many rows each class has.
        measure: Of these scores.
    """
    best = max(guessed(counts, measure).values())
    found = paired_t(values, np.full_like(values, best))
    return not found.interval[0] > 0 if len(values) > 1 else bool(values.mean() <= best)
