"""Elsewhere: trainings whose results came here without their encoders, as those of a board do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from polarity_bench.encoders import load_encoder
from polarity_bench.errors import InputError
from polarity_bench.evaluation import result_key
from polarity_bench.files import folder_name
from polarity_bench.kinds import choose_tasks, load_tasks
from polarity_bench.kinds.task import Settings, Task
from polarity_bench.results import Result, read_result
from polarity_bench.sweeps.items import Item, Setup, Training
from polarity_bench.types import EncoderId


def scored_elsewhere(items: Sequence[Item], setup: Setup) -> dict[str, Mapping[str, float]]:
    """Find what trainings scored that were not made here and of which all results are.

    A result counts if it is what this version would make of that encoder today: of the same task,
    data, protocol and base.

    Args:
        items: What has not ended here.
        setup: Where the sweep lies, and how encoders are loaded.

    Returns:
        Main scores by task, by the digits of the item.
    """
    results = setup.output / "results"
    bases: dict[str, EncoderId] = {}
    tasks: dict[tuple[str, ...], list[Task]] = {}
    found: dict[str, Mapping[str, float]] = {}
    for item in items:
        if not isinstance(item, Training) or item.base is None or item.job.output.exists():
            continue
        folder = results / folder_name(item.job.output.name)
        if not folder.is_dir():
            continue
        if item.base.digest not in bases:
            bases[item.base.digest] = load_encoder(item.base.model, item.base.options).id
        if (names := tuple(item.tasks)) not in tasks:
            specs = choose_tasks(load_tasks(setup.task_dir), names=list(names))
            tasks[names] = [spec.load(setup.access(), Settings()) for spec in specs]
        scores = {}
        for task in tasks[names]:
            for result in _current(task, item.job.output.name, bases[item.base.digest], folder):
                scores[task.spec.name] = result.main.mean
        if len(scores) == len(tasks[names]):
            found[item.digest] = {k: v for k, v in scores.items() if not math.isnan(v)}
    return found


def _current(task: Task, encoder: str, base: EncoderId, folder: Path) -> Iterator[Result]:
    """Yield the results below a folder that are of this encoder, task and base as they are now."""
    for path in sorted(folder.rglob(f"{task.spec.result_name}.json")):
        try:
            key = (result := read_result(path)).key
        except InputError:
            continue  # half a copy, or of another version: it is made again
        other = task.uses_reference and key.encoder.digest != base.digest
        now = result_key(task, key.encoder, base if other else None)
        if key.encoder.name == encoder and key.digest == now.digest:
            yield result
