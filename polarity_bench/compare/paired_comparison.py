"""Comparison of two encoders on one task: the choice of the paired test, and its outcome."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from polarity_bench.compare.alignment import Alignment, align, first_difference
from polarity_bench.compare.measure import measure_of
from polarity_bench.errors import AmbiguousNameError, InputError, nearest
from polarity_bench.metrics.pairwise import LEVEL, detectable, pairwise_means, pairwise_resampled
from polarity_bench.metrics.significance import (
    EXACT,
    N_FLIPS,
    Alternative,
    PairedTest,
    bootstrap_test,
    holm,
    interval_level,
    sign_flip_p,
    unit_sums,
)
from polarity_bench.metrics.statistics import N_PAIRED_SAMPLES, SEED, Bootstrap, interval
from polarity_bench.results.packed_results import PROVENANCE, is_stored
from polarity_bench.results.result_files import Result, names_of, read_result, read_results
from polarity_bench.scores import ScoreKey

Pair = tuple[Result, Result]


@dataclass(frozen=True)
class ChangedQuery:
    """A query that contributes to the difference between two encoders.

    Attributes:
        query: Position among the task's queries (or samples, or pairs), from 0.
        moved: Contribution to the difference, see `Alignment.contributions`.
        values: Values of the first and the second encoder for display, by title.
    """

    query: int
    moved: float
    values: Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Comparison:
    """Comparison of a second encoder with a first encoder.

    Attributes:
        aligned: The results of both encoders.
        test: Test of the second score minus the first.
        alternative: Whether the test is two-sided or detects only a decrease.
        method: Description of the test, with its number of flips or samples.
        detectable: Minimum detectable difference (80 % power), from the standard error of the
            difference; NaN if the encoders do not differ on any query.
        changed: The queries that contribute most to the difference, largest contribution first.
        n_changed: Number of queries that contribute to the difference.
    """

    aligned: Alignment
    test: PairedTest
    alternative: Alternative
    method: str
    detectable: float
    changed: tuple[ChangedQuery, ...]
    n_changed: int

    @property
    def interval_level(self) -> float:
        """Confidence level of the interval of the difference."""
        return interval_level(self.alternative)

    @property
    def task(self) -> str:
        """Name of the task."""
        return self.aligned.results[0].task

    @property
    def is_significant(self) -> bool:
        """Whether p is below 5 %; False if p is NaN."""
        return self.test.p < LEVEL

    @property
    def falls(self) -> bool:
        """Whether a one-sided test finds a decrease, or the difference is undefined."""
        return self.is_significant or math.isnan(self.test.difference)


def compare(
    aligned: Alignment,
    n_changed: int = 10,
    seed: int = SEED,
    *,
    alternative: Alternative = "two-sided",
    n_tests: int = 1,
) -> Comparison:
    """Compare two results with the same queries by a paired test.

    Means over queries are tested by permutation. Other scores (joint, retention, front,
    correlations) are tested by a paired bootstrap. The interval always comes from a paired
    bootstrap.

    Args:
        aligned: The two results.
        n_changed: Number of changed queries to return, those with the largest contributions.
        seed: Seed of the sign flips and bootstrap samples.
        alternative: "less" tests whether the second score is lower than the first.
        n_tests: Number of tests by which the level of the minimum detectable difference is divided.
            The p-value is not corrected.

    References:
        See `sign_flip_p`, `bootstrap_test` and `detectable`.
    """
    n = aligned.n_units
    if aligned.is_mean:
        differences = aligned.contributions()
        units = aligned.units
        bootstrap = Bootstrap({"": differences}, N_PAIRED_SAMPLES, seed, aligned.resampling)
        drawn = bootstrap.resampled[""]
        p = sign_flip_p(differences, units, seed=seed, alternative=alternative)
        # A query that is undefined for one encoder counts for neither.
        difference = float(bootstrap.means[""])
        test = PairedTest(difference, interval(drawn, n, interval_level(alternative)), p)
        defined = ~np.isnan(differences)
        kept = None if units is None else units[defined]
        n_moving = np.count_nonzero(unit_sums(differences[defined][None], kept))
        flips = f"all 2^{n_moving} flips" if n_moving <= EXACT else f"{N_FLIPS:,} flips"
        method = f"permutation, {flips}"
        pairs = pairwise_means([aligned.moments]) if n else None
    else:
        resampled = aligned.resampled(N_PAIRED_SAMPLES, seed)
        one, other = aligned.scores.tolist()
        test = bootstrap_test(other - one, resampled[1] - resampled[0], n, alternative)
        method = f"bootstrap, {N_PAIRED_SAMPLES:,} samples"
        n_known = np.count_nonzero(~np.isnan(resampled).any(axis=0))
        pairs = pairwise_resampled(aligned.scores, resampled) if n_known > 1 else None
    alpha = (LEVEL if alternative == "two-sided" else 2 * LEVEL) / n_tests
    least = detectable(pairs, n, alpha=alpha) if pairs else math.nan
    changed, n_moved = _changed(aligned, n_changed)
    return Comparison(aligned, test, alternative, method, least, changed, n_moved)


def corrected(compared: Sequence[Comparison]) -> list[Comparison]:
    """Return comparisons with p-values that are corrected for their number by Holm's method."""
    p = np.array([each.test.p for each in compared])
    p[~np.isnan(p)] = holm(p[~np.isnan(p)])
    pairs = zip(compared, p, strict=True)
    return [replace(each, test=replace(each.test, p=float(value))) for each, value in pairs]


