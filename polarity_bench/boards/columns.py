"""Tables of a board of results: the means, each task type and each retrieval task.

A row may be a method, which stands for several encoders. The encoders themselves are then in a
folded table of the same columns, on the page and in `table.csv`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from polarity_bench.boards.rank_notes import Competition, KnownRanks, UnknownRanks, rank_notes, tell
from polarity_bench.boards.rows import (
    BoardRow,
    against_twin,
    ordered,
    over_seeds,
    printed_in,
    rival,
)
from polarity_bench.boards.unseen_columns import holding_seen, over_unseen, unseen_sources
from polarity_bench.compare.encoder_ranks import Standings
from polarity_bench.render.table import Column, Table
from polarity_bench.results.comparability import Entry, Group
from polarity_bench.results.published import PublishedNumber
from polarity_bench.results.result_files import Stored
from polarity_bench.results.score_names import RANKED
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.types.polarity.scoring import REFERRING
from polarity_bench.values import shortest

_WITH_INTERVAL = frozenset({"polarity", "similarity", "joint", "front"})


@dataclass(frozen=True)
class Sections:
    """The tables of a board of results.

    Attributes:
        ranked: The retrieval tasks.
        plain: The other tasks, by task type and protocol.
        names: Names of encoders, by digest.
        sort: The metric that sorts and ranks every table; '' lets each table use its own.
        singles: Returns the rows of single encoders and curves in the order of a table of tasks.
        published: The rows of published numbers.
        has_means: Whether the board shows the table of means.
        order: Order of the entries in the first table. Older `statistics.json` files store the
            standings of all tables in this order.
        columns: Titles of the columns of retrieval tables; () selects the default columns.
        standings: The known ranks and ties of encoders.
    """

    ranked: Group
    plain: Sequence[Group]
    names: Mapping[str, str]
    sort: str
    singles: Callable[[Sequence[str]], Sequence[BoardRow]]
    published: Sequence[BoardRow]
    has_means: bool
    order: Sequence[Entry]
    columns: Sequence[str]
    standings: Standings

    def means(self, rows: Sequence[BoardRow]) -> Table:
        """Lay out the means over the retrieval tasks and over each group of other tasks.

        A single retrieval task has all its columns here, and no further table.
        """
        averaged = self.ranked.averaged
        columns: list[Column] = []
        if self.is_of_one_task:
            columns = self._columns(5, rows, averaged, averaged[0])
        elif self.ranked.tasks:
            columns = self._columns(4, rows, averaged)
        for group in self.plain:
            means = [group_mean(group, row) for row in rows]
            several = len({r.entry.encoder for r, m in zip(rows, means, strict=True) if m}) > 1
            rivals = [_plain_rival(row) if several else None for row in rows]
            columns.append(Column.of(group.title(group.n_averaged), means, rivals=rivals))
        heading = self.ranked.heading if self.ranked.tasks else "Means"
        told = self.told_by_mean(self.singles(averaged))
        table = self._table(heading, rows, columns, told)
        return replace(table, notes=[*table.notes, *self._notes_of_small_groups()])

    @property
    def is_of_one_task(self) -> bool:
        """Whether the table of means is the table of the only retrieval task."""
        return len(self.ranked.averaged) == 1

    def has_table(self, group: Group) -> bool:
        """Return whether a group has a table of its own: its scores are not all in the means."""
        return len(group.tasks) > 1 or not self.has_means or self._is_reported(group)

    def _is_reported(self, group: Group) -> bool:
        rows = self.published
        return any(printed_in(row, group, task) for row in rows for task in group.tasks)

    def _notes_of_small_groups(self) -> list[str]:
        own = [group for group in self.plain if not self.has_table(group)]
        return [note for group in own for note in rank_notes(self._told_of_group(group))]

    def with_singles(
        self,
        lay_out: Callable[[Sequence[BoardRow]], Table],
        rows: Sequence[BoardRow],
        tasks: Sequence[str],
    ) -> list[Table]:
        """Lay out a table, and as a folded table the encoders that its methods stand for."""
        table = lay_out(rows)
        entries = {single.entry for row in rows for single in row.singles}
        own = [r for r in self.singles(tasks) if r.entry in entries or r.role == "curve"]
        folded = lay_out(own) if entries else table
        if not entries or not folded.n_rows:
            return [table]
        heading = f"{table.heading}: single runs"
        return [table, replace(folded, heading=heading, notes=(), is_folded=True)]

    def told_by_mean(self, rows: Sequence[BoardRow]) -> list[KnownRanks | UnknownRanks]:
        """Rank encoders by the mean over the retrieval tasks."""
        return self._told(rows, self.ranked.averaged) if self.ranked.tasks else []

    def of_task(self, task: str, rows: Sequence[BoardRow]) -> Table:
        """Lay out a retrieval task."""
        rows = [row for row in rows if row.scores.get(task)]
        columns = self._columns(5, rows, [task], task)
        return self._table(task, rows, columns, self._told(self.singles([task]), [task]))

    def of_pair(self, pair: tuple[str, str], rows: Sequence[BoardRow]) -> Table:
        """Lay out a task against its twin with unseen sources: what was seen, and what changes."""
        both = [self.ranked.tasks[task] for task in pair]
        rows = [
            row
            for row in rows
            if all(one.entry in cells for one in row.members or [row] for cells in both)
        ]
        results = [
            [(both[0][one.entry][1], both[1][one.entry][1]) for one in row.members or [row]]
            for row in rows
        ]
        keys = [row.entry.k for row in rows]
        table = unseen_sources(pair, self._heads(rows), results, keys, self.ranked.weighting)
        return replace(table, roles=[row.role for row in rows], details=[r.detail for r in rows])

    def of_seen(self, group: Group) -> list[Table]:
        """Lay out scores over all rows next to scores over the rows unseen in training.

        Only tasks of which an encoder has seen rows have such scores.
        """
        tasks = holding_seen(r for cells in group.tasks.values() for _, r in cells.values())
        own = {row.entry.encoder: row for row in self.singles(self.ranked.averaged)}
        cells = [
            (task, row, group.tasks[task][Entry(row.entry.encoder)][1])
            for task in tasks
            for row in ordered(list(own.values()), partial(_of_task, group, task), self.names)
            if Entry(row.entry.encoder) in group.tasks[task]
        ]
        if not cells:
            return []
        names = [self.names[row.entry.encoder] for _, row, _ in cells]
        heads = [("task", [task for task, _, _ in cells]), ("encoder", names)]
        table = over_unseen(heads, [result for *_, result in cells])
        roles, details = [row.role for _, row, _ in cells], [row.detail for _, row, _ in cells]
        return [replace(table, roles=roles, details=details)]

    def of_group(self, group: Group, rows: Sequence[BoardRow]) -> Table:
        """Lay out the tasks of one task type and protocol."""
        known = {entry.encoder for entry in group.entries}
        own = [
            single
            for row in rows
            for single in ([row] if _is_known(row, known) else row.singles or [row])
            if single.entry.encoder in known
        ]
        measured = list({(row.name, row.entry.encoder): row for row in own}.values())
        reported = [r for r in self.published if any(printed_in(r, group, t) for t in group.tasks)]
        measured = ordered(measured, partial(group_mean, group), self.names)
        shown = [*measured, *reported]
        rivals = [_plain_rival(row) for row in shown]
        columns = [
            Column.of(
                task,
                [_plain_score(group, task, row) for row in shown],
                rivals=rivals,
                marks=[self._mark(printed_in(row, group, task), group.tasks[task]) for row in shown]
                if reported
                else (),
                spreads=[_spread(printed_in(row, group, task)) for row in shown]
                if reported
                else (),
            )
            for task in group.tasks
        ]
        if not self.has_means and len(group.tasks) > 1:
            of = "" if group.averaged == list(group.tasks) else f" of {', '.join(group.averaged)}"
            means = [group_mean(group, row) for row in shown]
            columns.append(Column.of(f"mean{of}", means, rivals=rivals))
        heads = [head for head in self._heads(shown) if head[0] not in {"reference", "k"}]
        return self._finished(group.title(), heads, columns, shown, self._told_of_group(group))

    def _columns(
        self, n: int, rows: Sequence[BoardRow], tasks: Sequence[str], task: str | None = None
    ) -> list[Column]:
        """Lay out the board's own columns, or by default the first n and front, if a row has it.

        Args:
            n: Number of columns before front.
            rows: The rows.
            tasks: The tasks whose mean is shown.
            task: The single task of the table; None for a mean.
        """
        shown = list(RANKED.items())[: n + 1]
        if not has_front(rows):
            shown = [item for item in shown if item[1] != "front"]
        if self.columns:
            shown = [(title, RANKED[title]) for title in self.columns]
        results = {} if task is None else self.ranked.tasks[task]
        reported = task is not None and any(row.role == "published" for row in rows)
        columns = []
        for title, metric in shown:
            printed = [row.printed_at(task, metric) for row in rows] if reported else []
            scores = [
                row.mean(tasks, metric) if task is None else row.score(task, metric) for row in rows
            ]
            columns.append(
                Column.of(
                    title,
                    scores,
                    intervals=metric in _WITH_INTERVAL,
                    rivals=[rival(row, metric) for row in rows],
                    marks=[self._mark(number, results) for number in printed],
                    spreads=[_spread(number) for number in printed],
                )
            )
            deviations = [row.seed_std(tasks, metric) for row in rows]
            if metric in _WITH_INTERVAL and any(value is not None for value in deviations):
                columns.append(Column(f"{title} std over seeds", deviations))
        return columns

    def _mark(self, printed: PublishedNumber | None, results: Mapping[Entry, Stored]) -> str:
        """Return the mark of a published number: its weighting and the difference to its twin.

        The weighting is named only if it is not the board's.
        """
        if printed is None:
            return ""
        other = printed.key.k is not None and printed.key.weighting != self.ranked.weighting
        return f"{f' {printed.key.weighting}' if other else ''}{against_twin(printed, results)}"

    def _table(
        self,
        heading: str,
        rows: Sequence[BoardRow],
        columns: Sequence[Column],
        told: Sequence[KnownRanks | UnknownRanks],
    ) -> Table:
        return self._finished(heading, self._heads(rows), columns, rows, told)

    def _finished(
        self,
        heading: str,
        heads: Sequence[tuple[str, Sequence[str]]],
        columns: Sequence[Column],
        rows: Sequence[BoardRow],
        told: Sequence[KnownRanks | UnknownRanks],
    ) -> Table:
        """Put ranks before the names, and notes about ranks and published rows below the table."""
        known = [each for each in told if isinstance(each, KnownRanks)]
        ranks = {row: text for each in known for row, text in each.ranks.items()}
        if ranks:
            heads = [
                ("rank", [ranks.get(r.entry, "-") if r.role == "encoder" else "-" for r in rows]),
                *heads,
            ]
        notes = [*rank_notes(told), *dict.fromkeys(r.footnote for r in rows if r.footnote)]
        roles, details = [row.role for row in rows], [row.detail for row in rows]
        return Table(heading, heads, columns, roles, details, notes=notes)

    def _heads(self, rows: Sequence[BoardRow]) -> list[tuple[str, list[str]]]:
        heads = [
            ("encoder", [row.name for row in rows]),
            ("seeds", [str(len(row.members) or 1) if row.entry.encoder else "-" for row in rows]),
            ("strength", [_strength(row) for row in rows]),
            ("reference", [self._reference(row) for row in rows]),
            ("k", [str(row.entry.k) if row.entry.k else "-" for row in rows]),
        ]
        if any(row.role == "method" for row in rows):
            return heads
        return [head for head in heads if head[0] not in {"seeds", "strength"}]

    def _reference(self, row: BoardRow) -> str:
        return "-" if row.role == "published" else self.names[row.entry.reference]

    def _told(
        self, rows: Sequence[BoardRow], tasks: Sequence[str]
    ) -> list[KnownRanks | UnknownRanks]:
        """Rank the encoders that compete with each other and have all of these tasks."""
        by = self.sort or self.ranked.sorted_by(tasks)
        shares: dict[str, list[BoardRow]] = {}
        for row in rows:
            share = rival(row, by)
            there = all(_is_defined(row.score(task, by)) for task in tasks)
            if row.role == "encoder" and share is not None and there:
                shares.setdefault(share, []).append(row)
        several = len(shares) > 1
        told = [self._tell(tasks, share, by, several) for share in shares.values()]
        return [each for each in told if each is not None]

    def _tell(
        self, tasks: Sequence[str], rows: list[BoardRow], by: str, several: bool
    ) -> KnownRanks | UnknownRanks | None:
        first = rows[0].entry
        of = self.names[first.reference] if by in REFERRING else ""
        under = f"{f'under {of}, ' if of else ''}k = {first.k}" if several else ""
        key = ScoreKey(by, first.k, self.ranked.weighting)
        title = next(title for title, metric in RANKED.items() if metric == by)

        def contest(rows: Sequence[BoardRow]) -> Competition:
            entries, names = [row.entry for row in rows], [row.name for row in rows]
            cells = {task: [self.ranked.tasks[task][entry] for entry in entries] for task in tasks}
            return Competition(title, under, entries, names, cells, dict.fromkeys(tasks, key))

        return tell(self._in_kept_order(contest, rows), self.standings)

    def _in_kept_order(
        self, contest: Callable[[Sequence[BoardRow]], Competition], of: list[BoardRow]
    ) -> Competition:
        """Order a competition like its table, or like the first table if stored in that order."""
        own, before = contest(of), contest(sorted(of, key=lambda row: self.order.index(row.entry)))
        kept = before.is_kept(self.standings) and not own.is_kept(self.standings)
        return before if kept else own

    def _told_of_group(self, group: Group) -> list[KnownRanks | UnknownRanks]:
        """Rank the encoders that have all tasks of the mean."""
        cells = {task: group.tasks[task] for task in group.averaged}
        known = {entry.encoder for entry in group.entries}
        singles = self.singles(self.ranked.averaged)
        own = {row.entry.encoder: row for row in singles if row.entry.encoder in known}
        kept = [
            row
            for row in ordered(list(own.values()), partial(group_mean, group), self.names)
            if all(_is_defined(group.score(task, row.entry.encoder)) for task in cells)
        ]
        if not kept:
            return []

        def contest(rows: Sequence[BoardRow]) -> Competition:
            own = [Entry(row.entry.encoder) for row in rows]
            results = {task: [cells[task][entry] for entry in own] for task in cells}
            keys = {task: group.key_of(stored[0][1]) for task, stored in results.items()}
            entries, names = [row.entry for row in rows], [row.name for row in rows]
            return Competition(group.measured, "", entries, names, results, keys)

        told = tell(self._in_kept_order(contest, kept), self.standings, by_task=True)
        return [] if told is None else [told]


def group_mean(group: Group, row: BoardRow) -> Score | None:
    """Return the mean of a row over the tasks of a group, and over the seeds of a method."""
    return over_seeds([group.mean(member.entry.encoder) for member in row.members or [row]])


def _plain_score(group: Group, task: str, row: BoardRow) -> Score | None:
    if printed := printed_in(row, group, task):
        return printed.score
    return over_seeds([group.score(task, each.entry.encoder) for each in row.members or [row]])


def _is_known(row: BoardRow, encoders: Collection[str]) -> bool:
    return all(member.entry.encoder in encoders for member in row.members or [row])


def _of_task(group: Group, task: str, row: BoardRow) -> Score | None:
    return group.score(task, row.entry.encoder)


def _plain_rival(row: BoardRow) -> str | None:
    """Return the group that a row competes in by a score without retrieval: '' or none."""
    return "" if row.role == "encoder" or (row.role == "method" and not row.dial) else None


def _strength(row: BoardRow) -> str:
    """Return the chosen strength of a dial, marked as chosen on this test set."""
    if not row.dial:
        return "-"
    return f"{shortest(row.strength)} (chosen here, best of {row.n_strengths})"


def _spread(printed: PublishedNumber | None) -> float | None:
    return None if printed is None else printed.std


def _is_defined(score: Score | None) -> bool:
    return score is not None and math.isfinite(score.mean)


def has_front(rows: Sequence[BoardRow]) -> bool:
    """Return whether a row has a front score."""
    return any("front" in scores for row in rows for scores in row.scores.values())
