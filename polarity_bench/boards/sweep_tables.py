"""Tables of a sweep, laid out as in the margins paper.

Rows are losses with their parameters. Columns are base encoders, by the data set trained on, and
show the scores on that data set. Other settings that differ between training runs make sections.
If there are several numbers of examples, these tables show one of them, and a separate table shows
all of them, over all configurations.

Jørgensen and Breitung (2025), Margins in Contrastive Learning, tables 4, 5 and 6.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polarity_bench.boards.rank_notes import unpaired_note
from polarity_bench.boards.sweep_cells import (
    SweepCell,
    at_k,
    bases_of,
    counted,
    grouped,
    in_words,
    size_of,
)
from polarity_bench.boards.sweep_charts import by_size as by_size_drawn
from polarity_bench.boards.sweep_charts import sweep_drawn
from polarity_bench.boards.sweep_provenance import detail_of
from polarity_bench.boards.sweep_scores import SweepScores
from polarity_bench.boards.sweep_size_tables import size_table
from polarity_bench.compare.power import error_of, least_unpaired
from polarity_bench.render.chart import Drawn
from polarity_bench.render.format import percent
from polarity_bench.render.table import Board, Column, Detail, Role, Table
from polarity_bench.sweeps.published_scores import PublishedTraining, reported_of
from polarity_bench.sweeps.records import METRICS, TOLD_BY, Record, word
from polarity_bench.training.examples.spec import DEFAULT_COUNT
from polarity_bench.training.losses.pair import LOSSES
from polarity_bench.training.parameters import declared
from polarity_bench.training.recipes.margins import Margins

_PLACED = frozenset({"recipe", "model", "task", "seed"})  # they define neither rows nor sections
_NOTE = (
    "Rows in italics, the bases as they are, other recipes and what is published, compete with "
    "none; of the others the two best of each column are bold, ties as shown included."
)
_REPORTED_NOTE = (
    "Behind a published number stands how far the trainings measured here by the same settings lie "
    "above it."
)
_NOTHING = "-"

FIRST = next(iter(METRICS))


@dataclass(frozen=True)
class _Row:
    """A row of the loss tables: leading cells, and the records or the published numbers shown."""

    heads: Sequence[str]
    records: Sequence[Record]
    role: Role
    reported: Sequence[PublishedTraining] = ()

    def cell(self, column: tuple[str, str], metric: str) -> SweepCell:
        """Return the published number in a column, or the mean of the records there."""
        for each in self.reported:
            if (each.column, each.metric) == (column, metric):
                return SweepCell(each.value, each.std)
        return SweepCell.of_records(
            [each for each in self.records if each.column == column], metric
        )


@dataclass(frozen=True)
class _Axes:
    """The settings that define the rows and sections of the main recipe's training runs."""

    recipe: str
    rows: Sequence[str]
    sections: Sequence[str]

    @classmethod
    def of_trainings(cls, trainings: Sequence[Record]) -> _Axes:
        """Choose rows and sections from the settings that differ between training runs.

        For the recipe `margins`, parameters of losses define rows and other settings define
        sections. For other recipes, all settings define rows.
        """
        recipes = [each.settings["recipe"] for each in trainings]
        main = Margins.name if Margins.name in recipes else recipes[0]
        own = [each for each in trainings if each.settings["recipe"] == main]
        differ = _differing(own)
        if main != Margins.name:
            return cls(main, differ or ["recipe"], ())
        of_losses = {each.name for loss in LOSSES.values() for each in declared(loss)}
        pairs = {(each.settings["examples"], each.settings["batch_size"]) for each in own}
        follows = len(pairs) == len({n for n, _ in pairs})  # one batch size for each N
        free = {"examples", *(["batch_size"] if follows else [])}
        rows = ["loss", *(key for key in differ if key in of_losses)]
        return cls(main, rows, [key for key in differ if key not in {*rows, *free}])


