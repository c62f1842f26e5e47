"""Progress bars: a bar is opened with a title and a total, and advanced by counts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Progress = Callable[[int], None]
"""Called with the number of texts just encoded."""

Bar = Callable[[str, int], AbstractContextManager[Progress]]
"""Opens a progress bar with a title and a total; the context manager yields the callback."""


def no_bar(title: str, total: int) -> AbstractContextManager[Progress]:  # noqa: ARG001
    """Return a progress bar that shows nothing."""
    return nullcontext(lambda _: None)
