"""Progress of a sweep, read from the sweep's folder."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import itemgetter

from polarity_bench.cross_validation.protocol import division_text
from polarity_bench.errors import InputError
from polarity_bench.render.format import percent
from polarity_bench.results.packed_results import PROVENANCE
from polarity_bench.results.result_files import Result, read_result
from polarity_bench.sweeps.items import CrossValidation
from polarity_bench.sweeps.plan import PlanItem, SweepPlan
from polarity_bench.sweeps.state_files import ItemOutcome, SweepState

STATES = ("done", "running", "left", "failed")


@dataclass(frozen=True)
class Best:
    """Best training run so far on a task, or best cross-validation so far with a protocol.

    Attributes:
        task: Name of the task; for a cross-validation, also the division of its rows.
        name: Name of the item.
        score: Main score of the task or, for a cross-validation, the mean over folds as tables
            show it; a fraction.
        measure: Name of the score; '' if the result cannot be read.
        interval: 95 % confidence interval of the score; None if there is none.
        base: The same score for the base; None if there is none.
        base_interval: 95 % confidence interval of the base's score; None if there is none.
        beats: Whether any training run on the task scores above its base.
    """

    task: str
    name: str
    score: float
    measure: str = ""
    interval: tuple[float, float] | None = None
    base: float | None = None
    base_interval: tuple[float, float] | None = None
    beats: bool = False

    @property
    def words(self) -> str:
        """Sentence with the score, the name of the item and a comparison with the base."""
        by = f" by {self.measure}" if self.measure else ""
        score = _percent(self.score, self.interval)
        return f"best on {self.task}{by}: {score}, {self.name}{self._beside_base}"

    @property
    def _beside_base(self) -> str:
        """Clause that compares the score with the base's score; '' if there is no base."""
        if self.base is None:
            return ""
        text = f"; its base: {_percent(self.base, self.base_interval)}"
        if not self.beats:
            return f"{text}; no training run scores above its base"
        if self.score <= self.base:
            return f"{text}, which scores at least as high"
        if self.interval and self.base_interval and self.interval[0] <= self.base_interval[1]:
            return f"{text}; the intervals overlap, so the difference may be due to chance"
        return text


def _percent(score: float, interval: tuple[float, float] | None) -> str:
    """Return a score in percent, with its interval, as text."""
    ends = " to ".join(map(percent, interval or ()))
    return percent(score) + (f" (95 % interval {ends})" if ends else "")


@dataclass(frozen=True)
class SweepProgress:
    """Progress of a sweep at a point in time.

    Attributes:
        states: State of each item, in the order of the plan.
        running: Description of the process that runs each running item, by digest.
        seconds_left: Approximate time left, in seconds. None means unknown: no item of a kind that
            is left is done, or no item is running.
        best: Best training run for each task, and best cross-validation for each task and protocol.
    """

    states: Sequence[str]
    running: Mapping[str, str]
    seconds_left: float | None
    best: Sequence[Best]

    @property
    def counts(self) -> dict[str, int]:
        """Number of items in each state."""
        return {state: self.states.count(state) for state in STATES}


@dataclass
class Watch:
    """Reader of a sweep's progress, which reads the outcome of each done item only once."""

    plan: SweepPlan
    state: SweepState
    outcomes: dict[str, ItemOutcome] = field(default_factory=dict)

    def read_progress(self) -> SweepProgress:
        """Return the current progress of the sweep."""
        ended = self.state.ended()
        done = {d: o for d, o in self.outcomes.items() if d in ended and o.state == "done"}
        read = self.state.outcomes(ended - done.keys())  # another driver may retry a failed item
        self.outcomes = done | {d: o for d, o in read.items() if not self.state.is_gone(o)}
        running = self.state.running() if self.state.files.is_dir() else {}
        state_of = dict[str, str].fromkeys(running, "running")
        state_of |= {digest: outcome.state for digest, outcome in self.outcomes.items()}
        states = [state_of.get(item.digest, "left") for item in self.plan.items]
        return SweepProgress(states, running, self._seconds_left(states), self._best())

    def _seconds_left(self, states: Sequence[str]) -> float | None:
        """Estimate the time left, in seconds, from the speed of done items and the running items.

        Running items count as half done. Each kind of item has its own speed, because an evaluation
        with stored vectors is much faster than a training run of the same effort.
        """
        done: dict[str, tuple[float, float]] = {}
        left: dict[str, float] = {}
        shares = {"done": 0.0, "running": 0.5, "left": 1.0, "failed": 0.0}
        for item, state in zip(self.plan.items, states, strict=True):
            took = self.outcomes[item.digest].seconds if state == "done" else 0.0
            if took and item.effort:  # 0 s means external results
                seconds, effort = done.get(item.kind, (0.0, 0.0))
                done[item.kind] = seconds + took, effort + item.effort
            if shares[state]:
                left[item.kind] = left.get(item.kind, 0.0) + shares[state] * item.effort
        if not left:
            return 0.0
        if not (at_work := states.count("running")) or left.keys() - done.keys():
            return None
        seconds_by_kind = (done[kind][0] / done[kind][1] * effort for kind, effort in left.items())
        return sum(seconds_by_kind) / at_work

    def _best(self) -> list[Best]:
        """Return the best item of each group of comparable items, compared with its base."""
        contests: dict[str, list[tuple[float, float | None, PlanItem]]] = {}
        for item in self.plan.items:
            score, base = (self._score(each, item.task) for each in (item.digest, item.after))
            if score is not None:
                contests.setdefault(_comparison_group(item), []).append((score, base, item))
        bests = []
        for on, scored in contests.items():
            score, base, item = max(scored, key=itemgetter(0))
            beats = any(base is not None and score > base for score, base, _ in scored)
            own, of_base = (self._result(each, item.task) for each in (item.digest, item.after))
            facts = _measure(own), _interval(own), base, _interval(of_base), beats
            bests.append(Best(on, item.name, score, *facts))
        return bests

    def _score(self, digest: str | None, task: str) -> float | None:
        """Return the main score of an item on a task; None if there is none."""
        outcome = self.outcomes.get(digest or "")
        return outcome.scores.get(task) if outcome else None

    def _result(self, digest: str | None, task: str) -> Result | None:
        """Read an item's result on a task; return None if no result can be read."""
        outcome = self.outcomes.get(digest or "")
        for name in outcome.files if outcome else ():
            if name.endswith(".json") and not name.endswith(PROVENANCE):
                with suppress(InputError):  # damaged or missing files, which tables report
                    result = read_result(self.state.folder / name)
                    if result.task == task:
                        return result
        return None


def _interval(result: Result | None) -> tuple[float, float] | None:
    """Return the 95 % confidence interval of a result's main score; None if there is none."""
    ends = result.main.ci95 if result else (math.nan, math.nan)
    return ends if all(map(math.isfinite, ends)) else None


def _measure(result: Result | None) -> str:
    """Return the name of the main score, with k and the weighting if the score has them."""
    if result is None:
        return ""
    key = result.main_score
    name = {"polarity": "P", "macro_f1": "macro F1"}.get(key.metric, key.metric)
    return name if key.k is None else f"{name} (k = {key.k}, {key.weighting} weights)"


def _comparison_group(item: PlanItem) -> str:
    """Return the name of the group of items with which an item can be compared.

    The name is the task and, for cross-validations, the division of its rows.
    """
    if item.kind != CrossValidation.kind:
        return item.task
    return f"{item.task}, {division_text(item.settings, 'all rows')}"
