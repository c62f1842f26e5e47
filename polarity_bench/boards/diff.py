"""Cell-by-cell differences between two boards."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from polarity_bench.render.table import Board

Place = tuple[str, tuple[str, ...], str]
"""Location of a cell: heading of the table, leading cells of the row and title of the column."""

_SAME = 1e-9
"""Largest difference between two values that are treated as equal."""
_N_TASKS = re.compile(r", \d+( of \d+)? tasks?(?=\))")
_OF_RANKS = "rank"


@dataclass(frozen=True)
class Change:
    """A cell that differs between two boards.

    Attributes:
        table: Heading of the table.
        row: Leading cells of the row.
        column: Title of the column.
        before: Value in the first board; None if the cell is missing there.
        after: Value in the second board; None if the cell is missing there.
    """

    table: str
    row: tuple[str, ...]
    column: str
    before: float | None
    after: float | None

    @property
    def what(self) -> Literal["added", "removed", "changed"]:
        """Kind of change: the cell is only in the second board, only in the first, or in both."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"

    @property
    def difference(self) -> float | None:
        """Second value minus first value; None if one of them is missing."""
        return None if self.before is None or self.after is None else self.after - self.before


def changes(one: Board, other: Board) -> list[Change]:
    """Return the cells that differ, in the order of the second board; removed cells come last."""
    first, second = _cells(one), _cells(other)
    differing = []
    for place in [*second, *(place for place in first if place not in second)]:
        change = Change(*place, first.get(place), second.get(place))
        if change.difference is None or abs(change.difference) > _SAME:
            differing.append(change)
    return differing


def _cells(board: Board) -> dict[Place, float]:
    """Return every number of a board, by its location.

    Ranks are left out of locations, because they depend on the results of other encoders.
    """
    numbers: dict[Place, float] = {}
    for name, table in board.named_tables:
        heads = [cells for title, cells in table.heads if title != _OF_RANKS]
        for i in range(table.n_rows):
            row = tuple(cells[i] for cells in heads)
            for column in table.columns:
                value = column.values[i]
                if value is not None and not math.isnan(value):
                    numbers[_base(name), row, _base(column.title)] = value
    return numbers


def _base(heading: str) -> str:
    """Return a heading without the tasks of a mean.

    These tasks depend on the results of other encoders.
    """
    heading = "Means" if heading.startswith(("Means over ", "Summary: ")) else heading
    return _N_TASKS.sub("", heading)
