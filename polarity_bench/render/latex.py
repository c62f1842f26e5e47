r"""LaTeX output of boards: tables in booktabs style, for inclusion in a paper.

The preamble needs `\usepackage{booktabs}`. Captions and notes lose their markdown formatting.
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt

from polarity_bench.render.format import Markup, text_rows
from polarity_bench.render.table import Board, Table
from polarity_bench.values import printable

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\N{EN DASH}": "--",
    "±": r"$\pm$",
    "†": r"$\dagger$",
    "β": r"$\beta$",
    "λ": r"$\lambda$",
    "\N{MINUS SIGN}": "$-$",
    "*": "{*}",
    "--": "-{}-",
    "[": "{[}",
    "]": "{]}",
} | {sign: f"\\{sign}" for sign in "&%$#_{}"}
_LONGEST = 40
_SPECIAL = re.compile("|".join(map(re.escape, _ESCAPES)))


def escape(text: str) -> str:
    """Escape characters that are special in LaTeX, and control characters."""
    text = printable(re.sub(r"\s+", " ", text))
    return _SPECIAL.sub(lambda found: _ESCAPES[found[0]], text)


def board_latex(board: Board) -> str:
    """Render each table of a board as a LaTeX float; folded tables are left out."""
    title = re.sub(r"\s+", " ", board.title)
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:_LONGEST]
    tables = [
        _float(table, f"tab:{slug}:{number}")
        for number, table in enumerate((t for t in board.tables if not t.is_folded), start=1)
    ]
    return "\n".join([f"% {title}", r"% \usepackage{booktabs}", *tables]) + "\n"


def _float(table: Table, label: str) -> str:
    caption = ". ".join(filter(None, [escape(table.heading), plain(table.lead)]))
    columns = "l" * len(table.heads) + "r" * len(table.columns)
    titles = [title for title, _ in table.heads] + [column.title for column in table.columns]
    notes = [f"\n\\par\\footnotesize {plain(note)}" for note in table.notes]
    rows = text_rows(table.heads, table.columns, table.roles, _MARKUP)
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            f"\\caption{{{caption}}}",
            f"\\label{{{label}}}",
            f"\\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            f"{' & '.join(map(escape, titles))} \\\\",
            r"\midrule",
            *(f"{' & '.join(row)} \\\\" for row in rows),
            r"\bottomrule",
            r"\end{tabular}" + "".join(notes),
            r"\end{table}",
        ]
    )


def _number(text: str) -> str:
    return re.sub(r"^-(?=\d)", "$-$", escape(text))


_MARKUP = Markup(escape, _number, r"\textbf{{{}}}", r"\textit{{{}}}", "$_{{{}}}$", r"$\pm$ {}")


def plain(markdown: str) -> str:
    """Return markdown as plain text, escaped for LaTeX."""
    blocks = MarkdownIt("commonmark").parse(markdown)
    tokens = [token for block in blocks for token in block.children or []]
    texts = [" " if t.type in {"softbreak", "hardbreak"} else t.content for t in tokens]
    return escape("".join(texts)).strip()
