"""Tables: what a sweep scored, as the margins paper lays it out.

Rows are losses with their parameters, columns base encoders by the data set trained on; each
encoder is shown by its score on that one. What differs between trainings and is no loss's makes
sections. Where there are several numbers of examples, one is shown so, and all of them in a table
of their own, over all configurations.

Jørgensen and Breitung (2025), Margins in Contrastive Learning, tables 4, 5 and 6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from tabulate import tabulate

from polarity_bench.boards.markdown import MISSING, escape, percent
from polarity_bench.sweeps.scored import METRICS, TOLD_BY, Record, SweepScores, word
from polarity_bench.training.fields import declared
from polarity_bench.training.losses import LOSSES
from polarity_bench.training.recipes.margins import DEFAULT_COUNT, Margins

_PLACED = frozenset({"recipe", "model", "task", "seed"})  # they make no rows and no sections
_NOTE = (
    "Percentages. Rows in italics, the bases as they are and other recipes, compete with none; of "
    "the others the two best of each column are bold, ties as shown included."
)

_FIRST = next(iter(METRICS))

Cells = Sequence[tuple[str, Sequence[str]]]
"""Title and cells of each column."""


@dataclass(frozen=True)
class _Cell:
    """A mean as a fraction and its spread, nan where there is none.

    Attributes:
        n: How many trainings it is over, of so many planned.
    """

    mean: float = math.nan
    std: float = math.nan
    n: int = 1
    of: int = 1

    @classmethod
    def over(cls, means: Sequence[float]) -> _Cell:
        """The mean and the spread of several trainings."""
        std = stdev(means) if len(means) > 1 else math.nan
        return cls(fmean(means), std) if means else cls()

    @classmethod
    def of_records(cls, records: Sequence[Record], metric: str) -> _Cell:
        """The one training that is planned, by its spread over queries; or over several seeds."""
        if len(records) == 1 and (score := records[0].score(metric)):
            return cls(score.mean, score.std)
        means = _means(records, metric)
        return replace(cls.over(means), n=len(means), of=len(records))

    @property
    def number(self) -> str:
        """The mean as it is shown."""
        return percent(self.mean, 1)

    def text(self, mark: str = "") -> str:
        """Show it, the mean between two marks."""
        if math.isnan(self.mean):
            return MISSING
        spread = "" if math.isnan(self.std) else f" <sub>{percent(self.std, 1)}</sub>"
        partly = f" ({self.n} of {self.of} seeds)" if self.n < self.of else ""
        return f"{mark}{self.number}{mark}{spread}{partly}"


@dataclass(frozen=True)
class _Row:
    """A row of the loss tables: its leading cells, as markdown, and what it is of."""

    heads: Sequence[str]
    records: Sequence[Record]
    competes: bool

    def cell(self, column: tuple[str, str], metric: str) -> _Cell:
        """Average what it has in a column."""
        return _Cell.of_records([each for each in self.records if each.column == column], metric)


@dataclass(frozen=True)
class _Axes:
    """By which settings the trainings of the main recipe are laid out."""

    recipe: str
    rows: Sequence[str]
    sections: Sequence[str]

    @classmethod
    def of_trainings(cls, trainings: Sequence[Record]) -> _Axes:
        """Losses' own settings are rows and the rest sections; of other recipes all are rows."""
        recipes = [each.settings["recipe"] for each in trainings]
        main = Margins.name if Margins.name in recipes else recipes[0]
        own = [each for each in trainings if each.settings["recipe"] == main]
        differ = _differing(own)
        if main != Margins.name:
            return cls(main, differ or ["recipe"], ())
        of_losses = {each.name for loss in LOSSES.values() for each in declared(loss)}
        pairs = {(each.settings["examples"], each.settings["batch_size"]) for each in own}
        follows = len(pairs) == len({n for n, _ in pairs})  # one size of batch for each number
        free = {"examples", *(["batch_size"] if follows else [])}
        rows = ["loss", *(key for key in differ if key in of_losses)]
        return cls(main, rows, [key for key in differ if key not in {*rows, *free}])


