r"""LaTeX output: the tables of a board in booktabs style, for inclusion in a paper.

The preamble needs `\usepackage{booktabs}`. Markdown above and below a table becomes plain text.
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt

from polarity_bench.render.format import MISSING, FormattedCell, shown
from polarity_bench.render.table import SET_APART, Board, Column, Table
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
    """Escape characters that LaTeX would interpret."""
    text = printable(re.sub(r"\s+", " ", text))
    return _SPECIAL.sub(lambda found: _ESCAPES[found[0]], text)


def board_latex(board: Board) -> str:
    """Render all tables, each as a float."""
    title = re.sub(r"\s+", " ", board.title)
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:_LONGEST]
    tables = [
        _float(table, f"tab:{slug}:{place}")
        for place, table in enumerate((t for t in board.tables if not t.is_folded), start=1)
    ]
    return "\n".join([f"% {title}", r"% \usepackage{booktabs}", *tables]) + "\n"


def _float(table: Table, label: str) -> str:
    caption = ". ".join(filter(None, [escape(table.heading), plain(table.lead)]))
    columns = "l" * len(table.heads) + "r" * len(table.columns)
    titles = [title for title, _ in table.heads] + [column.title for column in table.columns]
    notes = [f"\n\\par\\footnotesize {plain(note)}" for note in table.notes]
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
            *(f"{' & '.join(row)} \\\\" for row in _rows(table)),
            r"\bottomrule",
            r"\end{tabular}" + "".join(notes),
            r"\end{table}",
        ]
    )


def _rows(table: Table) -> list[list[str]]:
    cells = [shown(column) for column in table.columns]
    rows = []
    for i in range(table.n_rows):
        apart = table.role(i) in SET_APART
        heads = [escape(texts[i]) for _, texts in table.heads]
        heads[0] = _italic(heads[0], apart)
        numbers = [
            _cell(column[i], of, apart) for column, of in zip(cells, table.columns, strict=True)
        ]
        rows.append([*heads, *numbers])
    return rows


def _cell(cell: FormattedCell, column: Column, apart: bool) -> str:
    number = f"$-${cell.number[1:]}" if re.match(r"-\d", cell.number) else cell.number
    number = f"\\textbf{{{number}}}" if cell.is_best else _italic(number, apart)
    spread = ""
    if cell.spread:
        spread = f"$_{{{cell.spread}}}$" if column.spread_as == "sub" else f"$\\pm$ {cell.spread}"
    return " ".join(filter(None, [number, escape(cell.interval), spread])) + escape(cell.mark)


def _italic(text: str, wanted: bool) -> str:
    return f"\\textit{{{text}}}" if wanted and text != MISSING else text


def plain(markdown: str) -> str:
    """Return the text of markdown, escaped for LaTeX."""
    blocks = MarkdownIt("commonmark").parse(markdown)
    tokens = [token for block in blocks for token in block.children or []]
    texts = [" " if t.type in {"softbreak", "hardbreak"} else t.content for t in tokens]
    return escape("".join(texts)).strip()
