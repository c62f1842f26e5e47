"""A quality gate: does an encoder score significantly lower than a baseline?

Each task that both have is tested separately, query by query, with a one-sided test: an encoder
that improves passes, as does one that stays the same. Holm's correction over the tasks limits the
chance of a false alarm to 5 % for the whole run, however many tasks there are. Problems of the
baseline are found before the run starts. The baseline's values are also read before the run,
because the run may replace them.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from polarity_bench.compare.alignment import Alignment, align, reference_of, unlike
from polarity_bench.compare.measure import measure_of
from polarity_bench.compare.paired_comparison import Comparison, compare, results_of
from polarity_bench.encoders.base import ABSENT, EncoderId
from polarity_bench.errors import InputError
from polarity_bench.evaluation.one_task import result_key
from polarity_bench.metrics.significance import holm
from polarity_bench.metrics.statistics import LEAST_DRAWN
from polarity_bench.results.result_files import Result, Stored, read_results
from polarity_bench.scores import ScoreKey, Weighting
from polarity_bench.tasks.types.base import Task
from polarity_bench.tasks.types.polarity.scoring import REFERRING


class NoCommonReferenceError(InputError):
    """Error raised if the baseline and the run measure S with different reference encoders."""


@dataclass(frozen=True)
class Baseline:
    """The baseline of one task.

    Attributes:
        aligned: The baseline's result, and the values per query of the compared score.
        lacks_s: Whether only P is compared, although the task's main score also depends on S.
    """

    aligned: Alignment
    lacks_s: bool = False


@dataclass(frozen=True)
class Gate:
    """The outcome of the gate.

    Attributes:
        named: The baseline, as the user named it.
        comparisons: One-sided comparisons with the baseline, in the order of the tasks. Their
            p-values are corrected for the number of tasks.
        uncorrected: p-value of each comparison before the correction.
        failed: Tasks of the baseline for which the run has no result.
        lacks_s: Tasks of which only P was compared.
    """

    named: str
    comparisons: tuple[Comparison, ...]
    uncorrected: tuple[float, ...] = ()
    failed: tuple[str, ...] = ()
    lacks_s: tuple[str, ...] = ()

    @property
    def fallen(self) -> list[str]:
        """Names of the tasks whose score has fallen."""
        return [each.task for each in self.comparisons if each.falls]

    @property
    def is_open(self) -> bool:
        """Whether the run passes: every task has a result, and no score has fallen."""
        return not self.fallen and not self.failed

    @property
    def verdict(self) -> str:
        """The outcome in one line."""
        parts = {
            f"fell below {self.named}": self.fallen,
            "gave no result": self.failed,
            "S not compared": self.lacks_s,
        }
        lines = [f"no fall below {self.named} beyond chance"] if self.is_open else []
        lines += [f"{what}: {', '.join(tasks)}" for what, tasks in parts.items() if tasks]
        return f"gate: {'; '.join(lines)}"


def find_baseline(named: str, output: Path, tasks: Collection[str]) -> list[Stored]:
    """Return the results of a baseline on these tasks.

    Args:
        named: A folder with one encoder's results, a result's file, or a name of an encoder with
            results in the output folder.
        output: The output folder.
        tasks: Names of the tasks of the run.

    Raises:
        InputError: If there is no such baseline, it has several encoders, or it has no result of
            these tasks.
    """
    place = Path(named)
    try:
        stored = results_of(output, named)
    except InputError as error:
        said = str(error)
        if place.is_dir() and not any(read_results(place)):
            said = f"{named}: the folder holds no results; {_how_to_make('BASELINE', tasks, place)}"
        elif not place.exists() and not output.is_dir():
            said = (
                f"{named}: there is no such folder or file, nor a folder {output} to look the "
                f"name up in; {_how_to_make('BASELINE', tasks, Path('baseline'))}"
            )
        raise InputError(f"`fail_under` {said}") from error
    found = [each for each in stored if each[1].task in tasks]
    if not found:
        known = ", ".join(sorted({result.task for _, result in stored}))
        raise InputError(
            f"`fail_under` {named}: no task in common: it has {known}, the run {', '.join(tasks)}"
        )
    return found


def baselines(
    stored: Sequence[Stored],
    tasks: Sequence[Task],
    encoder: EncoderId,
    reference: EncoderId | None = None,
    weighting: Weighting = "linear",
    *,
    p_alone: bool = False,
) -> dict[str, Baseline]:
    """Choose the baseline of each task before the run.

    The main score of the task is compared. Joint depends on the reference encoder: an encoder that
    is its own reference retains all of S, whatever it forgot. Therefore the baseline and the run
    need the same reference encoder, unless only P is compared.

    Args:
        stored: The baseline's results.
        tasks: The tasks of the run.
        encoder: The encoder of the run.
        reference: The reference encoder of the run; None if it is the encoder itself.
        weighting: Weighting of the ranks.
        p_alone: Whether to compare P in place of joint, so that S may fall.

    Returns:
        The baseline of each task that has one, by the task's name.

    Raises:
        InputError: If a result has another version of the task, its data or its protocol, or
            another k than the run will have; if its values per query are missing; or if it has too
            few queries.
        NoCommonReferenceError: If S cannot be compared.
    """
    found = {}
    for task in tasks:
        of_task = [each for each in stored if each[1].task == task.spec.name]
        if of_task:
            expected = _expected(task, encoder, reference)
            found[task.spec.name] = _baseline(of_task, expected, weighting, p_alone)
    return found


def check_decidable(aligned: Alignment) -> None:
    """Raise InputError if no fall of the first result's score could be found."""
    path = aligned.stored[0][0]
    if aligned.n_units < LEAST_DRAWN:
        raise InputError(
            f"{path}: {aligned.n_units} queries are too few for a test, at least {LEAST_DRAWN} are "
            "needed"
        )
    if math.isnan(aligned.scores[0]):
        raise InputError(f"{path}: {aligned.key} is undefined there, so it cannot fall")


