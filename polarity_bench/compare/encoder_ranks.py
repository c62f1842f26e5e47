"""Ranks of encoders, from paired tests over their values per query.

Values per query are large and may exist only on the machine that built a board. For this reason,
ranks are stored with the results in `statistics.json`, under a digest of the results. If a result
changes, so does the digest, and the stored ranks are not used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from polarity_bench.compare.alignment import Alignment, align
from polarity_bench.compare.measure import is_comparable
from polarity_bench.compare.paired_comparison import compare
from polarity_bench.errors import InputError, MissingValuesError, reworded
from polarity_bench.files import json_bytes, read_json
from polarity_bench.metrics.pairwise import (
    Pairwise,
    detectable,
    holm_of_pairs,
    pairwise_means,
    pairwise_resampled,
    rank_ranges,
    tie_groups,
)
from polarity_bench.metrics.statistics import LEAST_DRAWN, N_SAMPLES, SEED
from polarity_bench.results.result_files import Result
from polarity_bench.scores import ScoreKey
from polarity_bench.validation import NullableFloat, as_json, validated
from polarity_bench.values import T, digest_of

FILE = "statistics.json"
FORMAT = 1


Interval = tuple[NullableFloat, NullableFloat]
"""Ends of a 95 % interval."""


@dataclass(frozen=True)
class Standing:
    """Ranks of encoders by one score over the same queries.

    Attributes:
        ranks: Best and worst rank of each encoder that the tests allow, from 1.
        ties: Groups of positions, best first, within which no two encoders differ significantly.
        detectable: Minimum detectable difference (80 % power), as a fraction; NaN if no two
            encoders differ on any query.
        n: Number of independent units: queries, samples, or pairs that are drawn together.
    """

    ranks: tuple[tuple[int, int], ...]
    ties: tuple[tuple[int, ...], ...]
    detectable: NullableFloat
    n: int


@dataclass(frozen=True)
class _File:
    """Content of `statistics.json`: standings, and intervals of gains, by digest."""

    format: int
    standings: dict[str, Standing]
    gains: dict[str, Interval] = field(default_factory=dict)


class Standings:
    """Standings of encoders, computed from values per query or read from a file.

    Attributes:
        kept: Standings and intervals of gains to write to the file: the requested ones that are
            known. If one was read from the file or is unknown, the file's others are kept.
        unknown: A message for each standing that is unknown because values per query are missing.
    """

    def __init__(self, known: _File | None = None) -> None:
        self._known, self._requested = known or _File(FORMAT, {}), _File(FORMAT, {})
        self._read: dict[tuple[tuple[Path, ...], ScoreKey], Alignment] = {}
        self._recalled = False
        self.unknown: list[str] = []

    def of(self, tasks: Sequence[Sequence[Result]], keys: Sequence[ScoreKey]) -> Standing | None:
        """Rank encoders by the mean of their scores over tasks.

        Args:
            tasks: For each task, the results of the encoders, in the same order.
            keys: For each task, the score.

        Returns:
            The standing. None if there are fewer than two encoders, a score is undefined or never
            has values per query, or the values are missing and the file has no standing.

        Raises:
            InputError: If results cannot be paired, or the standing in the file is damaged.
        """
        if any(len(of) < 2 for of in tasks) or not _are_defined(tasks, keys):
            return None
        digest = _digest(tasks, keys)

        def compute() -> Standing:
            aligned = [self._aligned(of, k) for of, k in zip(tasks, keys, strict=True)]
            return standing_of(pairwise(aligned), sum(each.n_units for each in aligned))

        requested, known = self._requested.standings, self._known.standings
        standing = self._recall(digest, requested, known, compute)
        if standing is not None:
            _check_size(standing, len(tasks[0]))
        return standing

    def gain(self, base: Result, result: Result, key: ScoreKey) -> Interval:
        """Return the 95 % interval of a result's score minus the base's, paired by queries.

        The ends are NaN if values per query are missing and the file has no interval.
        """
        digest = _digest([[base, result]], [key])

        def compute() -> Interval:
            return compare(align([base, result], key), n_changed=0).test.interval

        interval = self._recall(digest, self._requested.gains, self._known.gains, compute)
        return interval or (math.nan, math.nan)

    def _recall(
        self, digest: str, requested: dict[str, T], known: Mapping[str, T], compute: Callable[[], T]
    ) -> T | None:
        """Return a value that was requested before, is computed now, or is in the file.

        If values per query are missing and the file has no such value, the value is None.
        """
        if digest not in requested:
            try:
                requested[digest] = compute()
            except MissingValuesError as error:
                if digest not in known:
                    self.unknown.append(str(error))
                    return None
                requested[digest], self._recalled = known[digest], True
        return requested[digest]

    @property
    def kept(self) -> _File:
        """Standings and intervals of gains to write to the file (see the class)."""
        before = self._known if self._recalled or self.unknown else _File(FORMAT, {})
        standings = before.standings | self._requested.standings
        return _File(FORMAT, standings, before.gains | self._requested.gains)

    def _aligned(self, results: Sequence[Result], key: ScoreKey) -> Alignment:
        pairing = tuple(result.path for result in results), key
        if pairing not in self._read:
            self._read[pairing] = align(results, key)
        return self._read[pairing]


def _check_size(standing: Standing, n: int) -> None:
    """Raise InputError if a stored standing does not fit the number of encoders."""
    if len(standing.ranks) != n or any(not 0 <= i < n for tie in standing.ties for i in tie):
        raise InputError(
            f"{FILE}: the file is damaged: expected the ranks of {n} encoders, got "
            f"{len(standing.ranks)}; restore the file, or delete it and build the board again"
        )


def _are_defined(tasks: Sequence[Sequence[Result]], keys: Sequence[ScoreKey]) -> bool:
    """Return whether each result has a defined score of a kind with values per query."""
    return all(
        key in result.scores
        and math.isfinite(result.scores[key].mean)
        and is_comparable(key, result)
        for of, key in zip(tasks, keys, strict=True)
        for result in of
    )


def _digest(tasks: Sequence[Sequence[Result]], keys: Sequence[ScoreKey]) -> str:
    """Return a digest of the keys and scores of all results.

    The digest does not depend on the order of the tasks.
    """
    return digest_of(
        sorted(
            [str(key), [[result.key.digest, result.scores[key].mean] for result in of]]
            for of, key in zip(tasks, keys, strict=True)
        )
    )


def standing_of(pairs: Pairwise, n: int) -> Standing:
    """Return ranks and ties from a comparison of all pairs, after Holm's correction.

    Args:
        pairs: The comparison, not corrected.
        n: Number of independent units.
    """
    p = holm_of_pairs(pairs.p)
    ranks = rank_ranges(pairs.scores, p)
    return Standing(
        tuple((int(best), int(worst)) for best, worst in ranks),
        tuple(tie_groups(pairs.scores, p)),
        detectable(pairs, n),
        n,
    )


def pairwise(aligned: Sequence[Alignment]) -> Pairwise:
    """Compare all pairs of results by the mean of their scores over tasks.

    If a score is not a mean over queries and a task has fewer than `LEAST_DRAWN` units, every p
    is 1.

    Args:
        aligned: For each task, the results of the encoders, in the same order.
    """
    if all(each.is_mean for each in aligned):
        return pairwise_means([each.moments for each in aligned])
    scores = np.mean([each.scores for each in aligned], axis=0)
    drawn = [each.resampled(N_SAMPLES, SEED + i) for i, each in enumerate(aligned)]
    compared = pairwise_resampled(scores, np.mean(drawn, axis=0))
    has_few = min(each.n_units for each in aligned) < LEAST_DRAWN
    return replace(compared, p=np.ones_like(compared.p)) if has_few else compared


def read_standings(file: Path) -> Standings:
    """Read the standings in a file; if there is no file, return empty standings.

    Raises:
        InputError: If the file is not valid or has another format.
    """
    if not file.is_file():
        return Standings()
    content = read_json(file)
    with reworded(f"{file}: not a statistics file of a board: "):
        stored = validated(_File, content)
    if stored.format != FORMAT:
        raise InputError(
            f"{file}: expected format {FORMAT}, got {stored.format}; update polarity-bench, "
            "or delete the file and build the board again"
        )
    return Standings(stored)


def standings_bytes(standings: Standings) -> bytes:
    """Return the content of `statistics.json`. Equal standings give equal bytes."""
    kept = standings.kept
    by_digest, gains = dict(sorted(kept.standings.items())), dict(sorted(kept.gains.items()))
    content = as_json(replace(kept, standings=by_digest, gains=gains))
    return json_bytes({name: value for name, value in content.items() if name != "gains" or value})
