"""The local engine: processes on this machine that share what is left of a sweep.

No process is told what to make: each takes the next item that nobody holds. So several drivers may
work on one folder, and one that comes later goes on where another ended.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from polarity_bench.errors import InputError
from polarity_bench.progress import Bar, no_bar
from polarity_bench.sweeps.grid import Item, Setup
from polarity_bench.sweeps.make import make
from polarity_bench.sweeps.state import GREATEST_ATTEMPTS, SweepState
from polarity_bench.training.processes import end_with

_POLL = 0.2
"""Seconds between looks at what others have made."""
_GRACE = 10
"""Seconds for a process to end by itself."""


def run_local(
    items: Sequence[Item], setup: Setup, *, workers: int, title: str = "sweep", bar: Bar = no_bar
) -> None:
    """Make all items that have not ended, in so many processes, each of one thread.

    A process that is lost, to the system's want of memory say, is replaced.

    Args:
        items: What is to be made.
        setup: Where, and how encoders are loaded.
        workers: Processes.
        title: Of the bar.
        bar: Opens it, over the items.
    """
    state = SweepState(setup.output)
    state.make_folders()
    wanted = {item.digest for item in items}
    context = get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    processes: list[BaseProcess] = []
    n_told = n_lost = 0
    try:
        with bar(title, len(wanted)) as advance:
            while left := wanted - (ended := state.ended() & wanted):
                n_lost = 0 if len(ended) > n_told else n_lost
                n_lost += sum(bool(each.exitcode) for each in processes)
                if n_lost > (GREATEST_ATTEMPTS + 1) * workers:
                    raise InputError(
                        f"`workers` {workers}: {n_lost} of these processes ended one after the "
                        f"other, the last with code {processes[-1].exitcode}; see {state.logs}"
                    )
                advance(len(ended) - n_told)
                n_told = len(ended)
                processes = [each for each in processes if each.is_alive()]
                for _ in range(min(workers, len(left)) - len(processes)):
                    processes.append(context.Process(target=work, args=(items, setup, theirs)))
                    processes[-1].start()
                time.sleep(_POLL)
            advance(len(wanted) - n_told)
        for each in processes:  # which find that nothing is left
            each.join(_GRACE)
    finally:
        ours.close()  # they end with it: none is waited for
        for each in processes:
            each.join()


def work(items: Sequence[Item], setup: Setup, driver: Connection) -> None:
    """Make what is left and nobody holds, until nothing is, or the driver has ended."""
    end_with(driver)
    state = SweepState(setup.output)
    for item in _unheld(items, state):
        make(item, setup, state)


def _unheld(items: Sequence[Item], state: SweepState) -> Iterator[Item]:
    """Yield each item that has not ended and that this process then holds, until all have ended."""
    while True:
        ended = state.ended()
        left = [item for item in items if item.digest not in ended]
        if not left:
            return
        for item in left:
            with state.claimed(item.digest) as free:
                if free and state.outcome(item.digest) is None:
                    yield item
        time.sleep(_POLL)
