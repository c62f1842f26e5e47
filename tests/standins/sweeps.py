"""A small sweep and its output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.sweeps.execute import make, make_if_free
from polarity_bench.sweeps.grid import Grid, read_grid
from polarity_bench.sweeps.items import Item, Setup
from polarity_bench.sweeps.state_files import SweepState

GRID = """
title = "Small"

[all]
model = "{model}"
task = "mini"

[all.margins]
examples = 32
batch_size = 8
epochs = 1
threshold = -1
held_out = 0
neighbours = 4
rate = {rate}
checkpoint = "last"

[[train]]
loss = ["triplet", "mnrl"]
seed = [0, 1]
"""


def small_grid(folder: Path, model: Path, *, rate: str = "1e-3") -> Path:
    """Write a grid of four training runs of a second each, with one base."""
    (folder / "small.toml").write_text(GRID.format(model=model, rate=rate))
    return folder / "small.toml"


def read_small(grid: Path, folder: Path, task_dir: Path) -> tuple[Grid, Setup]:
    """Expand a grid without network or store."""
    setup = Setup(folder, EncoderOptions(offline=True), task_dir=task_dir, store=False)
    return read_grid(grid, setup), setup


def sweep_words(grid: Path, folder: Path, task_dir: Path) -> list[str]:
    """Return the command that runs the sweep."""
    words = ["sweep", str(grid), "-o", str(folder), "--task-dir", str(task_dir)]
    return [sys.executable, "-m", "polarity_bench", *words]


def made(folder: Path) -> dict[str, Any]:
    """Return the weights and scores that a sweep made, without times, paths and process names."""
    weights = {p.parent.name: p.read_bytes() for p in folder.glob("runs/*/model.safetensors")}
    scores = {
        str(p.relative_to(folder)): json.loads(p.read_text())["scores"]
        for p in folder.glob("results/**/*Retrieval.json")
    }
    return weights | scores


def made_here(grid: Path, folder: Path, task_dir: Path) -> dict[str, Any]:
    """Make all items in this process, one after another, and return the weights and scores."""
    items, setup = read_small(grid, folder, task_dir)
    state = SweepState(folder)
    state.make_folders()
    for item in items.items:
        assert make(item, setup, state).state == "done"
    found = made(folder)
    weights = [value for value in found.values() if isinstance(value, bytes)]
    assert len(set(weights)) == len(weights) == 4, "each is trained to other weights"
    return found


def run_here(
    items: Sequence[Item], setup: Setup, *, workers: int, look: Callable[[], None] = lambda: None
) -> None:
    """Run items in this process. `run_local` starts processes, which import every module again."""
    setup = setup.with_new_driver()
    state = SweepState(setup.output)
    state.make_folders()
    for item in items:
        make_if_free(item, setup, state)
    look()


def begun(folder: Path) -> dict[str, int]:
    """Return the number of attempts for each item."""
    return {p.stem: p.read_text().count("begun by") for p in folder.glob("logs/*.log")}