def render_sweep(scores: SweepScores, width: int | None = None) -> str:
    """Render the tables of a sweep as markdown, each to a width where one is given."""
    axes = _Axes.of_trainings(scores.trainings)
    own = [each for each in scores.trainings if each.settings["recipe"] == axes.recipe]
    others = [each for each in scores.trainings if each.settings["recipe"] != axes.recipe]
    parts = [f"# {escape(scores.title)}", *filter(None, [scores.introduction])]
    for values, records in _grouped(own, axes.sections).items():
        of = "".join(f", {said}" for said in _said(axes.sections, values))
        what = "Losses" if axes.recipe == Margins.name else axes.recipe
        by_size = _grouped(records, ["examples"] if axes.recipe == Margins.name else [])
        shown = (DEFAULT_COUNT,) if (DEFAULT_COUNT,) in by_size else max(by_size, key=_size)
        n = f"N = {_n_of(by_size[shown])}, " if shown else ""
        n_hidden = len(records) - len(by_size[shown])
        parts.append(f"## {escape(what + of)}")
        parts += _loss_tables(scores, axes, [*by_size[shown], *others], n, n_hidden, width)
        for (task,), alike in _grouped(records, ["task"]).items() if len(by_size) > 1 else ():
            parts.append(f"## {escape(f'Numbers of examples, {task}{of}')}")
            parts += _size_table(scores, alike, width)
    return "\n\n".join([*parts, _NOTE]) + "\n"


def _loss_tables(
    scores: SweepScores,
    axes: _Axes,
    records: Sequence[Record],
    n: str,
    n_hidden: int,
    width: int | None,
) -> list[str]:
    """Lay out P, then S, a row for each loss; what the rows are of stands above each."""
    columns = _columns(records)
    bases = _bases_of(records, scores)
    hidden = f" {n_hidden:,} with other numbers of examples are not shown." if n_hidden else ""
    rows = [*_base_rows(bases, axes), *_rows(records, axes)]
    over_seeds = any(len(row.records) > len({each.column for each in row.records}) for row in rows)
    over = "seeds, of a single one over queries" if over_seeds else "queries"
    heads = [(key, [row.heads[i] for row in rows]) for i, key in enumerate(axes.rows)]
    parts = []
    for metric, (name, short) in METRICS.items():
        parts.append(
            f"**{name} {short}**: {n}{_at_k([*bases, *records])}ranks weighted "
            f"{scores.weighting}ly; mean and std over {over}. {_counts(records)}{hidden}"
        )
        cells = [(title, _marked(rows, c, metric)) for title, c in _titled(columns)]
        parts.append(_grid(heads, cells, width))
    return parts


def _base_rows(bases: Sequence[Record], axes: _Axes) -> list[_Row]:
    dashes = [MISSING] * (len(axes.rows) - 1)
    return [
        _Row([_italic(", ".join(["reference", *_said(TOLD_BY, values)])), *dashes], alike, False)
        for values, alike in _grouped(bases, TOLD_BY).items()
    ]


def _rows(records: Sequence[Record], axes: _Axes) -> list[_Row]:
    """Return the rows of other recipes, then those that compete."""
    rows = []
    dashes = [MISSING] * (len(axes.rows) - 1)
    for (recipe,), alike in _grouped(records, ["recipe"]).items():
        own = recipe == axes.recipe
        keys = axes.rows if own else _differing(alike)
        for values, several in _grouped(alike, keys).items():
            name = ", ".join([recipe, *_said(keys, values)])
            words = [MISSING if value is None else escape(word(value)) for value in values]
            heads = words if own else [_italic(name), *dashes]
            rows.append(_Row(heads, several, own))
    return sorted(rows, key=lambda row: row.competes)


def _marked(rows: Sequence[_Row], column: tuple[str, str], metric: str) -> list[str]:
    """Show a column: the two best that compete in bold, those that do not in italics."""
    cells = [row.cell(column, metric) for row in rows]
    rivals = [cell for row, cell in zip(rows, cells, strict=True) if row.competes and cell.n]
    shown = sorted(float(cell.number) for cell in rivals)
    least = shown[-2] if len(shown) > 1 else math.inf
    return [
        cell.text(
            "*" if not row.competes else "**" if cell.n and float(cell.number) >= least else ""
        )
        for row, cell in zip(rows, cells, strict=True)
    ]


def _size_table(scores: SweepScores, records: Sequence[Record], width: int | None) -> list[str]:
    """Lay out all configurations by their number of examples, below their bases."""
    bases = _bases_of(records, scores)
    by_size = _grouped(records, ["examples"])
    rows = [("*reference*", "*", bases)]
    rows += [(escape(_examples(*n)), "", by_size[n]) for n in sorted(by_size, key=_size)]
    shown: list[tuple[str, list[str]]] = []
    for metric, (_, short) in METRICS.items():
        found = [(mark, _means(several, metric)) for _, mark, several in rows]
        shown.append((f"{short} mean", [_Cell.over(means).text(mark) for mark, means in found]))
        for title, end in (("min", min), ("max", max)):
            ends = [_Cell(end(means, default=math.nan)).text(mark) for mark, means in found]
            shown.append((f"{short} {title}", ends))
    shown.append(("n", [str(len(_means(several, _FIRST))) for _, _, several in rows]))
    line = (
        f"P and S of n trainings, over losses, encoders and seeds: {_at_k([*bases, *records])}"
        f"ranks weighted {scores.weighting}ly; std with n - 1. {_counts(records)}"
    )
    return [line, _grid([("N", [name for name, _, _ in rows])], shown, width)]


