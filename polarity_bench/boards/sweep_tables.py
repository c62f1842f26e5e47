"""Board of a sweep, with tables in the layout of the margins paper.

Rows are losses with their parameters. Each column is a base encoder and the data set on which it
was trained and scored. If training runs differ in other settings, there is a section for each
combination. If they differ in the number of examples, these tables show one number, and a separate
table shows all numbers, averaged over the configurations.

References:
    Jørgensen and Breitung (2025), Margins in Contrastive Learning, tables 4, 5 and 6.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from polarity_bench.boards.charts import mark_of, plane_of, points
from polarity_bench.boards.config import FILE, SweepFile, board_file
from polarity_bench.boards.finding import best_sentence
from polarity_bench.boards.note_texts import NOTES
from polarity_bench.boards.provenance_notes import detail_of
from polarity_bench.boards.rank_notes import unpaired_note
from polarity_bench.boards.records import BOUNDS, Row, twin_mark, with_rows
from polarity_bench.compare.unpaired_power import error_of, least_unpaired
from polarity_bench.render.chart import Chart, LineChart, MarkRole, Series
from polarity_bench.render.format import MISSING, score_text
from polarity_bench.render.markdown import escape
from polarity_bench.render.table import Board, Column, Detail, Role, Table
from polarity_bench.results.frame import Record
from polarity_bench.results.means import SCORE_COLUMNS, score_of, seed_means
from polarity_bench.scores import WEIGHTINGS
from polarity_bench.sweeps.grid import SHIPPED
from polarity_bench.sweeps.plan import read_plan
from polarity_bench.sweeps.records import (
    TITLES,
    TOLD_BY,
    by_settings,
    column_of,
    select,
    sweep_records,
    twins_of,
    word,
)
from polarity_bench.training.examples.spec import DEFAULT_COUNT
from polarity_bench.training.parameters import declared
from polarity_bench.training.recipes.margins.losses import LOSSES
from polarity_bench.training.recipes.margins.recipe import Margins
from polarity_bench.values import grouped

_GRID = "grid.toml"
"""Name of the copy of the grid in the folder of a published sweep."""
_PLACED = frozenset({"recipe", "model", "task", "seed"})
"""Settings that define neither rows nor sections."""

_DIGITS = 1
"""Number of decimals of scores, as in the paper."""
_MISSING: Record = {"metric": "", "n_seeds": 0, "n_planned": 0} | dict.fromkeys(
    SCORE_COLUMNS, math.nan
)
"""Mean of a row without records in a column."""
_LOSSES = "Losses"
_P = next(iter(TITLES))
_POINTS: dict[MarkRole, tuple[str, str]] = {"base": ("reference", "")}
_POINTS |= {role: (name, f"_{ending}") for role, (name, ending, _) in BOUNDS.items()}
"""Name, and ending of the metrics, of the points that a base has in charts, by role."""


@dataclass(frozen=True)
class SweepScores:
    """Scores of a sweep, with the configuration of its board.

    Attributes:
        records: The records, see `sweeps.records`.
        config: The content of `board.toml`, completed from the plan. Its `models` are the base
            encoders with a column, including bases that have published numbers only.
        folder: Folder of the sweep, to which paths of result files are relative.
        command: The command that reproduces the sweep.
    """

    records: Sequence[Record]
    config: SweepFile
    folder: Path
    command: str

    def of_kind(self, kind: str) -> list[Record]:
        """Return the records of a kind: `training`, `evaluation` (bases) or `published`."""
        return [record for record in self.records if record["kind"] == kind]

    def bases_of(self, trainings: Iterable[Record]) -> list[Record]:
        """Return the records of the base encoders from which training runs started."""
        items = twins_of(trainings)
        return [record for record in self.records if record["item"] in items]


def read_sweep(
    folder: Path,
    weighting: str | None = None,
    where: Sequence[str] = (),
    title: str | None = None,
) -> SweepScores:
    """Read the scores of a sweep's training runs and base encoders.

    Encoders are scored on the tasks on which they were trained.

    Args:
        folder: Folder of the sweep, with an optional `board.toml` (see `SweepFile`).
        weighting: Weighting of the ranks; overrides `board.toml`.
        where: Settings of the training runs to keep, see `sweeps.records.select`.
        title: Title of the board; overrides `board.toml`. The default is the title of the plan.

    Raises:
        InputError: If the folder contains no sweep, the sweep has no training runs or no results,
            no training run matches `where`, or two results cannot be compared. The message names
            the files.
    """
    plan, config = read_plan(folder), board_file(folder / FILE, SweepFile)
    weighting, models = weighting or config.weighting, list(config.models)
    records = sweep_records(folder, plan, weighting, models)
    if where:
        records, models = select(records, models, where)
    title = title or config.title or plan.title
    shown = {"title": title, "weighting": weighting, "models": tuple(models)}
    return SweepScores(
        records, config.model_copy(update=shown), folder, _command(plan.grid, folder)
    )


def _command(grid: str, folder: Path) -> str:
    """Return the command that reproduces a sweep from its grid.

    Args:
        grid: Path of the grid file in the plan; '' if the plan has none.
        folder: Folder of the sweep. If the folder contains a copy of the grid, the command uses
            the copy.
    """
    if not grid or (folder / _GRID).is_file():
        return f"polarity-bench sweep {_GRID}"
    file = Path(grid)
    is_ours = file.parent.name == "grids" and file.stem in SHIPPED
    return shlex.join(["polarity-bench", "sweep", file.stem if is_ours else file.name])


def sweep_as_json(sweep: SweepScores) -> dict[str, Any]:
    """Return the scores of a sweep as JSON values: fractions, or NaN if undefined."""
    measured = (record for record in sweep.records if record["kind"] != "published")
    items = [
        {"kind": p["kind"], "settings": dict(p["given"])}
        | {name: p[name] for name in ("encoder", "task", "k")}
        | {"P": p["value"], "P_std": p["std"], "S": s["value"], "S_std": s["std"]}
        | {"state": p["state"]}
        for p, s, *_ in grouped(measured, lambda record: record["item"]).values()
    ]
    return {
        "unit": "fraction",
        "title": sweep.config.title,
        "weighting": sweep.config.weighting,
        "records": items,
    }


def sweep_board(sweep: SweepScores) -> Board:
    """Build the board of a sweep, with its tables and charts."""
    recipes = grouped(sweep.of_kind("training"), lambda training: training["recipe"])
    trainings = recipes.pop(Margins.name if Margins.name in recipes else next(iter(recipes)))
    others = [training for of_recipe in recipes.values() for training in of_recipe]
    keys, separate = _axes(trainings)
    sections = []
    for values, alike in by_settings(trainings, separate).items():
        texts = _texts(zip(separate, values, strict=True))
        ending = "".join(f", {text}" for text in texts)
        sections.append(SweepSection(sweep, keys, ending, alike, others))
    laid_out = [each for section in sections for each in section.laid_out()]
    rows = (row for _, of_table in laid_out for row in of_table if row["detail"])
    details = {row["detail"]: _detail(row, sweep) for row in rows}
    has_twins = any(number["base"] for number in sweep.of_kind("published"))
    return Board(
        sweep.config.title,
        sweep.config.introduction,
        [table for table, _ in laid_out],
        [NOTES["sweep"], *([NOTES["minus_published"]] if has_twins else ())],
        [chart for section in sections for chart in section.charts()],
        details,
        finding=sections[0].finding,
        origin=sweep.config.details,
    )


def _axes(trainings: Sequence[Record]) -> tuple[list[str], list[str]]:
    """Return the settings of a recipe that define its rows, and those that define sections.

    For the recipe `margins`, the loss and its parameters define rows, and other settings define
    sections. For other recipes, all settings define rows.
    """
    differ = _differing(trainings)
    if trainings[0]["recipe"] != Margins.name:
        return differ or ["recipe"], []
    of_losses = {each.name for loss in LOSSES.values() for each in declared(loss)}
    pairs = by_settings(trainings, ["examples", "batch_size"])
    # If each number of examples has one batch size, the batch size defines no sections.
    follows = len(pairs) == len({n for n, _ in pairs})
    free = {"examples", *(["batch_size"] if follows else [])}
    rows = ["loss", *(key for key in differ if key in of_losses)]
    return rows, [key for key in differ if key not in {*rows, *free}]


def _differing(trainings: Sequence[Record]) -> list[str]:
    """Return the settings in the grid that have several values, except those in `_PLACED`."""
    given = dict.fromkeys(key for training in trainings for key in training["given"])
    varied = (key for key in given if key not in _PLACED)
    return [key for key in varied if len(by_settings(trainings, [key])) > 1]


@dataclass(frozen=True)
class SweepSection:
    """Tables and charts of the training runs of one recipe that share some settings.

    Attributes:
        sweep: The sweep.
        keys: Settings that define the rows.
        ending: Text with the shared settings, which is appended to titles.
        trainings: Records of the training runs.
        others: Records of the training runs of other recipes, which every section shows.
    """

    sweep: SweepScores
    keys: Sequence[str]
    ending: str
    trainings: Sequence[Record]
    others: Sequence[Record]

    @property
    def has_sizes(self) -> bool:
        """Whether the recipe trains on a number of examples."""
        return bool(self.trainings[0]["recipe"] == Margins.name)

    @property
    def heading(self) -> str:
        """Heading of the tables of P and S."""
        return f"{_LOSSES if self.has_sizes else self.trainings[0]['recipe']}{self.ending}"

    @cached_property
    def sizes(self) -> dict[int | None, list[Record]]:
        """Training runs by number of examples; None stands for the default number."""
        return grouped(self.trainings, _examples if self.has_sizes else lambda _: None)

    @cached_property
    def shown(self) -> list[Record]:
        """Training runs with the number of examples that the tables of P and S show.

        The papers' number is preferred, then the largest number. Numbers with missing training runs
        are chosen only if no number is complete.
        """
        states = {n: {run["state"] for run in runs} for n, runs in self.sizes.items()}
        known = [n for n, found in states.items() if found == {"done"}] or [*states]
        return self.sizes[DEFAULT_COUNT if DEFAULT_COUNT in known else max(known, key=_number)]

    @cached_property
    def rows(self) -> list[Row]:
        """Rows of bases, of other recipes and of the main recipe.

        Only rows of the main recipe compete for bold print.
        """
        bases = self.sweep.bases_of([*self.shown, *self.others])
        apart: list[tuple[str, Role, Sequence[str], Sequence[Record]]] = [
            ("reference", "base", TOLD_BY, bases)
        ]
        for recipe, alike in grouped(self.others, lambda run: run["recipe"]).items():
            apart.append((recipe, "other", _differing(alike), alike))
        rows = [
            _row(records, role, ", ".join([title, *_texts(zip(names, values, strict=True))]))
            for title, role, names, alike in apart
            for values, records in by_settings(alike, names).items()
        ]
        for values, records in by_settings(self.shown, self.keys).items():
            heads = [MISSING if value is None else word(value) for value in values]
            rows.append(_row(records, "encoder", *heads))
        return rows

    @cached_property
    def columns(self) -> dict[tuple[str, str], str]:
        """Title of each column, by base encoder and task.

        The encoders of `board.toml` come first, in that order, even without training runs. Other
        encoders follow in order of first occurrence. Titles use the last part of an encoder's name
        if these parts are unique.
        """
        models = self.sweep.config.models
        trained = dict.fromkeys(map(column_of, [*self.shown, *self.others]))
        tasks = dict.fromkeys(task for _, task in trained)
        known = dict.fromkeys([*models, *(model for model, _ in trained)])
        columns = [
            (m, task) for m in known for task in tasks if m in models or (m, task) in trained
        ]
        last = {model: Path(model).name for model, _ in columns}
        short = last if len(set(last.values())) == len(last) else {model: model for model in last}
        return {(model, task): f"{short[model]}, {task}" for model, task in columns}

    @property
    def finding(self) -> str:
        """Sentences on the loss with the highest P in each column, with its S and the base."""
        sentences = []
        for column, title in self.columns.items():
            scored = [
                (row, *(_mean(row, metric, column) for metric in TITLES)) for row in self.rows
            ]
            known = grouped(
                (each for each in scored if not math.isnan(each[1]["value"])),
                lambda each: each[0]["role"],
            )
            if "encoder" not in known:
                continue
            best = max(known["encoder"], key=lambda each: each[1]["value"])
            numbers = [
                " with S ".join(score_text(score_of(mean), _DIGITS) for mean in means)
                for _, *means in [best, *known.get("base", ())[:1]]
            ]
            numbers[1:] = [f"the base has {number}" for number in numbers[1:]]
            sentences.append(best_sentence(best[0]["name"], f"P on {escape(title)}", numbers))
        where = f"({escape(self.heading)}) " if self.heading != _LOSSES and sentences else ""
        return where + " ".join(sentences)

    def laid_out(self) -> Iterator[tuple[Table, list[Row]]]:
        """Yield the tables of P, of S and of the numbers of examples, each with its rows."""
        yield from map(self._of_metric, TITLES)
        for task, trainings in grouped(self.trainings, lambda run: run["task"]).items():
            if len(self.sizes) > 1:
                yield self._of_sizes(task, trainings)

    def _of_metric(self, metric: str) -> tuple[Table, list[Row]]:
        """Return the table of P or S with a row for each loss."""
        name, short = TITLES[metric]
        published = self.sweep.of_kind("published")
        numbers = [each for each in published if each["metric"] == metric and each["base"]]
        rows = [
            row | {"detail": f"{self.heading}, {short}, row {number}"}
            for number, row in enumerate(_with_published(self.rows, numbers))
        ]
        over, interval = "queries", "over queries"
        if any(mean["n_planned"] > 1 for row in self.rows for mean in row["means"].values()):
            over = "seeds, or over queries for a single encoder"
            interval = "for other seeds and queries, or over queries for a single encoder"
        counted = _counted([*self.shown, *self.others])
        if n_hidden := len(_runs(self.trainings)) - len(_runs(self.shown)):
            counted += f" {n_hidden:,} with other numbers of examples are not shown."
        n = f"N = {_examples_of(self.shown)}, " if self.has_sizes else ""
        measured = [record for row in self.rows for record in row["records"]]
        lead = f"**{name} {short}**: {n}{self._ranks(measured)}; mean and std over {over}. "
        table = _table(
            self.heading if metric == _P else "",
            self.keys,
            rows,
            [_column(rows, metric, column, title) for column, title in self.columns.items()],
            f"{lead}{counted} In brackets: the 95 % interval {interval}. Subscripts: the std.",
            self._unpaired([record for record in measured if record["metric"] == metric]),
        )
        return table, rows

    def _of_sizes(self, task: str, trainings: Sequence[Record]) -> tuple[Table, list[Row]]:
        """Return a table with the bases, then one row for each number of examples.

        A row shows the mean and the range over all training runs with that number.
        """
        bases, items = self.sweep.bases_of(trainings), {run["item"] for run in trainings}
        sizes = grouped(trainings, _examples)
        measured = [_row(bases, "base", "reference")]
        measured += [_row(sizes[n], "encoder", _count(n)) for n in sorted(sizes, key=_number)]
        published = self.sweep.of_kind("published")
        numbers = [each for each in published if not each["base"] and items & each["twins"]]
        rows = _with_published(measured, numbers)
        means = [seed_means(row["records"], "metric") for row in rows]
        columns = []
        for metric, (_, short) in TITLES.items():
            of_metric = [each.get((metric,), _MISSING) for each in means]
            value, std, least, most = (
                [each[name] for each in of_metric]
                for name in ("value", "seed_std", "seed_min", "seed_max")
            )
            columns.append(
                Column(f"{short} mean", value, spreads=std, digits=_DIGITS, spread_as="sub")
            )
            columns.append(Column(f"{short} min", least, digits=_DIGITS))
            columns.append(Column(f"{short} max", most, digits=_DIGITS))
        n_runs = [
            None if row["role"] == "published" else each.get((_P,), _MISSING)["n_seeds"]
            for row, each in zip(rows, means, strict=True)
        ]
        columns.append(Column("n", n_runs, unit="count"))
        lead = "P and S of n training runs, over losses, encoders and seeds: "
        lead += f"{self._ranks([*bases, *trainings])}; std with n - 1. {_counted(trainings)}"
        heading = f"Numbers of examples, {task}{self.ending}"
        return _table(heading, ["N"], rows, columns, lead), rows

    def _ranks(self, records: Iterable[Record]) -> str:
        """Return a text with the k of the tasks and the weighting; tasks are named if k differs."""
        ks = {each["task"]: f"k = {each['k']}" for each in records if each["k"]}
        alike = len(set(ks.values())) == 1
        texts = [k if alike else f"{k} of {escape(task)}" for task, k in ks.items()]
        return ", ".join(
            [*dict.fromkeys(texts), f"ranks {WEIGHTINGS[self.sweep.config.weighting].words}"]
        )

    def _unpaired(self, records: Sequence[Record]) -> list[str]:
        """Return a note on the minimum detectable difference between the encoders of a column."""
        of_columns, smallest = grouped(records, column_of), {}
        is_alone = len({model for model, _ in self.columns}) == 1
        for column, title in self.columns.items():
            scores = map(score_of, of_columns.get(column, ()))
            least = least_unpaired([error_of(each) for each in scores if not math.isnan(each.mean)])
            if not math.isnan(least):
                smallest[column[1] if is_alone else " on ".join(title.split(", "))] = least
        return [unpaired_note(smallest)] if smallest else []

    def charts(self) -> Iterator[Chart]:
        """Yield the P–S planes, and then the charts by number of examples."""
        bases = grouped(self.sweep.bases_of(self.trainings), column_of)
        published = grouped(self.sweep.of_kind("published"), column_of)
        runs = [row for row in self.rows if row["role"] != "base"]
        trained = grouped((each for row in runs for each in row["records"]), column_of)
        for (model, task), records in trained.items():
            column, of_base = (model, task), bases.get((model, task), ())
            marks = [
                mark_of(p, s, role, name)
                for role, (name, ending) in _POINTS.items()
                for p, s in points(of_base, "item", ending=ending)
            ]
            for row in runs:
                p, s = (_mean(row, metric, column) for metric in TITLES)
                family = row["records"][0].get("settings.loss") or ""
                marks.append(mark_of(p, s, "encoder", row["name"], tuned=True, family=family))
            papers = points(published.get(column, ()), "encoder", "paper")
            marks += [mark_of(p, s, "published", p["encoder"]) for p, s in papers]
            ks = {record["k"] for record in records if record["k"]}
            if len(ks) == len({base["item"] for base in of_base}) == 1:
                title, weighting = f"{task}{self.ending}", self.sweep.config.weighting
                yield from plane_of(title, Path(model).name, ks.pop(), weighting, marks, least=2)
        for task, trainings in grouped(self.trainings, lambda run: run["task"]).items():
            if len(self.sizes) > 1:
                yield from self._by_size(task, trainings)

    def _by_size(self, task: str, trainings: Sequence[Record]) -> Iterator[LineChart]:
        """Yield charts of P and S by number of examples, with a line for each loss.

        Each point is the mean over all other settings. It is NaN if a planned run has no score.
        """
        runs = [run | {"n": _number(_examples(run))} for run in trainings]
        runs.sort(key=lambda run: run["n"])
        means = seed_means(runs, "metric", "settings.loss", "n")
        losses, sizes = (dict.fromkeys(key[i] for key in means) for i in (1, 2))

        def value(*key: object) -> float:
            mean = means.get(key, _MISSING)
            return float(mean["value"]) if mean["n_seeds"] == mean["n_planned"] else math.nan

        for metric, (_, short) in TITLES.items():
            title, x = f"{self.heading}: {short} by examples, {task}", [*map(float, sizes)]
            lines = [Series(loss, [value(metric, loss, n) for n in sizes]) for loss in losses]
            yield LineChart(title, "examples per epoch", short, x, lines, is_log=True)


def _row(records: Sequence[Record], role: Role, *heads: str) -> Row:
    """Return a row that shows the means of records, with its leading cells."""
    return {
        "records": records,
        "detail": "",
        "footnote": records[0].get("footnote"),
        "cited": records[0].get("cited"),
        "items": {record["item"] for record in records},
        "means": seed_means(records, "metric", "base", "task"),
        "role": role,
        "heads": heads,
        "name": " ".join(head for head in heads if head != MISSING),
    }


def _mean(row: Row, metric: str, column: tuple[str, str]) -> Record:
    """Return the mean of a row in the column of a base and task."""
    mean: Record = row["means"].get((metric, *column), _MISSING)
    return mean


def _with_published(measured: Sequence[Row], numbers: Iterable[Record]) -> list[Row]:
    """Return measured rows, and rows of published numbers.

    Each published row is below the measured row with the same settings. A published row without
    such a measured row follows the previous published row. If there is no previous row, it comes
    first.
    """
    rows, position = [*enumerate(measured)], -1
    for name, alike in grouped(numbers, lambda number: number["name"]).items():
        twins = twins_of(alike)
        position = next((at for at, row in enumerate(measured) if twins & row["items"]), position)
        rows.append((position, _row(alike, "published", name)))
    return [row for _, row in sorted(rows, key=lambda each: each[0])]


def _table(
    heading: str,
    titles: Sequence[str],
    rows: Sequence[Row],
    columns: Sequence[Column],
    lead: str,
    notes: Sequence[str] = (),
) -> Table:
    """Return a table of rows."""
    padded = [[*row["heads"], *[MISSING] * len(titles)] for row in rows]
    heads = [(title, [cells[i] for cells in padded]) for i, title in enumerate(titles)]
    return with_rows(Table(heading, heads, columns, lead=lead, notes=notes), rows)


def _column(rows: Sequence[Row], metric: str, column: tuple[str, str], title: str) -> Column:
    """Return the column of a base and task. The two best rows of the main recipe are bold."""
    means, marks = [_mean(row, metric, column) for row in rows], list[str]()
    for row, mean in zip(rows, means, strict=True):
        n, n_planned = mean["n_seeds"], mean["n_planned"]
        mark = f" ({n} of {n_planned} seeds)" if 0 < n < n_planned else ""
        if row["role"] == "published":
            twins = twins_of(each for each in row["records"] if column_of(each) == column)
            pairs = zip(rows, means, strict=True)
            values = (each["value"] for twin, each in pairs if twins & twin["items"])
            value = next((value for value in values if not math.isnan(value)), None)
            mark = twin_mark(value, mean["value"], _DIGITS)
        marks.append(mark)
    return Column.of(
        title,
        [score_of(mean) for mean in means],
        intervals=True,
        rivals=["" if row["role"] == "encoder" else None for row in rows],
        marks=marks,
        spreads=[mean["std" if mean["n_planned"] == 1 else "seed_std"] for mean in means],
        digits=_DIGITS,
        n_best=2,
        spread_as="sub",
        stored=[mean["value"] for mean in means],
    )


def _detail(row: Row, sweep: SweepScores) -> Detail:
    """Return the provenance of a row: its encoders, settings, command and result files."""
    if row["role"] == "published":
        sources = dict.fromkeys(number["source"] for number in row["records"])
        return Detail({}, source=", ".join(sources))
    runs = _runs(row["records"])
    done = [run["result"] for run in runs if run["state"] == "done"]
    facts = {"encoder": ", ".join(dict.fromkeys(run["encoder"] for run in runs))}
    if row["role"] != "base":
        settings = dict.fromkeys(text for run in runs for text in _texts(run["given"].items()))
        facts = {"settings": ", ".join(settings), "training runs": f"{len(done)} of {len(runs)}"}
    return detail_of(facts, sweep.command, done, sweep.folder) if done else Detail(facts)


def _runs(records: Iterable[Record]) -> list[Record]:
    """Return one record for each training run or base."""
    return [record for record in records if record["metric"] == _P]


def _counted(trainings: Iterable[Record]) -> str:
    """Return a text with the numbers of all, missing, failed and undefined training runs."""
    runs = _runs(trainings)
    n_of = Counter(run["state"] for run in runs)
    n_of["undefined"] = sum(run["state"] == "done" and math.isnan(run["value"]) for run in runs)
    words = {"left": "missing", "failed": "failed", "undefined": "undefined"}
    lacking = ", ".join(f"{n_of[key]:,} {word}" for key, word in words.items() if n_of[key])
    noun = "training run" if len(runs) == 1 else "training runs"
    return f"{len(runs):,} {noun}{': ' if lacking else ''}{lacking}."


def _texts(settings: Iterable[tuple[str, Any]]) -> list[str]:
    """Return settings as texts, such as `margin 0.1`, without missing settings."""
    return [f"{key} {word(value)}" for key, value in settings if value is not None]


def _examples(training: Record) -> int | None:
    """Return the number of examples of a training run; None stands for the default number."""
    return training.get("settings.examples")


def _number(examples: int | None) -> int:
    return examples or DEFAULT_COUNT


def _count(n: int | None) -> str:
    """Return a number of examples as text; None stands for the default number."""
    return f"{DEFAULT_COUNT:,} or all if there are fewer" if n is None else f"{n:,}"


def _examples_of(trainings: Sequence[Record]) -> str:
    """Return a text on the examples that training runs share: their number or their origin."""
    names = ["dropout", "examples_from", "examples"]
    dropout, source, examples = next(iter(by_settings(trainings, names)))
    if dropout is not None:
        return "by dropout"
    return "as given" if source is not None and examples is None else _count(examples)
