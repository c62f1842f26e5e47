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
_SHORT = 8  # letters that no text is cut below
Heads = Sequence[tuple[str, Sequence[str]]]


def render(board: Board, width: int | None = None) -> str:
    """Render a board, its tables to a width where one is given."""
    tables = [section(table, width) for table in board.tables]
    parts = [f"# {escape(board.title)}", board.introduction, *tables]
    notes = " ".join(["All numbers times 100.", *board.notes])
    return "\n\n".join(filter(None, [*parts, notes])) + "\n"


def section(shown: Table, width: int | None = None) -> str:
    """Render a table below its heading, where it has one."""
    heading = f"## {escape(shown.heading)}\n\n" if shown.heading else ""
    return heading + table(shown.heads, shown.columns, width=width)


def table(
    heads: Heads,
    columns: Sequence[Column] = (),
    *,
    digits: int = 2,
    width: int | None = None,
) -> str:
    """Render columns of text, then columns of percentages.

    Where the width is too small, the last columns of numbers are left out, and said; where that is
    not enough, texts are cut in their middle.

    Args:
        heads: Title and cells of each leading column, not yet escaped.
        columns: The numbers, as fractions; shown times 100.
        digits: Decimals shown.
        width: Characters in a line; None for as many as it takes.
    """
    n_shown = len(columns)
    while (text := _grid(heads, columns[:n_shown], digits)) and _too_wide(text, width):
        if n_shown > 1:
            n_shown -= 1
        elif (cut := _cut(heads)) is not None:
            heads = cut
        else:
            break
    left_out = "; ".join(column.title for column in columns[n_shown:])
    return f"{text}\n\nToo wide to show here, see `wide`: {left_out}" if left_out else text


def _too_wide(text: str, width: int | None) -> bool:
    return width is not None and text.find("\n") > width


def _cut(heads: Heads) -> Heads | None:
    """Cut the longest text of all in its middle; None where all are short."""
    longest = max(len(cell) for _, cells in heads for cell in cells) if heads[0][1] else 0
    if longest <= _SHORT:
        return None
    half = (longest - 2) // 2
    return [
        (title, [f"{c[:half]}…{c[-half:]}" if len(c) == longest else c for c in cells])
        for title, cells in heads
    ]


def _grid(heads: Heads, columns: Sequence[Column], digits: int) -> str:
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


def probability(p: float | None) -> str:
    """Show a p-value, a small one by its power of ten."""
    return f"{p:.0e}" if p is not None and p < 0.0001 else decimal(p, 4)


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
