"""A sweep as it goes: a table on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from polarity_bench.cli import shared

if TYPE_CHECKING:
    from polarity_bench.sweeps.watch import Seen, Watch

_LOOK_SECONDS = 2.0


@contextmanager
def live(watch: Watch) -> Iterator[Callable[[], None]]:
    """Show how far a sweep is, on stderr, whenever the function returned is called."""
    if not sys.stderr.isatty():
        yield _lines(watch)
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    with Live(_table(watch, watch.look()), console=console, transient=True) as shown:
        yield _seldom(lambda: shown.update(_table(watch, watch.look())), _LOOK_SECONDS)


def _seldom(function: Callable[[], None], seconds: float) -> Callable[[], None]:
    """Call a function at most once in so many seconds."""
    last = time.monotonic()

    def call() -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            function()
            last = time.monotonic()

    return call


def _lines(watch: Watch) -> Callable[[], None]:
    def tell() -> None:
        shared.remark(f"{watch.plan.title}: {summary(watch.look())}")

    tell()
    return _seldom(tell, shared.LINE_SECONDS)


def summary(seen: Seen) -> str:
    """Say in a line how far it is."""
    parts = [f"{n:,} {state}" for state, n in seen.counts.items() if n]
    if seen.seconds_left:
        parts.append(f"about {shared.duration(seen.seconds_left)} left")
    return "; ".join([", ".join(parts), *(best.words for best in seen.best)])


def _table(watch: Watch, seen: Seen) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(watch.plan.title))
    for heading in (*seen.counts, "time left"):
        table.add_column(heading, justify="right")
    left = "" if seen.seconds_left is None else shared.duration(seen.seconds_left)
    table.add_row(*(f"{n:,}" for n in seen.counts.values()), left)
    names = {item.digest: item.name for item in watch.plan.items}
    said = [best.words for best in seen.best]
    said += [f"running: {names[digest]}" for digest in seen.running if digest in names]
    table.caption = Text("\n".join(said))
    return table
