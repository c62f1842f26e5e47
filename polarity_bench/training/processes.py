"""Several processes on one run, as torchrun starts them: all train, the first writes and judges.

torchrun tells each process by environment variables how many there are and which one it is, over
all nodes. The others take from the first what it alone decides, and wait where it alone writes.
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
    """Return how many cores this process may use."""
    usable = getattr(os, "sched_getaffinity", None)  # not on macOS
    return len(usable(0)) if usable else os.cpu_count() or 1


def n_processes() -> int:
    """Return how many processes make this run together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Whether this is the process that writes and judges."""
    return n_processes() == 1 or os.environ.get("RANK") == "0"


def join(device: str | None) -> None:
    """Meet the other processes, if there are any; on GPUs, each takes its own from now on."""
    if n_processes() == 1:
        return
    import torch
    from accelerate import PartialState  # type: ignore[import-untyped]

    on_cpu = device == "cpu" or not torch.cuda.is_available()
    PartialState(cpu=on_cpu, timeout=timedelta(days=1))  # the others wait while the first judges
    # Threads of a process group that is still open may abort an interpreter that ends.
    atexit.register(torch.distributed.destroy_process_group)


def wait() -> None:
    """Wait until all processes have come here."""
    if n_processes() > 1:
        import torch

        torch.distributed.barrier()


def of_first(value: Value) -> Value:
    """Return the first process's value, in all of them."""
    if n_processes() == 1:
        return value
    import torch

    values = [value]
    torch.distributed.broadcast_object_list(values)
    return values[0]


def end_with(parent: Connection) -> None:
    """Have this process end when the other end is closed, which a kill of the parent does too."""
    from tqdm import tqdm  # type: ignore[import-untyped]

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's goes to the parent as well
    tqdm.set_lock(threading.RLock())  # its usual lock is a semaphore, which _exit would leak

    def watch() -> None:
        with suppress(EOFError, OSError):
            parent.recv()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
