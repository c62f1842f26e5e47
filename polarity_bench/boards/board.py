"""A board: many encoders side by side, from their stored results.

One table sums up, then each kind and protocol has its own, and each task that ranks. Means are over
the tasks that every row has, so that they compare; where there is none, only over all. What is
measured against a reference (S, retention, joint) competes only in rows that share a reference
which is another encoder than theirs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from polarity_bench.boards.chosen import Stored, bearing, board_file, names_of
from polarity_bench.boards.glossary import (
    BOLD_NOTE,
    RANKED,
    RIVALS_NOTE,
    SCORES_NOTE,
    UNSEEN_NOTE,
)
from polarity_bench.boards.table import Board, Column, Table
from polarity_bench.boards.unseen import pairs_of, side_by_side
from polarity_bench.errors import InputError, nearest
from polarity_bench.kinds import KINDS
from polarity_bench.results import Result, read_results
from polarity_bench.types import Score, ScoreKey, Weighting

_BY_REFERENCE = frozenset({"similarity", "retention", "joint"})
_FREE = frozenset({"k", "device"})  # what protocols in one column may have different


@dataclass(frozen=True, order=True)
class Entry:
    """Whom a row is about: an encoder, what S is measured with, and k.

    Attributes:
        reference: Digest of the reference; '' is the encoder itself.
        k: How many sources were retrieved; 0 where nothing is.
    """

    encoder: str
    reference: str = ""
    k: int = 0


@dataclass(frozen=True)
class Group:
    """Tasks that make one mean: those of one kind and protocol, or all that rank.

    Attributes:
        protocol: What tables call their protocol.
        tasks: The stored result of each entry, by task.
    """

    kind: str
    protocol: str
    tasks: Mapping[str, Mapping[Entry, Stored]]
    weighting: Weighting = "linear"

    def title(self, n_tasks: str = "") -> str:
        """What the mean is a mean of, and by which protocol."""
        kind = KINDS[self.kind]
        n_tasks = n_tasks or _count(len(self.tasks), "task")
        return f"{kind.heading} ({kind.measure}, {self.protocol}, {n_tasks})"

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Each task that is there with its twin of unseen sources, and that twin."""
        return pairs_of(result for cells in self.tasks.values() for _, result in cells.values())

    @property
    def own(self) -> list[str]:
        """The tasks, but twins of others, which have queries of theirs."""
        twins = {unseen for _, unseen in self.pairs}
        return [task for task in self.tasks if task not in twins]

    @property
    def averaged(self) -> list[str]:
        """Those that every entry has; all, where there is none."""
        entries = self.entries
        return [task for task in self.own if self.tasks[task].keys() == entries] or self.own

    @property
    def n_averaged(self) -> str:
        """How many those are, in words."""
        n, of = len(self.averaged), len(self.own)
        return _count(of, "task") if n == of else f"{n} of {of} tasks"

    @property
    def entries(self) -> set[Entry]:
        """Whom there is a result of."""
        return {entry for cells in self.tasks.values() for entry in cells}

    def score(self, task: str, entry: Entry, metric: str | None = None) -> Score | None:
        """Return the score by a metric at the entry's k, or without a metric the main one."""
        found = self.tasks[task].get(entry if metric else Entry(entry.encoder))
        if found is None or metric is None:
            return found and found[1].main
        return found[1].scores.get(ScoreKey(metric, entry.k, self.weighting))

    def mean(self, entry: Entry, metric: str | None = None) -> Score | None:
        """Return the mean over the averaged tasks."""
        return _mean([self.score(task, entry, metric) for task in self.averaged])