def sweep_board(scores: SweepScores) -> Board:
    """Lay out the tables and charts of a sweep."""
    axes = _Axes.of_trainings(scores.trainings)
    own = [each for each in scores.trainings if each.settings["recipe"] == axes.recipe]
    others = [each for each in scores.trainings if each.settings["recipe"] != axes.recipe]
    tables: list[Table] = []
    drawn: list[Drawn] = []
    details: dict[str, Detail] = {}
    for values, records in grouped(own, axes.sections).items():
        of = "".join(f", {said}" for said in _said(axes.sections, values))
        what = "Losses" if axes.recipe == Margins.name else axes.recipe
        by_size = grouped(records, ["examples"] if axes.recipe == Margins.name else [])
        shown = _shown(by_size)
        n = f"N = {_n_of(by_size[shown])}, " if shown else ""
        n_hidden = len(records) - len(by_size[shown])
        tables += _loss_tables(
            scores, axes, what + of, [*by_size[shown], *others], details, n=n, n_hidden=n_hidden
        )
        rows = _rows([*by_size[shown], *others], axes)
        named = {" ".join(h for h in row.heads if h != _NOTHING): row.records for row in rows}
        bases = bases_of(records, scores)
        drawn += sweep_drawn(named, bases, scores.reported, scores.weighting, of)
        for (task,), alike in grouped(records, ["task"]).items() if len(by_size) > 1 else ():
            tables.append(size_table(scores, f"Numbers of examples, {task}{of}", alike))
            sizes = {n: several for (n,), several in grouped(alike, ["examples"]).items()}
            drawn += by_size_drawn(what + of, sizes, task)
    notes = [_NOTE, *([_REPORTED_NOTE] if scores.reported else ())]
    return Board(scores.title, scores.introduction, tables, notes, drawn, details)


def _shown(by_size: Mapping[tuple[Any, ...], Sequence[Record]]) -> tuple[Any, ...]:
    """Choose the number of examples to show: the papers' number if available, else the largest.

    Numbers of examples for which no training run is missing take precedence.
    """
    whole = [n for n, records in by_size.items() if all(each.stored for each in records)]
    sizes = whole or list(by_size)
    return (DEFAULT_COUNT,) if (DEFAULT_COUNT,) in sizes else max(sizes, key=size_of)


def _loss_tables(
    scores: SweepScores,
    axes: _Axes,
    heading: str,
    records: Sequence[Record],
    details: dict[str, Detail],
    *,
    n: str,
    n_hidden: int,
) -> list[Table]:
    """Lay out a table of P and one of S, with a row for each loss and a lead above each table."""
    columns = _columns(records, scores.models)
    bases = bases_of(records, scores)
    hidden = f" {n_hidden:,} with other numbers of examples are not shown." if n_hidden else ""
    measured = [*_base_rows(bases, axes), *_rows(records, axes)]
    over_seeds = any(len(row.records) > len({r.column for r in row.records}) for row in measured)
    over = "seeds, of a single one over queries" if over_seeds else "queries"
    alone = "for other seeds and queries, of a single one over queries"
    of = alone if over_seeds else "over queries"
    tables = []
    for metric, (name, short) in METRICS.items():
        lead = (
            f"**{name} {short}**: {n}{at_k([*bases, *records])}ranks weighted "
            f"{scores.weighting}ly; mean and std over {over}. {counted(records)}{hidden} "
            f"In brackets: the 95 % interval {of}."
        )
        rows = _with_reported(measured, [r for r in scores.reported if r.metric == metric], axes)
        heads = [(key, [row.heads[i] for row in rows]) for i, key in enumerate(axes.rows)]
        cells = [_column(title, rows, c, metric) for title, c in _titled(columns)]
        roles = [row.role for row in rows]
        keys = [f"{heading}, {short}, row {i}" for i in range(len(rows))]
        details |= {
            key: detail_of(row.records, row.reported, scores.folder, scores.command)
            for key, row in zip(keys, rows, strict=True)
        }
        said = {each.number: each.footnote for row in rows for each in row.reported}
        shown = heading if metric == FIRST else ""
        tables.append(
            Table(
                shown,
                heads,
                cells,
                roles,
                keys,
                lead=lead,
                notes=[*_unpaired(columns, measured, metric), *(said[n] for n in sorted(said))],
            )
        )
    return tables


def _unpaired(columns: Sequence[tuple[str, str]], rows: Sequence[_Row], metric: str) -> list[str]:
    """Return a note on the minimum detectable difference between encoders of each column."""
    found = {}
    alone = len({model for model, _ in columns}) == 1
    for title, column in _titled(columns):
        own = [each for row in rows for each in row.records if each.column == column]
        errors = [error_of(score) for each in own if (score := each.score(metric))]
        if not math.isnan(least := least_unpaired(errors)):
            found[column[1] if alone else " on ".join(title.split(", "))] = least
    return [unpaired_note(found)] if found else []


def _base_rows(bases: Sequence[Record], axes: _Axes) -> list[_Row]:
    dashes = [_NOTHING] * (len(axes.rows) - 1)
    return [
        _Row([", ".join(["reference", *_said(TOLD_BY, values)]), *dashes], alike, "base")
        for values, alike in grouped(bases, TOLD_BY).items()
    ]


