"""Baseline of the quality gate: its results are found, checked and read before the run.

The run may overwrite the baseline's values, so they are read first. Every reason why a baseline
cannot be compared with the run is an error before the run, with a remedy.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from polarity_bench.compare.alignment import (
    Alignment,
    align,
    first_difference,
    needs_reference,
)
from polarity_bench.compare.measure import measure_of
from polarity_bench.compare.paired_comparison import results_of
from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError, reworded
from polarity_bench.evaluation.one_task import result_key
from polarity_bench.metrics.statistics import LEAST_DRAWN
from polarity_bench.results.result_files import Result
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.types.base import Task


class NoCommonReferenceError(InputError):
    """Error for a baseline and a run that measure S with different reference encoders."""


def find_baseline(named: str, output: Path, tasks: Collection[str]) -> list[Result]:
    """Return the results of a baseline on these tasks.

    Args:
        named: Folder with the results of one encoder, file of a result, or name of an encoder with
            results in the output folder.
        output: The output folder.
        tasks: Names of the tasks of the run.

    Raises:
        InputError: If the baseline is not found, matches several encoders, contains the output
            folder, or has no result for these tasks.
    """
    path = Path(named)
    if path.is_dir() and output.resolve().is_relative_to(path.resolve()):
        raise InputError(
            f"`output` {output}: is in the baseline `fail_under` {named}, and a baseline has the "
            "results of one encoder; choose another folder"
        )
    how = f"`output` {shlex.quote(named)} in place of `fail_under`"
    how = "" if path.exists() else f". The same command with {how} makes a baseline"
    with reworded("`fail_under` ", how):
        results = results_of(output, named)
    of_tasks = [result for result in results if result.task in tasks]
    if not of_tasks:
        known = ", ".join(sorted({result.task for result in results}))
        raise InputError(
            f"`fail_under` {named}: no task in common: the run has {', '.join(tasks)}, and the "
            f"baseline has {known}; run one of the baseline's tasks"
        )
    return of_tasks


def baselines(
    results: Sequence[Result],
    tasks: Sequence[Task],
    encoder: EncoderId,
    reference: EncoderId | None = None,
    weighting: str = "linear",
    *,
    p_alone: bool = False,
) -> dict[str, Alignment]:
    """Choose the baseline result for each task, before the run.

    The main score of the task is compared. Joint depends on the reference encoder: if an encoder
    is its own reference, its retention is always 1. For this reason, the baseline and the run
    need the same reference, unless only P is compared.

    Args:
        results: Results of the baseline.
        tasks: Tasks of the run.
        encoder: Encoder of the run.
        reference: Reference encoder of the run; None if the encoder is its own reference.
        weighting: Weighting of the ranks.
        p_alone: Whether to compare P instead of joint. A loss of S is then not detected.

    Returns:
        The baseline result of each task that has one, by task name, with its values per query.

    Raises:
        InputError: If a result differs from the run in the version of the task, its data, its
            protocol or k, if its values per query are missing, or if it has too few queries.
        NoCommonReferenceError: If S cannot be compared.
    """
    by_task = {}
    for task in tasks:
        of_task = [result for result in results if result.task == task.spec.name]
        if of_task:
            expected = _expected(of_task[0], task, encoder, reference)
            main = task.main_score
            key = main if main.k is None else replace(main, weighting=weighting)
            with reworded("`fail_under` "):
                by_task[task.spec.name] = _baseline(of_task, expected, key, p_alone)
    return by_task


def check_decidable(aligned: Alignment) -> None:
    """Raise InputError if a test can never detect a lower score than that of the first result."""
    path = aligned.results[0].path
    if aligned.n_units < LEAST_DRAWN:
        raise InputError(
            f"{path}: too few queries for a test, got {aligned.n_units}; use at least {LEAST_DRAWN}"
        )
    if math.isnan(aligned.scores[0]):
        raise InputError(
            f"{path}: {aligned.key} is undefined in this result, so no decrease can be detected; "
            "choose another baseline"
        )


def _expected(
    stored: Result, task: Task, encoder: EncoderId, reference: EncoderId | None
) -> Result:
    """Return a copy of a stored result with the task, data, settings and encoders of the run.

    If the copy can be paired with the stored result, so can the result of the run.
    """
    spec = task.spec
    key = result_key(task, encoder, reference if task.uses_reference else None)
    return replace(stored, kind=spec.kind, version=spec.version, key=key, limit=task.limit)


def _baseline(of_task: Sequence[Result], run: Result, key: ScoreKey, p_alone: bool) -> Alignment:
    """Choose a baseline result that is comparable with the run, and read its values per query.

    Raises:
        InputError: If there is no such result, or it has missing values or too few queries.
        NoCommonReferenceError: If results are comparable except for the reference encoder.
    """
    plain = replace(key, metric="polarity") if needs_reference(key) else key
    ranked = sorted(of_task, key=lambda result: bool(result.experiment))
    reasons = [_why_not(each, run, plain) for each in ranked]
    alike = [each for each, reason in zip(ranked, reasons, strict=True) if reason is None]
    if not alike:
        raise InputError(f"{ranked[0].path}: cannot be compared with this run: {reasons[0]}")
    key = plain if p_alone else key
    is_lost = needs_reference(key) and run.lacks_reference
    measured = [r for r in alike if not is_lost and first_difference(r, run, key) is None]
    if not measured:
        raise NoCommonReferenceError(_no_common_reference(alike, run))
    with reworded(after=f"; {_how_to_make(measured[0])}"):
        measure_of(measured[0], str(key))  # This raises an error if there are no values per query.
        aligned = align(measured[:1], key)
    check_decidable(aligned)
    return aligned


def _no_common_reference(alike: Sequence[Result], run: Result) -> str:
    """Return an error message that names all reference encoders and a remedy."""
    result = alike[0]
    references = [each.key.reference_encoder for each in (*alike, run)]
    *ones, other = (f"{each.label} ({each.digest})" for each in references)
    one = " or ".join(dict.fromkeys(ones))
    here = "which is not available in this run" if run.lacks_reference else f"this run with {other}"
    own = "" if run.key.reference else ", the encoder itself"
    same = "use the same `reference` for both"
    if result.key.reference and not run.lacks_reference:
        same = f"evaluate with the `reference` of the baseline, {result.key.reference.name}"
        if command := result.environment.get("command"):
            same += f" (its command was: {command})"
    return (
        f"{result.path}: the baseline measures S with {one}, {here}{own}; {same}, or compare only "
        "P with `p_alone`, which does not detect a loss of meaning"
    )


def _why_not(result: Result, run: Result, key: ScoreKey) -> str | None:
    """Return the reason why a baseline result cannot be paired with the run's result, and a remedy.

    The reason is None if the results can be paired.
    """
    if result.limit != run.limit:
        one, other = (
            "complete" if n is None else f"cut to {n} queries" for n in (result.limit, run.limit)
        )
        return f"the baseline is {one}, but the run is {other}; use the same `limit` for both"
    if mismatch := first_difference(result, run, key):
        what, first, second = mismatch
        version = f" (versions {result.version} and {run.version})" if "task" in what else ""
        difference = f"the {what} is {first!r} in the baseline and {second!r} in the run{version}"
        if result.key.data != run.key.data:
            same = "the test needs the same queries and sources, so use the baseline's data, or"
            return f"{difference}; {same} {_how_to_make(result)}"
        return f"{difference}; {_how_to_make(result)}"
    if key not in result.scores:
        return f"the baseline has no {key}" + ("; use the same `ks` for both" if key.k else "")
    return None


def _how_to_make(result: Result) -> str:
    """Return advice with the folder of the encoder's results and their command."""
    depth = 2 if result.experiment else 0  # `result_files.place` defines the depth of folders.
    parents = result.path.parents
    folder = parents[depth] if len(parents) > depth else result.path.parent
    command = result.environment.get("command", "polarity-bench run")
    return (
        f"remove {shlex.quote(str(folder))}, and make the baseline again, with the weights that it "
        f"had; its command was: {command}"
    )
