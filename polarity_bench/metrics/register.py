"""All metrics: what each is called, how it is computed from retrieved sources, and how it is shown.

A metric of retrieval is a function of the values per query, or of means of other metrics. Metrics
of other task types are computed by the task type. All scores are fractions, which tables show in
percent.

Shapes: q queries, n sources, k ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from itertools import starmap
from typing import NamedTuple

import numpy as np

from polarity_bench.errors import InputError, nearest
from polarity_bench.metrics.pareto_front import front, lift
from polarity_bench.metrics.polarity import neighbour_vote, polarity
from polarity_bench.metrics.similarity import joint, overlap, retention, similarity
from polarity_bench.registers import Register
from polarity_bench.scores import WEIGHTINGS, Score, ScoreKey, Weighting
from polarity_bench.values import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Neighbours:
    """The k nearest sources of each query.

    Attributes:
        index: Position of each retrieved source, nearest first, (q, k).
        cosine: Cosine of the query and each retrieved source under the reference encoder, (q, k).
        query_labels: Label of each query, from 0, (q,).
        source_labels: Label of each source, from 0, (n,).
    """

    index: IntArray
    cosine: FloatArray
    query_labels: IntArray
    source_labels: IntArray

    @cached_property
    def labels(self) -> IntArray:
        """Label of each retrieved source, (q, k)."""
        return self.source_labels[self.index]

    @cached_property
    def hits(self) -> BoolArray:
        """Whether each retrieved source has the query's label, (q, k)."""
        return np.asarray(self.labels == self.query_labels[:, None])


@dataclass(frozen=True)
class Ranking(Neighbours):
    """The k nearest sources under the encoder under test, and two retrievals to compare with.

    Attributes:
        reference: The sources that the reference encoder retrieves.
        oracle: The sources that the reference encoder retrieves among those of the query's label,
            followed by the others.
    """

    reference: Neighbours
    oracle: Neighbours


Means = Mapping[str, FloatArray]
"""Means over queries, by metric, as arrays of the same shape."""


@dataclass(frozen=True)
class Metric:
    """A metric.

    Attributes:
        name: Name in scores.
        explanation: Explanation in one line, for `explain-score`, pages and documentation.
        title: Title of the column; '' if tables of retrieval tasks have no such column.
        detail: Tables of retrieval tasks that show the column by default: 0 all; 1 those of boards;
            2 those of one task on a board; 3 none; 4 none, because only some tasks have the score.
        bounds: Range of the score as it is shown (see `shown`).
        chance: Score of random retrieval or guessing, if it is the same on every task.
        higher_is_better: Whether higher scores are better.
        has_interval: Whether boards show the 95 % interval.
        needs_reference: Whether the score depends on the reference encoder.
        of_queries: Function that computes the metric from a `Ranking` and the name of a weighting
            of its ranks, (q,). NaN is an undefined value. The score is the mean.
        is_weighted: Whether `of_queries` uses the weighting.
        components: Metrics whose means determine the score.
        of_means: Function that computes the score from the means of `components`. Scores below
            `bounds` are stored and averaged as they are.
        version: Version of a metric of another package; with a new one, results are recomputed.
    """

    name: str
    explanation: str
    _: KW_ONLY
    title: str = ""
    detail: int = 0
    bounds: tuple[float, float] = (0.0, 1.0)
    chance: float | None = None
    higher_is_better: bool = True
    has_interval: bool = True
    needs_reference: bool = False
    of_queries: Callable[[Ranking, str], FloatArray] | None = None
    is_weighted: bool = True
    components: tuple[str, ...] = ()
    of_means: Callable[[Means], FloatArray] | None = None
    version: int = 1

    def key(self, k: int, weighting: str) -> ScoreKey:
        """Return the key of the score at k, without k or weighting if they have no effect."""
        if not self.of_queries and not self.of_means:
            return ScoreKey(self.name)
        return ScoreKey(self.name, k, weighting if self.is_weighted else "linear")

    def values(self, found: Ranking, weighting: str) -> FloatArray:
        """Compute the values per query, (q,).

        Raises:
            InputError: If the function does not return a number or NaN for each query.
        """
        assert self.of_queries is not None  # noqa: S101  The caller chooses such metrics.
        values = np.asarray(self.of_queries(found, weighting), dtype=np.float64)
        if values.shape != found.query_labels.shape or np.isinf(values).any():
            raise InputError(
                f"{METRICS.label(self.name)} must return a finite number or NaN for each of the "
                f"{len(found.query_labels)} queries, got an array of shape {values.shape}"
            )
        return values

    def shown(self, value: float) -> float:
        """Return a score, or an end of its interval, as it is shown: within `bounds`.

        Results store joint and front below chance as negative scores. Means, differences, tests and
        ranks use the stored scores. Everything that people read shows 0 instead, and an interval
        that starts or ends below 0 starts or ends at 0.
        """
        least, most = self.bounds
        return min(max(value, least), most)  # NaN stays NaN, because it is the first argument.

    def shown_values(self, values: Iterable[float | None]) -> list[float | None]:
        """Return scores as they are shown; None if a score is missing."""
        return [None if value is None else self.shown(value) for value in values]

    def shown_score(self, score: Score) -> Score:
        """Return a score with its value and its interval as they are shown."""
        mean, low, high = map(self.shown, (score.mean, *score.ci95))
        return replace(score, mean=mean, ci95=(low, high))