def judge(
    found: Mapping[str, Baseline],
    results: Sequence[Stored],
    named: str = "the baseline",
    skipped: Collection[str] = (),
) -> Gate:
    """Compare results with their baselines, by the one-sided tests of `compare`.

    Args:
        found: The baseline of each task, see `baselines`.
        results: The results of the run.
        named: The baseline, as the user named it.
        skipped: Further tasks of the baseline, which the run left out. They do not pass.

    References:
        Holm (1979), see `significance.holm`.
    """
    made = {result.task: (path, result) for path, result in results}
    pairs = [_pair(baseline.aligned, made[t]) for t, baseline in found.items() if t in made]
    compared = [compare(each, 0, alternative="less", n_tests=len(pairs)) for each in pairs]
    p = np.array([each.test.p for each in compared])
    defined = ~np.isnan(p)
    corrected = p.copy()
    corrected[defined] = holm(p[defined])
    failed = [task for task in found if task not in made]
    return Gate(
        named,
        tuple(
            replace(each, test=replace(each.test, p=float(p)))
            for each, p in zip(compared, corrected, strict=True)
        ),
        tuple(p.tolist()),
        (*failed, *sorted(skipped)),
        tuple(each.task for each in compared if found[each.task].lacks_s),
    )


def _pair(baseline: Alignment, new: Stored) -> Alignment:
    """Align a new result with the baseline, whose values were read before the run."""
    own = align([new], baseline.key)
    return Alignment((*baseline.stored, *own.stored), baseline.key, (*baseline.arrays, *own.arrays))


def _expected(task: Task, encoder: EncoderId, reference: EncoderId | None) -> Result:
    """Return the result that a run will have, without scores."""
    spec = task.spec
    key = result_key(task, encoder, reference if task.uses_reference else None)
    return Result(
        task=spec.name,
        kind=spec.kind,
        result_name=spec.result_name,
        version=spec.version,
        languages=spec.languages,
        main_score=task.main_score,
        key=key,
        scores={},
        counts=task.counts,
        limit=task.limit,
    )


