"""Means of score records over tasks and over seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev
from typing import Any

from polarity_bench.metrics.register import metric_of
from polarity_bench.metrics.statistics import interval_over_seeds
from polarity_bench.results.frame import Record
from polarity_bench.scores import Score
from polarity_bench.values import grouped

SCORE_COLUMNS = ("value", "std", "ci_low", "ci_high", "seed_std", "seed_min", "seed_max")
"""Columns of a score and of its spread."""


def mean_over_tasks(records: Sequence[Record]) -> Record:
    """Return the record of the mean over tasks.

    The half-widths of the scores' intervals are added in quadrature, because the queries of
    different tasks are independent.

    Args:
        records: Records of one metric, one for each task.
    """
    if len(records) == 1:
        return records[0]
    values, *ends = ([r[name] for r in records] for name in ("value", "ci_low", "ci_high"))
    mean = sum(values) / len(values)
    below, above = (math.dist(values, end) / len(values) for end in ends)
    measured = {"value": mean, "std": math.nan, "ci_low": mean - below, "ci_high": mean + above}
    return records[0] | measured


def mean_over_seeds(records: Sequence[Record]) -> Record:
    """Return the columns of the mean over training runs that differ only in the seed.

    Args:
        records: Records of one metric, one for each planned run. The value of a run without a score
            is NaN.

    Returns:
        These columns:

        - `metric`: The metric.
        - `value`: Mean over the runs with a score; NaN if no run has a score.
        - `std`: Standard deviation over queries if one run is planned; otherwise NaN.
        - `ci_low`, `ci_high`: 95 % interval over queries if one run is planned; otherwise over
          seeds and queries.
        - `seed_std`, `seed_min`, `seed_max`: Sample standard deviation over runs, minimum and
          maximum.
        - `n_seeds`, `n_planned`: Number of runs with a score, and number of planned runs.

        A published number that is alone keeps its values.
    """
    first, known = records[0], [record for record in records if not math.isnan(record["value"])]
    values = [record["value"] for record in known]
    is_alone = len(records) == 1
    mean: Record = {
        name: first.get(name, math.nan) if is_alone else math.nan for name in SCORE_COLUMNS
    }
    if known and not is_alone:
        low, high = interval_over_seeds([_stored_score(record) for record in known])
        mean |= {"value": fmean(values), "ci_low": low, "ci_high": high}
    if known and first.get("role") != "published":
        deviation = stdev(values) if len(values) > 1 else math.nan
        mean |= {"seed_std": deviation, "seed_min": min(values), "seed_max": max(values)}
    return mean | {"metric": first["metric"], "n_seeds": len(known), "n_planned": len(records)}


def seed_means(records: Iterable[Record], *by: str) -> dict[tuple[Any, ...], Record]:
    """Return the mean over seeds of each group of records, in the order of first occurrence.

    Args:
        records: Records, see `mean_over_seeds`.
        by: Columns that define groups. Their values are the keys of the means.
    """
    groups = grouped(records, lambda record: tuple(record[name] for name in by))
    return {key: mean_over_seeds(group) for key, group in groups.items()}


def score_of(record: Record) -> Score:
    """Return the score in a record as it is shown (see `Metric.shown`)."""
    return metric_of(record["metric"]).shown_score(_stored_score(record))


def _stored_score(record: Record) -> Score:
    return Score(record["value"], record["std"], (record["ci_low"], record["ci_high"]), None)
