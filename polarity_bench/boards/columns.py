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
from polarity_bench.boards.method_rows import curve_rows, dialled_runs, method_rows
from polarity_bench.boards.note_texts import NOTES
from polarity_bench.boards.rank_notes import Ranking, rank_note, rank_text
from polarity_bench.boards.records import (
    MAIN,
    MEASURED,
    UNMEASURED,
    Row,
    difference_to_twin,
    entry_of,
    main_key,
    rival_key,
    rows_of,
    with_rows,
)
from polarity_bench.boards.unseen_columns import (
    seen_parts,
    seen_share,
    tasks_with_seen_rows,
    unseen_score,
    unseen_table,
)
from polarity_bench.compare.encoder_ranks import Standings
from polarity_bench.metrics.register import metric_of, titled_metrics
from polarity_bench.render.format import MISSING, percent
from polarity_bench.render.table import Column, Table
from polarity_bench.results.comparability import pairs_of
from polarity_bench.results.curve import Curve
from polarity_bench.results.frame import Record
from polarity_bench.results.means import (
    SCORE_COLUMNS,
    mean_over_seeds,
    mean_over_tasks,
    score_of,
)
from polarity_bench.results.result_files import Result
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.catalogue import KINDS
from polarity_bench.values import count, grouped, printable, shortest

GAINED = {"P": "polarity", "S": "similarity"}
"""Scores whose gains over the reference are shown, by title."""
OfPart = Callable[[Result, str], float | None]
"""Function that returns a number of a result for a part of its data; None if it is unknown."""


