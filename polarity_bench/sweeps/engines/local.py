"""Local engine: worker processes on this machine that share the remaining items of a sweep.

Items are not assigned in advance. Each worker takes the next item that no other process has locked.
Several drivers can therefore share a folder, and a later driver resumes the work of an earlier one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from itertools import cycle
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import psutil
from joblib import cpu_count

from polarity_bench.errors import InputError
from polarity_bench.files import cannot_write
from polarity_bench.sweeps.execute import make_if_free
from polarity_bench.sweeps.items import Item, Setup
from polarity_bench.sweeps.state_files import GREATEST_ATTEMPTS, SweepState
from polarity_bench.training.processes import end_with

POLL = 0.2
"""Seconds between two reads of the state on disk."""
_GRACE = 10
"""Seconds to wait for a worker process to end by itself."""
_CANNOT_WRITE = 73
"""Exit code of a worker that cannot write to the folder of the sweep, as in sysexits.h."""
WORKER_BYTES = 2 * 2**30
"""Memory of a worker process, in bytes. Training all-MiniLM-L6-v2 on SST-2 took 1.9 GB."""


def run_local(
    items: Sequence[Item], setup: Setup, *, workers: int, look: Callable[[], None] = lambda: None
) -> None:
    """Run all unfinished items in several single-threaded worker processes.

    A worker that is killed, for example because memory ran out, is replaced.

    Raises:
        InputError: If a worker cannot write to the folder of the sweep, or if too many workers are
            killed in a row before another item ends.
    """
    setup = setup.with_new_driver()
    state = SweepState(setup.output)
    state.make_folders()
    digests = {item.digest for item in items}
    context = get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    gpus = cycle(visible_gpus(setup.options.device) or [None])
    processes: list[BaseProcess] = []
    n_told = n_lost = 0
    try:
        while left := digests - (ended := state.ended() & digests):
            n_lost = 0 if len(ended) > n_told else n_lost
            lost = [each.exitcode for each in processes if each.exitcode]
            n_lost += len(lost)
            if any(each.exitcode == _CANNOT_WRITE for each in processes):
                raise InputError(
                    f"{setup.output}: a worker process could not write the state of an item (see "
                    "above); make room or restore the permission, and run the same command again"
                )
            if n_lost > (GREATEST_ATTEMPTS + 1) * workers:
                raise InputError(
                    f"`workers` {workers}: {n_lost} worker processes ended in a row without "
                    f"completing an item, the last with exit code {lost[-1]}; read "
                    f"the logs in {state.logs}"
                )
            n_told = len(ended)
            processes = [each for each in processes if each.is_alive()]
            for _ in range(min(workers, len(left)) - len(processes)):
                arguments = (items, setup, receiving, next(gpus))
                processes.append(context.Process(target=work, args=arguments))
                processes[-1].start()
            look()
            time.sleep(POLL)
        for each in processes:  # workers end when no item is left
            each.join(_GRACE)
    finally:
        sending.close()  # workers also end when the connection closes
        for each in processes:
            each.join()


def visible_gpus(device: str | None) -> list[str]:
    """Return the GPUs to distribute over workers, named as in CUDA_VISIBLE_DEVICES.

    The list is empty if there is no GPU or if the user chose a device other than `cuda`.
    """
    if device not in (None, "cuda"):
        return []
    import torch

    if not torch.cuda.is_available():
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    n_gpus = torch.cuda.device_count()
    return visible.split(",")[:n_gpus] if visible else [str(number) for number in range(n_gpus)]


def default_workers(device: str | None) -> int:
    """Return the default number of workers: one per GPU, else one per core if memory suffices."""
    if gpus := visible_gpus(device):
        return len(gpus)
    n_cores: int = cpu_count()
    return max(1, min(n_cores, psutil.virtual_memory().available // WORKER_BYTES))


def work(items: Sequence[Item], setup: Setup, driver: Connection, gpu: str | None) -> None:
    """Run remaining items that no process has locked, until no item is left or the driver ends.

    An item that depends on another item waits until the other item has ended.

    Args:
        items: All items of the sweep.
        setup: Folders and loading options.
        driver: Connection to the driver; the worker ends when the connection closes.
        gpu: GPU of this worker, named as in CUDA_VISIBLE_DEVICES; None if there are no GPUs.
    """
    end_with(driver)
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu  # must be set before torch looks for GPUs
    state = SweepState(setup.output)
    try:
        while left := _remaining(items, state):
            for item in left.values():
                if item.after not in left:
                    make_if_free(item, setup, state)
            time.sleep(POLL)
    except (InputError, OSError) as error:  # not of an item: that would be the item's outcome
        if isinstance(error, OSError) and not cannot_write(error):
            raise
        print(f"error: {error}", file=sys.stderr)
        sys.exit(_CANNOT_WRITE)


def _remaining(items: Sequence[Item], state: SweepState) -> dict[str, Item]:
    """Return the items that have not ended, by digest."""
    ended = state.ended()
    return {item.digest: item for item in items if item.digest not in ended}
