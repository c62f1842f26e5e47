"""Reuse of results whose encoders are not available, such as those of a published board."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.evaluation.one_task import result_key
from polarity_bench.files import folder_name
from polarity_bench.results.packed_results import paths_by_encoder
from polarity_bench.results.result_files import Result, read_result
from polarity_bench.sweeps.items import Item, Setup, Training
from polarity_bench.sweeps.state_files import ItemOutcome
from polarity_bench.tasks.catalogue import choose_tasks, load_tasks
from polarity_bench.tasks.types.base import Settings, Task


@dataclass(frozen=True)
class ExternalResults:
    """Existing results of training runs that were not run in this sweep.

    Attributes:
        outcomes: Outcomes of the items with complete results, by digest.
        rejected: Reasons why the results of other items do not count, by digest.
    """

    outcomes: Mapping[str, ItemOutcome]
    rejected: Mapping[str, str]


def find_external_results(
    items: Iterable[Item], setup: Setup, encoders: Mapping[str, EncoderId]
) -> ExternalResults:
    """Find training runs whose results already exist, whether or not this sweep ran them.

    Results count if this version would compute the same results from the same encoder: tasks, data,
    protocols and base must be equal. All results of a training run must be from one encoder, which
    was loaded with the same options as its base.
    """
    results = paths_by_encoder(setup.output / "results")
    tasks: dict[tuple[str, ...], list[Task]] = {}
    done: dict[str, ItemOutcome] = {}
    others: dict[str, str] = {}
    for item in items:
        if not isinstance(item, Training) or item.base is None:
            continue
        paths = results.get(folder_name(item.job.output.name))
        if not paths:
            continue
        if (names := tuple(item.tasks)) not in tasks:
            specs = choose_tasks(load_tasks(setup.task_dir), names=list(names))
            tasks[names] = [spec.load(setup.access(), Settings()) for spec in specs]
        complete, why = _read(item, tasks[names], encoders[item.base.digest], paths)
        if complete:
            done[item.digest] = ItemOutcome.of_results(item.name, complete, setup.output)
        elif why:
            others[item.digest] = why
    return ExternalResults(done, others)


def _read(
    item: Training, tasks: Sequence[Task], base: EncoderId, paths: Sequence[Path]
) -> tuple[Sequence[Result], str]:
    """Return a training run's results on all tasks, or the reason why its results do not count.

    Returns:
        The results, empty if they do not count, and the reason; '' if there are no results.
    """
    by_encoder: dict[str, dict[str, Result]] = {}
    why = ""
    for task in tasks:
        name = f"{task.spec.result_name}.json"
        for path in (each for each in paths if each.name == name):
            try:
                result = read_result(path)
            except InputError:
                why = why or "damaged or written by another version"
                continue
            if differs := _difference(result, task, item, base):
                why = why or differs
            else:
                by_encoder.setdefault(result.key.encoder.digest, {})[task.spec.name] = result
    for results in by_encoder.values():
        if len(results) == len(tasks):
            return [*results.values()], ""
    return (), why


def _difference(result: Result, task: Task, item: Training, base: EncoderId) -> str:
    """Return why a result does not count for a training run, or '' if the result counts."""
    key, encoder = result.key, result.key.encoder
    if encoder.name != item.job.output.name:
        return "for another encoder"
    loaded = (encoder.dtype, encoder.prompt, encoder.max_tokens)
    strengths = (None, getattr(item.job.recipe, "strength", None))
    if loaded != (base.dtype, base.prompt, base.max_tokens) or encoder.strength not in strengths:
        return "for an encoder that was loaded differently from its base"
    if result.limit is not None:
        return "for a part of the task"
    other = task.uses_reference and encoder.digest != base.digest
    now = result_key(task, encoder, base if other else None)
    if key.digest == now.digest:
        return ""
    if key.task != now.task:
        return "for another version of the task"
    if key.data != now.data:
        return "for other data"
    if key.reference is not None and other and key.reference.digest != base.digest:
        measured_with = f"{key.reference.label} (digest {key.reference.digest})"
        return f"measured with {measured_with}, but the base is {base.label} (digest {base.digest})"
    return "with another protocol"
