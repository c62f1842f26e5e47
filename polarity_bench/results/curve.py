"""Curves of P and S over the settings of an encoder's dial, and the front of a curve.

The interval of the front uses the same bootstrap samples of queries for all points and the oracle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import AliasChoices, BeforeValidator, Field, PlainSerializer

from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.metrics.pareto_front import lift
from polarity_bench.metrics.register import METRICS, front_of, plane_point
from polarity_bench.metrics.statistics import Bootstrap, Resampling
from polarity_bench.results.result_files import (
    Result,
    StoredEncoder,
    StoredKey,
    read_arrays,
    scores_digest,
)
from polarity_bench.scores import WEIGHTINGS, Score, ScoreKey
from polarity_bench.tasks.catalogue import task_type
from polarity_bench.tasks.types.polarity.scoring import component_keys
from polarity_bench.validation import NullableFloat, validated
from polarity_bench.values import FloatArray, digest_of

Dial = Literal["strength", "weight"]
"""Varied parameter: the strength of a coordinate, or an encoder's weight in a blend."""

_OF_A_POINT = ("polarity", "similarity", "retention", "joint")


@dataclass(frozen=True)
class _Front:
    """Front score in a file."""

    mean: NullableFloat
    ci95: tuple[NullableFloat, NullableFloat]
    n: int


def _read(stored: Any) -> Score:
    front = validated(_Front, stored)
    return Score.single(front.mean, front.n, front.ci95)


def _plain(front: Score) -> dict[str, Any]:
    return {"mean": front.mean, "ci95": front.ci95, "n": front.n}


@dataclass(frozen=True)
class Point:
    """Point of a curve: an encoder at one setting of the dial.

    Attributes:
        at: Setting of the dial.
        encoder: Digest of the encoder at this setting.
        run: Digest of the result's key.
        scores_sha256: Checksum of the result's scores.
        scores: P, S, lift, retention and joint at each k and weighting.
    """

    at: Annotated[float, Field(validation_alias=AliasChoices(*get_args(Dial)))]
    encoder: str
    run: str
    scores_sha256: str
    scores: Mapping[StoredKey, NullableFloat]


@dataclass(frozen=True)
class Curve:
    """Curve of P and S on one task, with a point for each setting of the dial.

    Attributes:
        name: Name of the encoder with the dial.
        dial: Varied parameter.
        task: Name of the task.
        question: Digest of the settings that all points share: task, data, reference encoder and
            protocol.
        limit: Maximum number of queries; None if all queries were used.
        encoder: Digest of the encoder with the dial, without its strength; for blends, digest of
            the blend at the highest weight.
        reference: Reference encoder of S.
        points: Points of the curve, in order of the dial.
        fronts: Front score at each k and weighting.
    """

    name: str
    dial: Dial
    task: str
    question: str
    limit: int | None
    encoder: str
    reference: Annotated[
        StoredEncoder, PlainSerializer(partial(EncoderId.to_dict, with_defaults=True))
    ]
    points: tuple[Point, ...]
    fronts: Mapping[StoredKey, Annotated[Score, BeforeValidator(_read), PlainSerializer(_plain)]]

    @property
    def ks(self) -> list[int]:
        """Values of k at which the curve has a front, ascending."""
        return sorted({key.k for key in self.fronts if key.k is not None})


