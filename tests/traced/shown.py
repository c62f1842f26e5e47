"""Checks of README.md, index.html and table.tex against the lines of table.csv."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser

from traced.lines import Line

_NUMBER = r"[+-]?\d+(?:\.\d+)?(?:e[+-]\d+)?"
_CELL = re.compile(
    rf"(?P<value>{_NUMBER})(?: \[(?P<low>{_NUMBER}), (?P<high>{_NUMBER})\])?"
    rf"(?: ± (?P<std>{_NUMBER}))?(?P<mark>.*)"
)
MISSING = "-"


@dataclass(frozen=True)
class Grid:
    """A table as plain text.

    Attributes:
        n_heads: Number of leading columns.
        orders: Sort keys of the cells, if the file has them.
    """

    titles: Sequence[str]
    n_heads: int
    rows: Sequence[Sequence[str]]
    orders: Sequence[Sequence[str]] = ()


def unshown(file: str, grids: Sequence[Grid], lines: Sequence[Line]) -> list[str]:
    """Return a message for each number in a file's tables that is not the next line's, rounded."""
    left = iter(lines)
    wrong: list[str] = []
    for grid in grids:
        for i, cells in enumerate(grid.rows):
            texts = ("" if text == MISSING else text for text in cells[: grid.n_heads])
            heads = dict(zip(grid.titles, texts, strict=False))
            for j in range(grid.n_heads, len(cells)):
                if cells[j] == MISSING:
                    continue
                where = f"{file}: {', '.join(heads.values())} | {grid.titles[j]}: {cells[j]}"
                line = next(left, None)
                if line is None:
                    return [*wrong, f"{where}: table.csv has no more lines"]
                known = {title: text for title, text in line.heads.items() if title in heads}
                if (grid.titles[j], heads) != (line.column, known):
                    return [*wrong, f"{where}: the next line of table.csv is {line}"]
                if not _shows(cells[j], line):
                    wrong.append(f"{where}: table.csv has {line.number} for {line}")
                if grid.orders and not _orders(grid.orders[i][j], line.number.value):
                    wrong.append(f"{where}: it is sorted by {grid.orders[i][j]}, not {line.number}")
    return [*wrong, *(f"{file}: {line} is not shown" for line in left)]


def _orders(shown: str, value: float) -> bool:
    """Return whether a sort key equals its number, cut after some decimals."""
    digits = len(shown.partition("e")[0].partition(".")[2])
    exponent = int(shown.partition("e")[2] or 0)
    return abs(float(shown) - value) <= 0.501 * float(f"1e{exponent - digits}")


def _shows(text: str, line: Line) -> bool:
    """Return whether a cell shows the number of a line, rounded to the cell's decimals."""
    said = _CELL.fullmatch(text)
    if said is None or said["mark"].strip() != line.number.mark:
        return False
    by = 100 if "fraction" in line.unit else 1
    return all(
        _rounded(getattr(line.number, part), by, shown)
        for part, shown in said.groupdict().items()
        if part != "mark"
    )


def _rounded(number: float, by: int, shown: str | None) -> bool:
    if shown is None or math.isnan(number):
        return shown is None and math.isnan(number)
    if "e" in shown:
        return shown == f"{number:.0e}"
    digits = len(shown.partition(".")[2])
    return float(f"{number * by:.{digits}f}") == float(shown)


def of_markdown(text: str) -> list[Grid]:
    """Read the tables of a README."""
    blocks = re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE)
    return [_of_pipes(block.splitlines()) for block in blocks]


def _of_pipes(lines: Sequence[str]) -> Grid:
    titles, rule, *rows = ([c.strip() for c in re.split(r"(?<!\\)\|", li)[1:-1]] for li in lines)
    plain = [[_plain_markdown(cell) for cell in row] for row in rows]
    n_heads = sum(not cell.endswith(":") for cell in rule)
    return Grid([_plain_markdown(title) for title in titles], n_heads, plain)


def _plain_markdown(cell: str) -> str:
    cell = re.sub(r"(?<!\\)\*", "", cell)
    cell = re.sub(r" <sub>(.*?)</sub>", r" ± \1", cell)
    return html.unescape(re.sub(r"\\([\\`*\[\]|~#!_])", r"\1", cell))


def of_latex(text: str) -> list[Grid]:
    """Read the tables of a table.tex."""
    pattern = r"\\begin\{tabular\}\{(l+)r*\}\n\\toprule\n(.*?)\n\\midrule\n(.*?)\\bottomrule"
    return [
        Grid(_of_ampersands(titles), len(heads), [_of_ampersands(row) for row in rows.splitlines()])
        for heads, titles, rows in re.findall(pattern, text, re.DOTALL)
    ]


_LATEX = {
    r"$\pm$": "±",
    r"$\dagger$": "†",
    r"$\lambda$": "λ",
    r"$\beta$": "β",
    "$-$": "-",
    "{[}": "[",
    "{]}": "]",
    "{*}": "*",
    "--": "\N{EN DASH}",
    "-{}-": "--",
}


def _of_ampersands(line: str) -> list[str]:
    line = re.sub(r"\$_\{(.*?)\}\$", r"± \1", line.removesuffix(r"\\"))
    for code, plain in _LATEX.items():
        line = line.replace(code, plain)
    line = re.sub(r"\\text(?:bf|it)\{((?:[^{}\\]|\\.)*)\}", r"\1", line)
    return [re.sub(r"\\([&%$#_{}])", r"\1", cell.strip()) for cell in re.split(r" & ", line)]


def of_page(text: str) -> list[Grid]:
    """Read the tables of numbers in an index.html."""
    page = _Page()
    page.feed(text)
    return page.grids


@dataclass
class _Open:
    """A table that is being read: the cells of each row, with their sort keys."""

    titles: list[str] = field(default_factory=list)
    n_heads: int = 0
    rows: list[list[str]] = field(default_factory=list)
    orders: list[list[str]] = field(default_factory=list)


class _Page(HTMLParser):
    """Parser of tables of numbers; it reads a subscript spread like one after ±."""

    def __init__(self) -> None:
        super().__init__()
        self.grids: list[Grid] = []
        self.table: _Open | None = None
        self.texts: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        if tag == "table" and said.get("class") == "numbers-table":
            self.table = _Open()
        if self.table is None:
            return
        if tag == "tr":
            self.table.rows.append([])
            self.table.orders.append([])
        if tag in {"th", "td"}:
            self.texts = []
            self.table.n_heads += said.get("class", "").startswith("text") and tag == "th"
            self.table.orders[-1].append(said.get("data-order", ""))
        if tag == "sub" and self.texts is not None:
            self.texts.append(" ± ")

    def handle_data(self, data: str) -> None:
        if self.texts is not None:
            self.texts.append(data)

    def handle_endtag(self, tag: str) -> None:
        if self.table is None:
            return
        if tag in {"th", "td"} and self.texts is not None:
            self.table.rows[-1].append(re.sub(r"\s+", " ", "".join(self.texts)).strip())
            self.texts = None
        if tag == "table":
            titles, *rows = self.table.rows
            self.grids.append(Grid(titles, self.table.n_heads, rows, self.table.orders[1:]))
            self.table = None


READERS: dict[str, Callable[[str], list[Grid]]] = {
    "README.md": of_markdown,
    "index.html": of_page,
    "table.tex": of_latex,
}
