"""Minimum detectable difference of scores whose values per query are missing.

The computation uses the confidence intervals of the scores and treats the scores as independent. On
a board, all scores have the same queries. Queries that are hard for one encoder tend to be hard for
another, so that a paired test detects smaller differences. The result is therefore an upper bound
of the difference that a paired test detects.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, median

from polarity_bench.results.result_files import Result
from polarity_bench.scores import Score, ScoreKey

_Z = NormalDist().inv_cdf(0.975)
_SHOWN = _Z + NormalDist().inv_cdf(0.8)
"""Difference, in standard errors, that a test at 5 % detects four times in five (Cohen, 1988)."""
_SAME = {"accuracy": "exact_accuracy"}
"""Scores whose interval is stored under another score, because SentEval rounds the former."""


def standard_error(result: Result, key: ScoreKey) -> float:
    """Return the standard error of a score over queries, a fraction; NaN if it has no interval."""
    main = result.scores.get(key)
    if main is None or math.isnan(main.mean):
        return math.nan
    twin = ScoreKey(_SAME.get(key.metric, key.metric), key.k, key.weighting, key.part)
    for score in (main, result.scores.get(twin)):
        if score is not None and not math.isnan(error := error_of(score)):
            return error
    return math.nan


def error_of(score: Score) -> float:
    """Return the standard error of a score from its own interval; NaN without an interval.

    An interval that ends at 0 belongs to a score that is clipped at 0, so that only its upper half
    is used.
    """
    low, high = score.ci95
    return (high - score.mean) / _Z if low == 0 else (high - low) / (2 * _Z)


def least_unpaired(errors: Sequence[float]) -> float:
    """Return the minimum detectable difference (80 % power) of two independent scores.

    Args:
        errors: Standard error of each encoder's score.

    Returns:
        The median over all pairs, a fraction; NaN for fewer than two errors, or if one is NaN.
    """
    if len(errors) < 2 or any(math.isnan(each) for each in errors):
        return math.nan
    pairs = [math.hypot(a, b) for i, a in enumerate(errors) for b in errors[:i]]
    return _SHOWN * median(pairs)
