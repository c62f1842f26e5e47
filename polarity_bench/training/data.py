"""What a run is trained on and judged by: the pool, and the rows held out of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from polarity_bench.data.load import PolarityData, load_polarity, load_split
from polarity_bench.data.sources import DataAccess
from polarity_bench.errors import InputError
from polarity_bench.spec import PolaritySpec, TaskSpec
from polarity_bench.training.pool import TrainingPool, training_pool
from polarity_bench.types import Split

HELD_OUT_ROWS = 500


@dataclass(frozen=True)
class TrainingData:
    """The texts of a run.

    Attributes:
        pool: What examples are made of: the task's source file.
        task: The task, as `polarity-bench run` scores it.
        held_out: The same sources, with queries held out of the pool, by which the checkpoint is
            chosen, so that the task's own queries decide nothing; None if no rows were held out.
    """

    pool: TrainingPool
    task: PolarityData
    held_out: PolarityData | None


def load_training_data(
    spec: TaskSpec, access: DataAccess, *, held_out: int | None, seed: int, k: int | None = None
) -> TrainingData:
    """Load a task for training.

    Rows are held out of those that are not sources of the task if there are enough, since the
    sources are what examples should be made of too; drawn by the seed.

    Args:
        spec: The task.
        access: Where its data may come from.
        held_out: How many rows to hold out; None holds out 500, of small data a tenth.
        seed: Of the draw.
        k: The largest k that will be asked for, the task's own by default.

    Raises:
        InputError: If the task is no polarity task, its data is missing or wrong, or more rows are
            to be held out than a half of all.
    """
    if not isinstance(spec, PolaritySpec):
        raise InputError(f"{spec.name} is a {spec.kind} task; examples are made of a polarity task")
    task = load_polarity(spec, access, k=k)
    rows = load_split(spec, "source", access)
    if held_out is None:
        held_out = min(HELD_OUT_ROWS, len(rows) // 10)
    if held_out == 0:
        return TrainingData(training_pool(rows), task, None)
    if held_out > len(rows) // 2:
        raise InputError(
            f"--held-out {held_out}: at most half of the {len(rows)} training rows of {spec.name}"
        )
    queries = _hold_out(rows, task, held_out, seed)
    pool = training_pool(rows, set(queries.texts))
    return TrainingData(pool, task, replace(task, query=queries))


def _hold_out(rows: Split, task: PolarityData, count: int, seed: int) -> Split:
    sources = set(task.source.texts)
    shuffled = np.random.default_rng([seed, count]).permutation(len(rows))
    outside = [i for i in shuffled if rows.texts[i] not in sources]
    chosen = outside if len(outside) >= count else list(shuffled)
    return rows.take(np.sort(chosen[:count]))
