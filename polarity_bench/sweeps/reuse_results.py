"""Elsewhere: trainings whose results came here without their encoders, as those of a board do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.evaluation.one_task import result_key
from polarity_bench.files import find_files, folder_name
from polarity_bench.results.result_files import Result, Stored, read_result
from polarity_bench.sweeps.item_states import ItemFiles, files_of
from polarity_bench.sweeps.items import Item, Setup, Training
from polarity_bench.tasks.catalogue import choose_tasks, load_tasks
from polarity_bench.tasks.types.base import Settings, Task


@dataclass(frozen=True)
class Elsewhere:
    """What came of trainings that were not made here, as far as it can be told.

    Attributes:
        made: What is done, by the digits of the item.
        others: Why results do not count that are there of what is not, by the digits of the item.
    """

    made: Mapping[str, ItemFiles]
    others: Mapping[str, str]


def find_elsewhere(
    items: Iterable[Item], setup: Setup, encoders: Mapping[str, EncoderId]
) -> Elsewhere:
    """Find what trainings scored of which all results are there, whoever made them.

    Results count that this version would make of that encoder today: of the same tasks, data,
    protocols and base, and of one encoder, loaded as its base is.

    Args:
        items: What is not known to be done.
        setup: Where the sweep lies.
        encoders: The bases as they are now, by the digits of their evaluations.
    """
    results = setup.output / "results"
    tasks: dict[tuple[str, ...], list[Task]] = {}
    done: dict[str, ItemFiles] = {}
    others: dict[str, str] = {}
    for item in items:
        if not isinstance(item, Training) or item.base is None:
            continue
        folder = results / folder_name(item.job.output.name)
        if not folder.is_dir():
            continue
        if (names := tuple(item.tasks)) not in tasks:
            specs = choose_tasks(load_tasks(setup.task_dir), names=list(names))
            tasks[names] = [spec.load(setup.access(), Settings()) for spec in specs]
        found, why = _read(item, tasks[names], encoders[item.base.digest], folder)
        if found:
            scores = {task: result.main.mean for task, (_, result) in found.items()}
            defined = {task: score for task, score in scores.items() if not math.isnan(score)}
            paths = (path for path, _ in found.values())
            done[item.digest] = ItemFiles(defined, files_of(paths, setup.output))
        elif why:
            others[item.digest] = why
    return Elsewhere(done, others)


def _read(
    item: Training, tasks: Sequence[Task], base: EncoderId, folder: Path
) -> tuple[Mapping[str, Stored], str]:
    """Return by task the encoder's results of which all are there, or why others do not count."""
    found: dict[str, dict[str, Stored]] = {}
    why = ""
    for task in tasks:
        name = f"{task.spec.result_name}.json"
        for path in (file for file in find_files(folder, name) if file.name == name):
            try:
                result = read_result(path)
            except InputError:
                why = why or "cannot be read: broken, or of another version"
                continue
            if differs := _difference(result, task, item, base):
                why = why or differs
            else:
                found.setdefault(result.key.encoder.digest, {})[task.spec.name] = (path, result)
    for results in found.values():
        if len(results) == len(tasks):
            return results, ""
    return {}, why


def _difference(result: Result, task: Task, item: Training, base: EncoderId) -> str:
    """Say what a result is of that a result of this training, task and base today would not be."""
    key, encoder = result.key, result.key.encoder
    if encoder.name != item.job.output.name:
        return "of another encoder"
    loaded = (encoder.dtype, encoder.prompt, encoder.max_tokens)
    strengths = (None, getattr(item.job.recipe, "strength", None))
    if loaded != (base.dtype, base.prompt, base.max_tokens) or encoder.strength not in strengths:
        return "of an encoder that was loaded otherwise than its base"
    if result.limit is not None:
        return "of a part of the task"
    other = task.uses_reference and encoder.digest != base.digest
    now = result_key(task, encoder, base if other else None)
    if key.digest == now.digest:
        return ""
    if key.task != now.task:
        return "of another version of the task"
    if key.data != now.data:
        return "of other data"
    if key.reference is not None and other and key.reference.digest != base.digest:
        theirs = f"{key.reference.label} of digest {key.reference.digest}"
        return f"measured by {theirs}; the base is {base.label} of digest {base.digest}"
    return "by another protocol"
