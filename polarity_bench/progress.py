"""Types of progress bars, and a bar that shows nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Progress = Callable[[int], None]
"""Function that advances a bar; its argument is the number of steps done since the last call."""

Bar = Callable[[str, int], AbstractContextManager[Progress]]
"""Function that opens a bar with a title and a total; its context yields a `Progress`."""


def no_bar(title: str, total: int) -> AbstractContextManager[Progress]:  # noqa: ARG001  as every `Bar`
    """Return a progress bar that shows nothing."""
    return nullcontext(lambda _: None)
