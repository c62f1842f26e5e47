"""Training in several processes started by torchrun; only the first process writes files.

torchrun sets the number of processes on all nodes and the rank of each process as environment
variables. The first process broadcasts its decisions to the others. The others wait while the first
process writes.
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


def n_processes() -> int:
    """Return the number of processes in this run."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Return whether this is the first process.

    Only the first process writes files and computes scores.
    """
    return n_processes() == 1 or os.environ.get("RANK") == "0"


def join(device: str | None) -> None:
    """Connect to the other processes of the run, if any; on GPUs, each process uses its own GPU."""
    if n_processes() == 1:
        return
    import torch
    from accelerate import PartialState

    if torch.distributed.is_initialized():  # by an earlier training in this process
        return
    on_cpu = device == "cpu" or not torch.cuda.is_available()
    PartialState(cpu=on_cpu, timeout=timedelta(days=1))  # scoring in the first may take long
    # If the process group is still open at exit, its threads can abort the interpreter.
    atexit.register(torch.distributed.destroy_process_group)


def wait() -> None:
    """Wait until all processes have reached this call."""
    if n_processes() > 1:
        import torch

        torch.distributed.barrier()


def of_first(value: Value) -> Value:
    """Return the value of the first process in every process."""
    if n_processes() == 1:
        return value
    import torch

    values = [value]
    torch.distributed.broadcast_object_list(values)
    return values[0]


def end_with(parent: Connection) -> None:
    """Exit this process when the parent's end of the pipe closes, even if the parent is killed."""
    from tqdm import tqdm

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets Ctrl-C too and ends this process
    tqdm.set_lock(threading.RLock())  # tqdm's default lock is a semaphore, which _exit would leak

    def watch() -> None:
        with suppress(EOFError, OSError):
            parent.recv()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