def _rows(records: Sequence[Record], axes: _Axes) -> list[_Row]:
    """Return the rows of other recipes, then the competing rows of the main recipe."""
    rows = []
    dashes = [_NOTHING] * (len(axes.rows) - 1)
    for (recipe,), alike in grouped(records, ["recipe"]).items():
        own = recipe == axes.recipe
        keys = axes.rows if own else _differing(alike)
        for values, several in grouped(alike, keys).items():
            name = ", ".join([recipe, *_said(keys, values)])
            words = [_NOTHING if value is None else word(value) for value in values]
            heads = words if own else [name, *dashes]
            rows.append(_Row(heads, several, "encoder" if own else "other"))
    return sorted(rows, key=lambda row: row.role == "encoder")


def _with_reported(
    rows: Sequence[_Row], reported: Sequence[PublishedTraining], axes: _Axes
) -> list[_Row]:
    """Insert published rows, each below the measured row that it corresponds to.

    A published row without a measured row follows the published row before it in the file. If there
    is none, it comes first.
    """
    below: list[list[_Row]] = [[] for _ in rows]
    first: list[_Row] = []
    place = first
    for one in _reported_rows(reported, axes):
        own = (i for i, row in enumerate(rows) if reported_of(one.reported, row.records))
        place = next((below[i] for i in own), place)
        place.append(one)
    return [*first, *(each for i, row in enumerate(rows) for each in (row, *below[i]))]


def _reported_rows(reported: Sequence[PublishedTraining], axes: _Axes) -> list[_Row]:
    shares: dict[tuple[str, int], list[PublishedTraining]] = {}
    for each in reported:
        shares.setdefault((each.name, each.number), []).append(each)
    dashes = [_NOTHING] * (len(axes.rows) - 1)
    return [
        _Row([f"{name}, as published [{number}]", *dashes], (), "published", alike)
        for (name, number), alike in shares.items()
    ]


def _column(title: str, rows: Sequence[_Row], of: tuple[str, str], metric: str) -> Column:
    """Lay out a column. The two best competing rows are marked as best."""
    cells = [row.cell(of, metric) for row in rows]
    marks = [
        _above(rows, row, of, metric) if row.reported else cell.mark
        for row, cell in zip(rows, cells, strict=True)
    ]
    return Column(
        title,
        [cell.mean for cell in cells],
        [cell.ends for cell in cells],
        rivals=["" if row.role == "encoder" else None for row in rows],
        spreads=[cell.std for cell in cells],
        marks=marks,
        digits=1,
        n_best=2,
        spread_as="sub",
    )


def _above(rows: Sequence[_Row], row: _Row, of: tuple[str, str], metric: str) -> str:
    """Return, as text, by how much the measured score exceeds a published number."""
    for each in row.reported:
        if (each.column, each.metric) == (of, metric):
            twins = [r for r in rows if not r.reported and reported_of([each], r.records)]
            for twin in twins:
                if not math.isnan(measured := twin.cell(of, metric).mean):
                    return f" ({percent(measured - each.value, 1, '+')})"
    return ""


def _columns(records: Sequence[Record], models: Sequence[str]) -> list[tuple[str, str]]:
    """Return the columns: each model with its tasks.

    Wanted models come first, in their order, and have columns even without training runs. Other
    models follow in the order of first occurrence.
    """
    there = {each.column for each in records}
    tasks = dict.fromkeys(each.task for each in records)
    known = dict.fromkeys([*models, *(each.settings["model"] for each in records)])
    return [(m, task) for m in known for task in tasks if m in models or (m, task) in there]


def _titled(columns: Sequence[tuple[str, str]]) -> list[tuple[str, tuple[str, str]]]:
    """Return columns with titles: the last part of the model's name if that is unique."""
    models = {model for model, _ in columns}
    last = {model: Path(model).name for model in models}
    short = last if len(set(last.values())) == len(models) else {model: model for model in models}
    return [(f"{short[model]}, {task}", (model, task)) for model, task in columns]


def _differing(records: Sequence[Record]) -> list[str]:
    """Return the settings in the grid that have several values."""
    said = dict.fromkeys(key for each in records for key in each.said if key not in _PLACED)
    return [key for key in said if len(grouped(records, [key])) > 1]


def _said(keys: Sequence[str], values: Sequence[Any]) -> list[str]:
    return [f"{k} {word(v)}" for k, v in zip(keys, values, strict=True) if v is not None]


def _n_of(records: Sequence[Record]) -> str:
    """Return a text with the number of examples of training runs that share this setting."""
    settings = records[0].settings
    if settings.get("dropout") is not None:
        return "by dropout"
    if settings.get("examples_from") is not None and settings.get("examples") is None:
        return "as given"
    return in_words(settings.get("examples"))