def make_curve(name: str, dial: Dial, by_setting: Mapping[float, Result]) -> Curve:
    """Compute the curve through results of one task and one reference encoder.

    Raises:
        InputError: If the results differ in task, data, reference encoder or protocol, if their
            reference encoder was not available, or if their oracle scores or values per query are
            missing.
    """
    order = sorted(by_setting)
    results = [by_setting[at] for at in order]
    first = results[0]
    for result in by_setting.values():
        _check(result)
        if _question(result) != _question(first):
            raise InputError(
                f"the results {first.path} and {result.path} cannot form a curve, because they "
                "differ in task, data, reference encoder or protocol; run them again with the same "
                "settings"
            )
    cuts = _cuts(results)
    parts = METRICS["front"].components
    of_parts = dict.fromkeys(METRICS[part].key(*cut) for part in parts for cut in cuts)
    keys = sorted(of_parts, key=lambda key: key.k is not None)  # The order moves the last digit.
    arrays = [read_arrays(result.path) for result in results]
    drawn = None
    if "resampled_units" in arrays[0]:
        drawn = Resampling(arrays[0]["resampled_units"], arrays[0]["resampled_strata"])
    values = {(i, key): array[str(key)] for i, array in enumerate(arrays) for key in keys}
    bootstrap = Bootstrap(values, resampling=drawn)
    fronts = {}
    for k, weighting in cuts:
        key = ScoreKey("front", k, weighting)
        score = bootstrap.derived(partial(_front, k=k, weighting=weighting))
        # Values per query are stored in single precision, so the mean is computed from the stored
        # scores, which have double precision.
        fronts[key] = replace(score, mean=front_of_results(results, key))
    return Curve(
        name=name,
        encoder=results[-1].key.encoder.stored.digest,
        dial=dial,
        task=first.task,
        reference=first.key.reference_encoder,
        question=_question(first),
        limit=first.limit,
        points=tuple(map(point_of, order, results)),
        fronts=fronts,
    )


def front_of_results(results: Sequence[Result], front: ScoreKey) -> float:
    """Compute the front score of the curve through results of one task and reference encoder."""
    k, weighting = front.k or 0, front.weighting
    keys = component_keys("front", k, weighting)
    means = {
        (i, key): np.array(each.scores[key].mean) for i, each in enumerate(results) for key in keys
    }
    return float(_front(means, k=k, weighting=weighting))


def _front(
    means: Mapping[tuple[int, ScoreKey], FloatArray], *, k: int, weighting: str
) -> FloatArray:
    """Compute the front from the mean of each score of each point.

    Args:
        means: Means, keyed by the position of the point and the key of the score.
        k: Number of retrieved sources.
        weighting: Weighting of the ranks.
    """
    keys, n_points = component_keys("front", k, weighting), 1 + max(i for i, _ in means)
    of_points = [{key.metric: means[i, key] for key in keys} for i in range(n_points)]
    return front_of([*map(plane_point, of_points)], plane_point(of_points[0], "_oracle"))


def _cuts(results: Sequence[Result]) -> list[tuple[int, str]]:
    """Return each k with each weighting that all results have."""
    cuts = [(k, weighting) for k in results[0].ks for weighting in WEIGHTINGS]
    return [
        cut
        for cut in cuts
        if all(ScoreKey("polarity_oracle", *cut) in each.scores for each in results)
    ]


def _check(result: Result) -> None:
    path = result.path
    if not task_type(result.kind).has_k:
        raise InputError(f"{path}: a curve needs results of a polarity task, got {result.task!r}")
    if not any(key.metric == "polarity_oracle" for key in result.scores):
        raise InputError(f"{path}: the oracle scores are missing; run {result.task} again")
    if result.lacks_reference:
        raise InputError(
            f"{path}: S is undefined, because the reference encoder was not available; run "
            f"{result.task} again when the reference encoder is available"
        )


def _question(result: Result) -> str:
    key = result.key
    return digest_of([key.task, key.data, key.reference_encoder.digest, dict(key.protocol)])


def point_of(at: float, result: Result) -> Point:
    """Return the point of a curve for a result at one setting of the dial."""
    chance = np.array(result.scores[ScoreKey("polarity_chance")].mean)
    scores: dict[ScoreKey, float] = {}
    for k, w in _cuts([result]):
        # In a fixed order, so that equal curves give equal files.
        for key in (ScoreKey(metric, k, w) for metric in _OF_A_POINT):
            scores[key] = result.scores[key].mean
        p = np.array(scores[ScoreKey("polarity", k, w)])
        scores[ScoreKey("lift", k, w)] = float(lift(p, chance))
    return Point(at, result.key.encoder.digest, result.key.digest, scores_digest(result), scores)
