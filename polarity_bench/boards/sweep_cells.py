"""Cells of sweep tables: means over training runs with their spread, and texts about the runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

from polarity_bench.boards.sweep_scores import SweepScores
from polarity_bench.metrics.statistics import interval_over_seeds
from polarity_bench.render.markdown import escape
from polarity_bench.sweeps.records import METRICS, Record
from polarity_bench.training.examples.spec import DEFAULT_COUNT

FIRST = next(iter(METRICS))
_LEAST = {"polarity": 0.0, "similarity": -1.0}
"""The minimum of each score; the maximum is 1."""


@dataclass(frozen=True)
class SweepCell:
    """Mean of training runs, a fraction, with its spread; NaN if missing.

    Attributes:
        mean: The mean, a fraction.
        std: Standard deviation over the runs; of a single planned run, over its queries.
        ends: 95 % interval: over seeds and queries, or over queries for a single planned run.
        n: Number of training runs in the mean.
        of: Number of planned training runs.
    """

    mean: float = math.nan
    std: float = math.nan
    ends: tuple[float, float] = (math.nan, math.nan)
    n: int = 1
    of: int = 1

    @classmethod
    def over(cls, means: Sequence[float]) -> SweepCell:
        """Return the mean and the spread of several training runs."""
        std = stdev(means) if len(means) > 1 else math.nan
        return cls(fmean(means), std) if means else cls()

    @classmethod
    def of_records(cls, records: Sequence[Record], metric: str) -> SweepCell:
        """Return the mean over seeds; of one planned run, its score and spread over queries."""
        if len(records) == 1 and (score := records[0].score(metric)):
            return cls(score.mean, score.std, score.ci95)
        scores = [score for each in records if (score := each.score(metric))]
        found = cls.over([score.mean for score in scores])
        low, high = interval_over_seeds(scores)
        ends = max(low, _LEAST[metric]), min(high, 1.0)  # max and min keep a NaN that comes first
        return replace(found, ends=ends, n=len(scores), of=len(records))

    @property
    def mark(self) -> str:
        """The number of seeds, as text, if some are missing."""
        return f" ({self.n} of {self.of} seeds)" if 0 < self.n < self.of else ""


def counted(records: Sequence[Record]) -> str:
    """Return a text with the number of training runs, and of those missing, failed or undefined."""
    states = [each.state for each in records]
    lacking = {"missing": states.count("left"), "failed": states.count("failed")}
    lacking["undefined"] = sum(bool(r.stored) and not r.score(FIRST) for r in records)
    said = [f"{n:,} {what}" for what, n in lacking.items() if n]
    noun = "training" if len(states) == 1 else "trainings"
    return f"{len(states):,} {noun}{': ' if said else ''}{', '.join(said)}."


def at_k(records: Sequence[Record]) -> str:
    """Return a text with the k of the tasks, for each task if they differ."""
    ks = {each.task: each.k for each in records if each.k is not None}
    if len(set(ks.values())) > 1:
        return "".join(f"k = {k} of {escape(task)}, " for task, k in ks.items())
    return "".join(f"k = {k}, " for k in set(ks.values()))


def grouped(records: Sequence[Record], keys: Sequence[str]) -> dict[tuple[Any, ...], list[Record]]:
    """Group records by the values of settings, in the order of first occurrence."""
    found: dict[tuple[Any, ...], list[Record]] = {}
    for each in records:
        found.setdefault(tuple(each.settings.get(key) for key in keys), []).append(each)
    return found


def size_of(examples: tuple[int | None, ...]) -> int:
    """Return the sort key of a number of examples; () is for recipes without such a number."""
    return (examples[0] or DEFAULT_COUNT) if examples else 0


def bases_of(records: Sequence[Record], scores: SweepScores) -> list[Record]:
    """Return the base encoders of training runs: those named by the plan, if it names any."""
    columns = {each.column for each in records}
    own = {each.base for each in records}
    return [e for e in scores.bases if e.column in columns and (e.base is None or e.base in own)]


def in_words(n: int | None) -> str:
    """Return a number of examples as text; None is the default, or all if there are fewer."""
    return f"{DEFAULT_COUNT:,} or all there are" if n is None else f"{n:,}"


def means_of(records: Sequence[Record], metric: str) -> list[float]:
    """Return the scores of training runs by a metric, without runs that lack it."""
    return [score.mean for each in records if (score := each.score(metric))]
