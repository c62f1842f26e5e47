"""Tables of an HTML page: the cell values for the template, and the sort keys of columns."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from polarity_bench.render.format import MISSING, FormattedCell, shown
from polarity_bench.render.table import Column, Role, Table, unique
from polarity_bench.values import shortest

ROLES: dict[Role, str] = {
    "method": "method: the mean over its seeds, at one strength",
    "curve": "curve, at its best strength",
    "oracle": "bound: retrieval with gold labels",
    "random": "bound: random retrieval",
    "chance": "bound: guesses",
    "base": "base, does not compete",
    "other": "another recipe, does not compete",
    "published": "published, does not compete",
}
"""Description of each role of a row, except the role of a plain encoder."""
_RANK = "rank"  # title of the column of ranks, which may precede the column of names
_MAX_CHOICES = 12  # maximum number of values in the filter of a column
_EXPLAINED = frozenset({"k", "prompt", "reference"})  # other columns are settings, of any name
_DIGIT = "\N{FIGURE SPACE}"  # as wide as a digit
_MOST = 0.9  # share of the rows with the same text, from which a column says little
_NEUTRAL = {MISSING, "itself"}  # a reference: missing, or the encoder of the row
_ALL_DECIMALS = 324  # number of decimals of the smallest float


@dataclass(frozen=True)
class PageHead:
    """Leading column of text in a table of a page.

    Attributes:
        title: Title of the column.
        cells: Text and sort key of each row; a key of None sorts by the text.
        is_number: Whether the column is sorted by number.
        choices: Values of the column's filter; empty if there are too few or too many values.
        about: Explanation of the title; '' if there is none.
        says_little: Whether nearly all rows have the same text. The page hides such a column at
            first if the table does not fit.
    """

    title: str
    cells: Sequence[tuple[str, str | None]]
    is_number: bool
    choices: Sequence[str]
    about: str
    says_little: bool


@dataclass(frozen=True)
class NumberColumn:
    """Column of numbers in a table of a page.

    Attributes:
        title: Title of the column.
        position: Position among all columns, from 0.
        about: Explanation of the title; '' if there is none.
        cells: Formatted number and sort key of each row, see `orders_of`; the key '' sorts last.
            Intervals and spreads after a ± sign are padded on the left to the same width.
        spread_as: Format of the spreads, as in `Column`.
    """

    title: str
    position: int
    about: str
    cells: Sequence[tuple[FormattedCell, str]]
    spread_as: str

    @property
    def main(self) -> str:
        """Main part of the title, before a parenthesis."""
        return self.title.partition(" (")[0]


@dataclass(frozen=True)
class PageTable:
    """Table with the values that the template of a page needs.

    Attributes:
        id: Anchor of the table in the page.
        source: Table of the board.
        heads: Leading columns of text.
        name: Position of the leading column that names the rows.
        columns: Columns of numbers.
    """

    id: str
    source: Table
    heads: Sequence[PageHead]
    name: int
    columns: Sequence[NumberColumn]

    @property
    def groups(self) -> list[tuple[str, list[NumberColumn]]]:
        """Columns of numbers, grouped by the start of their titles before a comma.

        Columns whose title shares its start with no other title are in the group ''.
        """
        stems = [column.main.partition(", ")[0] for column in self.columns]
        counts = Counter(stems)
        groups: dict[str, list[NumberColumn]] = {}
        for stem, column in zip(stems, self.columns, strict=True):
            groups.setdefault(stem if counts[stem] > 1 else "", []).append(column)
        return list(groups.items())

    @property
    def has_ends(self) -> bool:
        """Whether any cell has an interval or a spread."""
        return any(cell.interval or cell.spread for c in self.columns for cell, _ in c.cells)


Hint = Callable[[str], str]
"""Function that explains a column title; returns '' for a title that needs no explanation."""


def lay_out(tables: Sequence[Table], hint: Hint = lambda _: "") -> list[PageTable]:
    """Lay out the tables of a page, each with a unique anchor.

    Args:
        tables: Tables of the board.
        hint: Function that explains the title of a column.
    """
    slugs = [re.sub(r"[^a-z0-9]+", "-", table.heading.lower()).strip("-") for table in tables]
    anchors = unique(f"t-{slug or 'table'}" for slug in slugs)
    return [_table(table, name, hint) for table, name in zip(tables, anchors, strict=True)]


def _table(table: Table, anchor: str, hint: Hint) -> PageTable:
    name = next((i for i, (title, _) in enumerate(table.heads) if title != _RANK), 0)
    heads = [_head(title, cells, i - name, hint) for i, (title, cells) in enumerate(table.heads)]
    columns = [
        NumberColumn(column.title, position, hint(column.title), _cells(column), column.spread_as)
        for position, column in enumerate(table.columns, start=len(heads))
    ]
    return PageTable(anchor, table, heads, name, columns)


def _head(title: str, cells: Sequence[str], after_name: int, hint: Hint) -> PageHead:
    """Lay out a leading column.

    Args:
        title: Title of the column.
        cells: Text of each row.
        after_name: Position relative to the column of names; negative if before that column.
        hint: Function that explains the title of a column.
    """
    counts = Counter(cells)
    numbers = {cell: number_of(cell) for cell in counts if cell != MISSING}
    is_number = bool(numbers) and None not in numbers.values()
    order = {cell: shortest(number) for cell, number in numbers.items() if number is not None}
    choices = list(counts)
    telling = [cell for cell in cells if cell not in _NEUTRAL]
    if is_number:
        choices.sort(key=lambda cell: float(order.get(cell, math.inf)))
    can_choose = after_name > 0 and 1 < len(choices) <= _MAX_CHOICES
    is_plain = after_name != 0 and all(cell == text for cell, text in order.items())
    has_order = is_number and not is_plain
    return PageHead(
        title,
        [(cell, order.get(cell, "") if has_order else None) for cell in cells],
        is_number,
        choices if can_choose else [],
        hint(title) if title in _EXPLAINED else "",
        # Without the prompts, two rows of one encoder would look alike.
        title != "prompt"
        and max(map(counts.__getitem__, telling), default=0) >= _MOST * len(telling),
    )


def number_of(text: str) -> float | None:
    """Parse a number as formatted in tables, with thousands separators; None for other text."""
    plain = text.replace(",", "")
    return float(plain) if re.fullmatch(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?", plain) else None


def orders_of(values: Sequence[float | None]) -> list[str]:
    """Return the sort keys of a column: numbers rounded to as few digits as keep them distinct.

    Missing values have the key ''.

    Example:
        >>> orders_of([1 / 3, 0.33334, None, 1])
        ['0.33333', '0.33334', '', '1']
    """
    known = {float(value) for value in values if value is not None and math.isfinite(value)}
    enough = (n for n in range(2, 16) if len({round(value, n) for value in known}) == len(known))
    decimals = next(enough, _ALL_DECIMALS)
    return [
        "" if value is None or math.isnan(value) else shortest(round(value, decimals))
        for value in values
    ]


def _cells(column: Column) -> list[tuple[FormattedCell, str]]:
    cells = shown(column)
    sign = "" if column.spread_as == "sub" else "± "
    intervals = _aligned([cell.interval for cell in cells])
    spreads = [cell.spread and f"{sign}{cell.spread}" for cell in cells]
    spreads = _aligned(spreads) if sign else spreads
    parts = zip(cells, intervals, spreads, orders_of(column.values), strict=True)
    return [
        (replace(cell, interval=interval, spread=spread), order)
        for cell, interval, spread, order in parts
    ]


def _aligned(texts: Sequence[str]) -> list[str]:
    """Pad texts with figure spaces on the left to the same length; empty texts stay empty."""
    width = max(map(len, texts), default=0)
    return [text and text.rjust(width, _DIGIT) for text in texts]
