"""Formatting, rounding and markup of table cells, and the best values of a column.

No other module rounds the numbers of tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from polarity_bench.render.table import SET_APART, Column, Heads, Role, Unit
from polarity_bench.scores import Score

MISSING = "-"
"""Text of an empty cell."""
DIGITS = 2
"""Number of decimals, unless a column has its own."""


@dataclass(frozen=True)
class FormattedCell:
    """Parts of a cell in a column of numbers, as plain text; empty parts are not shown.

    Attributes:
        number: Formatted value.
        interval: 95 % interval, in brackets.
        spread: Standard deviation, without a ± sign.
        mark: Text after the other parts.
        is_best: Whether the value is among the best values of its group.
    """

    number: str
    interval: str = ""
    spread: str = ""
    mark: str = ""
    is_best: bool = False


def shown(column: Column) -> list[FormattedCell]:
    """Return the formatted cells of a column, one per row."""
    n_rows = len(column.values)
    cells = zip(
        _numbers(column),
        column.intervals or [None] * n_rows,
        column.spreads or [None] * n_rows,
        column.marks or [""] * n_rows,
        best_of(column),
        strict=True,
    )
    return [
        FormattedCell(number, _interval(ends, column), _spread(spread, column), mark, is_best)
        for number, ends, spread, mark, is_best in cells
    ]


@dataclass(frozen=True)
class Markup:
    """Markup of cells in a text format such as markdown or LaTeX.

    Attributes:
        escape: Function that escapes text.
        number: Function that escapes numbers and intervals.
        bold: Template of bold text, with `{}` in place of the text; the same for the next three.
        italic: Template of text in italics.
        subscript: Template of a spread as a subscript.
        plus_minus: Template of a spread after a ± sign.
    """

    escape: Callable[[str], str]
    number: Callable[[str], str]
    bold: str
    italic: str
    subscript: str
    plus_minus: str


def text_rows(
    heads: Heads, columns: Sequence[Column], roles: Sequence[Role], markup: Markup
) -> list[list[str]]:
    """Return the cells of each row, with markup.

    The best numbers are bold. Names and numbers of rows that do not compete for the best value are
    in italics.

    Args:
        heads: Title and cells of each leading column, not escaped.
        columns: Columns of numbers.
        roles: Role of each row; () if all rows are encoders.
        markup: Markup of the text format.
    """
    of_columns = [shown(column) for column in columns]
    named = int(heads[0][0] == "rank" and len(heads) > 1)  # Ranks come before the name.
    rows = []
    for i in range(len(heads[0][1])):
        italic = markup.italic if roles and roles[i] in SET_APART else "{}"
        texts = [markup.escape(cells[i]) for _, cells in heads]
        texts[named] = _unless_missing(italic, texts[named])
        numbers = [
            _with_markup(of_column[i], column, italic, markup)
            for of_column, column in zip(of_columns, columns, strict=True)
        ]
        rows.append([*texts, *numbers])
    return rows


def _with_markup(cell: FormattedCell, column: Column, italic: str, markup: Markup) -> str:
    number = _unless_missing(markup.bold if cell.is_best else italic, markup.number(cell.number))
    spread = markup.subscript if column.spread_as == "sub" else markup.plus_minus
    parts = [number, markup.number(cell.interval), cell.spread and spread.format(cell.spread)]
    return " ".join(filter(None, parts)) + markup.escape(cell.mark)


def _unless_missing(template: str, text: str) -> str:
    return text if text == MISSING else template.format(text)


def best_of(column: Column) -> list[bool]:
    """Return, for each value, whether it is among the best values of its group.

    Values that are equal after rounding tie. A value that is alone in its group is never best.

    Example:
        >>> best_of(Column("P", [0.5, 0.6, 0.60001, None, 0.1], rivals=["", "", "", "", "alone"]))
        [False, True, True, False, False]
    """
    texts = _numbers(column)
    rivals = column.rivals or [None] * len(texts)
    sign = -1 if column.lower_is_better else 1
    groups: dict[str, list[float]] = {}
    for text, rival in zip(texts, rivals, strict=True):
        if rival is not None and text != MISSING:
            groups.setdefault(rival, []).append(sign * float(text))
    least = {
        rival: sorted(numbers)[-min(column.n_best, len(numbers))]
        for rival, numbers in groups.items()
        if len(numbers) > 1
    }
    return [
        text != MISSING and rival in least and sign * float(text) >= least[rival]
        for text, rival in zip(texts, rivals, strict=True)
    ]


def in_unit(value: float | None, unit: Unit, digits: int | None = None) -> str:
    """Format a number according to its unit; counts have no decimals."""
    digits = DIGITS if digits is None else digits
    if unit in ("percent", "points"):
        return percent(value, digits, "+" if unit == "points" else "")
    if unit == "probability":
        return probability(value)
    return decimal(value, 0 if unit == "count" else digits)


def percent(value: float | None, digits: int = DIGITS, sign: Literal["", "+"] = "") -> str:
    """Format a fraction as a percentage, without the percent sign."""
    return decimal(None if value is None else 100 * value, digits, sign)


def decimal(value: float | None, digits: int, sign: Literal["", "+"] = "") -> str:
    """Format a number, or return a dash if it is missing; sign `+` also marks positive numbers."""
    if value is None or math.isnan(value):
        return MISSING
    text = f"{value:{sign}.{digits}f}"
    return text.lstrip("+-") if float(text) == 0 else text


def probability(p: float | None) -> str:
    """Format a p-value; values that round to less than 0.0001 are in scientific notation."""
    return f"{p:.0e}" if p is not None and p < 0.000095 else decimal(p, 4)


def score_text(score: Score, digits: int = DIGITS) -> str:
    """Format a score in percent, with its interval if there is one: `84.5 [78.3, 90.7]`."""
    low, high = score.ci95
    ends = "" if math.isnan(low) else f" [{percent(low, digits)}, {percent(high, digits)}]"
    return f"{percent(score.mean, digits)}{ends}"


def _numbers(column: Column) -> list[str]:
    return [in_unit(value, column.unit, column.digits) for value in column.values]


def _interval(ends: tuple[float, float] | None, column: Column) -> str:
    if ends is None or math.isnan(ends[0]):
        return ""
    return f"[{', '.join(in_unit(end, column.unit, column.digits) for end in ends)}]"


def _spread(value: float | None, column: Column) -> str:
    """Format a standard deviation, without a plus sign even in a column of differences."""
    if value is None or math.isnan(value):
        return ""
    return in_unit(value, "percent" if column.unit == "points" else column.unit, column.digits)
