"""Markdown tables: numbers in, text out. The only place that rounds.

What comes from outside (names of encoders and tasks) is escaped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tabulate import tabulate

MISSING = "-"


@dataclass(frozen=True)
class Column:
    """A column of numbers.

    Attributes:
        title: Its heading.
        values: A fraction for each row; None or nan where there is none.
        best: Whether the greatest is set in bold.
        spread: What to add in small type to each value, likewise fractions.
    """

    title: str
    values: Sequence[float | None]
    best: bool = True
    spread: Sequence[float | None] = ()


def escape(text: str) -> str:
    """Escape what markdown or HTML would read as markup."""
    text = re.sub(r"[\r\n]+", " ", text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*\[\]|~#!])", r"\\\1", text)
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)  # inside a word it is plain


def table(
    heads: Sequence[tuple[str, Sequence[str]]], columns: Sequence[Column], *, digits: int = 2
) -> str:
    """Render a table: leading columns of text, then columns of percentages.

    Args:
        heads: Title and cells of each leading column, not yet escaped.
        columns: The numbers, as fractions; shown times 100.
        digits: Decimals shown.
    """
    cells = [list(map(escape, values)) for _, values in heads]
    cells += [_cells(column, digits) for column in columns]
    titles = [escape(title) for title in [*(t for t, _ in heads), *(c.title for c in columns)]]
    align = ["left"] * len(heads) + ["right"] * len(columns)
    rows = list(zip(*cells, strict=True))
    return tabulate(rows, titles, tablefmt="pipe", colalign=align, disable_numparse=True)


def percent(value: float | None, digits: int = 2) -> str:
    """Show a fraction as a percentage, or a dash where there is none."""
    if value is None or math.isnan(value):
        return MISSING
    shown = f"{100 * value:.{digits}f}"
    return shown.lstrip("-") if float(shown) == 0 else shown


def _cells(column: Column, digits: int) -> list[str]:
    shown = [percent(value, digits) for value in column.values]
    numbers = [float(cell) for cell in shown if cell != MISSING]
    best = max(numbers) if column.best and len(numbers) > 1 else None
    marked = [
        f"**{cell}**" if cell != MISSING and best is not None and float(cell) == best else cell
        for cell in shown
    ]
    if not column.spread:
        return marked
    spread = [percent(value, digits) for value in column.spread]
    return [f"{cell} ± {more}" for cell, more in zip(marked, spread, strict=True)]