def _baseline(
    of_task: Sequence[Stored], run: Result, weighting: Weighting, p_alone: bool
) -> Baseline:
    main = run.main_score
    key = main if main.k is None else replace(main, weighting=weighting)
    refers = key.metric in REFERRING and run.kind == "polarity"
    plain = ScoreKey("polarity", key.k, key.weighting) if refers else key
    ranked = sorted(of_task, key=lambda each: bool(each[1].experiment))
    alike = [each for each in ranked if _why_not(each, run, plain) is None]
    if not alike:
        raise InputError(
            f"`fail_under` {ranked[0][0]}: cannot be held against this run: "
            f"{_why_not(ranked[0], run, plain)}"
        )
    key = plain if p_alone else key
    measured = [each for each in alike if _shares_reference(each, run, key)]
    if not measured:
        raise NoCommonReferenceError(
            f"`fail_under` {alike[0][0]}: {_no_common_reference(alike, run)}"
        )
    path, result = measured[0]
    try:
        measure_of(result, str(key))  # raises if there are no values per query
        aligned = align([(path, result)], key)
    except InputError as error:
        raise InputError(f"`fail_under` {error}; {_make_anew(path, result, run)}") from error
    try:
        check_decidable(aligned)
    except InputError as error:
        raise InputError(f"`fail_under` {error}") from error
    return Baseline(aligned, lacks_s=refers and p_alone)


def _no_common_reference(alike: Sequence[Stored], run: Result) -> str:
    """Return a message that names the two reference encoders and says how to proceed."""
    lost = _lost_reference([result for _, result in alike], run)
    theirs = lost or reference_of(alike[0][1])
    one, other = (f"{each.label} ({each.digest})" for each in (theirs, reference_of(run)))
    here = "which this run lacks" if lost else f"in this run with {other}"
    return (
        f"S is measured there with {one}, {here}; name one `reference` for both, or compare P "
        "alone by `p_alone`, which passes an encoder that forgot meaning"
    )


def _why_not(stored: Stored, run: Result, key: ScoreKey) -> str | None:
    """Return why a baseline's result cannot be paired with the run's, or None if it can.

    The message also says how to proceed.
    """
    path, result = stored
    if result.limit != run.limit:
        one, other = ("whole" if n is None else f"cut to {n}" for n in (result.limit, run.limit))
        return f"its task is {one}, that of the run {other}; give both one `limit`"
    if found := unlike(result, run, key):
        what, first, second = found
        version = f", of version {result.version} and {run.version}" if "task" in what else ""
        said = f"the {what} is {first!r} there and {second!r} here{version}"
        return f"{said}; {_make_anew(path, result, run)}"
    if key not in result.scores:
        return f"it holds no {key}; give both one `ks`" if key.k else f"it holds no {key}"
    return None


def _shares_reference(stored: Stored, run: Result, key: ScoreKey) -> bool:
    if stored[1].lacks_reference or run.lacks_reference:
        return key.metric not in REFERRING
    return _why_not(stored, run, key) is None


def _lost_reference(results: Sequence[Result], run: Result) -> EncoderId | None:
    """Return the baseline's reference encoder if the run lacks it by accident, else None."""
    named = [r.key.reference for r in results if r.key.reference and not r.lacks_reference]
    if not run.lacks_reference:
        own = any(result.key.reference is None for result in results)
        return None if own or run.key.reference or not named else named[0]
    base = reference_of(run)
    gone = replace(base, weights=base.weights.removeprefix(ABSENT)).digest
    named += [result.key.encoder for result in results if result.key.encoder.digest == gone]
    return named[0] if named else None


def _make_anew(path: Path, result: Result, run: Result) -> str:
    depth = 4 if result.experiment else 2  # see `result_files.place`
    folder = path.parents[depth] if len(path.parents) > depth else path.parent
    reference = result.key.reference
    return _how_to_make(
        result.key.encoder.name, [run.task], folder, reference.name if reference else None
    )


def _how_to_make(
    encoder: str, tasks: Collection[str], folder: Path, reference: str | None = None
) -> str:
    said = {"model": encoder, "tasks": ",".join(tasks), "output": str(folder)}
    said |= {"reference": reference} if reference else {}
    named = ", ".join(f"`{name}` {shlex.quote(value)}" for name, value in said.items())
    return f"make the baseline: `polarity-bench run` with {named}"
