"""Templates of HTML pages, which escape all inserted values, and JSON for the pages' scripts."""

from __future__ import annotations

import json
from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarity_bench.errors import check_installed
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


def one_file(name: str, data: Any, **values: Any) -> bytes:
    """Render a page of `polarity-bench explain` with its style, script and data in one file.

    The page needs no network, and its content security policy forbids network access. The policy
    allows only the page's own style and script, by their hashes.

    Args:
        name: Name of the template, and of the style and script that extend the shared ones.
        data: Data for the script, as a JSON value.
        values: Other values of the template.

    Raises:
        InputError: If jinja2 is not installed.
    """
    check_installed("`html`", "jinja2")
    from markupsafe import Markup

    style, script = (
        "".join((ASSETS / f"{part}.{kind}").read_text("utf-8") for part in ("shared", name))
        for kind in ("css", "js")
    )
    policy = (
        f"default-src 'none'; style-src {_hash_source(style)}; script-src {_hash_source(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    values |= {"style": Markup(style), "script": Markup(script)}  # noqa: S704  files of this package
    values |= {"policy": policy, "data": Markup(script_json(data))}  # noqa: S704  it is escaped
    return templates().get_template(f"{name}.html.j2").render(**values).encode()


def _hash_source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


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
