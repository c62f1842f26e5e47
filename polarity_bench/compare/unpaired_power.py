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

from polarity_bench.results.result_files import Result, score_with_interval
from polarity_bench.scores import Score, ScoreKey

_Z = NormalDist().inv_cdf(0.975)
_SHOWN = _Z + NormalDist().inv_cdf(0.8)
"""Difference, in standard errors, that a test at 5 % detects with 80 % power (Cohen, 1988)."""


def standard_error(result: Result, key: ScoreKey) -> float:
    """Return the standard error of a score over queries, as a fraction; NaN without an interval."""
    score = score_with_interval(result, key)
    return math.nan if score is None or math.isnan(score.mean) else error_of(score)


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
