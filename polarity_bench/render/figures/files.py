"""Figure files: each figure in light and dark, as SVG and PNG.

In an SVG, text stays text, and a description says what the figure shows. With the same version of
matplotlib, the same board gives the same bytes.
"""

from __future__ import annotations

import io
import re
import unicodedata
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal
from xml.sax.saxutils import escape

from polarity_bench.errors import InputError, how_to_install
from polarity_bench.render.chart import BarChart, Drawn, LineChart, Plane, Ranks
from polarity_bench.render.figures.bars import bars_sheet
from polarity_bench.render.figures.lines import lines_sheet
from polarity_bench.render.figures.plane import plane_sheet
from polarity_bench.render.figures.ranks import ranks_sheet
from polarity_bench.render.figures.style import (
    LIGHT,
    THEMES,
    WIDTH,
    Looks,
    Sheet,
    Theme,
    looks_of,
    styled,
)
from polarity_bench.render.table import Board

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Format = Literal["svg", "png"]
FORMATS: tuple[Format, ...] = ("svg", "png")

_DPI = 150
_LONGEST = 80


def figure_files(board: Board) -> dict[str, bytes]:
    """Draw all charts of a board.

    Returns:
        Contents of the files by name: `NAME.svg`, `NAME-dark.svg`, and the same as `.png`.

    Raises:
        InputError: If matplotlib is not installed.
    """
    looks = looks_of(board.drawn)
    files: dict[str, bytes] = {}
    for stem, drawn in zip(stems(board.drawn), board.drawn, strict=True):
        sheet = sheet_of(drawn, looks)
        for theme in THEMES:
            name = stem if theme is LIGHT else f"{stem}-{theme.name}"
            made = _render([sheet], theme, FORMATS)
            files |= {f"{name}.{form}": content for form, content in made.items()}
    return files


def figure_svg(board: Board) -> bytes:
    """Draw a board's planes below each other in the light theme.

    Raises:
        InputError: If the board has no plane, or matplotlib is not installed.
    """
    if not board.planes:
        raise InputError(
            "`figure`: there is nothing to draw, since S compares only where encoders share a "
            "reference"
        )
    return drawn_together(board.planes, "svg")


def drawn_together(drawn: Sequence[Drawn], form: Format, theme: Theme = LIGHT) -> bytes:
    """Draw one or more charts below each other in one file.

    Raises:
        InputError: If matplotlib is not installed.
    """
    looks = looks_of(drawn)
    return _render([sheet_of(each, looks) for each in drawn], theme, [form])[form]


def check_can_draw() -> None:
    """Check that matplotlib is installed.

    Raises:
        InputError: If matplotlib is not installed.
    """
    if find_spec("matplotlib") is None:
        raise InputError(f"figures need matplotlib; {how_to_install('report')}")


def stems(drawn: Sequence[Drawn]) -> list[str]:
    """Return file names without suffix: safe on any system, unique, and named after the content.

    Example:
        >>> stems([BarChart("P by phenomenon: a/../b", "P", (), ()), BarChart("???", "P", (), ())])
        ['p-by-phenomenon-a-b', 'figure']
    """
    planes = [each for each in drawn if isinstance(each, Plane)]
    ks = {task: {p.k for p in planes if p.task == task} for task in {p.task for p in planes}}
    found: list[str] = []
    for each in drawn:
        if isinstance(each, Plane):
            at_k = f" k {each.k}" if len(ks[each.task]) > 1 else ""
            found.append(_slug(f"{each.task} p against s{at_k}"))
        else:
            found.append(_slug(each.title))
    taken: set[str] = set()
    for i, stem in enumerate(found):
        n = 1
        while {found[i], f"{found[i]}-dark"} & taken:
            n += 1
            found[i] = f"{stem}-{n}"
        taken |= {found[i], f"{found[i]}-dark"}
    return found


def _slug(text: str) -> str:
    letters = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", letters)[:_LONGEST].strip("-") or "figure"


def sheet_of(drawn: Drawn, looks: Looks) -> Sheet:
    """Lay out a chart."""
    match drawn:
        case Plane():
            return plane_sheet(drawn, looks)
        case LineChart():
            return lines_sheet(drawn, looks)
        case BarChart():
            return bars_sheet(drawn, looks)
        case Ranks():
            return ranks_sheet(drawn)


def draw(sheets: Sequence[Sheet], theme: Theme) -> Figure:
    """Draw sheets below each other; call this, and save the figure, inside `styled`."""
    from matplotlib.figure import Figure

    heights = [sheet.height for sheet in sheets]
    figure = Figure(figsize=(WIDTH, sum(heights)))
    parts = figure.subfigures(len(sheets), 1, height_ratios=heights, squeeze=False)
    for part, sheet in zip(parts[:, 0], sheets, strict=True):
        sheet.draw(part, theme)
    return figure


def _render(sheets: Sequence[Sheet], theme: Theme, forms: Sequence[Format]) -> dict[Format, bytes]:
    check_can_draw()
    made: dict[Format, bytes] = {}
    with styled(theme), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # in names of any script
        figure = draw(sheets, theme)
        for form in forms:
            out = io.BytesIO()
            nothing = {"Software": None} if form == "png" else {"Date": None, "Creator": None}
            figure.savefig(out, format=form, dpi=_DPI, metadata=nothing)
            made[form] = out.getvalue()
    if "svg" in made:
        made["svg"] = _with_words(made["svg"], sheets)
    return made


def _with_words(svg: bytes, sheets: Sequence[Sheet]) -> bytes:
    """Add a title and a description in words to an SVG."""
    title = escape("; ".join(sheet.title for sheet in sheets))
    said = escape(" ".join(f"{sheet.title}. {sheet.said}" for sheet in sheets))
    head, start, rest = svg.partition(b"<svg ")
    tag, end, body = rest.partition(b">")
    words = f"\n <title>{title}</title>\n <desc>{said}</desc>".encode()
    return b"".join([head, start, b'role="img" ', tag, end, words, body])
