"""Elsewhere: trainings whose results came here without their encoders, as those of a board do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from polarity_bench.errors import InputError
from polarity_bench.evaluation import result_key
from polarity_bench.files import folder_name
from polarity_bench.kinds import choose_tasks, load_tasks
from polarity_bench.kinds.task import Settings, Task
from polarity_bench.results import Result, read_result
from polarity_bench.sweeps.items import Item, Setup, Training
from polarity_bench.types import EncoderId


def scored_elsewhere(
    items: Iterable[Item], setup: Setup, encoders: Mapping[str, EncoderId]
) -> dict[str, Mapping[str, float]]:
    """Find what trainings scored of which all results are there, whoever made them.

    Results count that this version would make of that encoder today: of the same tasks, data,
    protocols and base, and of one encoder, loaded as its base is.

    Args:
        items: What is not known to be done.
        setup: Where the sweep lies.
        encoders: The bases as they are now, by the digits of their evaluations.

    Returns:
        Main scores by task, by the digits of the item.
    """
    results = setup.output / "results"
    tasks: dict[tuple[str, ...], list[Task]] = {}
    found: dict[str, Mapping[str, float]] = {}
    for item in items:
        if not isinstance(item, Training) or item.base is None:
            continue
        folder = results / folder_name(item.job.output.name)
        if not folder.is_dir():
            continue
        if (names := tuple(item.tasks)) not in tasks:
            specs = choose_tasks(load_tasks(setup.task_dir), names=list(names))
            tasks[names] = [spec.load(setup.access(), Settings()) for spec in specs]
        for scores in _by_encoder(item, tasks[names], encoders[item.base.digest], folder):
            if len(scores) == len(names):
                found[item.digest] = {k: v for k, v in scores.items() if not math.isnan(v)}
    return found


def _by_encoder(
    item: Training, tasks: Sequence[Task], base: EncoderId, folder: Path
) -> Iterable[Mapping[str, float]]:
    """Return the main scores by task of each encoder that there are results of."""
    found: dict[str, dict[str, float]] = {}
    for task in tasks:
        for result in _current(task, item, base, folder):
            scores = found.setdefault(result.key.encoder.digest, {})
            scores[task.spec.name] = result.main.mean
    return found.values()


def _current(task: Task, item: Training, base: EncoderId, folder: Path) -> Iterator[Result]:
    """Yield the results below a folder that are of this training, task and base as they are now."""
    for path in sorted(folder.rglob(f"{task.spec.result_name}.json")):
        try:
            result = read_result(path)
        except InputError:
            continue  # half a copy, or of another version: it is made again
        encoder = result.key.encoder
        as_trained = (
            encoder.name == item.job.output.name
            and (encoder.dtype, encoder.prompt) == (base.dtype, base.prompt)
            and encoder.max_tokens == base.max_tokens
            and encoder.strength in (None, getattr(item.job.recipe, "strength", None))
        )
        other = task.uses_reference and encoder.digest != base.digest
        now = result_key(task, encoder, base if other else None)
        if as_trained and result.limit is None and result.key.digest == now.digest:
            yield result
