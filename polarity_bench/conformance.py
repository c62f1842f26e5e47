"""Checks of plug-ins: the promises that every task, metric, weighting and recipe here keeps."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from importlib.metadata import EntryPoint
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.baselines import RandomEncoder
from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.errors import InputError
from polarity_bench.evaluation.many_tasks import EvaluationPlan, run_suite
from polarity_bench.metrics.polarity import rank_weights
from polarity_bench.metrics.register import METRICS, Metric, metric_of
from polarity_bench.progress import Bar, no_bar
from polarity_bench.registers import Register, entry_points_of, plugin_failure
from polarity_bench.render.format import percent
from polarity_bench.results.result_files import Result
from polarity_bench.scores import WEIGHTINGS, ScoreKey, Weighting
from polarity_bench.tasks.catalogue import (
    KINDS,
    check_names,
    load_task,
    load_tasks,
    read_task,
)
from polarity_bench.tasks.types.base import Settings, Task, TaskSpec
from polarity_bench.training.job import Job
from polarity_bench.training.parameters import flattened
from polarity_bench.training.recipes import RECIPES
from polarity_bench.training.recipes.base import Recipe
from polarity_bench.training.train import train

TASK = "contrast"
"""Task by which metrics, weightings and recipes are checked. Its texts are in the package."""
_ERRORS = 4.0
"""Number of standard errors by which chance may be exceeded."""
_SOURCES_PER_K = 4
"""Minimum number of sources for each retrieved source."""


@dataclass(frozen=True)
class Check:
    """Outcome of one check.

    Attributes:
        name: Name of the checked object or task, or of a task file that cannot be read.
        check: Name of the check.
        problem: What is wrong and what to do; '' if the check passed.
    """

    name: str
    check: str
    problem: str = ""


def check_objects(plugin: str, model: str, *, bar: Bar = no_bar) -> Iterator[Check]:
    """Check the metrics, weightings, task types and recipes of an installed plug-in.

    The checks are `loads` (the object can be imported, and its name is free) and, depending on the
    object:

    - weightings: `weights` (k weights of at least 0, which sum to 1);
    - metrics and weightings: `scores`, `chance`, `bounds`, `resumes` and `repeats`, as for tasks,
      on the task `contrast`;
    - task types: `metrics` (those of its columns are known); its tasks are checked as task files;
    - recipes: `options` (no parameter has the name of another option), `trains`, `resumes` and
      `repeats`, on the task `contrast`.

    Args:
        plugin: Name of the plug-in, see `registers.entry_points_of`.
        model: Encoder to train with recipes.
        bar: Function that opens a progress bar.
    """
    registers: list[Register[Any]] = [METRICS, WEIGHTINGS, KINDS, RECIPES]
    for entry_point in entry_points_of(plugin):
        for register in registers:
            if register.group == entry_point.group:
                yield from _check_object(register, entry_point, model, bar)


def _check_object(
    register: Register[Any], entry_point: EntryPoint, model: str, bar: Bar
) -> Iterator[Check]:
    name = entry_point.name
    try:
        found = register.load(entry_point)
        if register.get(name) is not found:
            raise InputError("the name is taken; choose another name")  # noqa: TRY301  It is a failed check.
    except Exception as error:  # noqa: BLE001  A plug-in may raise any error.
        yield Check(name, "loads", _problem(error))
        return
    yield Check(name, "loads")
    if isinstance(found, Weighting):
        yield Check(name, "weights", _wrong_weights(name))
        yield from _check_scores(name, load_task(TASK), bar, METRICS["polarity"], name)
    elif isinstance(found, Metric) and (found.of_queries or found.of_means):
        yield from _check_scores(name, load_task(TASK), bar, found)
    elif isinstance(found, type) and issubclass(found, TaskSpec):
        unknown = sorted({key.metric for _, key in found.columns} - {*METRICS})
        problem = f"register a metric for {', '.join(unknown)}" if unknown else ""
        yield Check(name, "metrics", problem)
    elif isinstance(found, type) and issubclass(found, Recipe):
        yield from _check_recipe(found, model, bar)


def _problem(error: Exception) -> str:
    """Describe an error, and never by an empty text, which would pass the check."""
    return str(plugin_failure(error) or error) or type(error).__name__


def _wrong_weights(weighting: str) -> str:
    for k in (1, 2, 16):
        try:
            rank_weights(k, weighting)
        except Exception as error:  # noqa: BLE001  A plug-in may raise any error.
            return _problem(error)
    return ""


def _check_recipe(recipe: type[Recipe], model: str, bar: Bar) -> Iterator[Check]:
    """Check a recipe: train twice with its defaults, and once more in a finished folder."""
    taken = {each.name for kind in (Job, EncoderOptions) for each in fields(kind)}
    clash = sorted(taken.intersection(flattened(recipe)))
    problem = f"other options are named {', '.join(clash)}; rename the parameters" if clash else ""
    yield Check(recipe.name, "options", problem)
    with tempfile.TemporaryDirectory() as folder:
        try:
            paths = [Path(folder, name) for name in ("one", "two", "one")]
            runs = [train(Job(recipe(), model, TASK, path), bar=bar) for path in paths]
        except Exception as error:  # noqa: BLE001  A plug-in may raise any error.
            yield Check(recipe.name, "trains", _problem(error))
            return
    yield Check(recipe.name, "trains")
    yield Check(recipe.name, "resumes", "" if runs[2].reused else "the run was not reused")
    is_same = runs[0].rows == runs[1].rows
    yield Check(recipe.name, "repeats", "" if is_same else "scores differ between two runs")


def check_tasks(files: Sequence[Path], access: DataAccess, *, bar: Bar = no_bar) -> Iterator[Check]:
    """Check task files and their data, with the baseline `random`.

    The checks are `reads` (the file is a valid task with a free name), `loads` (the data is there
    and fits), `digest` (for task types of plug-ins: another process computes the same), `size` (the
    main score is defined, and k is small beside the sources), `chance` (the baseline is not better
    than chance), `resumes` (a second run reuses the result) and `repeats` (a new run gives the same
    scores). If the task cannot be read, loaded or scored (`scores`), the other checks are left out.

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
        if spec.kind in KINDS.packages:
            yield Check(name, "digest", _moving_digest(file, access, task))
    except Exception as error:  # noqa: BLE001  A plug-in may raise any error.
        yield Check(name, check, _problem(error))
        return
    yield from _check_scores(name, task, bar)


