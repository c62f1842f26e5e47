"""Lines of a board's `table.csv`, each with a number and its position."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Protocol

_NO_TEXTS = ("table", "role", "column", "unit", "value", "low", "high", "std", "best", "mark")


@dataclass(frozen=True)
class Number:
    """A number in its unit, with its interval, spread and mark; NaN for missing ones."""

    value: float
    low: float = math.nan
    high: float = math.nan
    std: float = math.nan
    mark: str = ""

    @property
    def clipped(self) -> Number:
        """The number with its value and interval clipped at 0."""
        value, low, high = (
            x if math.isnan(x) else max(x, 0.0) for x in (self.value, self.low, self.high)
        )
        return Number(value, low, high, self.std, self.mark)


@dataclass(frozen=True)
class Line:
    """A line of a `table.csv`.

    Attributes:
        place: Index of the line, from 0.
        repeat: Number of earlier tables with the same heading.
    """

    place: int
    table: str
    heads: Mapping[str, str]
    role: str
    column: str
    unit: str
    number: Number
    repeat: int

    @property
    def row(self) -> str:
        """The leading texts of the row."""
        return ", ".join(text for text in self.heads.values() if text)

    def __str__(self) -> str:
        return f"{self.table} | {self.row} | {self.column}"


class Source(Protocol):
    """A source of the numbers of a board."""

    def number(self, line: Line) -> Number:
        """Return the number of a line.

        Raises:
            LookupError: If the source has no such number; says why.
        """


def read_lines(text: str) -> list[Line]:
    """Read a table.csv."""
    found: list[Line] = []
    seen: set[tuple[str, ...]] = set()
    for place, cells in enumerate(csv.DictReader(io.StringIO(text))):
        plain = {name: re.sub("^'(?=[=+@\t\r-])", "", cell) for name, cell in cells.items()}
        ends = (float(plain[name] or "nan") for name in ("value", "low", "high", "std"))
        heads = {name: cell for name, cell in plain.items() if name not in _NO_TEXTS}
        where = plain["table"], *heads.values(), plain["role"], plain["column"]
        role, column, unit = (plain[name] for name in ("role", "column", "unit"))
        value, low, high, std = ends
        number = Number(value, low, high, std, plain["mark"])
        table, _, counted = plain["table"].rpartition(" (")
        repeat = int(counted[:-1]) - 1 if re.fullmatch(r"\d+\)", counted) else 0
        if where in seen:
            raise LookupError(f"line {place + 2} is named as another: {where}")
        seen.add(where)
        table = table if repeat else plain["table"]
        found.append(Line(place, table, heads, role, column, unit, number, repeat))
    return found


def untraced(board: str, lines: Sequence[Line], source: Source) -> list[str]:
    """Return a message for each number that differs from its source, with both numbers."""
    wrong = []
    for line in lines:
        try:
            there = source.number(line)
        except LookupError as error:
            wrong.append(f"{board}: {line}: comes from nowhere: {error}")
            continue
        for field in fields(Number):
            shown, found = getattr(line.number, field.name), getattr(there, field.name)
            if not _alike(shown, found):
                wrong.append(f"{board}: {line}: {field.name} is {shown}, its source has {found}")
    return wrong


def _alike(shown: float | str, found: float | str) -> bool:
    """Return whether two values are equal up to the order of sums; a shown NaN fits any value."""
    if isinstance(shown, str) or isinstance(found, str):
        return shown == found
    return math.isnan(shown) or math.isclose(shown, found, rel_tol=1e-9, abs_tol=1e-12)


def signed(difference: float, digits: int) -> str:
    """Return a difference of fractions as the text of a mark, times 100."""
    text = f"{100 * difference:+.{digits}f}"
    return f"({text.lstrip('+-') if float(text) == 0 else text})"
