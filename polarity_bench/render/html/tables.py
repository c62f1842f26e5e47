"""Tables of a page: the values of cells for its template, and the sort keys of columns."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from polarity_bench.render.format import MISSING, FormattedCell, shown
from polarity_bench.render.html.prose import inline_html, prose_html
from polarity_bench.render.table import Column, Role, Table

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
"""Descriptions of rows that are not plain encoders."""
_RANK = "rank"  # title of a column before the names
_MAX_CHOICES = 12
_EXPLAINED = frozenset({"k", "reference"})  # other heads are settings with arbitrary names
_DIGIT = "\N{FIGURE SPACE}"
_SHORT = 3  # letters
_MOST = 0.9  # of the rows


@dataclass(frozen=True)
class PageHead:
    """A leading column of text.

    Attributes:
        is_number: Whether the column is sorted by number.
        choices: Values by which rows can be filtered; () if there are too few or too many.
        about: Explanation of the title, '' if unknown.
        says_little: Whether nearly all rows have the same text, so that phones hide the column at
            first.
    """

    title: str
    is_number: bool
    choices: Sequence[str]
    about: str
    says_little: bool


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers.

    Attributes:
        main: Title up to a parenthesis.
        rest: The parenthesis.
        place: Position among all columns, from 0.
        about: Explanation of the title, '' if unknown.
    """

    title: str
    main: str
    rest: str
    place: int
    about: str
    spread_as: str


@dataclass(frozen=True)
class PageCell:
    """A number of a column.

    Attributes:
        shown: Formatted cell.
        order: Sort key: the number with as many decimals as the column needs to separate all its
            numbers. '' sorts last.
        interval_pad: Padding of the interval with figure spaces, so that the column is aligned.
        spread_pad: Padding of the spread, likewise.
    """

    shown: FormattedCell
    order: str
    interval_pad: str
    spread_pad: str

    @property
    def hangs(self) -> bool:
        """Whether the mark is short enough for the margin."""
        return len(self.shown.mark) <= _SHORT


@dataclass(frozen=True)
class TableRow:
    """A row.

    Attributes:
        role: Role of the row.
        said: Description of the role; '' for encoders.
        detail: Key of the row's detail; '' without one.
        texts: Text of each leading column with its sort key; None sorts by the text itself.
        cells: Numbers of the row.
    """

    role: Role
    said: str
    detail: str
    texts: Sequence[tuple[str, str | None]]
    cells: Sequence[PageCell]


@dataclass(frozen=True)
class PageTable:
    """A table for the template.

    Attributes:
        id: Anchor of the table in the page.
        lead: HTML above the table; `notes` are HTML too.
        name: Position of the head that names the rows.
        groups: Columns by the common beginning of their titles; '' for columns without one.
        has_ends: Whether any cell has an interval or a spread.
        is_folded: Whether the table is folded until a reader opens it.
    """

    id: str
    heading: str
    level: int
    lead: Any
    notes: Sequence[Any]
    heads: Sequence[PageHead]
    name: int
    columns: Sequence[NumberColumn]
    groups: Sequence[tuple[str, Sequence[NumberColumn]]]
    rows: Sequence[TableRow]
    has_ends: bool
    is_folded: bool


Hint = Callable[[str], str]
"""Explains the title of a column; returns '' for a title that explains itself."""


def no_hint(title: str) -> str:  # noqa: ARG001
    """Return '' for every title."""
    return ""


def lay_out(tables: Sequence[Table], hint: Hint = no_hint) -> list[PageTable]:
    """Lay out tables, each with a unique anchor in the page."""
    taken: Counter[str] = Counter()
    found = []
    for table in tables:
        slug = re.sub(r"[^a-z0-9]+", "-", table.heading.lower()).strip("-") or "table"
        taken[slug] += 1
        name = f"t-{slug}" + (f"-{taken[slug]}" if taken[slug] > 1 else "")
        found.append(_table(table, name, hint))
    return found


