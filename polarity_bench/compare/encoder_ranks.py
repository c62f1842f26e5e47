"""Standings: who can be told apart by a measure, from values per query, and kept where these lie.

Values per query are large and may stay where a board was made; what they showed is kept beside the
results, in `statistics.json`, under a digest of the results that it is of. Other results, other
digest: what is kept is never taken for what it is not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from polarity_bench.compare.alignment import Alignment, align
from polarity_bench.compare.measure import is_comparable
from polarity_bench.errors import InputError, MissingValuesError
from polarity_bench.files import json_bytes, read_json
from polarity_bench.metrics.pairwise import (
    Pairwise,
    detectable,
    holm_of_pairs,
    pairwise_of_moments,
    pairwise_resampled,
    rank_ranges,
    tie_groups,
)
from polarity_bench.metrics.statistics import LEAST_DRAWN, N_SAMPLES, SEED
from polarity_bench.results.result_files import Result, Stored
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.types.polarity.scoring import CLIPPED
from polarity_bench.values import digest_of

FILE = "statistics.json"
FORMAT = 1


@dataclass(frozen=True)
class Standing:
    """Results of the same queries against each other, by one measure.

    Attributes:
        ranks: Best and worst rank of each, from 1, as far as the tests tell.
        ties: Runs of positions, best first, within which no two differ.
        detectable: The least true difference that these queries show four times in five, a
            fraction; nan where none differ.
        n: How many queries (or pairs of twins, or samples) they are of.
    """

    ranks: tuple[tuple[int, int], ...]
    ties: tuple[tuple[int, ...], ...]
    detectable: float
    n: int


class Standings:
    """Makes standings where values per query are there, and knows those made before.

    Attributes:
        kept: What belongs into the file, by digest: what was asked for and is known, and where
            some of it was not computed anew, all that was known before.
        unknown: For want of which values per query something is not known: a line each.
    """

    def __init__(self, known: Mapping[str, Standing] | None = None) -> None:
        self._known = dict(known or {})
        self._read: dict[tuple[tuple[Path, ...], ScoreKey], Alignment] = {}
        self._asked: dict[str, Standing] = {}
        self._recalled = False
        self.unknown: list[str] = []

    def of(self, tasks: Sequence[Sequence[Stored]], keys: Sequence[ScoreKey]) -> Standing | None:
        """Compare encoders by the mean of their scores over tasks.

        Args:
            tasks: Of each task, the result of each encoder, in the same order.
            keys: Of each task, the score.

        Returns:
            None where there are fewer than two encoders, a score is undefined, nothing is stored
            of it for each query, or values per query are missing and it is not known from before.

        Raises:
            InputError: If values per query are not those of their result; names the file.
        """
        cells = [(result, key) for of, key in zip(tasks, keys, strict=True) for _, result in of]
        if len(cells) < 2 * len(tasks) or not all(_is_defined(*cell) for cell in cells):
            return None
        digest = _digest(tasks, keys)
        if digest in self._asked:
            return self._asked[digest]
        try:
            found = _standing([self._aligned(of, k) for of, k in zip(tasks, keys, strict=True)])
        except MissingValuesError as error:
            if digest not in self._known:
                self.unknown.append(str(error))
                return None
            found, self._recalled = self._known[digest], True
            _check_size(found, len(tasks[0]))
        self._asked[digest] = found
        return found

    def keeps(self, tasks: Sequence[Sequence[Stored]], keys: Sequence[ScoreKey]) -> bool:
        """Whether a standing of these results, in this order, was read from the file."""
        cells = [(result, key) for of, key in zip(tasks, keys, strict=True) for _, result in of]
        return all(_is_defined(*cell) for cell in cells) and _digest(tasks, keys) in self._known

    @property
    def kept(self) -> dict[str, Standing]:
        """See the class."""
        before = self._known if self._recalled or self.unknown else {}
        return {**before, **self._asked}

    def _aligned(self, stored: Sequence[Stored], key: ScoreKey) -> Alignment:
        place = tuple(path for path, _ in stored), key
        if place not in self._read:
            self._read[place] = align(stored, key)
        return self._read[place]


def _check_size(standing: Standing, n: int) -> None:
    """Refuse what is kept of another number of encoders."""
    if len(standing.ranks) != n or any(not 0 <= i < n for tie in standing.ties for i in tie):
        raise InputError(
            f"{FILE}: ranks of {len(standing.ranks)} encoders are kept where {n} are: damaged"
        )


def _is_defined(result: Result, key: ScoreKey) -> bool:
    score = result.scores.get(key)
    return score is not None and math.isfinite(score.mean) and is_comparable(key, result)


def _digest(tasks: Sequence[Sequence[Stored]], keys: Sequence[ScoreKey]) -> str:
    """Tell by the question and the score of each result, in any order of the tasks."""
    asked: list[Any] = sorted(
        [str(key), [[result.key.digest, result.scores[key].mean] for _, result in of]]
        for of, key in zip(tasks, keys, strict=True)
    )
    if len(tasks) > 1 and any(key.metric in CLIPPED for key in keys):
        asked.append("averaged before clipping")  # files of before averaged after it
    return digest_of(asked)


def _standing(aligned: Sequence[Alignment]) -> Standing:
    n = sum(each.n_units for each in aligned)
    pairs = _pairwise(aligned)
    p = holm_of_pairs(pairs.p)
    ranks = rank_ranges(pairs.scores, p)
    return Standing(
        tuple((int(best), int(worst)) for best, worst in ranks),
        tuple(tie_groups(pairs.scores, p)),
        detectable(pairs, n),
        n,
    )


def _pairwise(aligned: Sequence[Alignment]) -> Pairwise:
    if len(aligned) == 1:
        return aligned[0].pairwise()
    if all(each.is_mean for each in aligned):
        return pairwise_of_moments([each.moments for each in aligned])
    aligned = [replace(each, clipped=False) for each in aligned]
    scores = np.mean([each.scores for each in aligned], axis=0)
    if all(each.key.metric in CLIPPED for each in aligned):
        scores = np.maximum(scores, 0.0)  # as tables show the mean: see `rows.mean_over`
    drawn = [each.resampled(N_SAMPLES, SEED + i) for i, each in enumerate(aligned)]
    found = pairwise_resampled(scores, np.mean(drawn, axis=0))
    if min(each.n_units for each in aligned) < LEAST_DRAWN:
        return Pairwise(found.scores, found.difference, found.error, np.ones_like(found.p))
    return found


def read_standings(file: Path) -> Standings:
    """Read what is kept; without a file nothing is.

    Raises:
        InputError: If the file is none of ours, or of another version.
    """
    if not file.is_file():
        return Standings()
    stored = read_json(file)
    try:
        if stored["format"] != FORMAT:
            raise InputError(f"{file}: written in format {stored['format']}, this reads {FORMAT}")
        return Standings({digest: _parsed(each) for digest, each in stored["standings"].items()})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{file}: not the statistics of a board: {error!r}") from error


def standings_bytes(standings: Standings) -> bytes:
    """Lay out what belongs into the file; the same standings, the same bytes."""
    laid_out = {
        digest: {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in asdict(each).items()
        }
        for digest, each in sorted(standings.kept.items())
    }
    return json_bytes({"format": FORMAT, "standings": laid_out})


def _parsed(each: Mapping[str, Any]) -> Standing:
    least = each["detectable"]
    return Standing(
        tuple((int(best), int(worst)) for best, worst in each["ranks"]),
        tuple(tuple(map(int, tie)) for tie in each["ties"]),
        math.nan if least is None else float(least),
        int(each["n"]),
    )
