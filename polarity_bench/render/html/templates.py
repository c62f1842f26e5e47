"""Templates of HTML pages, which escape all inserted values, and JSON for the pages' scripts."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarity_bench.render.html.prose import inline_html, prose_html

if TYPE_CHECKING:
    from jinja2 import Environment

ASSETS = Path(__file__).parent / "assets"


@cache
def templates() -> Environment:
    """Return the environment that loads the page templates of this package, which needs jinja2."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"prose": prose_html, "inline": inline_html}
    return environment


def script_json(value: Any) -> str:
    r"""Serialize a value to JSON that is safe inside a script tag: `<`, `>` and `&` are escaped.

    Example:
        >>> script_json({"name": "</script><!-- & \u2028"})
        '{"name":"\\u003c/script\\u003e\\u003c!-- \\u0026 \\u2028"}'
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text