def _changed(aligned: Alignment, n: int) -> tuple[tuple[ChangedQuery, ...], int]:
    """Return the n queries with the largest contributions, and the number that contribute."""
    moved = aligned.contributions()
    size = np.where(np.isnan(moved), 0.0, np.abs(moved))
    order = np.argsort(-size, kind="stable")[:n]
    changed = tuple(
        ChangedQuery(
            int(i),
            float(moved[i]),
            {t: (float(v[0, i]), float(v[1, i])) for t, v in aligned.values_by_title.items()},
        )
        for i in order
        if size[i] > 0
    )
    return changed, int(np.count_nonzero(size))


def compare_encoders(
    a: str,
    b: str,
    task: str,
    *,
    results: str | Path = "results",
    measure: str | None = None,
    weighting: str = "linear",
    n_changed: int = 0,
) -> Comparison:
    """Compare encoder B with encoder A on a task, by a paired test over the queries.

    Args:
        a: Name or digest of encoder A, or path of its result file.
        b: Name or digest of encoder B, or path of its result file.
        task: Name of the task, on which both encoders were evaluated.
        results: Folder with the results.
        measure: Score to compare, such as `P` or `joint`. The default is the task's main score, or
            P if the main score depends on the reference encoder and the results do not share one.
        weighting: Weighting of the ranks.
        n_changed: Number of changed queries to return, those with the largest contributions.

    Returns:
        The comparison, with the difference B minus A, its interval, p and the changed queries.

    Raises:
        InputError: If a result is missing, or the two results cannot be compared.
    """
    folder = Path(results)
    aligned, _ = pair_up(
        contenders(folder, a, task), contenders(folder, b, task), measure, weighting
    )
    return compare(aligned, n_changed)


def contenders(folder: Path, name: str, task: str) -> list[Result]:
    """Return the results of an encoder on a task.

    Args:
        folder: Folder of results in which names are looked up.
        name: Name of the encoder, last part of its name, its label or its digest. It may also be
            the path of a result file, or of a folder with the results of one encoder.
        task: Name of the task, here or in mteb.

    Raises:
        InputError: If the name is unknown, it is ambiguous, or the encoder has no result for the
            task. The message suggests similar names or lists the digests.
    """
    results = results_of(folder, name)
    of_task = [result for result in results if task in {result.task, result.result_name}]
    if not of_task:
        known = {result.task for result in results}
        raise InputError(f"`task` {task}: no results of {name} for this task{nearest(task, known)}")
    return of_task


def results_of(folder: Path, name: str) -> list[Result]:
    """Return the results of an encoder on all tasks (see `contenders`)."""
    path = Path(name)
    if path.suffix == ".json" and is_stored(path):
        if not is_stored(path.with_suffix(PROVENANCE)):
            raise InputError(
                f"{path}: not a complete result: its .provenance.json is missing; evaluate again"
            )
        return [read_result(path)]
    of_folder = list(read_results(path)) if path.is_dir() else []
    results = of_folder or _named(folder, name)
    encoders = {result.key.encoder.digest: result.key.encoder for result in results}
    if len(encoders) > 1:
        known = ", ".join(f"{digest} ({each.label})" for digest, each in sorted(encoders.items()))
        known += ", or the folder of one" if of_folder else ""
        raise AmbiguousNameError(f"{name}: matches {len(encoders)} encoders; choose one of {known}")
    return results


