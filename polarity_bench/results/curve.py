"""A curve: results of one task and reference as points of the plane, and what they dominate.

The interval of its front is of the same draws of queries for all points, and for the oracle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.metrics.statistics import Bootstrap, Resampling
from polarity_bench.results.result_files import Result, read_arrays, scores_digest
from polarity_bench.scores import WEIGHTINGS, Score, ScoreKey, Weighting
from polarity_bench.tasks.types.polarity.scoring import front_of, place_of
from polarity_bench.values import FloatArray, digest_of

Dial = Literal["strength", "weight"]
"""What is turned: the strength of a coordinate, or the weight of one encoder in a blend."""

_OF_A_POINT = ("polarity", "similarity", "retention", "joint")
_OF_THE_PLANE = (
    "polarity",
    "similarity",
    "similarity_reference",
    "polarity_oracle",
    "similarity_oracle",
)
_CHANCE = (ScoreKey("polarity_chance"), ScoreKey("similarity_chance"))


@dataclass(frozen=True)
class Point:
    """A point of a curve: the encoder where the dial stands so.

    Attributes:
        at: Where the dial stands.
        encoder: Digest of the encoder, which is another at each.
        run: Digest of all that decided its result.
        scores_sha256: Of the result's scores.
        scores: P, S, lift, retention and joint at each k and weighting.
    """

    at: float
    encoder: str
    run: str
    scores_sha256: str
    scores: Mapping[ScoreKey, float]


@dataclass(frozen=True)
class Curve:
    """A curve in the plane of polarity and meaning, on one task.

    Attributes:
        name: Whose it is.
        encoder: Digest of the encoder with the dial; of blends, of the one that weighs most.
        reference: The encoder that S is measured with.
        question: Digest of what every point answers: task, data, reference and protocol.
        limit: How many queries it was cut to; None for all of them.
        points: In order of the dial.
        fronts: Its front at each k and weighting.
    """

    name: str
    encoder: str
    dial: Dial
    task: str
    reference: EncoderId
    question: str
    limit: int | None
    points: tuple[Point, ...]
    fronts: Mapping[ScoreKey, Score]

    @property
    def ks(self) -> list[int]:
        """The k's that it has a front at, ascending."""
        return sorted({key.k for key in self.fronts if key.k is not None})


def make_curve(name: str, dial: Dial, stored: Mapping[float, tuple[Result, Path]]) -> Curve:
    """Make the curve of results of one task and reference.

    Args:
        name: Whose it is.
        dial: What was turned.
        stored: A polarity result and its file, by where the dial stood; at least one.

    Raises:
        InputError: If the results answer different questions or have no oracle, or their values
            per query are missing.
    """
    order = sorted(stored)
    first, first_path = stored[order[0]]
    for result, path in stored.values():
        _check(result, path)
        if _question(result) != _question(first):
            raise InputError(
                f"the results {first_path} and {path} make no curve: they differ in task, data, "
                "reference or protocol"
            )
    ranks = [(k, weighting) for k in first.ks for weighting in WEIGHTINGS]
    keys = [*_CHANCE, *(ScoreKey(metric, *rank) for metric in _OF_THE_PLANE for rank in ranks)]
    results = [stored[at][0] for at in order]
    arrays = [read_arrays(stored[at][1]) for at in order]
    drawn = None
    if "resampled_units" in arrays[0]:
        drawn = Resampling(arrays[0]["resampled_units"], arrays[0]["resampled_strata"])
    values = {(i, key): each[str(key)] for i, each in enumerate(arrays) for key in keys}
    bootstrap = Bootstrap(values, resampling=drawn)
    fronts = {}
    for k, weighting in ranks:
        key = ScoreKey("front", k, weighting)
        score = bootstrap.derived(partial(_front, k=k, weighting=weighting))
        # values per query are stored in single precision, means in double
        fronts[key] = replace(score, mean=front_of_results(results, key))
    return Curve(
        name=name,
        encoder=stored[order[-1]][0].key.encoder.stored.digest,
        dial=dial,
        task=first.task,
        reference=_reference(first),
        question=_question(first),
        limit=first.limit,
        points=tuple(point_of(at, stored[at][0]) for at in order),
        fronts=fronts,
    )


def front_of_results(results: Sequence[Result], front: ScoreKey) -> float:
    """Return the front, at one k and weighting, of results that are points of one curve."""
    k, weighting = front.k or 0, front.weighting
    keys = [*_CHANCE, *(ScoreKey(metric, k, weighting) for metric in _OF_THE_PLANE)]
    means = {
        (i, key): np.array(each.scores[key].mean) for i, each in enumerate(results) for key in keys
    }
    return float(_front(means, k=k, weighting=weighting))


def _front(
    means: Mapping[tuple[int, ScoreKey], FloatArray], *, k: int, weighting: Weighting
) -> FloatArray:
    """Return the front of means by the number of the point and their key."""
    parts: dict[int, dict[ScoreKey, FloatArray]] = {}
    for (i, key), mean in means.items():
        parts.setdefault(i, {})[key] = mean
    places = [place_of(part, k, weighting) for part in parts.values()]
    return front_of(places, place_of(parts[0], k, weighting, "_oracle"))


def _check(result: Result, path: Path) -> None:
    if result.kind != "polarity":
        raise InputError(f"{path}: {result.task} is no polarity task, which a curve is of")
    if not any(key.metric == "polarity_oracle" for key in result.scores):
        raise InputError(f"{path}: made before there was an oracle; run {result.task} again")
    if result.lacks_reference:
        raise InputError(f"{path}: S is undefined, since the reference cannot be had")


def _question(result: Result) -> str:
    key = result.key
    return digest_of([key.task, key.data, _reference(result).digest, dict(key.protocol)])


def _reference(result: Result) -> EncoderId:
    return result.key.reference or result.key.encoder


def point_of(at: float, result: Result) -> Point:
    """Return the point of a curve that a result is."""
    means = {key: np.array(score.mean) for key, score in result.scores.items()}
    scores: dict[ScoreKey, float] = {}
    for k in result.ks:
        for w in WEIGHTINGS:
            own = {ScoreKey(metric, k, w) for metric in _OF_A_POINT}
            scores |= {key: result.scores[key].mean for key in own}
            scores[ScoreKey("lift", k, w)] = float(place_of(means, k, w).lift)
    encoder = result.key.encoder.digest
    return Point(at, encoder, result.key.digest, scores_digest(result), scores)
