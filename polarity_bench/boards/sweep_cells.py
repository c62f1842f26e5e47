"""Cells: means of trainings with their spread, and what tables say of the trainings they show."""

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
"""The least value of each score; the greatest is 1."""


@dataclass(frozen=True)
class SweepCell:
    """A mean as a fraction and its spread, nan where there is none.

    Attributes:
        ends: Its 95 % interval: of several seeds over seeds and queries, of one over queries.
        n: How many trainings it is over, of so many planned.
    """

    mean: float = math.nan
    std: float = math.nan
    ends: tuple[float, float] = (math.nan, math.nan)
    n: int = 1
    of: int = 1

    @classmethod
    def over(cls, means: Sequence[float]) -> SweepCell:
        """The mean and the spread of several trainings."""
        std = stdev(means) if len(means) > 1 else math.nan
        return cls(fmean(means), std) if means else cls()

    @classmethod
    def of_records(cls, records: Sequence[Record], metric: str) -> SweepCell:
        """The one training that is planned, by its spread over queries; or over several seeds."""
        if len(records) == 1 and (score := records[0].score(metric)):
            return cls(score.mean, score.std, score.ci95)
        scores = [score for each in records if (score := each.score(metric))]
        found = cls.over([score.mean for score in scores])
        low, high = interval_over_seeds(scores)
        ends = max(low, _LEAST[metric]), min(high, 1.0)  # nan stays, being the first of either
        return replace(found, ends=ends, n=len(scores), of=len(records))

    @property
    def mark(self) -> str:
        """Say of how many seeds it is, where some are missing."""
        return f" ({self.n} of {self.of} seeds)" if 0 < self.n < self.of else ""


def counted(records: Sequence[Record]) -> str:
    """Say how many trainings there are, and of how many there is nothing."""
    states = [each.state for each in records]
    lacking = {"missing": states.count("left"), "failed": states.count("failed")}
    lacking["undefined"] = sum(bool(r.stored) and not r.score(FIRST) for r in records)
    said = [f"{n:,} {what}" for what, n in lacking.items() if n]
    noun = "training" if len(states) == 1 else "trainings"
    return f"{len(states):,} {noun}{': ' if said else ''}{', '.join(said)}."


def at_k(records: Sequence[Record]) -> str:
    """Say the k of the tasks, of each where they differ."""
    ks = {each.task: each.k for each in records if each.k is not None}
    if len(set(ks.values())) > 1:
        return "".join(f"k = {k} of {escape(task)}, " for task, k in ks.items())
    return "".join(f"k = {k}, " for k in set(ks.values()))


def grouped(records: Sequence[Record], keys: Sequence[str]) -> dict[tuple[Any, ...], list[Record]]:
    """Group records by the values of settings, in the order that these first come in."""
    found: dict[tuple[Any, ...], list[Record]] = {}
    for each in records:
        found.setdefault(tuple(each.settings.get(key) for key in keys), []).append(each)
    return found


def size_of(examples: tuple[int | None, ...]) -> int:
    """Sort numbers of examples; () is of recipes that are not counted by them."""
    return (examples[0] or DEFAULT_COUNT) if examples else 0


def bases_of(records: Sequence[Record], scores: SweepScores) -> list[Record]:
    """Return the bases of trainings: those they were planned after, where a plan says so."""
    columns = {each.column for each in records}
    own = {each.base for each in records}
    return [e for e in scores.bases if e.column in columns and (e.base is None or e.base in own)]


def in_words(n: int | None) -> str:
    """Say a number of examples."""
    return f"{DEFAULT_COUNT:,} or all there are" if n is None else f"{n:,}"


def means_of(records: Sequence[Record], metric: str) -> list[float]:
    """Return the scores of trainings by a metric, of those that have one."""
    return [score.mean for each in records if (score := each.score(metric))]
