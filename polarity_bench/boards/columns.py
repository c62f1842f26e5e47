"""Tables of a board of results: the means, each task type and each retrieval task.

A row may be a method, which averages several encoders. The page and `table.csv` then also contain
a table of the single encoders, with the same columns. The page folds this table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from statistics import fmean

from polarity_bench.boards.config import BoardFile
from polarity_bench.boards.method_rows import method_rows
from polarity_bench.boards.rank_notes import Ranking, rank_note, rank_text
from polarity_bench.boards.rows import (
    MEASURED,
    BoardRow,
    curve_rows,
    difference_to_twin,
    ordered,
    rival_key,
)
from polarity_bench.boards.unseen_columns import (
    parts_of,
    seen_parts,
    seen_share,
    tasks_with_seen_rows,
    unseen_score,
    unseen_table,
)
from polarity_bench.compare.encoder_ranks import Standings
from polarity_bench.render.table import Column, Table
from polarity_bench.results.comparability import MAIN, Entry, Group
from polarity_bench.results.curve import Curve
from polarity_bench.results.published import PublishedNumber
from polarity_bench.results.result_files import Result
from polarity_bench.results.score_names import RANKED
from polarity_bench.scores import Score
from polarity_bench.tasks.types.polarity.scoring import REFERRING
from polarity_bench.values import grouped, shortest

_WITH_INTERVAL = frozenset({"polarity", "similarity", "joint", "front"})


@dataclass(frozen=True)
class Sections:
    """The tables of a board of results.

    Attributes:
        ranked: The retrieval tasks.
        plain: The other tasks, one group for each task type and protocol.
        names: Names of encoders, by digest.
        config: The content of `board.toml`.
        rows: The rows of encoders.
        curves: Curves over several of the rows.
        published: The rows of published numbers.
        bounds: The rows of gold labels and of random retrieval.
        methods: Names of methods, by digest of the encoder.
        standings: Ranks and ties of encoders, computed or stored.
    """

    ranked: Group
    plain: Sequence[Group]
    names: Mapping[str, str]
    config: BoardFile
    rows: Sequence[BoardRow]
    curves: Sequence[Curve]
    published: Sequence[BoardRow]
    bounds: Sequence[BoardRow]
    methods: Mapping[str, str]
    standings: Standings

    @property
    def alone(self) -> Group | None:
        """The first non-retrieval group; None if the board has retrieval tasks."""
        return self.plain[0] if self.plain and not self.ranked.tasks else None

    def sorted_by(self, tasks: Sequence[str]) -> str:
        """Return the metric by which a table of these tasks is sorted."""
        if self.alone:
            return MAIN
        if self.config.sort:
            return RANKED[self.config.sort]
        return "polarity" if self.config.keep else self.ranked.sorted_by(tasks)

    def score(self, row: BoardRow, tasks: Sequence[str]) -> Score | None:
        """Return the score by which a row is sorted in a table of these tasks."""
        if self.alone:
            return group_mean(self.alone, row)
        return row.mean(tasks, self.sorted_by(tasks))

    def in_order(self, rows: Sequence[BoardRow], tasks: Sequence[str]) -> list[BoardRow]:
        """Sort rows for a table of these tasks.

        If `board.toml` sets `keep`, rows with at least that retention come first.
        """
        config = self.config

        def keeps(row: BoardRow) -> bool:
            retention = row.mean(tasks, "retention")
            return not config.keep or (retention is not None and retention.mean >= config.keep)

        by_score = ordered(rows, lambda row: self.score(row, tasks), self.names, config.group_by)
        return sorted(by_score, key=keeps, reverse=True)

    def singles(self, tasks: Sequence[str]) -> list[BoardRow]:
        """Return the rows of single encoders and curves, sorted for a table of these tasks."""
        curves = curve_rows(self.rows, self.curves, tasks, self.config.weighting)
        return self.in_order([*self.rows, *curves], tasks)

    @cached_property
    def first_singles(self) -> list[BoardRow]:
        """The rows of single encoders and curves, sorted for the first table."""
        return self.singles(self.ranked.averaged)

    def together(self, tasks: Sequence[str]) -> list[BoardRow]:
        """Return the rows of a table of these tasks: methods, published numbers and bounds."""
        methods = method_rows(self.rows, self.curves, self.config, tasks, self.methods)
        published = [row for row in self.published if not tasks or row.scores.keys() & {*tasks}]
        return [*self.in_order(methods, tasks), *published, *self.bounds]

    @cached_property
    def first_rows(self) -> list[BoardRow]:
        """The rows of the first table, with published rows only if it covers a single task."""
        rows = self.together(self.ranked.averaged)
        return [row for row in rows if self.is_of_one_task or row.role != "published"]

    @property
    def measured(self) -> list[BoardRow]:
        """The rows of the first table, without rows of published numbers."""
        return [row for row in self.first_rows if row.role != "published"]

    @cached_property
    def has_means(self) -> bool:
        """Whether the board shows the table of means.

        The table needs at least one defined mean, and retrieval tasks or several groups.
        """
        measured = [i for i, row in enumerate(self.first_rows) if row.role in MEASURED]
        values = [c.values[i] for c in self._mean_columns(self.first_rows) for i in measured]
        has_number = any(value is not None and not math.isnan(value) for value in values)
        return has_number and (bool(self.ranked.tasks) or len(self.plain) != 1)

    def tables(self) -> list[Table]:
        """Return all tables of the board, in the order in which they are shown."""
        ranked, averaged = self.ranked, self.ranked.averaged
        tables = []
        if self.has_means:
            tables += self._with_singles(self._means, self.first_rows, averaged)
        for group in self.plain:
            if self._has_table(group):
                lay_out = partial(self._of_group, group)
                tables += self._with_singles(lay_out, self.measured, averaged)
        tables += [table for group in self.plain for table in self._of_seen(group)]
        for pair in ranked.pairs:
            tables += self._with_singles(partial(self._of_pair, pair), [], pair[:1])
        in_means = averaged if self.has_means and self.is_of_one_task else []
        for task in ranked.tasks:
            if task not in in_means:
                tables += self._with_singles(partial(self._of_task, task), [], [task])
        return tables

    def _means(self, rows: Sequence[BoardRow]) -> Table:
        """Return the table of means over the retrieval tasks and over each other group.

        If the means cover a single retrieval task, this table has all columns of that task, which
        then has no separate table.
        """
        heading = self.ranked.heading if self.ranked.tasks else "Means"
        columns = [*self._mean_columns(rows), *self._seen_columns(rows, self.ranked.averaged)]
        table = self._table(heading, columns, rows, self.first_rankings)
        small = [group for group in self.plain if not self._has_table(group)]
        notes = [rank_note(each) for group in small for each in self._rankings_of(group)]
        return replace(table, notes=[*table.notes, *notes])

    def _mean_columns(self, rows: Sequence[BoardRow]) -> list[Column]:
        columns = self._ranked_columns(rows, self.ranked.averaged)
        for group in self.plain:
            means = [group_mean(group, row) for row in rows]
            several = len({r.entry.encoder for r, m in zip(rows, means, strict=True) if m}) > 1
            rivals = [rival_key(row, MAIN) if several else None for row in rows]
            columns.append(Column.of(group.title(group.n_averaged), means, rivals=rivals))
        return columns

    @property
    def is_of_one_task(self) -> bool:
        """Whether the means cover a single retrieval task."""
        return len(self.ranked.averaged) == 1

    def _has_table(self, group: Group) -> bool:
        """Return whether a group needs its own table, because the means lack some of its scores."""
        is_reported = any(row.scores.keys() & group.places for row in self.published)
        return len(group.tasks) > 1 or not self.has_means or is_reported

    def _with_singles(
        self,
        lay_out: Callable[[Sequence[BoardRow]], Table],
        rows: Sequence[BoardRow],
        tasks: Sequence[str],
    ) -> list[Table]:
        """Return a table and, if it has methods, a folded table of their single encoders.

        Args:
            lay_out: Function that builds the table from its rows.
            rows: Rows of the table; by default, the rows of a table of these tasks.
            tasks: Tasks by which rows are sorted.
        """
        rows = rows or self.together(tasks)
        table = lay_out(rows)
        entries = {single.entry for row in rows for single in row.singles}
        singles = [r for r in self.singles(tasks) if r.entry in entries or r.role == "curve"]
        folded = lay_out(singles) if entries else table
        if not entries or not folded.n_rows:
            return [table]
        heading = f"{table.heading}: single runs"
        return [table, replace(folded, heading=heading, notes=(), is_folded=True)]

    def _of_task(self, task: str, rows: Sequence[BoardRow]) -> Table:
        """Return the table of a retrieval task."""
        rows = [row for row in rows if row.scores.get(task)]
        columns = [*self._ranked_columns(rows, [task]), *self._seen_columns(rows, [task])]
        rankings = self._rankings(self.ranked, [task], self.singles([task]))
        return self._table(task, columns, rows, rankings)

    def _of_pair(self, pair: tuple[str, str], rows: Sequence[BoardRow]) -> Table:
        """Return the table that compares a task with its copy on unseen sources.

        It shows the share of sources seen in training, and the changes of P and S.
        """
        task, unseen = pair
        rows = [
            row
            for row in rows
            if row.role in {"encoder", "method"} and all(row.scores.get(each) for each in pair)
        ]
        columns = [
            Column(
                title, [_mean_share(_results(self.ranked, [name], row), "sources") for row in rows]
            )
            for title, name in (("seen", task), ("seen, unseen", unseen))
        ]
        for title in "PS":
            changes = [_mean_change(row, pair, RANKED[title]) for row in rows]
            columns.append(Column(f"{title}, change", changes, unit="points"))
        heading = f"{task}: from the sources of the training file to unseen ones ({unseen})"
        return self._table(heading, columns, rows)

    def seen(
        self, group: Group, tasks: Sequence[str], rows: Sequence[BoardRow]
    ) -> dict[str, list[float | None]]:
        """Return the share of texts seen in training, by part of the data and row.

        Only parts that a row has seen are returned. Shares are averaged over the tasks and over the
        seeds of a row, and None if one of them is unknown.
        """
        of_rows = [_results(group, tasks, row) for row in rows]
        saw = {part for own in of_rows for result in own if result for part in seen_parts(result)}
        return {
            p: [_mean_share(own, p) for own in of_rows] for p in parts_of(group.kind) if p in saw
        }

    def _seen_columns(self, rows: Sequence[BoardRow], tasks: Sequence[str]) -> list[Column]:
        """Return columns of `seen`. Tasks with unseen copies have their own table of sources."""
        seen = self.seen(self.ranked, tasks, rows)
        if {task for pair in self.ranked.pairs for task in pair}.issuperset(tasks):
            seen.pop("sources", None)
        columns = [Column(f"{part} seen", shares) for part, shares in seen.items()]
        if "queries" in seen and len(tasks) == 1:
            for title, part in (("joint, unseen", "unseen"), ("base, unseen", "unseen_base")):
                scores = [_mean_unseen(self.ranked, tasks, row, part) for row in rows]
                columns.append(Column(title, scores))
        return columns

    def _of_seen(self, group: Group) -> list[Table]:
        """Return a table that compares scores over all rows with scores over unseen rows.

        The table covers the tasks with rows that an encoder saw in training. Without such tasks,
        the list is empty.
        """
        tasks = tasks_with_seen_rows(group.results)
        cells = [
            (task, row, result)
            for task in tasks
            for row in ordered(
                self._by_encoder(),
                partial(BoardRow.score, task=group.place(task), metric=MAIN),
                self.names,
            )
            if (result := group.result(task, row.entry))
        ]
        if not cells:
            return []
        names = [self.names[row.entry.encoder] for _, row, _ in cells]
        heads = [("task", [task for task, _, _ in cells]), ("encoder", names)]
        table = unseen_table(heads, [result for *_, result in cells])
        return [_with_roles(table, [row for _, row, _ in cells])]

    def _of_group(self, group: Group, rows: Sequence[BoardRow]) -> Table:
        """Return the table of one task type and protocol."""
        known = {entry.encoder for entry in group.entries}
        candidates = [
            single
            for row in rows
            for single in ([row] if _is_known(row, known) else row.singles or [row])
            if single.entry.encoder in known
        ]
        measured = list({(row.name, row.entry.encoder): row for row in candidates}.values())
        measured = ordered(measured, partial(group_mean, group), self.names)
        shown = [*measured, *(r for r in self.published if r.scores.keys() & group.places)]
        columns = [
            c for task in group.tasks for c in self._columns(task, group, [task], MAIN, shown)
        ]
        if not self.has_means and len(group.tasks) > 1:
            of = "" if group.averaged == list(group.tasks) else f" of {', '.join(group.averaged)}"
            means = [group_mean(group, row) for row in shown]
            rivals = [rival_key(row, MAIN) for row in shown]
            columns.append(Column.of(f"mean{of}", means, rivals=rivals))
        rankings = self._rankings_of(group)
        return self._table(group.title(), columns, shown, rankings, without={"reference", "k"})

    def _ranked_columns(self, rows: Sequence[BoardRow], tasks: Sequence[str]) -> list[Column]:
        """Return the columns that `board.toml` lists, or the default columns.

        The default columns are the first five of `RANKED`, or six in the table of a single task.
        Front is left out if no row has it.
        """
        if not tasks:
            return []
        titles = list(RANKED)[: 6 if len(tasks) == 1 else 5]
        shown = [title for title in titles if title != "front" or has_front(rows)]
        return [
            column
            for title in self.config.columns or shown
            for column in self._columns(title, self.ranked, tasks, RANKED[title], rows)
        ]

    def _columns(
        self,
        title: str,
        group: Group,
        tasks: Sequence[str],
        metric: str,
        rows: Sequence[BoardRow],
    ) -> list[Column]:
        """Return a column of scores, averaged over the tasks.

        If the metric has intervals and rows have several seeds, add a column of the standard
        deviations over seeds.
        """
        places = [group.place(task) for task in tasks]
        scores = [row.mean(places, metric) for row in rows]
        # Only tables of a single task have published rows.
        numbers = [row.printed.get((places[0], metric)) for row in rows]
        column = Column.of(
            title,
            scores,
            intervals=metric in _WITH_INTERVAL,
            rivals=[rival_key(row, metric) for row in rows],
            marks=[self._mark(number, group.tasks[tasks[0]]) for number in numbers],
            spreads=[number.std if number else None for number in numbers],
        )
        deviations = [row.seed_std(places, metric) for row in rows]
        if metric not in _WITH_INTERVAL or all(value is None for value in deviations):
            return [column]
        return [column, Column(f"{title} std over seeds", deviations)]

    def _mark(self, printed: PublishedNumber | None, results: Mapping[Entry, Result]) -> str:
        """Return the mark of a published number: its weighting and the difference from its twin.

        The weighting is shown only if it differs from the board's weighting.
        """
        if printed is None:
            return ""
        other = printed.key.k is not None and printed.key.weighting != self.ranked.weighting
        return (
            f"{f' {printed.key.weighting}' if other else ''}{difference_to_twin(printed, results)}"
        )

    def _table(
        self,
        heading: str,
        columns: Sequence[Column],
        rows: Sequence[BoardRow],
        rankings: Sequence[Ranking] = (),
        without: Collection[str] = (),
    ) -> Table:
        """Build a table with leading cells, and with notes on ranks and published rows.

        Args:
            heading: Heading of the table.
            columns: Columns of numbers.
            rows: The rows.
            rankings: Rankings of the encoders.
            without: Titles of leading columns to leave out.
        """
        heads = [head for head in self._heads(rows) if head[0] not in without]
        competing = {row.entry for row in rows if row.role == "encoder"}
        rankings = [each for each in rankings if competing & {row.entry for row in each.rows}]
        ranks = {entry: ends for each in rankings for entry, ends in each.ranks.items()}
        if ranks:
            ends_of_rows = [ranks.get(row.entry) if row.role == "encoder" else None for row in rows]
            heads = [("rank", [rank_text(*ends) if ends else "-" for ends in ends_of_rows]), *heads]
        footnotes = dict.fromkeys(row.footnote for row in rows if row.footnote)
        notes = [*map(rank_note, rankings), *footnotes]
        return _with_roles(Table(heading, heads, columns, notes=notes), rows)

    def _heads(self, rows: Sequence[BoardRow]) -> list[tuple[str, list[str]]]:
        heads = [
            ("encoder", [row.name for row in rows]),
            ("seeds", [str(len(row.members) or 1) if row.entry.encoder else "-" for row in rows]),
            ("strength", [_strength(row) for row in rows]),
            ("reference", ["-" if r.printed else self.names[r.entry.reference] for r in rows]),
            ("k", [str(row.entry.k) if row.entry.k else "-" for row in rows]),
        ]
        if any(row.role == "method" for row in rows):
            return heads
        return [head for head in heads if head[0] not in {"seeds", "strength"}]

    @cached_property
    def first_rankings(self) -> list[Ranking]:
        """Rankings of encoders by their mean over the retrieval tasks."""
        if not self.ranked.tasks:
            return []
        return self._rankings(self.ranked, self.ranked.averaged, self.first_singles)

    def _rankings_of(self, group: Group) -> list[Ranking]:
        """Rank the encoders of a non-retrieval group by their means."""
        rows = ordered(self._by_encoder(), partial(group_mean, group), self.names)
        return self._rankings(group, group.averaged, rows)

    def _by_encoder(self) -> list[BoardRow]:
        """Return one row for each encoder.

        Rows of an encoder differ only in reference and k, which non-retrieval scores ignore.
        """
        return list(
            {row.entry.encoder: row for row in self.first_singles if row.role == "encoder"}.values()
        )

    def _rankings(
        self, group: Group, tasks: Sequence[str], rows: Sequence[BoardRow]
    ) -> list[Ranking]:
        """Rank the encoders with scores on all tasks, separately for each comparable group."""
        by = self.sorted_by(tasks) if group.ranks else MAIN

        def competes(row: BoardRow) -> bool:
            scores = [row.score(group.place(task), by) for task in tasks]
            is_scored = all(score and math.isfinite(score.mean) for score in scores)
            return row.role == "encoder" and rival_key(row, by) is not None and is_scored

        shares = grouped(filter(competes, rows), lambda row: rival_key(row, by))
        rankings = []
        for competing in shares.values():
            first = competing[0].entry
            under = f"under {self.names[first.reference]}, " if by in REFERRING else ""
            under = f"{under}k = {first.k}" if len(shares) > 1 else ""
            ranking = Ranking(competing, group, tasks, by, under, self.standings)
            rankings += [ranking] if len(competing) > 1 else []
        return rankings


def _results(group: Group, tasks: Sequence[str], row: BoardRow) -> list[Result | None]:
    """Return the results of a row, or of its best point, for each task and seed."""
    entries = [one.entry for one in row.members or [row.point or row]]
    return [group.result(task, entry) for task in tasks for entry in entries]


def _mean_share(results: Sequence[Result | None], part: str) -> float | None:
    """Return the mean share of a part seen in training; None if a result's share is unknown."""
    return _mean_of_all([seen_share(result, part) if result else None for result in results])


