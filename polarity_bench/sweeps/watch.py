"""Watch: how far a sweep is, read off its folder again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from polarity_bench.sweeps.items import DIVISION, CrossValidation
from polarity_bench.sweeps.plan import Plan, Planned
from polarity_bench.sweeps.state import Outcome, SweepState

STATES = ("done", "running", "left", "failed")


@dataclass(frozen=True)
class Best:
    """The best training on a task so far, or the best cross-validation by one protocol.

    Attributes:
        task: The task; of a cross-validation, how it was divided too.
        score: By the task's main score, or as tables of folds have it, a fraction.
    """

    task: str
    name: str
    score: float


@dataclass(frozen=True)
class Seen:
    """What was seen of a sweep at a look.

    Attributes:
        states: Of the items, in the order of the plan.
        running: Who makes what, by digest.
        seconds_left: About how long it takes, None where nothing tells: nothing is done or running.
        best: One for each task trained on, and each task and protocol of cross-validations.
    """

    states: Sequence[str]
    running: Mapping[str, str]
    seconds_left: float | None
    best: Sequence[Best]

    @property
    def counts(self) -> dict[str, int]:
        """How many items are in each state."""
        return {state: self.states.count(state) for state in STATES}


@dataclass
class Watch:
    """Looks at a sweep; what has ended is read once."""

    plan: Plan
    state: SweepState
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    def look(self) -> Seen:
        """See how far it is."""
        ended = self.state.ended()
        for digest, outcome in list(self.outcomes.items()):
            if digest not in ended or outcome.state == "failed":  # which others may make again
                del self.outcomes[digest]
        for digest in ended - self.outcomes.keys():
            found = self.state.outcome(digest)
            if found is not None and not self.state.is_gone(found):
                self.outcomes[digest] = found
        running = self.state.running() if self.state.files.is_dir() else {}
        states = [self._state(item, running) for item in self.plan.items]
        return Seen(states, running, self._seconds_left(states), self._best())

    def _state(self, item: Planned, running: Mapping[str, str]) -> str:
        outcome = self.outcomes.get(item.digest)
        if outcome is not None:
            return outcome.state
        return "running" if item.digest in running else "left"

    def _seconds_left(self, states: Sequence[str]) -> float | None:
        """Weigh what is left as what is done, over as many processes as are at work."""
        effort = dict.fromkeys(STATES, 0.0)
        seconds = 0.0
        for item, state in zip(self.plan.items, states, strict=True):
            took = self.outcomes[item.digest].seconds if state == "done" else 0.0
            if took or state != "done":  # what was made elsewhere says nothing of this machine
                effort[state] += item.effort
                seconds += took
        left, at_work = effort["left"] + effort["running"] / 2, states.count("running")
        if not left:
            return 0.0
        if not effort["done"] or not at_work:
            return None
        return seconds / effort["done"] * left / at_work

    def _best(self) -> list[Best]:
        found: dict[str, Best] = {}
        for item in self.plan.items:
            outcome = self.outcomes.get(item.digest)
            score = outcome.scores.get(item.task) if outcome else None
            if score is None:
                continue
            on = _contest(item)
            if on not in found or score > found[on].score:
                found[on] = Best(on, item.name, score)
        return list(found.values())


def _contest(item: Planned) -> str:
    """Say on what an item's score can be compared: scores of other folds are others."""
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
