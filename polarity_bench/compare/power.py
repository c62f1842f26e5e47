"""Unpaired: how small a difference scores could show whose values per query are missing.

A score's own interval says how far it would lie from itself with other queries. Two scores of
different queries differ by both; those of the same queries, as on a board, by less, as far as what
is hard for one is hard for the other. So this bounds what a paired test of them shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, median

from polarity_bench.results.result_files import Result
from polarity_bench.scores import Score, ScoreKey

_Z = NormalDist().inv_cdf(0.975)
_SHOWN = _Z + NormalDist().inv_cdf(0.8)
"""Standard errors of a difference that a test at 5 % finds four times in five (Cohen, 1988)."""
_SAME = {"accuracy": "exact_accuracy"}
"""Scores that have their interval under another name, as SentEval rounds what it averages."""


def standard_error(result: Result, key: ScoreKey) -> float:
    """Return the standard error of a score over queries, a fraction; nan where nothing tells it."""
    found = result.scores.get(key)
    if found is None or math.isnan(found.mean):
        return math.nan
    twin = ScoreKey(_SAME.get(key.metric, key.metric), key.k, key.weighting, key.part)
    for score in (found, result.scores.get(twin)):
        if score is not None and not math.isnan(error := error_of(score)):
            return error
    return math.nan


def error_of(score: Score) -> float:
    """Return the standard error of a score by its own interval; nan where it has none.

    An interval that ends at 0 is that of a score clipped there: its upper half alone is whole.
    """
    low, high = score.ci95
    return (high - score.mean) / _Z if low == 0 else (high - low) / (2 * _Z)


def least_unpaired(errors: Sequence[float]) -> float:
    """Return the least true difference that two independent scores show four times in five.

    Args:
        errors: The standard error of each encoder's score.

    Returns:
        The median over all pairs, a fraction; nan of fewer than two, or where one is nan.
    """
    if len(errors) < 2 or any(math.isnan(each) for each in errors):
        return math.nan
    pairs = [math.hypot(a, b) for i, a in enumerate(errors) for b in errors[:i]]
    return _SHOWN * median(pairs)
