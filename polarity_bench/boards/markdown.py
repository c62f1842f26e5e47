"""Markdown: numbers in, text out.

What comes from outside (names of encoders and tasks) is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from tabulate import tabulate

from polarity_bench.boards.shown import MISSING as MISSING
from polarity_bench.boards.shown import Shown, shown
from polarity_bench.boards.shown import decimal as decimal
from polarity_bench.boards.shown import percent as percent
from polarity_bench.boards.shown import probability as probability
from polarity_bench.boards.table import Board, Column, Table

_SHORT = 8  # letters that no text is cut below
Heads = Sequence[tuple[str, Sequence[str]]]


def render(board: Board, width: int | None = None) -> str:
    """Render a board, its tables to a width where one is given."""
    tables = [section(table, width) for table in board.tables]
    parts = [f"# {escape(board.title)}", board.introduction, *tables]
    notes = " ".join(["All numbers times 100.", *board.notes])
    return "\n\n".join(filter(None, [*parts, notes])) + "\n"


def section(of: Table, width: int | None = None) -> str:
    """Render a table below its heading, where it has one."""
    heading = f"## {escape(of.heading)}\n\n" if of.heading else ""
    return heading + table(of.heads, of.columns, width=width)


def table(
    heads: Heads,
    columns: Sequence[Column] = (),
    *,
    width: int | None = None,
) -> str:
    """Render columns of text, then columns of numbers.

    Where the width is too small, the last columns of numbers are left out, and said; where that is
    not enough, texts are cut in their middle.

    Args:
        heads: Title and cells of each leading column, not yet escaped.
        columns: The numbers.
        width: Characters in a line; None for as many as it takes.
    """
    n_shown = len(columns)
    while (text := _grid(heads, columns[:n_shown])) and _too_wide(text, width):
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


def _grid(heads: Heads, columns: Sequence[Column]) -> str:
    cells = [list(map(escape, values)) for _, values in heads]
    cells += [_cells(column) for column in columns]
    titles = [escape(title) for title in [*(t for t, _ in heads), *(c.title for c in columns)]]
    align = ["left"] * len(heads) + ["right"] * len(columns)
    rows = list(zip(*cells, strict=True))
    return tabulate(rows, titles, tablefmt="pipe", colalign=align, disable_numparse=True)


def escape(text: str) -> str:
    """Escape what markdown or HTML would read as markup."""
    text = re.sub(r"[\r\n]+", " ", text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*\[\]|~#!])", r"\\\1", text)
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)  # inside a word it is plain


def _cells(column: Column) -> list[str]:
    return [_cell(cell, column.spread_as) for cell in shown(column)]


def _cell(cell: Shown, spread_as: Literal["±", "sub"]) -> str:
    """Show a cell, the number in bold where it is among the best."""
    number = f"**{cell.number}**" if cell.is_best else cell.number
    spread = f"<sub>{cell.spread}</sub>" if spread_as == "sub" else f"± {cell.spread}"
    parts = [number, cell.interval, spread if cell.spread else ""]
    return " ".join(filter(None, parts)) + escape(cell.mark)
