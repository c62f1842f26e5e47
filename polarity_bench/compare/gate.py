"""A quality gate: does an encoder score significantly lower than a baseline?

Each task that both have is tested separately, query by query, with a one-sided test: an encoder
that improves passes, as does one that stays the same. Holm's correction over the tasks limits the
chance of a false alarm to 5 % for the whole run, however many tasks there are. Problems of the
baseline are found before the run starts. The baseline's values are also read before the run,
because the run may replace them.

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
"""Level of the interval shown with the one-sided test at 5 %. If the interval is below 0, the test
finds a fall."""


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
class Held:
    """Comparison of a task's result with the baseline's result.

    Attributes:
        aligned: The baseline's result and the new result.
        difference: The new score minus the baseline's score.
        interval: 90 % confidence interval of the difference.
        p: One-sided p-value of a fall; NaN if the new score is undefined.
        corrected: The p-value, corrected for the number of tasks.
        method: The test that gave p.
        detectable: Minimum detectable fall (80 % power) for this number of tasks, from the standard
            deviation of the two results' differences; NaN if the results do not differ.
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
        """Name of the task."""
        return self.aligned.stored[0][1].task

    @property
    def falls(self) -> bool:
        """Whether the score has fallen significantly, or is no longer defined."""
        return self.corrected < LEVEL or math.isnan(self.difference)


@dataclass(frozen=True)
class Gate:
    """The outcome of the gate.

    Attributes:
        held: Comparisons with the baseline, in the order of the tasks.
        failed: Tasks of the baseline for which the run has no result.
    """

    held: tuple[Held, ...]
    failed: tuple[str, ...] = ()

    @property
    def fallen(self) -> list[str]:
        """Names of the tasks whose score has fallen."""
        return [each.task for each in self.held if each.falls]

    @property
    def is_open(self) -> bool:
        """Whether the run passes: every task has a result, and no score has fallen."""
        return not self.fallen and not self.failed


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


def judge(found: Mapping[str, Baseline], results: Sequence[Stored]) -> Gate:
    """Compare results with their baselines.

    Means over queries are tested by permutation, other scores (joint, correlations) by a paired
    bootstrap. The tests are those of `paired_comparison.compare`, but one-sided.

    Args:
        found: The baseline of each task, see `baselines`.
        results: The results of the run.

    References:
        Holm (1979), see `significance.holm`; also `sign_flip_p`, `bootstrap_test` and
        `detectable_difference`.
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
    """Test whether the second of two results is lower than the first.

    Args:
        pair: The baseline's result and the new result.
        n_tasks: Number of tests, for the minimum detectable fall; p is not corrected.
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
        lost: The new score minus the old score on each bootstrap sample, (b,); NaN is ignored.

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
    """Return the one-sided p-value of a fall from the two-sided one of a permutation test.

    The conversion is valid because the sign flips are symmetric.
    """
    if difference < 0:
        return two_sided / 2
    return 1 - two_sided / 2 if difference > 0 else 1.0


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
    if aligned.n_units < LEAST_DRAWN:
        raise InputError(
            f"`fail_under` {path}: {aligned.n_units} queries tell nothing, at least {LEAST_DRAWN} "
            "are wanted"
        )
    if math.isnan(aligned.scores[0]):
        raise InputError(f"`fail_under` {path}: {key} is undefined there: nothing can fall")
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