def read_board(
    folder: Path,
    weighting: Weighting = "linear",
    *,
    title: str | None = None,
    tasks: Sequence[str] = (),
    models: Sequence[str] = (),
) -> Board:
    """Lay out the results below a folder; `board.toml` there gives title and introduction.

    Args:
        folder: Where the results are.
        weighting: Of the ranks.
        title: In place of the file's.
        tasks: Only these.
        models: Only encoders of these names, last parts of names or first 8 digits of digests.

    Raises:
        InputError: If results are missing or do not go together, or the board's file is wrong.
    """
    described = board_file(folder / "board.toml")
    if title is not None:
        described["title"] = title
    whole = [each for each in read_results(folder) if each[1].limit is None]
    if not whole:
        limited = any(read_results(folder))
        remedy = "without a `limit`, with which results are on no board" if limited else "first"
        raise InputError(f"the folder {folder} holds no results; `polarity-bench run` {remedy}")
    wanted = bearing(whole, "tasks", tasks, lambda result: [result.task])
    wanted = bearing(wanted, "models", models, lambda result: names_of(result.key.encoder))
    return board(wanted, weighting, **described)


def board(
    stored: Iterable[Stored],
    weighting: Weighting = "linear",
    *,
    title: str = "Polarity leaderboard",
    introduction: str = "",
) -> Board:
    """Lay results out side by side; those with a limit are no results, and left out.

    Raises:
        InputError: If results of one task were made from different versions of it, of its data or
            its protocol, or two that are not one would share a cell; names both files.
    """
    whole = sorted((each for each in stored if each[1].limit is None), key=lambda s: str(s[0]))
    if not whole:
        return Board(title, introduction, (), ())
    groups = _groups(whole)
    plain = [group for group in groups if not KINDS[group.kind].ranks]
    retrieval = [group.tasks for group in groups if KINDS[group.kind].ranks]
    tasks = {task: cells for group in retrieval for task, cells in group.items()}
    ranked = Group("polarity", "", tasks, weighting)
    itself = all(entry.reference == "" for entry in ranked.entries)
    names = _names([result for _, result in whole])
    rows = _ordered(ranked, plain, "polarity" if itself else "joint", names)
    tables = [
        _means(ranked, plain, rows, names),
        *(_plain_table(group, rows, names) for group in plain),
        *(_pair_table(pair, ranked, rows, names) for pair in ranked.pairs),
        *(_ranked_table(task, ranked, rows, names) for task in ranked.tasks),
    ]
    notes = [
        *(_ranked_notes(weighting, itself) if ranked.tasks else ()),
        _mean_note(groups),
        *([UNSEEN_NOTE] if ranked.pairs else ()),
        BOLD_NOTE,
    ]
    return Board(title, introduction, tables, notes)


def _groups(stored: Sequence[Stored]) -> list[Group]:
    """Lay every result in its cells, in the order of kinds, protocols and tasks."""
    found: dict[tuple[str, str], dict[str, dict[Entry, Stored]]] = {}
    whole = [result for _, result in stored if not result.lacks_reference]
    told = {(result.task, result.key.encoder.digest, k) for result in whole for k in result.ks}
    for path, result in stored:
        if result.kind not in KINDS:
            raise InputError(f"{path}: unknown kind {result.kind!r}{nearest(result.kind, KINDS)}")
        tasks = found.setdefault((result.kind, result.key.protocol_label), {})
        cells = tasks.setdefault(result.task, {})
        for first in list(cells.values())[:1]:
            _check_alike(first, (path, result))
        for entry in _entries(result):
            if result.lacks_reference and (result.task, entry.encoder, entry.k) in told:
                continue
            _check_one(cells.setdefault(entry, (path, result)), (path, result), entry)
    kinds = list(KINDS)
    ordered = sorted(found, key=lambda key: (kinds.index(key[0]), key[1]))
    return [Group(*key, dict(sorted(found[key].items()))) for key in ordered]


def _entries(result: Result) -> list[Entry]:
    key = result.key
    if not KINDS[result.kind].ranks:
        return [Entry(key.encoder.digest)]
    reference = key.reference.digest if key.reference else ""
    return [Entry(key.encoder.digest, reference, k) for k in result.ks]


