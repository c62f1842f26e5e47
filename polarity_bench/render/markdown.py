"""Markdown output of boards and tables. Names of encoders and tasks are escaped."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence

from tabulate import tabulate

from polarity_bench.render.format import Markup, text_rows
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
    n_kept: int | None = None,
) -> str:
    """Render leading columns of text and columns of numbers as a markdown table.

    If the table is too wide, the last columns of numbers, and then the last leading columns except
    the first `n_kept`, are left out and listed below the table. If the table is still too wide,
    long texts are shortened in the middle, and a note says so.

    Args:
        heads: Title and cells of each leading column, not escaped.
        columns: Columns of numbers.
        roles: Role of each row; () if all rows are encoders.
        width: Maximum width in characters; None for no limit.
        n_kept: Number of leading columns to show at any width; None for all of them.
    """
    n_shown, is_cut, titles = len(columns), False, [title for title, _ in heads]
    fits = math.inf if width is None else width
    while (text := _grid(heads, columns[:n_shown], roles)).find("\n") > fits:
        if n_shown > 1:
            n_shown -= 1
        elif len(heads) > (n_kept or len(titles)):
            heads = heads[:-1]
        elif (cut := _cut(heads)) is not None:
            heads, is_cut = cut, True
        else:
            break
    left_out = "; ".join([*titles[len(heads) :], *(c.title for c in columns[n_shown:])])
    notes = [f"Too wide to show here, see `wide`: {left_out}"] if left_out else []
    notes += ["Long texts are shortened, see `wide`."] if is_cut else []
    return "\n\n".join([text, *notes])


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
    """Escape markdown, HTML and control characters.

    A word in brackets, as in the name of a subset, is no link unless a bracket or a colon follows.
    """
    text = printable(re.sub(r"[\r\n]+", " ", text))
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    markup = r"(?<!\])(\[[a-z][\w-]*\])(?![\[(:])|([\\`*\[\]|~#!])"
    text = re.sub(markup, lambda found: found[1] or f"\\{found[2]}", text, flags=re.IGNORECASE)
    # An underscore between two letters or digits is no markup.
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)


def unescape(text: str) -> str:
    r"""Undo `escape` in a text with tables, whose cells keep their width, to show on a terminal.

    Example:
        >>> unescape(r"| a\_   | 1 |")
        '| a_    | 1 |'
    """
    lines = []
    for line in text.split("\n"):
        cells = re.split(r"(?<!\\)\|", line) if line.startswith("|") else [line]
        plain = (html.unescape(re.sub(r"\\([\\`*\[\]|~#!_])", r"\1", cell)) for cell in cells)
        lines.append("|".join(p.ljust(len(c)) for p, c in zip(plain, cells, strict=True)).rstrip())
    return "\n".join(lines)


_MARKUP = Markup(escape, str, "**{}**", "*{}*", "<sub>{}</sub>", "± {}")
