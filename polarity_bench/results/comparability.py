"""Groups of comparable results, and the assignment of results to the cells of a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from polarity_bench.errors import InputError, check_known
from polarity_bench.results.result_files import Result
from polarity_bench.results.score_names import RANKED
from polarity_bench.scores import Score, ScoreKey, Weighting
from polarity_bench.tasks.catalogue import KINDS
from polarity_bench.values import count

FREE = frozenset({"k", "device"})
"""Protocol parameters that may differ between comparable results."""


MAIN = "main"
"""Placeholder for the only score that boards show for a task without retrieval."""


@dataclass(frozen=True, order=True)
class Entry:
    """Key of a table row: an encoder, its reference encoder and k.

    Attributes:
        encoder: Digest of the encoder.
        reference: Digest of the reference encoder; '' if the encoder is its own reference.
        k: Number of retrieved sources; 0 for tasks without retrieval.
    """

    encoder: str
    reference: str = ""
    k: int = 0


@dataclass(frozen=True)
class Group:
    """Tasks with a common mean: tasks of one type and protocol, or all retrieval tasks.

    Attributes:
        kind: Task type.
        protocol: Name of the protocol in tables.
        tasks: Result of each entry, by task.
        weighting: Weighting of the ranks.
        measure: Title of the score to show; '' for the main score.
    """

    kind: str
    protocol: str
    tasks: Mapping[str, Mapping[Entry, Result]]
    weighting: Weighting = "linear"
    measure: str = ""

    def title(self, n_tasks: str = "") -> str:
        """Return the title of the group's mean: task type, measure, protocol and number of tasks.

        Args:
            n_tasks: Number of tasks in words; '' for the number of all tasks.
        """
        n_tasks = n_tasks or count(len(self.tasks), "task")
        return f"{KINDS[self.kind].heading} ({self.measured}, {self.protocol}, {n_tasks})"

    @property
    def ranks(self) -> bool:
        """Whether the tasks retrieve sources."""
        return KINDS[self.kind].ranks

    @property
    def measured(self) -> str:
        """Title of the score to show."""
        return self.measure or KINDS[self.kind].measure

    def title_of(self, metric: str) -> str:
        """Return the title of a metric, such as `P`; for `MAIN`, the title of the score to show."""
        titles = (title for title, known in RANKED.items() if known == metric)
        return next(titles, self.measured)

    @property
    def results(self) -> list[Result]:
        """Results of all tasks; a result with several k occurs once for each k."""
        return [result for cells in self.tasks.values() for result in cells.values()]

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """Pairs of a task and its copy with unseen sources, if both have results."""
        return pairs_of(self.results)

    @cached_property
    def independent(self) -> list[str]:
        """Tasks except copies with unseen sources, which have the queries of other tasks."""
        twins = {unseen for _, unseen in self.pairs}
        return [task for task in self.tasks if task not in twins]

    @cached_property
    def averaged(self) -> list[str]:
        """Independent tasks with a result for every entry, or else all independent tasks."""
        shared = [task for task in self.independent if self.tasks[task].keys() == self.entries]
        return shared or self.independent

    @cached_property
    def places(self) -> set[str]:
        """Keys of all tasks in the scores of a row, see `place`."""
        return {self.place(task) for task in self.tasks}

    @property
    def heading(self) -> str:
        """Heading of the table of means over retrieval tasks."""
        if len(self.averaged) == 1:
            return f"Summary: {self.averaged[0]}"
        return f"Means over {self.n_averaged.replace('task', 'polarity task')}"

    @property
    def n_averaged(self) -> str:
        """Number of averaged tasks in words, such as `2 of 3 tasks`."""
        n, of = len(self.averaged), len(self.independent)
        return count(of, "task") if n == of else f"{n} of {of} tasks"

    @cached_property
    def entries(self) -> set[Entry]:
        """Entries that have a result for at least one task."""
        return {entry for cells in self.tasks.values() for entry in cells}

    def sorted_by(self, tasks: Sequence[str]) -> str:
        """Return the default metric to sort a table of these tasks by.

        The metric of tasks without retrieval is the main score, and the metric of retrieval tasks
        is joint. If every encoder with results on all of these tasks is its own reference, the
        metric is P, because joint then depends on P alone.
        """
        if not self.ranks:
            return MAIN
        entries = set.intersection(*(set(self.tasks[task]) for task in tasks)) if tasks else set()
        return "joint" if any(entry.reference for entry in entries) else "polarity"

    def place(self, task: str) -> str:
        """Return the key of a task in the scores of a row; keys are unique within a board."""
        return task if self.ranks else f"{task} ({self.protocol})"

    def result(self, task: str, entry: Entry) -> Result | None:
        """Return an entry's result for a task, or None if there is none.

        On tasks without retrieval, the entry's reference encoder and k are ignored.
        """
        return self.tasks[task].get(entry if self.ranks else Entry(entry.encoder))

    def at(self, task: str, entry: Entry) -> dict[str, Score]:
        """Return an entry's scores for a task by metric; empty if the entry has no result.

        On retrieval tasks, these are the scores at the entry's k and the group's weighting. On
        other tasks, only the displayed score is returned, under the key `MAIN`.
        """
        result = self.result(task, entry)
        if result is None:
            return {}
        scores = result.scores
        if not self.ranks:
            return {MAIN: scores[key]} if (key := self.key(task, MAIN)) in scores else {}
        shown = {(None, "linear", None), (entry.k, self.weighting, None)}
        return {
            key.metric: score
            for key, score in scores.items()
            if (key.k, key.weighting, key.part) in shown
        }

    def key(self, task: str, metric: str, k: int = 0) -> ScoreKey:
        """Return the key of a task's score for a metric at k.

        On tasks without retrieval, return the key of the score to show.
        """
        if self.ranks:
            return ScoreKey(metric, k, self.weighting)
        result = next(iter(self.tasks[task].values()))
        return dict(KINDS[self.kind].columns).get(self.measure, result.main_score)


def lay_in_cells(results: Sequence[Result], measures: Mapping[str, str]) -> list[Group]:
    """Group results and assign each result to its cells.

    Groups are sorted by task type and protocol, and the tasks of a group by name.

    Args:
        results: Results of any tasks and encoders.
        measures: Title of the score to show instead of the main score, by task type.

    Raises:
        InputError: If a task type is unknown, if results of a task were computed from different
            versions of the task, its data or its protocol, or if two different results belong to
            the same cell.
    """
    groups: dict[tuple[str, str], dict[str, dict[Entry, Result]]] = {}
    measured = [result for result in results if not result.lacks_reference]
    known = {(r.task, r.key.encoder.digest, k) for r in measured for k in r.ks}
    for result in results:
        check_known(result.kind, KINDS, f"{result.path}: unknown kind {result.kind!r}")
        tasks = groups.setdefault((result.kind, result.key.protocol_label), {})
        cells = tasks.setdefault(result.task, {})
        for first in list(cells.values())[:1]:
            _check_alike(first, result)
        for entry in _entries(result):
            if result.lacks_reference and (result.task, entry.encoder, entry.k) in known:
                continue
            first = cells.setdefault(entry, result)
            if first is not result:
                _check_one(first, result, entry)
    kinds = list(KINDS)
    ordered = sorted(groups.items(), key=lambda item: (kinds.index(item[0][0]), item[0][1]))
    return [
        Group(kind, protocol, dict(sorted(tasks.items())), measure=measures.get(kind, ""))
        for (kind, protocol), tasks in ordered
    ]


def _entries(result: Result) -> list[Entry]:
    key = result.key
    if not KINDS[result.kind].ranks:
        return [Entry(key.encoder.digest)]
    reference = key.reference.digest if key.reference else ""
    return [Entry(key.encoder.digest, reference, k) for k in result.ks]


def _check_alike(one: Result, other: Result) -> None:
    """Raise InputError if two results were computed with different tasks, data or protocols."""
    if found := difference(one, other):
        what, first, second = found
        raise InputError(
            f"{one.task}: the results {one.path} and {other.path} were computed with different "
            f"versions of the task, its data or its protocol: the {what} is {first!r} and "
            f"{second!r}; run one of them again, or keep them in two folders"
        )


def difference(one: Result, other: Result) -> tuple[str, Any, Any] | None:
    """Return the first property that makes two results incomparable, and its two values.

    The compared properties are the name and digest of the task, the digest of the data and the
    protocol's parameters, but not the reference encoder.

    Returns:
        Name of the property and its values in both results; None if there is no difference.
    """
    first, second = (
        {"task's name": each.task, "task's digest": each.key.task, "data's digest": each.key.data}
        | {f"protocol's {n}": value for n, value in each.key.protocol.items() if n not in FREE}
        for each in (one, other)
    )
    for name in [*first, *second]:
        if first.get(name) != second.get(name):
            return name, first.get(name), second.get(name)
    return None


def _check_one(one: Result, other: Result, entry: Entry) -> None:
    """Raise InputError if two results for the same cell differ by more than a small tolerance.

    Repeated evaluations may differ slightly. Embeddings differ by about 1e-7 if their batches
    differed, which can change the ranks of sources that almost tie.
    """
    (first, numbers), (second, others) = (_answer(result, entry) for result in (one, other))
    same_question = first == second and numbers.keys() == others.keys()
    ours, theirs = list(numbers.values()), [others[key] for key in numbers if same_question]
    if not same_question or not np.allclose(ours, theirs, rtol=0, atol=1e-4, equal_nan=True):
        raise InputError(
            f"{one.task}: the results {one.path} and {other.path} are for the same encoder and the "
            "same table cell, but their settings or scores differ; delete one of them"
        )


def _answer(result: Result, entry: Entry) -> tuple[str, dict[ScoreKey, float]]:
    """Return the digest of a result's key, and its scores, both restricted to the entry's k."""
    at_k = {"k": [entry.k]} if entry.k else {}
    question = replace(result.key, protocol={**result.key.protocol, **at_k})
    scores = {key: s.mean for key, s in result.scores.items() if key.k in {None, entry.k}}
    return question.digest, scores


def mean_of(scores: Sequence[Score]) -> Score:
    """Return the mean of scores on independent tasks, with its 95 % interval.

    The half-widths of the scores' intervals are added in quadrature, because the queries of
    different tasks are independent. An interval that starts at 0 was clipped. If its lower
    half-width is smaller than its upper half-width, the upper half-width is used for both, and the
    interval of the mean is clipped at 0 too.
    """
    mean = sum(score.mean for score in scores) / len(scores)
    is_clipped = any(score.ci95[0] == 0 for score in scores)
    sides = [(score.mean - score.ci95[0], score.ci95[1] - score.mean) for score in scores]
    below = [
        max(lower, upper) if score.ci95[0] == 0 else lower
        for score, (lower, upper) in zip(scores, sides, strict=True)
    ]
    low = mean - math.hypot(*below) / len(scores)
    high = mean + math.hypot(*(upper for _, upper in sides)) / len(scores)
    return Score(mean, math.nan, (max(low, 0.0) if is_clipped else low, high), None)


def pairs_of(results: Iterable[Result]) -> list[tuple[str, str]]:
    """Return pairs of a task and its copy with unseen sources, if both have results.

    Args:
        results: Results of any tasks and encoders.

    Returns:
        Sorted pairs of task names: the original task and its copy.
    """
    results = list(results)
    tasks = {result.task for result in results}
    return sorted({(r.unseen_of, r.task) for r in results if r.unseen_of and r.unseen_of in tasks})