class PlanePoint(NamedTuple):
    """Point, or points, in the plane of polarity and meaning.

    Attributes:
        lift: P relative to chance, see `pareto_front.lift`.
        retention: Retention, an array of the same shape.
    """

    lift: FloatArray
    retention: FloatArray


def plane_point(means: Means, whose: str = "") -> PlanePoint:
    """Return the points for means of scores.

    Args:
        means: Means at one k and weighting.
        whose: Suffix of the metrics: '' for the encoder, or `_oracle`.
    """
    p, s = means[f"polarity{whose}"], means[f"similarity{whose}"]
    kept = retention(s, means["similarity_chance"], means["similarity_reference"])
    return PlanePoint(lift(p, means["polarity_chance"]), kept)


def front_of(points: Sequence[PlanePoint], oracle: PlanePoint) -> FloatArray:
    """Return the front score of a curve; see `metrics.pareto_front`.

    Args:
        points: Points of the curve.
        oracle: Point of the oracle.
    """
    lifts, kept = (np.stack(side) for side in zip(*points, strict=True))
    return front(lifts, kept, *oracle)


def _joint(means: Means) -> FloatArray:
    return joint(means["polarity"], means["polarity_chance"], plane_point(means).retention)


def _front(means: Means) -> FloatArray:
    return front_of([plane_point(means)], plane_point(means, "_oracle"))


_OF_A_POINT = ("polarity", "similarity", "similarity_reference")
_OF_THE_ORACLE = ("polarity_oracle", "similarity_oracle")
_OF_CHANCE = ("polarity_chance", "similarity_chance")
_cosine = partial(Metric, bounds=(-1.0, 1.0))
_s = partial(_cosine, needs_reference=True)
_derived = partial(Metric, needs_reference=True, components=(*_OF_A_POINT, *_OF_CHANCE))

