"""Checks of task files that others wrote: the promises that every task of this project keeps."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.baselines import RandomEncoder
from polarity_bench.errors import InputError
from polarity_bench.evaluation.many_tasks import EvaluationPlan, run_suite
from polarity_bench.progress import Bar, no_bar
from polarity_bench.render.format import percent
from polarity_bench.results.result_files import Result
from polarity_bench.tasks.catalogue import check_names, load_tasks, read_task
from polarity_bench.tasks.types.base import Settings, Task, TaskSpec

_ERRORS = 4.0
"""Number of standard errors by which chance may be exceeded."""
_SOURCES_PER_K = 4
"""Minimum number of sources for each retrieved source."""


@dataclass(frozen=True)
class Check:
    """Outcome of one check of a task.

    Attributes:
        task: Name of the task, or of its file if the file cannot be read.
        check: Name of the check.
        problem: What is wrong and what to do; '' if the check passed.
    """

    task: str
    check: str
    problem: str = ""


def check_tasks(files: Sequence[Path], access: DataAccess, *, bar: Bar = no_bar) -> Iterator[Check]:
    """Check task files and their data, with the baseline `random`.

    The checks are `reads` (the file is a valid task with a free name), `loads` (the data is there
    and fits), `size` (the main score is defined, and k is small beside the sources), `chance` (the
    baseline is not better than chance), `resumes` (a second run reuses the result) and `repeats` (a
    new run gives the same scores). If the task cannot be read, loaded or scored (`scores`), the
    other checks are left out.

    Args:
        files: The task files.
        access: Permitted sources of data.
        bar: Function that opens a progress bar.
    """
    known = load_tasks()
    for file in files:
        yield from _check_task(file, known, access, bar)


def _check_task(
    file: Path, known: dict[str, TaskSpec], access: DataAccess, bar: Bar
) -> Iterator[Check]:
    """Check one task file, and add its task to the known tasks if its name is free."""
    name, check = file.name, "reads"
    try:
        spec = read_task(file)
        name = spec.name
        if file.resolve() not in {other.file.resolve() for other in known.values()}:
            check_names(spec, known)
            known[name] = spec
        yield Check(name, check)
        check = "loads"
        task = spec.load(access, Settings())
        yield Check(name, check)
    except InputError as error:
        yield Check(name, check, str(error))
        return
    with tempfile.TemporaryDirectory() as folder:
        plan = EvaluationPlan(RandomEncoder(), bar=bar)
        ran = run_suite(plan, [task], Path(folder))
        if name in ran.failures:
            yield Check(name, "scores", ran.failures[name])
            return
        (result,) = ran.results
        yield Check(name, "size", _too_small(task, result))
        yield Check(name, "chance", _above_chance(task, result))
        reused = run_suite(plan, [task], Path(folder)).reused
        yield Check(name, "resumes", "" if reused else "the stored result was not reused")
        again = run_suite(plan, [task], Path(folder), overwrite=True).results[0]
    differing = [str(key) for key in result.scores if not _is_equal(result, again, str(key))]
    problem = f"scores differ between two runs: {', '.join(differing[:3])}" if differing else ""
    yield Check(name, "repeats", problem)


def _too_small(task: Task, result: Result) -> str:
    n_sources, ks = task.counts.get("sources", 0), result.ks
    if ks and n_sources < _SOURCES_PER_K * ks[-1]:
        return (
            f"k = {ks[-1]} is more than a quarter of the {n_sources} sources, so P says little; "
            "lower `k` in the task file, or add sources"
        )
    if math.isnan(result.main.mean):
        return "the main score is undefined; check labels and gold scores"
    return ""


def _above_chance(task: Task, result: Result) -> str:
    """Describe by how much the baseline exceeds chance; '' if it does not."""
    key, chance = task.chance(result.scores)
    score = result.scores[key]
    n = max(score.n or 0, 1)
    error = (1.0 if math.isnan(score.std) else score.std) / math.sqrt(n)
    if not score.mean - chance > _ERRORS * error:
        return ""
    return (
        f"the baseline `random` has {percent(score.mean)} on {key}, and chance is "
        f"{percent(chance)}; look for texts that occur among both the sources and the queries, or "
        "in several parts of the data"
    )


def _is_equal(one: Result, other: Result, name: str) -> bool:
    first, second = one.flat[name], other.flat[name]
    return first == second or (math.isnan(first) and math.isnan(second))
