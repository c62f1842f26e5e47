"""Markdown output of boards and tables. Names of encoders and tasks are escaped."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from tabulate import tabulate

from polarity_bench.render.format import MISSING as MISSING
from polarity_bench.render.format import Markup, text_rows
from polarity_bench.render.format import decimal as decimal
from polarity_bench.render.format import percent as percent
from polarity_bench.render.format import probability as probability
from polarity_bench.render.table import Board, Column, Heads, Role, Table
from polarity_bench.values import printable

_SHORT = 8  # characters; texts up to this length are not shortened
ORIGIN = "How it was made"
"""Heading of the section on the origin of a board's results."""
NOTES_LINK = "What the columns, ranks and bold numbers mean"
"""Link from the first table of a board to its notes."""


def render(board: Board, width: int | None = None, figures: Sequence[str] = ()) -> str:
    """Render a board as markdown; folded tables are left out.

    Args:
        board: Board to render.
        width: Maximum width of tables, in characters; None for no limit.
        figures: Paths of SVG figures to show. For `STEM.svg`, dark mode shows `STEM-dark.svg`.
    """
    tables = [section(table, width) for table in board.tables if not table.is_folded]
    shown = [_figure(place) for place in figures]
    opening = [f"# {escape(board.title)}", board.finding, board.introduction]
    notes = "\n\n".join(["## Notes", "All numbers times 100.", *board.notes])
    origin = f"## {ORIGIN}\n\n{board.origin}" if board.origin else ""
    link = f"[{NOTES_LINK}](#notes)" if tables and width is None else ""
    parts = [*opening, *tables[:1], link, *shown, *tables[1:], notes, origin]
    return "\n\n".join(filter(None, parts)) + "\n"


def _figure(place: str) -> str:
    stem = place.removesuffix(".svg")
    name = escape(stem.rpartition("/")[2].replace("-", " "))
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{stem}-dark.svg">'
        f'<img alt="{name}" src="{place}"></picture>'
    )


def section(of: Table, width: int | None = None) -> str:
    """Render a table with its heading and lead above and its notes below."""
    heading = f"{'#' * of.level} {escape(of.heading)}" if of.heading else ""
    grid = table(of.heads, of.columns, of.roles, width=width)
    return "\n\n".join(filter(None, [heading, of.lead, grid, *of.notes]))


def table(
    heads: Heads,
    columns: Sequence[Column] = (),
    roles: Sequence[Role] = (),
    *,
    width: int | None = None,
) -> str:
    """Render leading columns of text and columns of numbers as a markdown table.

    If the table is too wide, the last columns of numbers are left out and listed below the table.
    If the table is still too wide, long texts are shortened in the middle.

    Args:
        heads: Title and cells of each leading column, not escaped.
        columns: Columns of numbers.
        roles: Role of each row; () if all rows are encoders.
        width: Maximum width in characters; None for no limit.
    """
    n_shown = len(columns)
    fits = math.inf if width is None else width
    while (text := _grid(heads, columns[:n_shown], roles)).find("\n") > fits:
        if n_shown > 1:
            n_shown -= 1
        elif (cut := _cut(heads)) is not None:
            heads = cut
        else:
            break
    left_out = "; ".join(column.title for column in columns[n_shown:])
    return f"{text}\n\nToo wide to show here, see `wide`: {left_out}" if left_out else text


def _cut(heads: Heads) -> Heads | None:
    """Shorten the longest texts in the middle; return None if no text is long enough to shorten."""
    longest = max(len(cell) for _, cells in heads for cell in cells) if heads[0][1] else 0
    if longest <= _SHORT:
        return None
    half = (longest - 2) // 2
    return [
        (title, [f"{c[:half]}…{c[-half:]}" if len(c) == longest else c for c in cells])
        for title, cells in heads
    ]


def _grid(heads: Heads, columns: Sequence[Column], roles: Sequence[Role]) -> str:
    titles = [escape(title) for title in [*(t for t, _ in heads), *(c.title for c in columns)]]
    align = ["left"] * len(heads) + ["right"] * len(columns)
    rows = text_rows(heads, columns, roles, _MARKUP)
    return tabulate(rows, titles, tablefmt="pipe", colalign=align, disable_numparse=True)


def escape(text: str) -> str:
    """Escape markdown, HTML and control characters."""
    text = printable(re.sub(r"[\r\n]+", " ", text))
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*\[\]|~#!])", r"\\\1", text)
    # An underscore between two letters or digits is no markup.
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)


_MARKUP = Markup(escape, str, "**{}**", "*{}*", "<sub>{}</sub>", "± {}")
