"""Progress of a sweep, read from its folder."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from polarity_bench.errors import InputError
from polarity_bench.results.packed_results import PROVENANCE
from polarity_bench.results.result_files import Result, read_result
from polarity_bench.scores import ScoreKey
from polarity_bench.sweeps.item_states import ItemOutcome, SweepState
from polarity_bench.sweeps.items import DIVISION, CrossValidation
from polarity_bench.sweeps.plan import PlanItem, SweepPlan

STATES = ("done", "running", "left", "failed")


@dataclass(frozen=True)
class Best:
    """The best training run on a task so far, or the best cross-validation with one protocol.

    Attributes:
        task: The task; for a cross-validation, also how its rows are divided.
        name: Name of the item.
        score: The task's main score, or the mean over folds as tables show it, a fraction.
        measure: Name of the score; '' if the result cannot be read.
        interval: 95 % interval of the score; None if there is none.
        base: The same score of the base; None if there is none.
        base_interval: 95 % interval of the base's score.
        beats: Whether any training run on the task scores above its own base.
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
        """The score, its value, the name of the item and a comparison with the base, as text."""
        by = f" by {self.measure}" if self.measure else ""
        own = _percent(self.score, self.interval)
        return f"best on {self.task}{by}: {own}, {self.name}{self._beside_base}"

    @property
    def _beside_base(self) -> str:
        if self.base is None:
            return ""
        said = f"; its base: {_percent(self.base, self.base_interval)}"
        if not self.beats:
            return f"{said}; no training scores above its base"
        if self.score <= self.base:
            return f"{said}, which is not below it"
        if self.interval and self.base_interval and self.interval[0] <= self.base_interval[1]:
            return f"{said}; their intervals overlap, so the difference may be chance"
        return said


def _percent(score: float, interval: tuple[float, float] | None) -> str:
    ends = ""
    if interval:
        ends = f" (95 % interval {100 * interval[0]:.2f} to {100 * interval[1]:.2f})"
    return f"{100 * score:.2f}{ends}"


@dataclass(frozen=True)
class SweepProgress:
    """Progress of a sweep at one time.

    Attributes:
        states: States of the items, in the order of the plan.
        running: The process that makes each running item, by digest.
        seconds_left: Approximate time left; None if unknown, because no item is done yet or none is
            running.
        best: The best item for each task trained on, and for each task and protocol of
            cross-validations.
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
    """Reader of a sweep's progress. It reads each ended item once."""

    plan: SweepPlan
    state: SweepState
    outcomes: dict[str, ItemOutcome] = field(default_factory=dict)
    _results: dict[tuple[str, str], Result | None] = field(default_factory=dict)

    def look(self) -> SweepProgress:
        """Return the present progress."""
        ended = self.state.ended()
        for digest, outcome in list(self.outcomes.items()):
            if digest not in ended or outcome.state == "failed":  # another driver may retry it
                del self.outcomes[digest]
        for digest in ended - self.outcomes.keys():
            found = self.state.outcome(digest)
            if found is not None and not self.state.is_gone(found):
                self.outcomes[digest] = found
        running = self.state.running() if self.state.files.is_dir() else {}
        states = [self._state(item, running) for item in self.plan.items]
        return SweepProgress(states, running, self._seconds_left(states), self._best())

    def _state(self, item: PlanItem, running: Mapping[str, str]) -> str:
        outcome = self.outcomes.get(item.digest)
        if outcome is not None:
            return outcome.state
        return "running" if item.digest in running else "left"

    def _seconds_left(self, states: Sequence[str]) -> float | None:
        """Estimate the time left from the speed of done items and the number of running ones."""
        effort = dict.fromkeys(STATES, 0.0)
        seconds = 0.0
        for item, state in zip(self.plan.items, states, strict=True):
            took = self.outcomes[item.digest].seconds if state == "done" else 0.0
            if took or state != "done":  # 0 s: made elsewhere, not at this machine's speed
                effort[state] += item.effort
                seconds += took
        left, at_work = effort["left"] + effort["running"] / 2, states.count("running")
        if not left:
            return 0.0
        if not effort["done"] or not at_work:
            return None
        return seconds / effort["done"] * left / at_work

    def _best(self) -> list[Best]:
        found: dict[str, tuple[PlanItem, float]] = {}
        beaten: set[str] = set()
        for item in self.plan.items:
            score = self._score(item.digest, item.task)
            if score is None:
                continue
            on = _contest(item)
            base = self._score(item.after, item.task)
            if base is not None and score > base:
                beaten.add(on)
            if on not in found or score > found[on][1]:
                found[on] = (item, score)
        return [self._of(on, *each, beats=on in beaten) for on, each in found.items()]

    def _score(self, digest: str | None, task: str) -> float | None:
        outcome = self.outcomes.get(digest or "")
        return outcome.scores.get(task) if outcome else None

    def _of(self, on: str, item: PlanItem, score: float, *, beats: bool) -> Best:
        """Return the best item with its base."""
        if item.kind == CrossValidation.kind:
            few = item.settings["rows"] is not None
            return Best(on, item.name, score, "macro F1" if few else "accuracy")
        result = self._result(item.digest, item.task)
        base = self._score(item.after, item.task)
        return Best(
            on,
            item.name,
            score,
            _measure(result.main_score) if result else "",
            _interval(result),
            base,
            None if base is None else _interval(self._result(item.after, item.task)),
            beats,
        )

    def _result(self, digest: str | None, task: str) -> Result | None:
        """Read an item's result on a task, once; None if it cannot be read."""
        key = (digest or "", task)
        if key not in self._results:
            outcome = self.outcomes.get(key[0])
            files = [name for name in outcome.files if _is_scores(name)] if outcome else []
            read = (_read(self.state.folder / name) for name in files)
            self._results[key] = next((r for r in read if r and r.task == task), None)
        return self._results[key]


def _is_scores(name: str) -> bool:
    return name.endswith(".json") and not name.endswith(PROVENANCE)


def _read(file: Path) -> Result | None:
    try:
        return read_result(file)
    except InputError:  # broken or missing; the tables report it
        return None


def _measure(key: ScoreKey) -> str:
    """Return the name of a task's main score, with its k and the weighting of the ranks."""
    name = "P" if key.metric == "polarity" else key.metric
    return name if key.k is None else f"{name} (k = {key.k}, {key.weighting} weights)"


def _interval(result: Result | None) -> tuple[float, float] | None:
    if result is None or not all(map(math.isfinite, result.main.ci95)):
        return None
    return result.main.ci95


def _contest(item: PlanItem) -> str:
    """Return the task, and for cross-validations the folds, on which scores can be compared."""
    if item.kind != CrossValidation.kind:
        return item.task
    rows, folds, sample, seeds = (item.settings[key] for key in DIVISION)
    parts = [
        item.task,
        f"{'all' if rows is None else f'{rows:,}'} rows" + (f" of {sample:,}" if sample else ""),
        f"{folds} folds",
        f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}",
    ]
    return ", ".join(parts)