def _check_alike(one: Stored, other: Stored) -> None:
    """Refuse to compare what was made from different versions."""
    first, second = (
        {"task": key.task, "data": key.data}
        | {f"protocol's {name}": value for name, value in key.protocol.items() if name not in _FREE}
        for key in (one[1].key, other[1].key)
    )
    for name in [*first, *second]:
        if first.get(name) != second.get(name):
            raise InputError(
                f"{one[1].task}: the results {one[0]} and {other[0]} were made from different "
                f"versions of the task, its data or its protocol: the {name} is "
                f"{first.get(name)!r} and {second.get(name)!r}; run one of them again, or keep "
                "them in two folders"
            )


def _check_one(one: Stored, other: Stored, entry: Entry) -> None:
    """Refuse two results for one cell, unless both answer one question with the same numbers.

    Two embeddings of one encoder differ by 1e-7, as their batches did; a near tie may then fall
    otherwise, which moves a score by little.
    """
    (first, numbers), (second, others) = (_answer(result, entry) for _, result in (one, other))
    alike = first == second and numbers.keys() == others.keys()
    if not alike or any(not _close(numbers[key], others[key]) for key in numbers):
        raise InputError(
            f"{one[1].task}: the results {one[0]} and {other[0]} are of one encoder, for one cell, "
            "and differ; keep one of them"
        )


def _answer(result: Result, entry: Entry) -> tuple[str, dict[ScoreKey, float]]:
    """Digest of the question, of no other k than the entry's, and the numbers that answer it."""
    at_k = {"k": [entry.k]} if entry.k else {}
    question = replace(result.key, protocol={**result.key.protocol, **at_k})
    scores = {key: s.mean for key, s in result.scores.items() if key.k in {None, entry.k}}
    return question.digest, scores


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, abs_tol=1e-4) or (math.isnan(one) and math.isnan(other))


def _names(results: Sequence[Result]) -> dict[str, str]:
    """Name every encoder by its digest, by all its names; encoders of one name show theirs."""
    found: dict[str, set[str]] = {}
    for result in results:
        for encoder in filter(None, (result.key.encoder, result.key.reference)):
            found.setdefault(encoder.digest, set()).add(encoder.label)
    labels = {digest: ", ".join(sorted(names)) for digest, names in found.items()}
    counts = Counter(labels.values())
    return {"": "itself"} | {
        digest: f"{label} @{digest[:8]}" if counts[label] > 1 else label
        for digest, label in labels.items()
    }


def _ordered(
    ranked: Group, plain: Sequence[Group], by: str, names: Mapping[str, str]
) -> list[Entry]:
    """Sort the rows by a mean, best first; those without it come last, by name."""
    entries = ranked.entries
    known = {entry.encoder for entry in entries}
    entries |= {entry for group in plain for entry in group.entries if entry.encoder not in known}

    def rank(entry: Entry) -> float:
        score = ranked.mean(entry, by)
        return math.inf if score is None or math.isnan(score.mean) else -score.mean

    return sorted(entries, key=lambda e: (rank(e), names[e.encoder], names[e.reference], e))


def _means(
    ranked: Group, plain: Sequence[Group], rows: Sequence[Entry], names: Mapping[str, str]
) -> Table:
    columns = [
        _column(title, metric, [ranked.mean(row, metric) for row in rows], rows)
        for title, metric in list(RANKED.items())[:4]
        if ranked.tasks
    ]
    for group in plain:
        means = [group.mean(row) for row in rows]
        several = len({row.encoder for row, mean in zip(rows, means, strict=True) if mean}) > 1
        columns.append(
            Column.of(group.title(group.n_averaged), means, rivals=[""] * len(rows) * several)
        )
    over = f" over {ranked.n_averaged.replace('task', 'polarity task')}" if ranked.tasks else ""
    return Table(f"Means{over}", _heads(rows, names), columns)


