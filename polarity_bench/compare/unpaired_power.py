"""Minimum detectable difference of scores without values per query.

The computation uses the confidence intervals of the scores and treats the scores as independent.
The encoders of a board have the same queries, though, and queries that are hard for one encoder
tend to be hard for another. A paired test therefore detects smaller differences, and the result is
an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, median

from polarity_bench.results.result_files import Result
from polarity_bench.scores import Score, ScoreKey

_Z = NormalDist().inv_cdf(0.975)
_SHOWN = _Z + NormalDist().inv_cdf(0.8)
"""Difference, in standard errors, that a test at 5 % detects with 80 % power (Cohen, 1988)."""
_SAME = {"accuracy": "exact_accuracy"}
"""Metrics that SentEval rounds, and the exact metrics that have their intervals."""


def standard_error(result: Result, key: ScoreKey) -> float:
    """Return the standard error of a score over queries, as a fraction; NaN without an interval."""
    main = result.scores.get(key)
    if main is None or math.isnan(main.mean):
        return math.nan
    twin = ScoreKey(_SAME.get(key.metric, key.metric), key.k, key.weighting, key.part)
    for score in (main, result.scores.get(twin)):
        if score is not None and not math.isnan(error := error_of(score)):
            return error
    return math.nan


def error_of(score: Score) -> float:
    """Return the standard error of a score from its own interval; NaN without an interval."""
    low, high = score.ci95
    return (high - low) / (2 * _Z)


def least_unpaired(errors: Sequence[float]) -> float:
    """Return the minimum detectable difference (80 % power) between independent scores.

    Args:
        errors: Standard errors of the encoders' scores, as fractions.

    Returns:
        The median over all pairs of encoders, as a fraction. NaN if there are fewer than two
        errors, or one of them is NaN.
    """
    if len(errors) < 2 or any(math.isnan(each) for each in errors):
        return math.nan
    pairs = [math.hypot(a, b) for i, a in enumerate(errors) for b in errors[:i]]
    return _SHOWN * median(pairs)
