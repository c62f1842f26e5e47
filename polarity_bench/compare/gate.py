"""A gate: has an encoder fallen below a baseline, beyond what chance explains?

Each task that both have is tested by itself, query against query, for a fall alone: a gain opens
the gate as no change does. Holm's correction over the tasks keeps the chance of a false alarm at
5 % for the whole run, however many tasks there are. What is wrong with the baseline is found
before the run that is to be held against it; its values are read then, since the run may replace
them.

Shapes: q queries, b bootstrap samples.
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
from polarity_bench.compare.paired_comparison import N_SAMPLES, results_of
from polarity_bench.encoders.base import ABSENT, EncoderId
from polarity_bench.errors import InputError
from polarity_bench.evaluation.one_task import result_key
from polarity_bench.metrics.pairwise import LEVEL
from polarity_bench.metrics.significance import detectable_difference, holm, sign_flip_p
from polarity_bench.metrics.statistics import LEAST_DRAWN, SEED
from polarity_bench.results.result_files import Result, Stored, read_results
from polarity_bench.scores import ScoreKey, Weighting
from polarity_bench.tasks.types.base import Task
from polarity_bench.tasks.types.polarity.scoring import REFERRING
from polarity_bench.values import FloatArray

INTERVAL = 1 - 2 * LEVEL
"""Of the interval beside a one-sided test at 5 %: where it lies below 0, the test finds a fall."""


class NoCommonReferenceError(InputError):
    """The baseline and the run measure S with different references."""


@dataclass(frozen=True)
class Baseline:
    """What a task's result is held against.

    Attributes:
        aligned: The baseline's own result and values per query, of the score that is compared.
        lacks_s: Whether P is compared alone, on a task whose main score holds S too.
    """

    aligned: Alignment
    lacks_s: bool = False


@dataclass(frozen=True)
class Held:
    """A task's result, held against the baseline's.

    Attributes:
        aligned: The baseline's result and the new one.
        difference: The new score less the baseline's.
        interval: Where the true difference lies, at 90 %.
        p: Of no true fall, one-sided; nan where the new score is undefined.
        corrected: The same, corrected for the number of tasks.
        method: How p came about.
        detectable: The least true fall that these queries show four times in five, with so many
            tasks, by the deviation of these two results' differences; nan where they do not differ.
    """

    aligned: Alignment
    difference: float
    interval: tuple[float, float]
    p: float
    corrected: float
    method: str
    detectable: float

    @property
    def task(self) -> str:
        """The task's name."""
        return self.aligned.stored[0][1].task

    @property
    def falls(self) -> bool:
        """Whether the score has fallen beyond chance, or is undefined where it was defined."""
        return self.corrected < LEVEL or math.isnan(self.difference)


@dataclass(frozen=True)
class Gate:
    """What came of the gate.

    Attributes:
        held: What was held against the baseline, in the order of the tasks.
        failed: Tasks that were to be, and gave no result.
    """

    held: tuple[Held, ...]
    failed: tuple[str, ...] = ()

    @property
    def fallen(self) -> list[str]:
        """The tasks that fell."""
        return [each.task for each in self.held if each.falls]

    @property
    def is_open(self) -> bool:
        """Whether the run passes: every task was held, and none fell."""
        return not self.fallen and not self.failed