def _named(folder: Path, name: str) -> list[Result]:
    if not folder.is_dir():
        raise InputError(
            f"{name}: neither a result file nor a folder with results, and the results folder "
            f"{folder} does not exist; run `polarity-bench run` first"
        )
    results = list(read_results(folder))
    if not results:
        raise InputError(f"{folder}: contains no results; run `polarity-bench run` first")
    matching = [r for r in results if name in {*names_of(r.key.encoder), r.key.encoder.digest}]
    if not matching:
        known = {result.key.encoder.name for result in results}
        raise InputError(
            f"{name}: neither a result file nor a folder with results, and {folder} has no results "
            f"of an encoder with this name{nearest(name, known)}"
        )
    return matching


def pair_up(
    ones: Sequence[Result],
    others: Sequence[Result],
    measure: str | None = None,
    weighting: str = "linear",
) -> tuple[Alignment, str]:
    """Choose one result of each encoder that can be paired, and align the two results.

    Results with the task's default settings are preferred. If the main score depends on the
    reference encoder and the results do not share a reference, P is compared instead, unless a
    measure is specified.

    Args:
        ones: Results of the first encoder on a task.
        others: Results of the second encoder on the task.
        measure: Score to compare, see `measure_of`; None selects the main score.
        weighting: Weighting of the ranks.

    Returns:
        The pair, and a remark; the remark is '' unless P is compared instead of the main score.

    Raises:
        InputError: If no results can be paired, several pairs are possible, or values per query
            cannot be read (see `align`).
    """
    pairs = [(one, other) for one in ones for other in others if one.path != other.path]
    if not pairs:
        raise InputError(f"{ones[0].path}: both names refer to this result; name two encoders")
    pairs.sort(key=_n_experiments)
    candidates = [(pair, key) for pair in pairs if (key := _common(pair, measure, weighting))]
    if not candidates:
        one, other = pairs[0]
        measure_of(one, measure, weighting)  # This raises an error for a wrong name.
        data = {result.key.data for result in (*ones, *others)}
        why = "; their data sets differ" if len(data) > 1 else ""
        raise InputError(
            f"{one.path} and {other.path} do not share this score at the same k{why}; evaluate "
            "both with the same settings"
        )
    fitting = [(pair, key) for pair, key in candidates if first_difference(*pair, key) is None]
    if fitting:
        least = _n_experiments(fitting[0][0])
        _refuse_several([each for each in fitting if _n_experiments(each[0]) == least])
        return align(*fitting[0]), ""
    p = ScoreKey("polarity")  # P does not depend on the reference encoder.
    alike = [(pair, key) for pair, key in candidates if first_difference(*pair, p) is None]
    if alike and measure is None:
        pair, key = alike[0]
        return align(pair, ScoreKey("polarity", key.k, key.weighting)), (
            f"{key.metric} depends on the reference encoder, and these results do not share one; P "
            "is compared instead"
        )
    pair, key = (alike or candidates)[0]
    return align(pair, key), ""  # This raises an error that describes the difference.


def _n_experiments(pair: Pair) -> int:
    """Return the number of results in a pair with settings other than the task's defaults."""
    return sum(bool(result.experiment) for result in pair)


def _common(pair: Pair, measure: str | None, weighting: str) -> ScoreKey | None:
    """Return the key of the score to compare; None if one of the results lacks it."""
    one, other = pair
    try:
        key = measure_of(one, measure, weighting)
    except InputError:
        return None
    return key if key in other.scores else None


def _refuse_several(equal: Sequence[tuple[Pair, ScoreKey]]) -> None:
    """Raise InputError if equally preferred pairs differ in score, data, protocol or reference.

    Reference encoders may differ if the score does not depend on them.
    """
    first, *others = equal
    for pair, key in others:
        if key != first[1] or first_difference(pair[0], first[0][0], key):
            named = [result.path for each, _ in equal for result in each]
            files = ", ".join(map(str, dict.fromkeys(named)))
            raise InputError(f"several results match; name two of these files: {files}")
