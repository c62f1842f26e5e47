"""Markdown: numbers in, text out. The only place that rounds.

What comes from outside (names of encoders and tasks) is escaped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal

from tabulate import tabulate

from polarity_bench.boards.table import Board, Column, Table

MISSING = "-"


def render(board: Board) -> str:
    """Render a board."""
    parts = [f"# {escape(board.title)}", board.introduction, *map(section, board.tables)]
    notes = " ".join(["All numbers times 100.", *board.notes])
    return "\n\n".join(filter(None, [*parts, notes])) + "\n"


def section(shown: Table) -> str:
    """Render a table below its heading, where it has one."""
    heading = f"## {escape(shown.heading)}\n\n" if shown.heading else ""
    return heading + table(shown.heads, shown.columns)


def table(
    heads: Sequence[tuple[str, Sequence[str]]], columns: Sequence[Column] = (), *, digits: int = 2
) -> str:
    """Render columns of text, then columns of percentages.

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


def percent(value: float | None, digits: int = 2, sign: Literal["", "+"] = "") -> str:
    """Show a fraction as a percentage."""
    return decimal(None if value is None else 100 * value, digits, sign)


def decimal(value: float | None, digits: int, sign: Literal["", "+"] = "") -> str:
    """Show a number, or a dash where there is none; `+` shows the sign of what is above 0 too."""
    if value is None or math.isnan(value):
        return MISSING
    shown = f"{value:{sign}.{digits}f}"
    return shown.lstrip("+-") if float(shown) == 0 else shown


def escape(text: str) -> str:
    """Escape what markdown or HTML would read as markup."""
    text = re.sub(r"[\r\n]+", " ", text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*\[\]|~#!])", r"\\\1", text)
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)  # inside a word it is plain


def _cells(column: Column, digits: int) -> list[str]:
    """Show values, in bold the greatest of each group of rivals, ties as shown included."""
    shown = [percent(value, digits) for value in column.values]
    rivals = column.rivals or [None] * len(shown)
    groups: dict[str, list[float]] = {}
    for cell, rival in zip(shown, rivals, strict=True):
        if rival is not None and cell != MISSING:
            groups.setdefault(rival, []).append(float(cell))
    best = {rival: max(numbers) for rival, numbers in groups.items() if len(numbers) > 1}
    cells = [
        f"**{cell}**" if cell != MISSING and rival in best and float(cell) == best[rival] else cell
        for cell, rival in zip(shown, rivals, strict=True)
    ]
    intervals = column.intervals or [None] * len(cells)
    return [f"{c}{_interval(i, digits)}" for c, i in zip(cells, intervals, strict=True)]


def _interval(interval: tuple[float, float] | None, digits: int) -> str:
    if interval is None or math.isnan(interval[0]):
        return ""
    return f" [{', '.join(percent(end, digits) for end in interval)}]"