@dataclass(frozen=True)
class Sections:
    """The tables of a board of results.

    Attributes:
        measured: The records of encoders (see `boards.records`).
        further: The records of published numbers, of gold labels and of random retrieval.
        names: Names of encoders, by digest.
        bare_names: Names of encoders without their prompts, by digest.
        config: The content of `board.toml`.
        curves: Curves over several of the rows.
        methods: Names of methods, by digest of the encoder.
        standings: Ranks and ties of encoders, computed or stored.
    """

    measured: Sequence[Record]
    further: Sequence[Record]
    names: Mapping[str, str]
    bare_names: Mapping[str, str]
    config: BoardFile
    curves: Sequence[Curve]
    methods: Mapping[str, str]
    standings: Standings

    # What the records contain

    @cached_property
    def cells(self) -> dict[tuple[str, str], dict[str, Record]]:
        """Records by row and place, and then by metric."""
        cells: dict[tuple[str, str], dict[str, Record]] = {}
        for record in [*self.measured, *self.further]:
            cells.setdefault((record["row"], record["place"]), {})[record["shown"]] = record
        return cells

    @cached_property
    def results(self) -> dict[tuple[str, str], Result]:
        """Results by the row of an encoder and the place."""
        return {(each["row"], each["place"]): each["result"] for each in self.measured}

    @cached_property
    def tasks(self) -> dict[str, dict[str, dict[str, Result]]]:
        """Results by family, place and row. The family '' has all retrieval tasks."""
        tasks: dict[str, dict[str, dict[str, Result]]] = {"": {}}
        for record in self.measured:
            of_family = tasks.setdefault(record["family"], {})
            of_family.setdefault(record["place"], {})[record["row"]] = record["result"]
        return tasks

    @property
    def ranked(self) -> dict[str, dict[str, Result]]:
        """Results by retrieval task and row."""
        return self.tasks[""]

    @property
    def plain(self) -> list[str]:
        """Families of the other tasks."""
        return [family for family in self.tasks if family]

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """Pairs of a retrieval task and its copy with unseen sources, if both have results."""
        return pairs_of(result for of_task in self.ranked.values() for result in of_task.values())

    @cached_property
    def independent(self) -> dict[str, list[str]]:
        """Places of each family except copies with unseen sources, which share their queries."""
        twins = {unseen for _, unseen in self.pairs}
        return {f: [place for place in of if place not in twins] for f, of in self.tasks.items()}

    @cached_property
    def averaged(self) -> dict[str, list[str]]:
        """Independent places with results of every row of the family, or else all of them."""
        averaged = {}
        for family, places in self.independent.items():
            of_family = self.tasks[family]
            entries = {row for rows in of_family.values() for row in rows}
            averaged[family] = [p for p in places if of_family[p].keys() == entries] or places
        return averaged

    def n_averaged(self, family: str = "") -> str:
        """Return the number of averaged tasks in words, such as `2 of 3 tasks`."""
        n, of = len(self.averaged[family]), len(self.independent[family])
        return count(of, "task") if n == of else f"{n} of {of} tasks"

    def first_of(self, family: str, place: str = "") -> Result:
        """Return the first result of a family, or of one of its places."""
        of_family = self.tasks[family]
        return next(iter(of_family[place or next(iter(of_family))].values()))

    def title_of(self, metric: str, family: str = "") -> str:
        """Return the title of a metric, such as `P`; for `MAIN`, the title of the score to show."""
        if title := metric_of(metric).title:
            return title
        kind = self.first_of(family or self.alone).kind
        return self.config.measures.get(kind) or KINDS[kind].measure

    def heading_of(self, family: str, n_tasks: str) -> str:
        """Return the heading of a family: its task type, measure, protocol and number of tasks."""
        first, measure = self.first_of(family), self.title_of(MAIN, family)
        return f"{KINDS[first.kind].heading} ({measure}, {first.key.protocol_label}, {n_tasks})"

    @property
    def alone(self) -> str:
        """The first non-retrieval family; '' if the board has retrieval tasks."""
        return "" if self.ranked else next(iter(self.plain), "")

    def sorted_by(self, tasks: Sequence[str]) -> str:
        """Return the metric by which a table of these tasks is sorted.

        By default, the metric is joint. If every encoder with results on all of these tasks is its
        own reference, the metric is P, because joint then depends on P alone.
        """
        if self.alone:
            return MAIN
        if self.config.sort:
            return titled_metrics()[self.config.sort].name
        rows = [row for row in self.rows if all((row["row"], t) in self.results for t in tasks)]
        is_measured = tasks and any(row["reference"] for row in rows)
        return "joint" if is_measured and not self.config.keep else "polarity"

    # Rows

    @cached_property
    def rows(self) -> list[Row]:
        """The rows of encoders. Encoders without retrieval results come last."""
        return rows_of(self.measured)

    def mean(self, row: Row, places: Sequence[str], metric: str) -> Record | None:
        """Return the mean of a row over tasks and seeds; None if a score is missing.

        Curves have scores of retrieval tasks only, and published numbers have no means.
        """
        lacks_scores = (row["role"], metric) == ("curve", MAIN)
        lacks_means = row["role"] == "published" and len(places) > 1
        fronts = row["fronts"] if metric == "front" else {}
        runs = [
            [fronts.get((key, p)) or self.cells.get((key, p), {}).get(metric, {}) for p in places]
            for key in row["members"]
        ]
        if lacks_scores or lacks_means or not places or not all(map(all, runs)):
            return None
        mean = mean_over_seeds([mean_over_tasks(of_run) for of_run in runs])
        is_partial = mean["n_seeds"] < mean["n_planned"] > 1
        return mean | dict.fromkeys(SCORE_COLUMNS, math.nan) if is_partial else mean

    def value(self, row: Row, places: Sequence[str], metric: str) -> float:
        """Return the value of a mean; NaN if a score is missing."""
        mean = self.mean(row, places, metric)
        return mean["value"] if mean else math.nan

    def ordered(
        self, rows: Sequence[Row], places: Sequence[str], metric: str, group_by: str = ""
    ) -> list[Row]:
        """Sort rows by a mean, best first.

        Rows without the mean come last, sorted by name. A curve comes before the row of its best
        point.

        Args:
            rows: Rows of one table.
            places: Places to average.
            metric: Metric to sort by.
            group_by: Property by which rows are grouped first, `reference` or `k`; '' for none.
        """
        names = self.names

        def order(row: Row) -> tuple[object, ...]:
            reference = names[row["reference"] or row["encoder"]]
            group = {"reference": reference, "k": row["k"]}.get(group_by, "")
            value = self.value(row.get("point", row), places, metric)
            rank = math.inf if math.isnan(value) else -value
            name, *entry = entry_of(row)
            return group, rank, name, names[row["reference"]], row["role"] == "encoder", *entry

        return sorted(rows, key=order)

    def in_order(
        self, rows: Sequence[Row], tasks: Sequence[str], group_by: str | None = None
    ) -> list[Row]:
        """Sort rows for a table of these tasks, within the groups of `board.toml` by default.

        If `board.toml` sets `keep`, rows with at least that retention come first.
        """
        keep, places = self.config.keep, self.averaged[self.alone] if self.alone else tasks
        group_by = self.config.group_by if group_by is None else group_by
        rows = self.ordered(rows, places, self.sorted_by(tasks), group_by)
        if keep is None:
            return rows
        return sorted(rows, key=lambda row: not self.value(row, tasks, "retention") >= keep)

    def _runs(self, tasks: Sequence[str]) -> list[Row]:
        return dialled_runs(self.rows, self.cells, self.curves, tasks, self.config.weighting)

    def singles(self, tasks: Sequence[str]) -> list[Row]:
        """Return the rows of single encoders and curves, sorted for a table of these tasks."""
        return self.in_order([*self.rows, *curve_rows(self._runs(tasks), self.cells)], tasks)

    @cached_property
    def first_singles(self) -> list[Row]:
        """The rows of single encoders and curves, sorted for the first table."""
        return self.singles(self.averaged[""])

    def together(self, tasks: Sequence[str]) -> list[Row]:
        """Return the rows of a table of these tasks: methods, published numbers and bounds.

        Only tables of a single task have published numbers.
        """
        keep, runs = self.config.keep, self._runs(tasks)
        methods = method_rows(self.rows, runs, self.cells, keep, self.methods)
        further = (r for r in self.further if r["role"] != "published" or [r["place"]] == [*tasks])
        return [*self.in_order(methods, tasks), *rows_of(further)]

    @cached_property
    def first_rows(self) -> list[Row]:
        """The rows of the first table."""
        return self.together(self.averaged[""])

    @cached_property
    def by_encoder(self) -> list[Row]:
        """One row for each encoder.

        Rows of an encoder differ only in reference and k, which non-retrieval scores ignore.
        """
        rows = [row for row in self.first_singles if row["role"] == "encoder"]
        return [*{row["encoder"]: row for row in rows}.values()]

    # Tables

    @cached_property
    def has_means(self) -> bool:
        """Whether the board shows the table of means.

        The table needs at least one defined mean, and retrieval tasks or several families.
        """
        measured = [row for row in self.first_rows if row["role"] in MEASURED]
        values = [value for c in self._mean_columns(measured) for value in c.values]
        has_number = any(value is not None and not math.isnan(value) for value in values)
        return has_number and (bool(self.ranked) or len(self.plain) != 1)

    def tables(self) -> list[Table]:
        """Return all tables of the board, in the order in which they are shown."""
        averaged, tables = self.averaged[""], list[Table]()
        if self.has_means:
            tables += self._with_singles(self._means, self.first_rows, averaged)
        if self.config.gains:
            tables += map(self._of_gains, GAINED)
        for family in filter(self._has_table, self.plain):
            lay_out = partial(self._of_family, family)
            tables += self._with_singles(lay_out, self.first_rows, averaged)
        tables += self._of_unmeasured()
        tables += [table for family in self.plain for table in self._of_seen(family)]
        for pair in self.pairs:
            tables += self._with_singles(partial(self._of_pair, pair), [], pair[:1])
        in_means = averaged if self.has_means and self.is_of_one_task else []
        for task in self.ranked:
            if task not in in_means:
                tables += self._with_singles(partial(self._of_task, task), [], [task])
        return tables

    def _means(self, rows: Sequence[Row]) -> Table:
        """Return the table of means over the retrieval tasks and over each other family.

        If the means cover a single retrieval task, this table has all columns of that task, which
        then has no separate table.
        """
        averaged = self.averaged[""]
        heading = "Means"
        if self.is_of_one_task:
            heading = f"Summary: {averaged[0]}"
        elif averaged:
            heading += f" over {self.n_averaged().replace('task', 'polarity task')}"
        columns = [*self._mean_columns(rows), *self._seen_columns(rows, averaged)]
        table = self._table(heading, columns, rows, self.first_rankings)
        small = [family for family in self.plain if not self._has_table(family)]
        notes = [rank_note(each) for family in small for each in self._rankings_of(family)]
        return replace(table, notes=[*table.notes, *notes])

    def _mean_columns(self, rows: Sequence[Row]) -> list[Column]:
        specs = self._ranked_specs(rows, self.averaged[""])
        plain = {self.heading_of(f, self.n_averaged(f)): self.averaged[f] for f in self.plain}
        specs += [(title, places, MAIN) for title, places in plain.items()]
        return self._columns(rows, specs)

    @property
    def is_of_one_task(self) -> bool:
        """Whether the means cover a single retrieval task."""
        return len(self.averaged[""]) == 1

    def _has_table(self, family: str) -> bool:
        """Return whether a family needs its own table, because the means lack some scores."""
        is_reported = any(record["place"] in self.tasks[family] for record in self.further)
        return len(self.tasks[family]) > 1 or not self.has_means or is_reported

    def _with_singles(
        self, lay_out: Callable[[Sequence[Row]], Table], rows: Sequence[Row], tasks: Sequence[str]
    ) -> list[Table]:
        """Return a table and, if it has methods, a folded table of their single encoders.

        Args:
            lay_out: Function that builds the table from its rows.
            rows: Rows of the table; by default, the rows of a table of these tasks.
            tasks: Tasks by which rows are sorted.
        """
        rows = rows or self.together(tasks)
        table = lay_out(rows)
        keys = {single for row in rows for single in row["singles"]}
        singles = [r for r in self.singles(tasks) if r["row"] in keys or r["role"] == "curve"]
        folded = lay_out(singles) if keys else table
        if not keys or not folded.n_rows:
            return [table]
        heading = f"{table.heading}: single runs"
        return [table, replace(folded, heading=heading, notes=(), is_folded=True)]

    def _of_task(self, task: str, rows: Sequence[Row]) -> Table:
        """Return the table of a retrieval task."""
        rows = self._with_places(rows, [task])
        columns = self._columns(rows, self._ranked_specs(rows, [task]))
        columns += self._seen_columns(rows, [task])
        return self._table(task, columns, rows, self._rankings([task], self.singles([task])))

    def _with_places(self, rows: Sequence[Row], places: Sequence[str]) -> list[Row]:
        """Return the rows with a score at each place."""
        return [
            row
            for row in rows
            if all((key, place) in self.cells for key in row["members"] for place in places)
        ]

    def _of_pair(self, pair: tuple[str, str], rows: Sequence[Row]) -> Table:
        """Return the table that compares a task with its copy on unseen sources.

        It shows the share of sources seen in training, and the changes of P and S.
        """
        task, unseen = pair
        own = [row for row in rows if row["role"] in {"encoder", "method"}]
        rows = self._with_places(own, pair)
        columns = [
            Column(title, [self._mean_of(seen_share, [name], row, "sources") for row in rows])
            for title, name in (("seen", task), ("seen, unseen", unseen))
        ]
        for title, metric in (("P", "polarity"), ("S", "similarity")):
            of_tasks = ([self.value(row, [name], metric) for row in rows] for name in pair)
            changes = [after - before for before, after in zip(*of_tasks, strict=True)]
            columns.append(Column(f"{title}, change", changes, unit="points"))
        heading = f"{task}: from the sources of the training file to unseen ones ({unseen})"
        return self._table(heading, columns, rows)

    def _of_gains(self, title: str) -> Table:
        """Return the table of what encoders gain over their references, with a column per task."""
        gains = {
            task: [self.gain(row, task, title) for row in self.gaining] for task in self.ranked
        }
        columns = [Column.of(t, of, intervals=True, unit="points") for t, of in gains.items()]
        table = self._table(f"{title}: gain over the reference", columns, self.gaining)
        return replace(table, notes=[NOTES["gains"]])

    @cached_property
    def _bases(self) -> dict[tuple[str, int], str]:
        """Keys of the rows of encoders that are their own reference, by encoder and k."""
        return {(r["encoder"], r["k"]): r["row"] for r in self.rows if not r["reference"]}

    @cached_property
    def gaining(self) -> list[Row]:
        """The rows whose reference is another encoder with a row, sorted by reference."""
        rows = [row for row in self.rows if (row["reference"], row["k"]) in self._bases]
        return sorted(rows, key=lambda row: (self.names[row["reference"]], row["name"], row["k"]))

    def gain(self, row: Row, task: str, title: str) -> Score | None:
        """Return the P or S of a row minus that of its reference; None if one has no result."""
        key = ScoreKey(GAINED[title], row["k"], self.config.weighting)
        base = self._bases[row["reference"], row["k"]]
        before, after = (self.results.get((each, task)) for each in (base, row["row"]))
        if before is None or after is None:
            return None
        change = after.scores[key].mean - before.scores[key].mean
        interval = self.standings.gain(before, after, key)
        return Score(change, math.nan, interval, after.scores[key].n)

    def seen(self, places: Sequence[str], rows: Sequence[Row]) -> dict[str, list[float | None]]:
        """Return the share of texts seen in training, by part of the data and row.

        Only parts that a row has seen are returned. Shares are averaged over the tasks and over the
        seeds of a row, and None if one of them is unknown.
        """
        results = (result for row in rows for result in self._results(places, row) if result)
        saw = {part for result in results for part in seen_parts(result)}
        shown = [part for part in ("queries", "sources", "rows") if part in saw]
        return {
            part: [self._mean_of(seen_share, places, row, part) for row in rows] for part in shown
        }

    def _seen_columns(self, rows: Sequence[Row], tasks: Sequence[str]) -> list[Column]:
        """Return columns of `seen`. Tasks with unseen copies have their own table of sources."""
        seen = self.seen(tasks, rows)
        if {task for pair in self.pairs for task in pair}.issuperset(tasks):
            seen.pop("sources", None)
        columns = [Column(f"{part} seen", shares) for part, shares in seen.items()]
        if "queries" in seen and len(tasks) == 1:
            for title, part in (("joint, unseen", "unseen"), ("base, unseen", "unseen_base")):
                at_k = [(row, partial(unseen_score, k=row["k"])) for row in rows]
                scores = [self._mean_of(score, tasks, row, part) for row, score in at_k]
                shown = metric_of("joint").shown_values(scores)
                columns.append(Column(title, shown, stored=scores))
        return columns

    def _of_seen(self, family: str) -> list[Table]:
        """Return a table that compares scores over all rows with scores over unseen rows.

        The table covers the tasks with rows that an encoder saw in training. Without such tasks,
        the list is empty.
        """
        of_family = self.tasks[family]
        tasks = tasks_with_seen_rows(
            r for of_place in of_family.values() for r in of_place.values()
        )
        cells = [
            (row, result)
            for place, of_place in of_family.items()
            for row in self.ordered(self.by_encoder, [place], MAIN)
            if (result := of_place.get(row["row"])) and result.task in tasks
        ]
        if not cells:
            return []
        rows, results = ([*each] for each in zip(*cells, strict=True))
        names = [row["name"] for row in rows]
        heads = [("task", [result.task for result in results]), ("encoder", names)]
        return [with_rows(unseen_table(heads, results), rows)]

    def _of_family(self, family: str, rows: Sequence[Row]) -> Table:
        """Return the table of one task type and protocol."""
        places, averaged = self.tasks[family], self.averaged[family]
        known = {row for row, place in self.results if place in places}
        singles = {row["row"]: row for row in self.first_singles}
        candidates = [
            each
            for row in rows
            for each in (
                [row]
                if known >= {*row["members"]} or not row["singles"]
                else [singles[key] for key in row["singles"]]
            )
            if each["members"][0] in known and each["role"] != "curve"
        ]
        measured = [*{(row["name"], row["encoder"]): row for row in candidates}.values()]
        measured = self.ordered(measured, averaged, MAIN)
        further = rows_of(each for each in self.further if each["place"] in places)
        titles = {place: self.first_of(family, place).task for place in places}
        specs = [(title, [place], MAIN) for place, title in titles.items()]
        if not self.has_means and len(averaged) > 1:
            tasks = ", ".join(titles[place] for place in averaged)
            title = "mean" if len(averaged) == len(places) else f"mean of {tasks}"
            specs.append((title, averaged, MAIN))
        shown, n_tasks = [*measured, *further], count(len(places), "task")
        columns, rankings = self._columns(shown, specs), self._rankings_of(family)
        if shares := self.seen(averaged, shown).get("sources"):
            columns.append(Column("sources seen", shares))
        heading = self.heading_of(family, n_tasks)
        return self._table(heading, columns, shown, rankings, without={"reference", "k"})

    def _of_unmeasured(self) -> list[Table]:
        """Return the table of the published numbers of tasks without results, if there are any."""
        records = [record for record in self.further if record["family"] == UNMEASURED]
        rows, places = rows_of(records), dict.fromkeys(record["place"] for record in records)
        columns = self._columns(rows, [(place, [place], MAIN) for place in places])
        table = self._table("Not measured here", columns, rows, without={"reference", "k"})
        return [table] if rows else []

    def _ranked_specs(
        self, rows: Sequence[Row], tasks: Sequence[str]
    ) -> list[tuple[str, Sequence[str], str]]:
        """Return the title, places and metric of the columns that `board.toml` lists, or of others.

        The default columns depend on `Metric.detail`. Metrics that no row has are left out.
        """
        known, most_detail = titled_metrics(), 2 if len(tasks) == 1 else 1
        usual = [t for t, m in titled_metrics(most_detail).items() if self.has_score(rows, m.name)]
        return [(t, tasks, known[t].name) for t in self.config.columns or usual if tasks]

    def _columns(
        self, rows: Sequence[Row], specs: Sequence[tuple[str, Sequence[str], str]]
    ) -> list[Column]:
        """Return columns of scores, averaged over tasks and seeds.

        If the metric has intervals and rows have several seeds, a column is followed by a column of
        the standard deviations over seeds.
        """
        columns = []
        for title, places, metric in specs:
            scores = [self.mean(row, places, metric) for row in rows]
            rivals = [rival_key(row, metric) for row in rows]
            scored = {row["encoder"] for row, score in zip(rows, scores, strict=True) if score}
            if metric == MAIN and len(scored) == 1:  # rows of one encoder have one score
                rivals = [None] * len(rows)
            column = places[0] if len(places) == 1 else ""
            cells = [self.cells.get((row["row"], column), {}).get(metric) for row in rows]
            numbers = [each if each and each["role"] == "published" else None for each in cells]
            columns.append(
                Column.of(
                    title,
                    [score_of(score) if score else None for score in scores],
                    intervals=metric_of(metric).has_interval,
                    rivals=rivals,
                    marks=[self._mark(number, column) for number in numbers],
                    spreads=[number["std"] if number else None for number in numbers],
                    lower_is_better=not metric_of(metric).higher_is_better,
                    stored=[score["value"] if score else None for score in scores],
                )
            )
            deviations = [
                score["seed_std"] if score and score["n_planned"] > 1 else None for score in scores
            ]
            if metric_of(metric).has_interval and any(value is not None for value in deviations):
                columns.append(Column(f"{title} std over seeds", deviations))
        return columns

    def _mark(self, number: Record | None, place: str) -> str:
        """Return the mark of a published number: its weighting and the difference from its twin.

        The weighting is shown only if it differs from the board's weighting.
        """
        if number is None:
            return ""
        other = number["key"].k is not None and number["weighting"] != self.config.weighting
        of_place = (record for record in self.measured if record["place"] == place)
        difference = difference_to_twin(number, of_place) if number["twin"] else ""
        return (f" {number['weighting']}" if other else "") + difference

    def _table(
        self,
        heading: str,
        columns: Sequence[Column],
        rows: Sequence[Row],
        rankings: Sequence[Ranking] = (),
        without: Collection[str] = (),
    ) -> Table:
        """Build a table with leading cells, and with notes on ranks and published rows."""
        is_of_methods = any(row["role"] == "method" for row in rows)
        without = {*without, *(() if is_of_methods else ("seeds", "strength"))}
        heads = [
            *self._names_of(rows),
            ("seeds", [str(len(row["members"])) if row["encoder"] else MISSING for row in rows]),
            ("strength", [_strength(row) for row in rows]),
            (
                "reference",
                [MISSING if r["role"] == "published" else self.names[r["reference"]] for r in rows],
            ),
            ("k", [str(row["k"] or MISSING) for row in rows]),
        ]
        competing = {row["row"] for row in rows if row["role"] == "encoder"}
        rankings = [each for each in rankings if competing & {row["row"] for row in each.rows}]
        ranks = {row: ends for each in rankings for row, ends in each.ranks.items()}
        heads = [head for head in heads if head[0] not in without]
        if ranks:
            ends = [ranks.get(row["row"]) for row in rows]
            heads = [("rank", [rank_text(*each) if each else MISSING for each in ends]), *heads]
        keep, reading = self.config.keep, list[str]()
        if keep is not None and any(column.title == "P" for column in columns):
            reading.append(NOTES["order"].format(percent(keep, 0)))
        if any(map(_is_chosen, rows)):
            reading.append(NOTES["chosen"])
        notes = [*reading, *map(rank_note, rankings)]
        return with_rows(Table(heading, heads, columns, notes=notes), rows)

    def _names_of(self, rows: Sequence[Row]) -> list[tuple[str, list[str]]]:
        """Return the column of names and, if the encoders differ in their prompts, that of prompts.

        Names contain the prompts that have no column.
        """
        prompts = {row: result.key.encoder.prompt for (row, _), result in self.results.items()}
        # A curve shows its best point; bounds and papers have no prompt.
        of_rows = [row.get("point", row)["members"] for row in rows]
        used = [{prompts[key] for key in of if key in prompts} for of in of_rows]
        names = [row["name"] for row in rows]
        if len(set().union(*used)) <= 1:
            return [("encoder", names)]
        bare = [
            self.bare_names[row["encoder"]] if row["role"] == "encoder" else row["name"]
            for row in rows
        ]
        shown = [repr(*of) if len(of) == 1 and any(of) else MISSING for of in used]
        return [("encoder", bare), ("prompt", list(map(printable, shown)))]

    # Ranks

    @cached_property
    def first_rankings(self) -> list[Ranking]:
        """Rankings of encoders by their mean over the retrieval tasks."""
        return self._rankings(self.averaged[""], self.first_singles) if self.ranked else []

    def _rankings_of(self, family: str) -> list[Ranking]:
        """Rank the encoders of a non-retrieval family by their means."""
        averaged = self.averaged[family]
        return self._rankings(averaged, self.ordered(self.by_encoder, averaged, MAIN), family)

    def _rankings(
        self, places: Sequence[str], rows: Sequence[Row], family: str = ""
    ) -> list[Ranking]:
        """Rank the encoders with scores on all tasks, separately for each comparable group."""
        by = MAIN if family else self.sorted_by(places)

        rows = [
            row
            for row in rows
            if row["role"] == "encoder" and rival_key(row, by) is not None
            if all(math.isfinite(self.value(row, [place], by)) for place in places)
        ]
        shares = grouped(rows, lambda row: rival_key(row, by))
        rankings = []
        for competing in shares.values():
            first = competing[0]
            is_referring = metric_of(by).needs_reference
            under = f"under {self.names[first['reference']]}, " if is_referring else ""
            under = f"{under}k = {first['k']}" if len(shares) > 1 else ""
            results = [[self.results[row["row"], place] for row in competing] for place in places]
            keys = [ScoreKey(by, first["k"], self.config.weighting)] * len(places)
            if family:
                keys = [main_key(of[0], self.config) for of in results]
            title = self.title_of(by, family)
            ranking = Ranking(competing, title, under, results, keys, not family, self.standings)
            rankings += [ranking] if len(competing) > 1 else []
        return rankings

    # Texts seen in training

    def _results(self, places: Sequence[str], row: Row) -> list[Result | None]:
        """Return the results of a row, or of its best point, for each task and seed."""
        members = row.get("point", row)["members"]
        return [self.results.get((key, place)) for place in places for key in members]

    def _mean_of(self, number: OfPart, places: Sequence[str], row: Row, part: str) -> float | None:
        """Return the mean of a number of each result of a row; None if one of them is unknown.

        Args:
            number: Function that returns the number of a result for a part, or None.
            places: Places of the results.
            row: The row.
            part: Argument of the function.
        """
        results = self._results(places, row)
        known = [n for r in results if r and (n := number(r, part)) is not None]
        return fmean(known) if known and len(known) == len(results) else None

    def has_score(self, rows: Sequence[Row], metric: str) -> bool:
        """Return whether at least one row has a score of a metric."""
        keys = {key for row in rows for key in row["members"]}
        return any(metric in of for (key, _), of in self.cells.items() if key in keys)


def _is_chosen(row: Row) -> bool:
    """Return whether a row is a method at a strength that was chosen on this test set."""
    return row["role"] == "method" and bool(row["dial"])


def _strength(row: Row) -> str:
    """Return the chosen strength as text, with a remark that it was chosen on this test set."""
    if not _is_chosen(row):
        return MISSING
    return f"{shortest(row['strength'])} (chosen here, best of {row['n_strengths']})"
