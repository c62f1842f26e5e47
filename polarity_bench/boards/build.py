"""Rendering of a board's files, to write them or to check the existing files."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path

from polarity_bench.boards.board_folder import OpenBoard
from polarity_bench.compare.encoder_ranks import FILE as STATISTICS
from polarity_bench.compare.encoder_ranks import standings_bytes
from polarity_bench.files import write_atomically
from polarity_bench.render.csv_text import board_csv
from polarity_bench.render.latex import board_latex
from polarity_bench.render.markdown import render
from polarity_bench.results.score_names import hint

README, PAGE, FIGURES = "README.md", "index.html", "figures"
TABLE_FILES = {"table.csv": board_csv, "table.tex": board_latex}
"""Renderers of the other files with all tables, by name. A new format needs a line here."""
_SHOWN = 3
_SHOWN_FIGURE = re.compile(
    rf'srcset="({FIGURES}/[\w.-]+)-dark\.svg"><img alt="[^"]*" src="\1\.svg"></picture>'
)
"""Pattern of a figure in the README. Images in the board's own texts do not match."""
_ENDINGS = (".png", ".svg", "-dark.png", "-dark.svg")
"""File endings of a figure."""


def rendered(opened: OpenBoard, *, with_report: bool) -> dict[str, bytes]:
    """Render a board and return the content of each file, by its path in the board's folder.

    Args:
        opened: The board.
        with_report: Whether to render the page and the figures, which need the extra `report`.
    """
    board = opened.board
    files: dict[str, bytes] = {}
    if with_report:
        from polarity_bench.render.figures.figure_files import figure_files, figures_of
        from polarity_bench.render.html.board_page import page_html

        laid_out = figures_of(board.charts)
        contents = figure_files(board, laid_out)
        files |= {f"{FIGURES}/{name}": content for name, content in contents.items()}
        files[PAGE] = _bytes(page_html(board, hint, laid_out))
    figures = _shown_figures(opened, files)
    files[README] = _bytes(render(board, figures=figures))
    files |= {name: _bytes(rendering(board)) for name, rendering in TABLE_FILES.items()}
    if opened.standings is not None and opened.standings.kept.standings:
        files[STATISTICS] = standings_bytes(opened.standings)
    return dict(sorted(files.items()))


def _bytes(text: str) -> bytes:
    """Encode text as UTF-8. Names may contain lone surrogates, which become question marks."""
    return text.encode(errors="replace")


def _shown_figures(opened: OpenBoard, files: Mapping[str, bytes]) -> list[str]:
    """Return the paths of the figures to show in the README.

    If no figures were rendered now, the README keeps the figures of the last build.
    """
    shown = [n for n in files if n.endswith(".svg") and not n.endswith("-dark.svg")]
    built = (f"{stem}.svg" for stem in _built_figures(opened.folder))
    return sorted(shown or (name for name in built if (opened.folder / name).is_file()))


def _built_figures(folder: Path) -> list[str]:
    """Return the paths of the figures in the existing README, without their file endings."""
    file = folder / README
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    return _SHOWN_FIGURE.findall(text)


def build(opened: OpenBoard, *, with_report: bool) -> list[Path]:
    """Render a board, update its files, and return the paths that changed.

    Figures of the last build that are no longer rendered are deleted. All other files are kept.
    """
    files = rendered(opened, with_report=with_report)
    stray = _stray(opened.folder, files) if with_report else []
    changed = write_changed(opened.folder, files)
    for path in stray:
        path.unlink()
    return [*changed, *stray]


def write_changed(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write only the files whose contents changed, and return their paths."""
    contents = {folder / name: content for name, content in files.items()}
    changed = [p for p, new in contents.items() if not p.is_file() or p.read_bytes() != new]
    for path in changed:
        write_atomically(path, contents[path])
    return changed


def check(opened: OpenBoard, *, with_report: bool) -> dict[str, str]:
    """Render a board and describe the files that are missing, superfluous or differ in any byte.

    The keys are the paths of the files in the board's folder.
    """
    files = rendered(opened, with_report=with_report)
    stray = _stray(opened.folder, files) if with_report else []
    superfluous = {f"{FIGURES}/{each.name}": "belongs to no figure of this board" for each in stray}
    return differences(opened.folder, files) | superfluous


def differences(folder: Path, files: Mapping[str, bytes]) -> dict[str, str]:
    """Describe the files of a folder that are missing or differ from the expected contents."""
    differing = {}
    for name, content in files.items():
        path = folder / name
        if not path.is_file():
            differing[name] = "is missing"
        elif (current := path.read_bytes()) != content:
            differing[name] = _differs(current, content)
    return differing


def _stray(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Return the existing figure files of the last build that are no longer rendered."""
    built = [f"{stem}{ending}" for stem in _built_figures(folder) for ending in _ENDINGS]
    return [folder / name for name in built if name not in files and (folder / name).is_file()]


def _differs(now: bytes, wanted: bytes) -> str:
    """Describe the first differences between two files, by line and, in tables, by cell."""
    try:
        lines, right = now.decode().splitlines(), wanted.decode().splitlines()
    except UnicodeDecodeError:
        return "differs"
    differences = []
    matcher = difflib.SequenceMatcher(None, lines, right, autojunk=False)
    for tag, start, end, from_, to in matcher.get_opcodes() if len(lines) < 5_000 else ():
        if tag == "replace" and end - start == to - from_:
            pairs = zip(range(start, end), range(from_, to), strict=True)
            differences += [f"line {i + 1}: {_cells(lines, i, right[j])}" for i, j in pairs]
        elif tag != "equal":
            differences.append(f"line {start + 1}: expected {to - from_} lines, got {end - start}")
    more = f" and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
    return "; ".join(differences[:_SHOWN]) + more if differences else "differs"


def _cells(lines: list[str], i: int, right: str) -> str:
    """Describe the differing cells of a line, by their column and the first cell of the row."""
    one, other = (_split(line) for line in (lines[i], right))
    if len(one) != len(other) or len(one) < 2:
        return f"expected {_short(right)!r}, got {_short(lines[i])!r}"
    titles = _titles(lines, i, len(one))
    row_name = next(cell for title, cell in zip(titles, other, strict=True) if title != "rank")
    pairs = enumerate(zip(one, other, strict=True))
    wrong = [(position, a, b) for position, (a, b) in pairs if a != b]
    return ", ".join(
        f"{titles[position]} of {row_name}: expected {_short(b)!r}, got {_short(a)!r}"
        for position, a, b in wrong
    )


def _split(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split(" | ")] if "|" in line else []


def _titles(lines: list[str], i: int, n: int) -> list[str]:
    """Return the n column titles of the table that contains line i."""
    first = i
    while first > 0 and lines[first - 1].startswith("|"):
        first -= 1
    titles = _split(lines[first])
    return titles if len(titles) == n else [f"cell {number + 1}" for number in range(n)]


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"