def _plain_table(group: Group, rows: Sequence[Entry], names: Mapping[str, str]) -> Table:
    rows = [row for row in dict.fromkeys(Entry(r.encoder) for r in rows) if row in group.entries]
    rivals = [""] * len(rows)
    columns = [
        Column.of(task, [group.score(task, row) for row in rows], rivals=rivals)
        for task in group.tasks
    ]
    of = "" if group.averaged == list(group.tasks) else f" of {', '.join(group.averaged)}"
    columns.append(Column.of(f"mean{of}", [group.mean(row) for row in rows], rivals=rivals))
    return Table(group.title(), [("encoder", [names[row.encoder] for row in rows])], columns)


def _ranked_table(
    task: str, ranked: Group, rows: Sequence[Entry], names: Mapping[str, str]
) -> Table:
    rows = [row for row in rows if row in ranked.tasks[task]]
    columns = [
        _column(title, metric, [ranked.score(task, row, metric) for row in rows], rows)
        for title, metric in list(RANKED.items())[:5]
    ]
    return Table(task, _heads(rows, names), columns)


def _pair_table(
    pair: tuple[str, str], ranked: Group, rows: Sequence[Entry], names: Mapping[str, str]
) -> Table:
    """Lay a task beside its twin of unseen sources."""
    both = [ranked.tasks[task] for task in pair]
    rows = [row for row in rows if any(row in cells for cells in both)]
    results = [[cells[row][1] if row in cells else None for row in rows] for cells in both]
    ks = [row.k for row in rows]
    rivals = {metric: _rivals(metric, rows) for metric in ("polarity", "similarity")}
    return side_by_side(pair, _heads(rows, names), results, ks, ranked.weighting, rivals)


def _column(
    title: str, metric: str, scores: Sequence[Score | None], rows: Sequence[Entry]
) -> Column:
    """Lay out scores, joint with its interval."""
    rivals = _rivals(metric, rows)
    return Column.of(title, scores, intervals=metric == "joint", rivals=rivals)


def _rivals(metric: str, rows: Sequence[Entry]) -> list[str | None]:
    """Say what compares with what: scores at one k, and some under one reference only."""
    referring = metric in _BY_REFERENCE
    return [
        None if referring and not row.reference else f"{row.reference if referring else ''}@{row.k}"
        for row in rows
    ]


def _heads(rows: Sequence[Entry], names: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    return [
        ("encoder", [names[row.encoder] for row in rows]),
        ("reference", [names[row.reference] for row in rows]),
        ("k", [str(row.k) if row.k else "-" for row in rows]),
    ]


def _mean(scores: Sequence[Score | None]) -> Score | None:
    """Average scores, none of which may be missing; they are independent, as their queries are."""
    whole = [score for score in scores if score is not None]
    if not whole or len(whole) < len(scores):
        return None
    mean = sum(score.mean for score in whole) / len(whole)
    below = math.hypot(*(score.mean - score.ci95[0] for score in whole)) / len(whole)
    above = math.hypot(*(score.ci95[1] - score.mean for score in whole)) / len(whole)
    return Score(mean, math.nan, (mean - below, mean + above), None)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _mean_note(groups: Sequence[Group]) -> str:
    """Say which tasks no mean is over, because a row lacks them."""
    left_out = [
        f"{task} ({group.protocol})"
        for group in groups
        for task in group.own
        if task not in group.averaged
    ]
    if not left_out:
        return "A mean stands where an encoder has every task."
    return f"Means are over the tasks that every row has, without {', '.join(left_out)}."


def _ranked_notes(weighting: Weighting, itself: bool) -> list[str]:
    transform = ": every encoder is its own reference, so that joint is a transform of P"
    order = f"Rows are sorted by {'P' + transform if itself else 'joint'}."
    return [f"Ranks are weighted {weighting}ly. {SCORES_NOTE}", order, RIVALS_NOTE]