def _mean_unseen(group: Group, tasks: Sequence[str], row: BoardRow, part: str) -> float | None:
    """Return the mean joint over unseen queries; None if it is unknown at the row's k."""
    scores = [
        unseen_score(result, part) if result and result.main_score.k == row.entry.k else None
        for result in _results(group, tasks, row)
    ]
    return _mean_of_all(scores)


def _mean_of_all(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def _mean_change(row: BoardRow, pair: tuple[str, str], metric: str) -> float:
    """Return the change of a score from the first task to the second, averaged over seeds."""
    runs = row.members or [row]
    scores = [(one.score(pair[0], metric), one.score(pair[1], metric)) for one in runs]
    return fmean(second.mean - first.mean for first, second in scores if first and second)


def _with_roles(table: Table, rows: Sequence[BoardRow]) -> Table:
    """Return a copy of a table that has the roles of its rows and the keys of their details."""
    return replace(table, roles=[row.role for row in rows], details=[row.detail for row in rows])


def group_mean(group: Group, row: BoardRow) -> Score | None:
    """Return the mean of a row over the tasks of a non-retrieval group, and over its seeds.

    Published rows have no such mean.
    """
    if row.role == "published":
        return None
    shown = group.key(group.averaged[0], MAIN).metric
    return row.mean([group.place(task) for task in group.averaged], MAIN, shown)


def _is_known(row: BoardRow, encoders: Collection[str]) -> bool:
    return all(member.entry.encoder in encoders for member in row.members or [row])


def _strength(row: BoardRow) -> str:
    """Return the chosen strength as text, with a remark that it was chosen on this test set."""
    if not row.dial:
        return "-"
    return f"{shortest(row.strength)} (chosen here, best of {row.n_strengths})"


def has_front(rows: Sequence[BoardRow]) -> bool:
    """Return whether at least one row has a front score."""
    return any("front" in scores for row in rows for scores in row.scores.values())
