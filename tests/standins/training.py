"""What the tests of training share: a small recipe, and how to run it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from polarity_bench.encoders import EncoderOptions
from polarity_bench.training.job import Job
from polarity_bench.training.recipe import Recipe
from polarity_bench.training.recipes.margins import Margins
from polarity_bench.training.run import TrainingRun, train

SMALL = Margins(
    examples=32,
    threshold=-1.0,
    neighbours=4,
    epochs=2,
    batch_size=8,
    rate=1e-3,
    held_out=6,
    patience=0,
)
OFFLINE = EncoderOptions(offline=True)


def job_of(model: Path, tasks: Path, output: Path, recipe: Recipe = SMALL, **more: Any) -> Job:
    given: dict[str, Any] = {"options": OFFLINE, "task_dir": tasks} | more
    return Job(recipe, str(model), "mini", output, **given)


def run(model: Path, tasks: Path, output: Path, recipe: Recipe = SMALL, **more: Any) -> TrainingRun:
    overwrite = more.pop("overwrite", False)
    return train(job_of(model, tasks, output, recipe, **more), overwrite=overwrite)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return set(first) == set(second) and all(torch.equal(first[k], second[k]) for k in first)
