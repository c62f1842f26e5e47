"""HTML pages of boards: each is one file that needs neither a network nor a server.

DataTables and its dependency jQuery are vendored in `assets/vendor`, with their licences. Vega
comes from the bundle in vl-convert. Untrusted text is escaped by the template, by `prose`, or as
JSON. The content security policy of the page forbids loading anything. With the same versions of
these packages, the same board gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from polarity_bench.errors import check_installed
from polarity_bench.render.format import MISSING
from polarity_bench.render.html.tables import ROLES, Hint, lay_out
from polarity_bench.render.html.templates import ASSETS, script_json, templates
from polarity_bench.render.markdown import NOTES_LINK, ORIGIN
from polarity_bench.render.table import Board, Detail

if TYPE_CHECKING:
    from polarity_bench.render.figures.figure import Figure

_VENDORED = ("vendor/jquery-3.7.1.slim.min.js", "vendor/dataTables-2.3.5.min.js")
_SNIPPET = "window.vegaEmbed = vegaEmbed;"


def page_html(
    board: Board, hint: Hint = lambda _: "", figures: Sequence[Figure] | None = None
) -> str:
    """Render a board as an HTML page.

    Args:
        board: Board to render.
        hint: Function that explains the title of a column.
        figures: Figures of the board's charts, if they are laid out already.

    Raises:
        InputError: If a required package is not installed.
    """
    from polarity_bench.render.figures.figure_files import NEEDED, figures_of

    check_installed("a page", *NEEDED)
    figures = figures_of(board.charts) if figures is None else figures
    specs = [figure.spec for figure in figures]
    bundle = [_vega_bundle()] if figures else []
    return (
        templates()
        .get_template("page.html.j2")
        .render(
            board=board,
            origin_heading=ORIGIN,
            notes_link=NOTES_LINK,
            roles=ROLES,
            tables=lay_out(board.tables, hint),
            figures=figures,
            numbers={key: number for number, key in enumerate(board.details)},
            lacks_plane=not board.planes and _has_own_references(board),
            data=script_json({"figures": specs, **_details(list(board.details.values()))}),
            style=_asset("page.css"),
            scripts=[*bundle, *map(_in_script, map(_asset, _VENDORED)), _asset("page.js")],
        )
    )


def _has_own_references(board: Board) -> bool:
    """Return whether a board shows P, and no encoder under the reference of another."""
    heads = [dict(t.heads) for t in board.tables if any(c.title == "P" for c in t.columns)]
    references = {cell for of_table in heads for cell in of_table.get("reference", ())}
    return bool(heads) and references <= {"itself", MISSING}


def _details(details: Sequence[Detail]) -> dict[str, Any]:
    """Return the row details in a compact form for the page's script.

    Each distinct text is stored once in `texts`, and the details refer to texts by position.
    Hundreds of encoders share most words of their commands and file names.
    """
    texts: dict[str, int] = {}

    def at(text: str) -> int:
        return texts.setdefault(text, len(texts))

    compact = [
        {
            "facts": [[at(name), at(value)] for name, value in detail.facts.items()],
            "command": [at(word) for word in detail.command.split(" ")],
            "files": [list(map(at, re.split(r"(?<=/)(?=[^/]*$)", name))) for name in detail.files],
            "source": at(detail.source),
        }
        for detail in details
    ]
    return {"details": compact, "texts": list(texts)}


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


@cache
def _vega_bundle() -> str:
    """Return the code of Vega, vega-embed and the Vega-Lite version that altair targets."""
    import vl_convert

    from polarity_bench.render.figures.figure_files import vega_lite_version

    return _in_script(str(vl_convert.javascript_bundle(_SNIPPET, vl_version=vega_lite_version())))


def _in_script(code: str) -> str:
    """Escape JavaScript code for a script tag; strings in the code must not end the tag."""
    code = re.sub(r"</(script)", r"<\\/\1", code, flags=re.IGNORECASE)
    code = re.sub(r"<(script)", r"\\x3c\1", code, flags=re.IGNORECASE)
    return code.replace("<!--", r"\x3c!--")
