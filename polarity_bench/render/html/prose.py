"""Conversion of a board author's markdown to safe HTML, which runs no code and loads nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.token import Token

_CONTROL = re.compile(r"[\x00-\x20\x7f]")


def prose_html(markdown: str) -> str:
    r"""Render markdown as safe HTML.

    HTML becomes text, images become links, and links with an unsafe address become text.

    Example:
        >>> prose_html("*P* of [x](javascript:1) <b>")
        '<p><em>P</em> of [x](javascript:1) &lt;b&gt;</p>\n'
    """
    return str(_parser().render(markdown))


def inline_html(markdown: str) -> str:
    """Render a line of markdown as safe HTML, without a paragraph element around it."""
    text = prose_html(markdown).strip()
    inner = text.removeprefix("<p>").removesuffix("</p>")
    return inner if "<p>" not in inner else text


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.validateLink = is_safe_link  # type: ignore[method-assign]  # as its documentation says
    parser.add_render_rule("image", _image_as_link)
    return parser


def is_safe_link(url: str) -> bool:
    """Return whether a link is safe: a web address, or a file or anchor relative to the page.

    Example:
        >>> [is_safe_link(url) for url in ("https://a.b", "../a.md", "#t", "data:x", "//a")]
        [True, True, True, False, False]
    """
    try:
        parts = urlsplit(_CONTROL.sub("", url).replace("\\", "/"))
    except ValueError:
        return False
    first = parts.path.partition("/")[0]
    return parts.scheme in {"http", "https"} or not (parts.scheme or parts.netloc or ":" in first)


def _image_as_link(_: object, tokens: Sequence[Token], position: int, *__: object) -> str:
    """Render an image as a link, because a page must not load anything."""
    address = str(tokens[position].attrs["src"])
    return f'<a href="{escapeHtml(address)}">{escapeHtml(tokens[position].content or address)}</a>'
