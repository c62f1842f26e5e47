"""A sweep of items that take 50 ms, one of which kills a process the first time it is made.

`python -m standins.fake_items ENGINE OUTPUT VICTIM` drives it, as `polarity-bench sweep` does.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.sweeps import execute
from polarity_bench.sweeps.engines import local, ray
from polarity_bench.sweeps.items import Setup
from polarity_bench.sweeps.state_files import ItemOutcome

KILLER = "d"


@dataclass(frozen=True)
class FakeItem:
    """An item that writes a file. `driver` is the process that drives the sweep."""

    digest: str
    after: str | None
    victim: str
    driver: int

    @property
    def name(self) -> str:
        return f"item {self.digest}"


def fake_items(victim: str) -> list[Any]:
    """Return five items, all of which come after the first."""
    return [
        FakeItem(digest, "a" if digest != "a" else None, victim, os.getpid()) for digest in "abcde"
    ]


def make_fake(item: FakeItem, setup: Setup) -> ItemOutcome:
    time.sleep(0.05)
    killed = setup.output / "killed"
    if item.digest == KILLER and not killed.exists():
        killed.touch()
        os.kill(os.getpid() if item.victim == "worker" else item.driver, signal.SIGKILL)
        time.sleep(600)  # until this process is ended too
    file = setup.output / "results" / item.digest
    file.write_text(f"{item.digest}, after {item.after}")
    return ItemOutcome("done", item.name, scores={"mini": 0.5}, files=(f"results/{file.name}",))


def work(items: Any, setup: Setup, driver: Connection, gpu: str | None) -> None:
    """Do what a worker of the local engine does, with fake items."""
    execute._make = make_fake  # type: ignore[assignment]
    local.work(items, setup, driver, gpu)


def run_item(item: Any, setup: Setup, after: None) -> None:
    """Do what a task of Ray does, with fake items."""
    execute._make = make_fake  # type: ignore[assignment]
    ray.run_item(item, setup, after)


def drive(engine: str, output: Path, victim: str) -> None:
    setup = Setup(
        output, EncoderOptions(device="cpu", offline=True)
    )  # drivers need not import torch
    if engine == "local":
        local.run_local(fake_items(victim), setup, workers=1)
    else:
        ray.run_on_ray(fake_items(victim), setup)


if __name__ == "__main__":
    from standins import fake_items as named  # workers import it by this name

    local.work = named.work
    ray.run_item = named.run_item
    ray._check_nodes = lambda *_: None  # fake items have no base and no data
    named.drive(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
