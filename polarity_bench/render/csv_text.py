"""CSV output of boards: one unrounded number per line, for spreadsheets and data frames."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from polarity_bench.render.format import MISSING, best_of
from polarity_bench.render.table import Board, Table
from polarity_bench.values import printable

_NUMBERS = ("column", "unit", "value", "low", "high", "std", "best", "mark")
_UNITS = {"percent": "fraction", "points": "difference of fractions"}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def board_csv(board: Board) -> str:
    """Render all tables of a board as CSV, with one line per number.

    The first columns identify the row of a table: `table`, the titles of all leading columns, and
    `role`. The next columns describe the number: `column`, `unit`, `value`, `low` and `high` (its
    95 % interval), `std`, `best` and `mark`. Missing text is empty. Text that a spreadsheet would
    read as a formula is prefixed with an apostrophe.
    """
    from pandas import DataFrame

    titles = list(dict.fromkeys(title for table in board.tables for title, _ in table.heads))
    lines = [line for name, table in board.named_tables for line in _lines(table, name, titles)]
    frame = DataFrame(lines, columns=["table", *titles, "role", *_NUMBERS])
    return frame.to_csv(index=False, lineterminator="\n")


def _lines(table: Table, heading: str, titles: Sequence[str]) -> Iterator[list[object]]:
    heads = dict(table.heads)
    best = [best_of(column) for column in table.columns]
    for row in range(table.n_rows):
        known = {title: cells[row] for title, cells in heads.items() if cells[row] != MISSING}
        named = [cell_text(known.get(title, "")) for title in titles]
        for column, is_best in zip(table.columns, best, strict=True):
            value = column.values[row]
            if value is None or math.isnan(value):
                continue
            low, high = (column.intervals[row] if column.intervals else None) or (None, None)
            std = column.spreads[row] if column.spreads else None
            mark = column.marks[row].strip() if column.marks else ""
            numbers = [float(value), low, high, std]
            about = [cell_text(column.title), _UNITS.get(column.unit, column.unit)]
            ending = [int(is_best[row]), cell_text(mark)]
            yield [cell_text(heading), *named, table.role(row), *about, *numbers, *ending]


def cell_text(text: str) -> str:
    """Escape control characters, and text that a spreadsheet would read as a formula."""
    return f"'{printable(text)}" if text.startswith(_FORMULA) else printable(text)