_METRICS = (
    Metric(
        "polarity",
        "share of the k nearest sources that have the query's label, weighted by rank",
        title="P",
        of_queries=lambda found, weighting: polarity(found.hits, weighting),
    ),
    _s(
        "similarity",
        "mean cosine, under the reference encoder, between the query and the k retrieved sources, "
        "weighted by rank",
        title="S",
        of_queries=lambda found, weighting: similarity(found.cosine, weighting),
    ),
    _derived(
        "retention",
        "share of the reference's S above chance that is kept; 100 % for the reference itself",
        title="retention",
        bounds=(-math.inf, 1.0),
        has_interval=False,
        of_means=lambda means: plane_point(means).retention,
    ),
    _derived(
        "joint",
        "harmonic mean of P's lift over chance, clipped at 0, and of retention",
        title="joint",
        of_means=_joint,
    ),
    _derived(
        "front",
        "share of the area under the oracle's point, in lift and retention, that an encoder "
        "dominates; a curve counts with all its points",
        title="front",
        detail=1,
        components=(*_OF_A_POINT, *_OF_THE_ORACLE, *_OF_CHANCE),
        of_means=_front,
    ),
    _s(
        "similarity_reference",
        "S of the k sources that the reference ranks nearest",
        of_queries=lambda found, weighting: similarity(found.reference.cosine, weighting),
    ),
    Metric(
        "polarity_oracle",
        "P of retrieval with gold labels, which ranks the sources with the query's label first",
        of_queries=lambda found, weighting: polarity(found.oracle.hits, weighting),
    ),
    _s(
        "similarity_oracle",
        "S of retrieval with gold labels",
        of_queries=lambda found, weighting: similarity(found.oracle.cosine, weighting),
    ),
    Metric(
        "knn_accuracy",
        "share of queries whose label wins the weighted vote of the k nearest sources",
        title="kNN accuracy",
        detail=2,
        has_interval=False,
        of_queries=lambda f, weighting: neighbour_vote(f.query_labels, f.labels, weighting),
    ),
    Metric(
        "overlap",
        "share of the k nearest sources that the reference also finds",
        needs_reference=True,
        of_queries=lambda found, _: overlap(found.index, found.reference.index),
        is_weighted=False,
    ),
    _cosine(
        "sgts",
        "Spearman's correlation of cosine with equality of labels (SentiCSE)",
        title="SgTS",
        detail=3,
        has_interval=False,
    ),
    Metric(
        "pairwise_accuracy",
        "share of minimal pairs in which both queries are nearer to the source of their own "
        "polarity than to its twin",
        title="minimal pairs",
        detail=4,
        chance=0.25,
        has_interval=False,
    ),
    Metric("polarity_chance", "P of random retrieval"),
    _s("similarity_chance", "S of random retrieval"),
    Metric(
        "lift",
        "how far P is above chance; 0 is chance and 1 is a perfect P",
        bounds=(-math.inf, 1.0),
    ),
    _cosine("pearson", "Pearson's correlation with human scores"),
    _cosine("spearman", "Spearman's correlation with human scores"),
    _cosine("dev_pearson", "Pearson's correlation on the dev set, used to stop training"),
    Metric(
        "mse",
        "mean squared error of the predicted scores",
        bounds=(0.0, math.inf),
        higher_is_better=False,
    ),
    Metric(
        "paired_accuracy", "share of query pairs with both nearer to their own answer", chance=0.25
    ),
)
_SHARES = {
    "accuracy": "test accuracy of a classifier on frozen vectors, rounded as SentEval rounds",
    "exact_accuracy": "test accuracy of a classifier on frozen vectors, not rounded",
    "dev_accuracy": "accuracy on the rows used to choose the regularisation",
    "macro_f1": "mean of the classes' F1",
    "f1": "F1 of the class 1",
    "recall": "share of the rows of a class for which the class is predicted; recall@k: share of a "
    "query's answers among the k nearest sources",
    "mrr": "mean of 1 / rank of a query's first answer; 0 if it is not among the k nearest sources",
    "ndcg": "gain of the answers, discounted by log2(1 + rank), over that of the best ranking",
}
"""Explanations of metrics in [0, 1] that have no further properties."""


def _check_metric(metric: Metric) -> None:
    """Raise an InputError if a metric of another package would hide or break other scores."""
    ScoreKey(metric.name)
    ScoreKey(metric.name, 1)  # Both refuse names such as a_of_b.
    if metric.title and titled_metrics().get(metric.title, metric) is not metric:
        raise InputError(f"the title {metric.title!r} is taken; choose another title")
    for part in metric.components:
        if not METRICS.has_name(part):
            raise InputError(f"unknown component {part!r}{nearest(part, METRICS)}")


METRICS = Register(
    "polarity_bench.metrics",
    Metric,
    {each.name: each for each in (*_METRICS, *starmap(Metric, _SHARES.items()))},
    check=_check_metric,
)
"""Metrics by name. Those with a title are in the order of columns."""


def versions_of_scores() -> dict[str, str]:
    """Return the versions of metrics and weightings, for the environment of a result."""
    every: list[Metric | Weighting] = [*METRICS.values(), *WEIGHTINGS.values()]
    return {f"version of {each.name}": str(each.version) for each in every}


def metric_of(name: str) -> Metric:
    """Return a metric; for one that is not installed or a column of groups, an unknown metric."""
    return METRICS.get(name) or Metric(name, "", bounds=(-math.inf, math.inf), has_interval=False)


def titled_metrics(most_detail: int = 4) -> dict[str, Metric]:
    """Return the metrics with columns in tables of retrieval tasks, by title.

    Args:
        most_detail: Largest `detail` of the metrics.
    """
    return {m.title: m for m in METRICS.values() if m.title and m.detail <= most_detail}
