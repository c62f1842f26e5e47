"""Numbers as they are shown, and which of a column are its best. The only place that rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from polarity_bench.render.table import Column, Unit

MISSING = "-"


@dataclass(frozen=True)
class FormattedCell:
    """A cell of a column of numbers, in parts, as plain text; '' shows nothing.

    Attributes:
        number: The value as it is shown.
        interval: Its 95 % interval, in brackets.
        spread: Its standard deviation, without a sign.
        mark: What follows all of these.
        is_best: Whether it is among the best of its rivals.
    """

    number: str
    interval: str = ""
    spread: str = ""
    mark: str = ""
    is_best: bool = False


def shown(column: Column) -> list[FormattedCell]:
    """Show the cells of a column."""
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


def best_of(column: Column) -> list[bool]:
    """Say of each value whether it is among the greatest of its rivals, ties as shown included.

    One alone is no best.

    Example:
        >>> best_of(Column("P", [0.5, 0.6, 0.60001, None, 0.1], rivals=["", "", "", "", "alone"]))
        [False, True, True, False, False]
    """
    texts = _numbers(column)
    rivals = column.rivals or [None] * len(texts)
    groups: dict[str, list[float]] = {}
    for text, rival in zip(texts, rivals, strict=True):
        if rival is not None and text != MISSING:
            groups.setdefault(rival, []).append(float(text))
    least = {
        rival: sorted(numbers)[-min(column.n_best, len(numbers))]
        for rival, numbers in groups.items()
        if len(numbers) > 1
    }
    return [
        text != MISSING and rival in least and float(text) >= least[rival]
        for text, rival in zip(texts, rivals, strict=True)
    ]


def in_unit(value: float | None, unit: Unit, digits: int) -> str:
    """Show a number of a unit; counts have no decimals."""
    match unit:
        case "percent":
            return percent(value, digits)
        case "points":
            return percent(value, digits, "+")
        case "probability":
            return probability(value)
        case "seconds":
            return decimal(value, digits)
        case "count":
            return decimal(value, 0)


def percent(value: float | None, digits: int = 2, sign: Literal["", "+"] = "") -> str:
    """Show a fraction as a percentage."""
    return decimal(None if value is None else 100 * value, digits, sign)


def decimal(value: float | None, digits: int, sign: Literal["", "+"] = "") -> str:
    """Show a number, or a dash where there is none; `+` shows the sign of what is above 0 too."""
    if value is None or math.isnan(value):
        return MISSING
    text = f"{value:{sign}.{digits}f}"
    return text.lstrip("+-") if float(text) == 0 else text


def probability(p: float | None) -> str:
    """Show a p-value, a small one by its power of ten."""
    return f"{p:.0e}" if p is not None and p < 0.0001 else decimal(p, 4)


def _numbers(column: Column) -> list[str]:
    return [in_unit(value, column.unit, column.digits) for value in column.values]


def _interval(ends: tuple[float, float] | None, column: Column) -> str:
    if ends is None or math.isnan(ends[0]):
        return ""
    return f"[{', '.join(in_unit(end, column.unit, column.digits) for end in ends)}]"


def _spread(value: float | None, column: Column) -> str:
    """Show a standard deviation, which has no sign, be it of differences."""
    if value is None or math.isnan(value):
        return ""
    return in_unit(value, "percent" if column.unit == "points" else column.unit, column.digits)