def _table(table: Table, name: str, hint: Hint) -> PageTable:
    from markupsafe import Markup

    columns = [_column(c, len(table.heads) + i, hint) for i, c in enumerate(table.columns)]
    numbers = [_cells(column) for column in table.columns]
    named = next((i for i, (title, _) in enumerate(table.heads) if title != _RANK), 0)
    heads = [_head(title, cells, i > named, hint) for i, (title, cells) in enumerate(table.heads)]
    orders = [
        _text_orders(cells, place == named) if head.is_number else [None] * len(cells)
        for place, (head, (_, cells)) in enumerate(zip(heads, table.heads, strict=True))
    ]
    rows = [
        TableRow(
            role := table.role(i),
            ROLES.get(role, ""),
            table.details[i] if table.details else "",
            [(cells[i], of[i]) for (_, cells), of in zip(table.heads, orders, strict=True)],
            [cells[i] for cells in numbers],
        )
        for i in range(table.n_rows)
    ]
    return PageTable(
        name,
        table.heading,
        table.level,
        Markup(prose_html(table.lead)),  # noqa: S704 - rendered with nothing in it that runs
        [Markup(inline_html(note)) for note in table.notes],  # noqa: S704
        heads,
        named,
        columns,
        _groups(columns),
        rows,
        any(cell.shown.interval or cell.shown.spread for cells in numbers for cell in cells),
        table.is_folded,
    )


def _head(title: str, cells: Sequence[str], may_choose: bool, hint: Hint) -> PageHead:
    counts = Counter(cells)
    numbers = {cell: number_of(cell) for cell in counts}
    is_number = any(n is not None for n in numbers.values()) and all(
        n is not None or cell == MISSING for cell, n in numbers.items()
    )
    choices = sorted(counts, key=lambda cell: _last(numbers[cell])) if is_number else list(counts)
    can_choose = may_choose and 1 < len(choices) <= _MAX_CHOICES
    about = hint(title) if title in _EXPLAINED else ""
    says_little = max(counts.values(), default=0) >= _MOST * len(cells)
    return PageHead(title, is_number, choices if can_choose else [], about, says_little)


def _text_orders(cells: Sequence[str], is_name: bool) -> Sequence[str | None]:
    """Return the sort keys of a leading column of numbers; None if the texts sort correctly."""
    orders = [order_of(number_of(cell)) for cell in cells]
    is_plain = all(cell in {order, MISSING} for cell, order in zip(cells, orders, strict=True))
    return [None] * len(cells) if is_plain and not is_name else orders


def _last(number: float | None) -> float:
    return math.inf if number is None else number


def number_of(text: str) -> float | None:
    """Parse a number as shown in tables, with thousands separators; None if it is not a number."""
    plain = text.replace(",", "")
    return float(plain) if re.fullmatch(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?", plain) else None


def order_of(value: float | None) -> str:
    """Return the sort key of a number, its shortest exact form; '' if missing."""
    return "" if value is None or math.isnan(value) else repr(float(value)).removesuffix(".0")


def orders_of(values: Sequence[float | None]) -> list[str]:
    """Return the sort keys of a column: with as many decimals as keep its numbers distinct.

    Example:
        >>> orders_of([1 / 3, 0.33334, None, 1])
        ['0.33333', '0.33334', '', '1']
    """
    known = {float(value) for value in values if value is not None and math.isfinite(value)}
    for decimals in range(2, 16):
        if len({round(value, decimals) for value in known}) == len(known):
            return [order_of(None if v is None else round(v, decimals)) for v in values]
    return list(map(order_of, values))


def _column(column: Column, place: int, hint: Hint) -> NumberColumn:
    main, _, rest = column.title.partition(" (")
    rest = f"({rest}" if rest else ""
    title = column.title
    return NumberColumn(title, main, rest, place, hint(title), column.spread_as)


def _cells(column: Column) -> list[PageCell]:
    cells = shown(column)
    intervals, spreads = (
        max((len(text) for text in texts), default=0)
        for texts in ([cell.interval for cell in cells], [cell.spread for cell in cells])
    )
    return [
        PageCell(
            cell,
            order,
            _DIGIT * (intervals - len(cell.interval)),
            _DIGIT * (spreads - len(cell.spread)),
        )
        for cell, order in zip(cells, orders_of(column.values), strict=True)
    ]


def _groups(columns: Sequence[NumberColumn]) -> list[tuple[str, list[NumberColumn]]]:
    """Group columns whose titles share the text before a comma."""
    stems = [column.main.partition(", ")[0] for column in columns]
    counts = Counter(stems)
    found: dict[str, list[NumberColumn]] = {}
    for stem, column in zip(stems, columns, strict=True):
        found.setdefault(stem if counts[stem] > 1 else "", []).append(column)
    return list(found.items())
