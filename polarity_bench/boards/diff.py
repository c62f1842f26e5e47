"""Cell-by-cell differences between two boards."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from polarity_bench.render.format import MISSING
from polarity_bench.render.table import Board
from polarity_bench.results.comparability import difference
from polarity_bench.results.result_files import read_results

if TYPE_CHECKING:
    from pandas import DataFrame

Place = tuple[str, tuple[str, ...], str]
"""Location of a cell: heading of the table, leading cells of the row and title of the column."""

_SAME = 1e-6
"""Largest difference between two values that are treated as equal: texts encoded again, in other
batches, move S by about 1e-8."""
_N_TASKS = re.compile(r", \d+( of \d+)? tasks?(?=\))")
_MEANS = "Means"


def changes(one: Board, other: Board) -> DataFrame:
    """Return the cells that differ, in the order of the second board; removed cells come last.

    The columns are `table`, `row` (its leading cells), `column`, `change`, `before`, `after` and
    `difference` (second value minus first). `change` is `added` if the cell is only in the second
    board, `removed` if it is only in the first, and otherwise `changed`. Missing values are NaN.
    `before` and `after` are as the boards show them; the difference is that of the stored values,
    which may be below the least that is shown (see `Metric.shown`).
    """
    import pandas as pd

    first, second = _cells(one), _cells(other)
    none = (math.nan, math.nan)
    rows = [
        (*place, *first.get(place, none), *second.get(place, none)) for place in {**second, **first}
    ]
    numbers = ["before", "stored before", "after", "stored after"]
    cells = pd.DataFrame(rows, columns=["table", "row", "column", *numbers])
    cells = cells.astype(dict.fromkeys(numbers, float))
    change = cells["before"].isna().map({True: "added", False: "changed"})
    cells.insert(3, "change", change.mask(cells["after"].isna(), "removed"))
    cells["difference"] = cells.pop("stored after") - cells.pop("stored before")
    return cells[~(cells["difference"].abs() <= _SAME)]


def other_causes(boards: Sequence[Board], folders: Sequence[Path]) -> Iterator[str]:
    """Yield what else than encoders differs between two boards, as sentences."""
    first, second = (
        {
            (result.task, result.key.protocol_label): result
            for result in read_results(folder, of_folds=None)
            if result.limit is None
        }
        for folder in folders
    )
    if only := sorted({task for task, _ in first.keys() ^ second.keys()}):
        names = ", ".join(only)
        yield f"only one folder has results of {names}, so do not compare means over tasks"
    elif all(means := list(map(_means, boards))) and means[0] != means[1]:
        yield "the means are over other tasks, so do not compare means over tasks"
    for place in sorted(first.keys() & second.keys()):
        if unlike := difference(first[place], second[place]):
            yield f"{place[0]}: the {unlike[0]} differs, so do not compare its scores"


def _cells(board: Board) -> dict[Place, tuple[float, float]]:
    """Return every number of a board, as it is shown and as it is stored, by its location."""
    numbers: dict[Place, tuple[float, float]] = {}
    for name, table in board.named_tables:
        for i in range(table.n_rows):
            row = _row({title: cells[i] for title, cells in table.heads})
            for column in table.columns:
                value, stored = column.values[i], (column.stored or column.values)[i]
                if value is not None and stored is not None and not math.isnan(value):
                    numbers[_base(name), row, _base(column.title)] = value, stored
    return numbers


def _means(board: Board) -> list[str]:
    """Return what a board says of its means: the headings, and the note on tasks left out."""
    headings = [name for name, _ in board.named_tables if _base(name) == _MEANS]
    return headings and [*headings, *(each for each in board.notes if each.startswith(_MEANS))]


def _row(cells: Mapping[str, str]) -> tuple[str, ...]:
    """Return the leading cells that name a row, alike on boards that show other columns.

    Ranks depend on the results of other encoders. A board has the columns of prompts, seeds and
    strengths only if its rows differ in them. Without that of prompts, names contain the prompt.
    """
    named = {title: cell for title, cell in cells.items() if title != "rank"}
    if "encoder" in named:  # not in a sweep, whose leading columns are its settings
        named.pop("seeds", None)
        if named.get("strength") == MISSING:
            del named["strength"]
        prompt = named.pop("prompt", MISSING)
        if prompt != MISSING:
            name, _, details = named["encoder"].partition(" (")
            named["encoder"] = f"{name} (prompt {prompt}{', ' + details if details else ')'}"
    return tuple(named.values())


def _base(heading: str) -> str:
    """Return a heading without the tasks of a mean.

    These tasks depend on the results of other encoders.
    """
    heading = _MEANS if heading.startswith(("Means over ", "Summary: ")) else heading
    return _N_TASKS.sub("", heading)
