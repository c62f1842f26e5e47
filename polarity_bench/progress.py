"""Progress of long work: a bar is opened with a title and a total, and advanced by numbers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Progress = Callable[[int], None]
"""Called with the number of texts just encoded."""

Bar = Callable[[str, int], AbstractContextManager[Progress]]
"""Opens a progress bar: its title and total in, what advances it out."""


def no_bar(title: str, total: int) -> AbstractContextManager[Progress]:  # noqa: ARG001
    """Show nothing."""
    return nullcontext(lambda _: None)
