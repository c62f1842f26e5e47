"""Several processes in one run, started by torchrun: all train, the first one writes and scores.

torchrun tells each process by environment variables how many processes there are over all nodes,
and which one it is. Decisions of the first process are broadcast to the others, and the others wait
while only the first one writes.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from contextlib import suppress
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import TypeVar

Value = TypeVar("Value")


def usable_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    usable = getattr(os, "sched_getaffinity", None)  # not on macOS
    return len(usable(0)) if usable else os.cpu_count() or 1


def n_processes() -> int:
    """Return the number of processes in this run."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Return whether this is the process that writes and scores."""
    return n_processes() == 1 or os.environ.get("RANK") == "0"


def join(device: str | None) -> None:
    """Connect to the other processes, if there are any. On GPUs, each process takes its own."""
    if n_processes() == 1:
        return
    import torch
    from accelerate import PartialState  # type: ignore[import-untyped]

    on_cpu = device == "cpu" or not torch.cuda.is_available()
    PartialState(cpu=on_cpu, timeout=timedelta(days=1))  # the others wait while the first scores
    # Threads of a process group that is still open may abort an interpreter that ends.
    atexit.register(torch.distributed.destroy_process_group)


def wait() -> None:
    """Wait until all processes have reached this call."""
    if n_processes() > 1:
        import torch

        torch.distributed.barrier()


def of_first(value: Value) -> Value:
    """Return the first process's value in all processes."""
    if n_processes() == 1:
        return value
    import torch

    values = [value]
    torch.distributed.broadcast_object_list(values)
    return values[0]


def end_with(parent: Connection) -> None:
    """End this process when the parent's end of the pipe closes, even if the parent is killed."""
    from tqdm import tqdm  # type: ignore[import-untyped]

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too
    tqdm.set_lock(threading.RLock())  # tqdm's default lock is a semaphore, which _exit would leak

    def watch() -> None:
        with suppress(EOFError, OSError):
            parent.recv()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
