"""Helpers for the tests of training: a small recipe, and functions to run it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.evaluation.contamination import TEXTS_FILE, TrainingTexts
from polarity_bench.tasks.catalogue import load_tasks
from polarity_bench.training.data import load_training_data
from polarity_bench.training.job import Job
from polarity_bench.training.recipes.base import Recipe
from polarity_bench.training.recipes.margins.recipe import Margins
from polarity_bench.training.run_folder import RunFolder, RunIdentity
from polarity_bench.training.train import TrainingRun, train

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
HERE = DataAccess(offline=True)


def job_of(model: Path, tasks: Path, output: Path, recipe: Recipe = SMALL, **more: Any) -> Job:
    given: dict[str, Any] = {"task": "mini", "options": OFFLINE, "task_dir": tasks} | more
    return Job(recipe, str(model), output=output, **given)


def run(model: Path, tasks: Path, output: Path, recipe: Recipe = SMALL, **more: Any) -> TrainingRun:
    overwrite = more.pop("overwrite", False)
    return train(job_of(model, tasks, output, recipe, **more), overwrite=overwrite)


def made_run(
    folder: Path,
    task_dir: Path,
    recipe: Recipe,
    *,
    base: str = "org/base",
    kept: int = 1,
    task: str = "mini",
    of: EncoderId | None = None,
) -> Path:
    """Write the records that a run of this recipe would leave in its folder, without a run."""
    spec = load_tasks(task_dir)[task]
    n_held_out, seed = recipe.hold_out
    data = load_training_data(spec, HERE, held_out=n_held_out, seed=seed)
    context: Any = SimpleNamespace(data=data, access=HERE, task_dir=None)
    inputs = recipe.read(context)
    of = of or EncoderId("base", "weights")
    identity = RunIdentity(recipe, of, {}, spec.digest, inputs.digest, "judged")
    before = TrainingTexts.read(base) or TrainingTexts()
    trained_on = before | TrainingTexts.of(inputs.texts if kept else ())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TEXTS_FILE).write_bytes(trained_on.to_bytes())
    RunFolder(folder, base).record(
        identity, finished=True, outcome={"task": task, "kept": kept, "history": []}
    )
    return folder


def weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return set(first) == set(second) and all(torch.equal(first[k], second[k]) for k in first)