def _counts(records: Sequence[Record]) -> str:
    """Say how many trainings there are, and of how many there is nothing."""
    states = [each.state for each in records]
    lacking = {"missing": states.count("left"), "failed": states.count("failed")}
    lacking["undefined"] = sum(bool(r.stored) and not r.score(_FIRST) for r in records)
    said = [f"{n:,} {what}" for what, n in lacking.items() if n]
    noun = "training" if len(states) == 1 else "trainings"
    return f"{len(states):,} {noun}{': ' if said else ''}{', '.join(said)}."


def _grid(heads: Cells, columns: Cells, width: int | None) -> str:
    """Lay out cells that are markdown; the last columns are left out where there is no room."""
    for n_shown in range(len(columns), 0, -1):
        shown = [*heads, *columns[:n_shown]]
        align = ["left"] * len(heads) + ["right"] * n_shown
        rows = list(zip(*(cells for _, cells in shown), strict=True))
        titles = [escape(title) for title, _ in shown]
        text = tabulate(rows, titles, tablefmt="pipe", colalign=align, disable_numparse=True)
        if width is None or text.find("\n") <= width:
            break
    left_out = "; ".join(escape(title) for title, _ in columns[n_shown:])
    return f"{text}\n\nToo wide to show here, see `wide`: {left_out}" if left_out else text


def _at_k(records: Sequence[Record]) -> str:
    """Say the k of the tasks, of each where they differ."""
    ks = {each.task: each.k for each in records if each.k is not None}
    if len(set(ks.values())) > 1:
        return "".join(f"k = {k} of {escape(task)}, " for task, k in ks.items())
    return "".join(f"k = {k}, " for k in set(ks.values()))


def _columns(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Return models by tasks, both in the order that they first come in."""
    there = {each.column for each in records}
    models = dict.fromkeys(model for model, _ in (each.column for each in records))
    tasks = dict.fromkeys(each.task for each in records)
    return [(model, task) for model in models for task in tasks if (model, task) in there]


def _titled(columns: Sequence[tuple[str, str]]) -> list[tuple[str, tuple[str, str]]]:
    """Name columns by the last part of the model, where that tells models apart."""
    models = {model for model, _ in columns}
    last = {model: Path(model).name for model in models}
    short = last if len(set(last.values())) == len(models) else {model: model for model in models}
    return [(f"{short[model]}, {task}", (model, task)) for model, task in columns]


def _grouped(records: Sequence[Record], keys: Sequence[str]) -> dict[tuple[Any, ...], list[Record]]:
    """Group records by the values of settings, in the order that these first come in."""
    found: dict[tuple[Any, ...], list[Record]] = {}
    for each in records:
        found.setdefault(tuple(each.settings.get(key) for key in keys), []).append(each)
    return found


def _differing(records: Sequence[Record]) -> list[str]:
    """Return the settings that a grid says and of which there are several values."""
    said = dict.fromkeys(key for each in records for key in each.said if key not in _PLACED)
    return [key for key in said if len(_grouped(records, [key])) > 1]


def _said(keys: Sequence[str], values: Sequence[Any]) -> list[str]:
    return [f"{k} {word(v)}" for k, v in zip(keys, values, strict=True) if v is not None]


def _size(examples: tuple[int | None, ...]) -> int:
    """Sort numbers of examples; () is of recipes that are not counted by them."""
    return (examples[0] or DEFAULT_COUNT) if examples else 0


def _n_of(records: Sequence[Record]) -> str:
    """Say how many examples trainings had, who have the same setting."""
    settings = records[0].settings
    if settings.get("dropout") is not None:
        return "by dropout"
    if settings.get("examples_from") is not None and settings.get("examples") is None:
        return "as given"
    return _examples(settings.get("examples"))


def _bases_of(records: Sequence[Record], scores: SweepScores) -> list[Record]:
    """Return the bases of trainings: those they were planned after, where a plan says so."""
    columns = {each.column for each in records}
    own = {each.base for each in records}
    return [e for e in scores.bases if e.column in columns and (e.base is None or e.base in own)]


def _examples(n: int | None) -> str:
    return f"{DEFAULT_COUNT:,} or all there are" if n is None else f"{n:,}"


def _means(records: Sequence[Record], metric: str) -> list[float]:
    return [score.mean for each in records if (score := each.score(metric))]


def _italic(text: str) -> str:
    return f"*{escape(text)}*"