def find_baseline(named: str, output: Path, tasks: Collection[str]) -> list[Stored]:
    """Return the results of a baseline on these tasks.

    Args:
        named: A folder of one encoder's results, a result's file, or what names an encoder of the
            results in the output folder.
        output: The output folder.
        tasks: Names of the tasks that are to be run.

    Raises:
        InputError: If there is no such baseline, it is of several encoders, or none of its results
            is of these tasks.
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
    """Choose what the result of each task will be held against, before it is there.

    It is the task's main score. Joint depends on the reference: an encoder that is its own
    reference keeps all of S, whatever it forgot. So the baseline and the run need one in common,
    unless P alone is asked for.

    Args:
        stored: The baseline's results.
        tasks: What is to be run.
        encoder: Which encoder is to be.
        reference: What it will be measured with; None is itself.
        weighting: Of the ranks.
        p_alone: Compare P in place of joint, so that S may fall.

    Returns:
        The baseline of each task that it has, by the task's name.

    Raises:
        InputError: If a result answers another question than the run will (another version of the
            task, its data or protocol, another k), its values per query are missing, or its queries
            are too few.
        NoCommonReferenceError: If S cannot be compared.
    """
    found = {}
    for task in tasks:
        of_task = [each for each in stored if each[1].task == task.spec.name]
        if of_task:
            expected = _expected(task, encoder, reference)
            found[task.spec.name] = _baseline(of_task, expected, weighting, p_alone)
    return found


def judge(found: Mapping[str, Baseline], results: Sequence[Stored]) -> Gate:
    """Hold results against their baselines.

    A mean over queries is tested by permutation, what is none (joint, correlations) by a paired
    bootstrap, as `comparison.compare` does, but one-sided.

    Args:
        found: The baseline of each task, see `baselines`.
        results: What the run gave.

    References:
        Holm (1979), see `paired.holm`; `sign_flip_p`, `bootstrap_test` and `detectable_difference`.
    """
    made = {result.task: (path, result) for path, result in results}
    pairs = [_pair(baseline.aligned, made[t]) for t, baseline in found.items() if t in made]
    held = [fall_of(pair, len(pairs)) for pair in pairs]
    told = [i for i, each in enumerate(held) if not math.isnan(each.p)]
    corrected = np.full(len(held), math.nan)
    corrected[told] = holm([held[i].p for i in told])
    return Gate(
        tuple(replace(h, corrected=float(p)) for h, p in zip(held, corrected, strict=True)),
        tuple(task for task in found if task not in made),
    )


def fall_of(pair: Alignment, n_tasks: int = 1) -> Held:
    """Test whether the second of two results lies below the first.

    Args:
        pair: The baseline's result and the new one.
        n_tasks: How many tests are made, for what can be detected; p is not corrected.
    """
    old, new = pair.scores
    difference = float(new - old)
    resampled = pair.resampled(N_SAMPLES, SEED)
    lost = resampled[1] - resampled[0]
    known = lost[~np.isnan(lost)]
    nothing = math.isnan(difference) or len(known) < 2
    interval = (math.nan, math.nan)
    p = least = math.nan
    if not nothing:
        low, high = np.percentile(known, [100 * LEVEL, 100 * (1 - LEVEL)])
        interval = float(low), float(high)
        error, n = float(known.std(ddof=1)), pair.n_units
        if error > 0:
            least = detectable_difference(error * math.sqrt(n), n, alpha=2 * LEVEL / n_tasks)
    if pair.is_mean:
        method = "permutation"
        if not nothing:
            units = None if pair.resampling is None else pair.resampling.units
            p = p_of_lower_mean(sign_flip_p(pair.moved(), units), difference)
    else:
        method = "bootstrap"
        p = p if nothing else p_of_fall(lost)
    return Held(pair, difference, interval, p, p, method, least)


def p_of_fall(lost: FloatArray) -> float:
    """Return the one-sided p-value of a fall from a bootstrap of the difference.

    Args:
        lost: New score less old, of the same resampled queries, (b,); nan is left out.

    Returns:
        p, at least 1 / (b + 1), see `bootstrap_test`.

    Example:
        One of 99 samples is not below 0, so p is (1 + 1) / (99 + 1):

        >>> p_of_fall(np.array([0.1, *np.linspace(-0.5, -0.01, 98)]))
        0.02
    """
    known = lost[~np.isnan(lost)]
    return (int((known >= 0).sum()) + 1) / (len(known) + 1)


def p_of_lower_mean(two_sided: float, difference: float) -> float:
    """Return the one-sided p-value of a fall from a permutation test, whose flips are symmetric."""
    if difference < 0:
        return two_sided / 2
    return 1 - two_sided / 2 if difference > 0 else 1.0


def _pair(baseline: Alignment, new: Stored) -> Alignment:
    """Lay a new result beside the values of the baseline that were read before it was made."""
    own = align([new], baseline.key)
    return Alignment((*baseline.stored, *own.stored), baseline.key, (*baseline.arrays, *own.arrays))


def _expected(task: Task, encoder: EncoderId, reference: EncoderId | None) -> Result:
    """Return the result of a run without what it will have found."""
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
        measure_of(result, str(key))  # refuses what nothing is stored of for each query
        aligned = align([(path, result)], key)
    except InputError as error:
        raise InputError(f"`fail_under` {error}; {_make_anew(path, result, run)}") from error
    if aligned.n_units < LEAST_DRAWN:
        raise InputError(
            f"`fail_under` {path}: {aligned.n_units} queries tell nothing, at least {LEAST_DRAWN} "
            "are wanted"
        )
    if math.isnan(aligned.scores[0]):
        raise InputError(f"`fail_under` {path}: {key} is undefined there: nothing can fall")
    return Baseline(aligned, lacks_s=refers and p_alone)


def _no_common_reference(alike: Sequence[Stored], run: Result) -> str:
    """Say by which references S is measured, and what helps."""
    lost = _lost_reference([result for _, result in alike], run)
    theirs = lost or reference_of(alike[0][1])
    one, other = (f"{each.label} ({each.digest})" for each in (theirs, reference_of(run)))
    here = "which this run lacks" if lost else f"in this run with {other}"
    return (
        f"S is measured there with {one}, {here}; name one `reference` for both, or compare P "
        "alone by `p_alone`, which passes an encoder that forgot meaning"
    )


def _why_not(stored: Stored, run: Result, key: ScoreKey) -> str | None:
    """Say why a baseline's result is no pair for that of a run, and what helps; None if it is."""
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
    """Return what the baseline's S is measured with and a run's not, by accident; None if none."""
    named = [r.key.reference for r in results if r.key.reference and not r.lacks_reference]
    if not run.lacks_reference:
        own = any(result.key.reference is None for result in results)
        return None if own or run.key.reference or not named else named[0]
    base = reference_of(run)
    gone = replace(base, weights=base.weights.removeprefix(ABSENT)).digest
    named += [result.key.encoder for result in results if result.key.encoder.digest == gone]
    return named[0] if named else None


def _make_anew(path: Path, result: Result, run: Result) -> str:
    depth = 4 if result.experiment else 2  # as `results.place` lays it
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