def _moving_digest(file: Path, access: DataAccess, task: Task) -> str:
    """Describe a digest or protocol that differs in another process; '' if there is none."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as another:
        if another.submit(_identity, file, access).result() == _identity_of(task):
            return ""
    return (
        "`digest` or `protocol` differs in another process, so that no result is reused; compute "
        "the digest with `polarity_bench.values.digest_of`, not with `hash`"
    )


def _identity(file: Path, access: DataAccess) -> tuple[object, ...]:
    return _identity_of(read_task(file).load(access, Settings()))


def _identity_of(task: Task) -> tuple[object, ...]:
    return task.spec.digest, task.digest, {**task.protocol}


def _check_scores(
    name: str, task: Task, bar: Bar, metric: Metric | None = None, weighting: str = "linear"
) -> Iterator[Check]:
    """Score a task with the baseline `random`, and check all scores or those of a metric.

    Args:
        name: Name of the checked object.
        task: The task.
        bar: Function that opens a progress bar.
        metric: Metric to check; None checks the task.
        weighting: Weighting of the ranks.
    """
    with tempfile.TemporaryDirectory() as folder:
        plan = EvaluationPlan(RandomEncoder(), bar=bar)
        ran = run_suite(plan, [task], Path(folder))
        if ran.failures:
            yield Check(name, "scores", ran.failures[task.spec.name])
            return
        (result,) = ran.results
        key, chance = task.chance(result.scores)
        is_known = metric is None or metric.chance is not None
        if metric is None:
            yield Check(name, "size", _too_small(task, result))
        else:
            key, chance = metric.key(result.ks[-1], weighting), metric.chance or 0.0
            score, (least, most) = result.scores[key].mean, metric.bounds
            problem = f"expected a score from {least:g} to {most:g}, got {score:g}; set `bounds`"
            is_within = score <= most and (metric.of_means or least <= score)
            yield Check(name, "bounds", "" if is_within else problem)
        if is_known:
            yield Check(name, "chance", _above_chance(result, key, chance))
        reused = run_suite(plan, [task], Path(folder)).reused
        yield Check(name, "resumes", "" if reused else "the stored result was not reused")
        again = run_suite(plan, [task], Path(folder), overwrite=True).results[0]
    first, second = result.flat, again.flat
    names = [str(key) for key in result.scores]
    differing = [n for n in names if not np.array_equal(first[n], second[n], equal_nan=True)]
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


def _above_chance(result: Result, key: ScoreKey, chance: float) -> str:
    """Describe by how much the baseline exceeds chance; '' if it does not."""
    score = result.scores[key]
    n = max(score.n or 0, 1)
    error = (1.0 if math.isnan(score.std) else score.std) / math.sqrt(n)
    sign = 1 if metric_of(key.metric).higher_is_better else -1
    if not sign * (score.mean - chance) > _ERRORS * error:
        return ""
    return (
        f"the baseline `random` has {percent(score.mean)} on {key}, and chance is "
        f"{percent(chance)}; look for texts that occur among both the sources and the queries, or "
        "in several parts of the data"
    )
