"""Means of score records over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from polarity_bench.metrics.statistics import interval_over_seeds
from polarity_bench.scores import Score

if TYPE_CHECKING:
    from pandas import DataFrame

_SHARES = (
    *("polarity", "joint", "front", "knn_accuracy", "pairwise_accuracy", "overlap"),
    *("accuracy", "exact_accuracy", "dev_accuracy", "macro_f1", "f1", "recall"),
)
RANGES = (
    dict.fromkeys(_SHARES, (0.0, 1.0))
    | dict.fromkeys(("similarity", "sgts", "pearson", "spearman", "dev_pearson"), (-1.0, 1.0))
    | dict.fromkeys(("retention", "lift"), (-math.inf, 1.0))
)
"""Range of each metric. Intervals over seeds are clipped to it."""
_MEASURES = ("value", "std", "ci_low", "ci_high", "seed_std", "seed_min", "seed_max")


def mean_over_seeds(records: DataFrame, by: Sequence[str]) -> DataFrame:
    """Return a table with the mean of each group of records, in the order of first occurrence.

    Args:
        records: Records with one metric per group and one record per planned run. The value of a
            run without a score is NaN.
        by: Names of the columns that define groups.

    Returns:
        A table with the columns `by` and these columns:

        - `value`: Mean over the runs with a score; NaN if no run has a score.
        - `std`: Standard deviation over queries if one run is planned; otherwise NaN.
        - `ci_low`, `ci_high`: 95 % interval over queries if one run is planned; otherwise over
          seeds and queries.
        - `seed_std`, `seed_min`, `seed_max`: Sample standard deviation over runs, minimum and
          maximum.
        - `n_seeds`, `n_planned`: Number of runs with a score, and number of planned runs.

        A published number that is alone in its group keeps its values.
    """
    import pandas as pd

    rows = []
    for values, group in records.groupby(list(by), sort=False, dropna=False):
        scores = [score for score in scores_of(group) if not math.isnan(score.mean)]
        means = [score.mean for score in scores]
        row = dict(zip(by, values, strict=True)) | {"n_seeds": len(means), "n_planned": len(group)}
        if len(group) == 1:
            row |= {name: group[name].iloc[0] for name in _MEASURES}
        elif means:
            mean = over_seeds(scores, group["metric"].iloc[0])
            row |= {"value": mean.mean, "ci_low": mean.ci95[0], "ci_high": mean.ci95[1]}
        if means and group["role"].iloc[0] != "published":
            deviation = stdev(means) if len(means) > 1 else math.nan
            row |= {"seed_std": deviation, "seed_min": min(means), "seed_max": max(means)}
        rows.append(row)
    table = pd.DataFrame(rows, columns=[*by, *_MEASURES, "n_seeds", "n_planned"])
    return table.astype(dict.fromkeys(_MEASURES, float))


def over_seeds(scores: Sequence[Score], metric: str) -> Score:
    """Return the mean over seeds, with an interval that covers other seeds and other queries.

    Args:
        scores: Score of each seed, with its interval over queries.
        metric: Metric of the scores, to whose range the interval is clipped.

    Returns:
        The mean. Its interval is NaN with a single seed, or if a seed has no interval.
    """
    low, high = interval_over_seeds(scores)
    least, most = RANGES.get(metric, (-math.inf, math.inf))
    # `max` and `min` return their first argument if it is NaN.
    ends = max(low, least), min(high, most)
    return Score(fmean(score.mean for score in scores), math.nan, ends, scores[0].n)


def scores_of(records: DataFrame) -> list[Score]:
    """Return the score in each record."""
    columns = (records[name] for name in ("value", "std", "ci_low", "ci_high"))
    return [
        Score(value, std, (low, high), None) for value, std, low, high in zip(*columns, strict=True)
    ]
