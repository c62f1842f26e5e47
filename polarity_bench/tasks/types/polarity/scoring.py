"""Scores of polarity retrieval.

Sources are retrieved once, at the largest k. All metrics at all values of k are computed from this
retrieval.

Shapes: q queries, n sources, d dimensions, k retrieved sources.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polarity_bench.data.split import Split
from polarity_bench.embedding.arrays import Embeddings
from polarity_bench.embedding.embedder import EmbeddedTexts
from polarity_bench.metrics import polarity, sentence_pairs
from polarity_bench.metrics.register import METRICS, Neighbours, Ranking, metric_of
from polarity_bench.metrics.statistics import SEED, Bootstrap, Resampling
from polarity_bench.retrieval import Retrieval, cosine_at, mean_cosine, pair_similarity, top_k
from polarity_bench.scores import WEIGHTINGS, Score, ScoreKey
from polarity_bench.tasks.types.base import TaskScores
from polarity_bench.tasks.types.polarity.oracle import nearest_of_own_label
from polarity_bench.tasks.types.polarity.splits import PolarityData, numbers
from polarity_bench.values import BoolArray, FloatArray, IntArray, grouped

N_PAIRS = 20_000
_P_CHANCE, _S_CHANCE = ScoreKey("polarity_chance"), ScoreKey("similarity_chance")
_PAIRWISE = ScoreKey("pairwise_accuracy")

Values = dict[ScoreKey, FloatArray]
"""Values per query, (q,), keyed by score, for scores that are means over queries."""


@dataclass(frozen=True)
class TaskRetrieval:
    """Retrieval for one task by one encoder.

    Attributes:
        task: The task with its texts and labels.
        source: Embeddings of the sources.
        query: Embeddings of the queries.
        retrieval: Sources retrieved for each query, at the largest k of the task.
    """

    task: PolarityData
    source: Embeddings
    query: Embeddings
    retrieval: Retrieval

    def cosine_at(self, found: Retrieval) -> FloatArray:
        """Return this encoder's cosine between each query and each retrieved source, (q, k).

        Args:
            found: Sources retrieved for the same queries, by this or another encoder.
        """
        is_own = found is self.retrieval or found is self.oracle
        if is_own and self.source.similarity == "cosine":
            return found.similarity
        return cosine_at(self.query, self.source, found.index)

    @cached_property
    def oracle(self) -> Retrieval:
        """Retrieval of the oracle with this encoder, computed on first use."""
        labels = label_codes(self.task)
        k, excluded = self.retrieval.k, self.task.equal_texts
        return nearest_of_own_label(self.query, self.source, *labels, k, excluded=excluded)


def rank(task: PolarityData, embedded: EmbeddedTexts) -> TaskRetrieval:
    """Retrieve sources for each query, at the largest k of the task.

    Sources with the same text as the query are excluded.
    """
    query, source = embedded.for_retrieval(task.query.texts, task.source.texts)
    retrieval = top_k(query, source, task.ks[-1], excluded=task.equal_texts)
    return TaskRetrieval(task, source, query, retrieval)


def polarity_scores(
    task: PolarityData, ours: TaskRetrieval, reference: TaskRetrieval | None
) -> TaskScores:
    """Compute all scores of one encoder on one task.

    Args:
        task: The task with its texts and labels.
        ours: Retrieval by the encoder under test.
        reference: Retrieval by the reference encoder; None if the encoder under test is the
            reference.
    """
    values = values_per_query(task, ours, reference)
    drawn = task.resampling
    bootstrap = Bootstrap(values, resampling=drawn)
    scores = {key: bootstrap.score(key) for key in values}
    for key in scores:  # Queries of other parts have no value, but are not undefined.
        if key.part is not None:
            scores[key] = replace(scores[key], n_undefined=0)
    from_means = [metric for metric in METRICS.values() if metric.of_means]
    for k, weighting, metric in product(task.ks, WEIGHTINGS, from_means):
        scores[metric.key(k, weighting)] = derived_score(bootstrap, metric.name, k, weighting)
    scores[ScoreKey("sgts")] = _sgts(task, ours)
    if task.design.pair is not None:
        scores[_PAIRWISE] = _pairwise(task, ours)
    arrays: dict[str, NDArray[Any]] = {
        str(key): array.astype(np.float32) for key, array in values.items()
    }
    arrays["retrieved_index"] = ours.retrieval.index.astype(np.int32)
    arrays["retrieved_similarity"] = ours.retrieval.similarity.astype(np.float32)
    if drawn is not None:
        arrays["resampled_units"] = drawn.units.astype(np.int32)
        arrays["resampled_strata"] = drawn.strata.astype(np.int32)
    return TaskScores(scores, arrays)


def without_reference(scored: TaskScores) -> TaskScores:
    """Return a copy with reference-based scores set to NaN, for a reference that is missing."""
    undefined = Score.single(math.nan, 0)
    referring = {key for key in scored.scores if metric_of(key.metric).needs_reference}
    scores = {key: undefined if key in referring else s for key, s in scored.scores.items()}
    names = {*map(str, referring)}
    arrays = {name: array for name, array in scored.arrays.items() if name not in names}
    return TaskScores(scores, arrays)


def values_per_query(
    task: PolarityData, ours: TaskRetrieval, reference: TaskRetrieval | None
) -> Values:
    """Compute all metrics that have a value per query, for all values of k and weightings.

    Args:
        task: The task with its texts and labels.
        ours: Retrieval by the encoder under test.
        reference: Retrieval by the reference encoder; None if the encoder under test is the
            reference.
    """
    theirs = reference or ours
    query_labels, source_labels = label_codes(task)
    values = {
        _P_CHANCE: polarity.chance_polarity(query_labels, source_labels),
        _S_CHANCE: mean_cosine(theirs.query, theirs.source),
    }
    breakdown = task.design.breakdown
    cells = np.asarray(task.query.columns[breakdown] if breakdown else ())
    parts = {str(part): cells == part for part in np.unique(cells)}
    whole = [ours.retrieval, theirs.retrieval, theirs.oracle]
    with_cosines = [(each.index, theirs.cosine_at(each)) for each in whole]
    per_query = [metric for metric in METRICS.values() if metric.of_queries]
    for k in task.ks:
        first, *others = (
            Neighbours(index[:, :k], cosine[:, :k], query_labels, source_labels)
            for index, cosine in with_cosines
        )
        found = Ranking(**vars(first), reference=others[0], oracle=others[1])
        weighted = [metric for metric in per_query if metric.is_weighted]
        for w in WEIGHTINGS:
            values |= {metric.key(k, w): metric.values(found, w) for metric in weighted}
            for column in task.design.groups:
                query_codes, source_codes = _codes(
                    task.query.columns[column], task.source.columns[column]
                )
                same = source_codes[found.index] == query_codes[:, None]
                values[ScoreKey(column, k, w)] = polarity.polarity(same, w)
            for part, rows in parts.items():
                p = values[ScoreKey("polarity", k, w)]
                values[ScoreKey("polarity", k, w, part)] = np.where(rows, p, np.nan)
        unweighted = [metric for metric in per_query if not metric.is_weighted]
        values |= {metric.key(k, "linear"): metric.values(found, "linear") for metric in unweighted}
    return values


def derived_score(
    bootstrap: Bootstrap[ScoreKey], metric: str, k: int, weighting: str = "linear"
) -> Score:
    """Return the score of `retention`, `joint` or `front`, with its bootstrap interval.

    Args:
        bootstrap: Bootstrap of the values per query.
        metric: Metric to compute.
        k: Number of retrieved sources.
        weighting: Weighting of the ranks.
    """
    return bootstrap.derived(lambda means: derived(means, metric, k, weighting))


def derived(
    means: Mapping[ScoreKey, FloatArray], metric: str, k: int, weighting: str = "linear"
) -> FloatArray:
    """Compute `retention`, `joint` or `front` from means of scores.

    Args:
        means: Means, keyed by score, as arrays of the same shape.
        metric: Metric to compute.
        k: Number of retrieved sources.
        weighting: Weighting of the ranks.
    """
    by_metric = {key.metric: means[key] for key in component_keys(metric, k, weighting)}
    of_means = METRICS[metric].of_means
    assert of_means is not None  # noqa: S101  The caller chooses such metrics.
    return of_means(by_metric)


def score_of_queries(main: ScoreKey, arrays: Mapping[str, NDArray[Any]], rows: BoolArray) -> Score:
    """Compute a derived score over some of the queries from their stored values.

    Args:
        main: Key of the score: `retention`, `joint` or `front`.
        arrays: Values per query of a stored result.
        rows: Mask of the queries to include, (q,).

    Returns:
        The score, which is NaN with fewer than two queries, or without a reference.
    """
    assert main.k is not None  # noqa: S101  all derived scores have a k
    keys = component_keys(main.metric, main.k, main.weighting)
    n_queries = int(rows.sum())
    if n_queries < 2 or not {*map(str, keys)} <= {*arrays}:
        return Score.single(math.nan, n_queries)
    drawn = None
    if (units := arrays.get("resampled_units")) is not None:
        renumbered = np.unique(units[rows], return_inverse=True)[1]
        drawn = Resampling(renumbered, arrays["resampled_strata"][rows])
    values = {key: arrays[str(key)][rows].astype(np.float64) for key in keys}
    bootstrap = Bootstrap(values, resampling=drawn)
    return derived_score(bootstrap, main.metric, main.k, main.weighting)


def component_keys(metric: str, k: int, weighting: str = "linear") -> list[ScoreKey]:
    """Return the keys of the scores whose means determine a score."""
    return [METRICS[name].key(k, weighting) for name in METRICS[metric].components]


def label_codes(task: PolarityData) -> tuple[IntArray, IntArray]:
    """Return the labels of queries, (q,), and sources, (n,), as integer codes."""
    return _codes(task.query.labels, task.source.labels)


def _codes(first: Sequence[str], second: Sequence[str]) -> tuple[IntArray, IntArray]:
    """Encode the values of two columns as integers. Equal values have the same code."""
    codes = numbers([*first, *second])
    return codes[: len(first)], codes[len(first) :]


def _sgts(task: PolarityData, ours: TaskRetrieval) -> Score:
    query_labels, source_labels = label_codes(task)
    sizes = len(query_labels), len(source_labels)
    queries, sources = sentence_pairs.draw_pairs(*sizes, N_PAIRS, SEED)
    cosine = pair_similarity(ours.query, ours.source, queries, sources)
    correlation = sentence_pairs.sentiment_guided_similarity(
        cosine, query_labels[queries] == source_labels[sources]
    )
    return Score.single(correlation, N_PAIRS)


def _pairwise(task: PolarityData, ours: TaskRetrieval) -> Score:
    """Return the pairwise accuracy over minimal pairs.

    Each minimal pair of queries is compared with every minimal pair of sources on the same subject.
    The value of a query pair is the mean over these comparisons, so intervals count a query pair as
    one observation. The value is NaN if no source pair has the same subject.
    """
    query_pairs, source_pairs = _twins(task, task.query), _twins(task, task.source)
    compared = [
        (number, *query_pair, *source_pair)
        for number, (subject, query_pair) in enumerate(query_pairs)
        for other, source_pair in source_pairs
        if subject == other
    ]
    table = np.asarray(compared, dtype=np.int64).reshape(-1, 5)
    number, query, twin, source, source_twin = table.T

    def cosine(queries: IntArray, sources: IntArray) -> FloatArray:
        return pair_similarity(ours.query, ours.source, queries, sources)

    right = sentence_pairs.pairwise_accuracy(
        cosine(query, source),
        cosine(query, source_twin),
        cosine(twin, source_twin),
        cosine(twin, source),
    )
    n_pairs = max(len(query_pairs), 1)
    n_compared = np.bincount(number, minlength=n_pairs)
    n_right = np.bincount(number, right, minlength=n_pairs)
    per_pair = np.where(n_compared > 0, n_right / np.maximum(n_compared, 1), np.nan)
    first = [query_pair[0] for _, query_pair in query_pairs]
    strata = task.strata[first]
    pairs_themselves = Resampling(np.arange(len(strata)), strata) if query_pairs else None
    return Bootstrap({_PAIRWISE: per_pair}, resampling=pairs_themselves).score(_PAIRWISE)


def _twins(task: PolarityData, split: Split) -> list[tuple[tuple[str, ...], tuple[int, int]]]:
    """Return the minimal pairs of a split: subject, and positions of both twins sorted by label."""
    protocol = task.design
    if protocol.pair is None:
        return []
    rows = grouped(range(len(split)), split.columns[protocol.pair].__getitem__)
    complete = [sorted(pair, key=lambda i: split.labels[i]) for pair in rows.values()]
    return [
        (tuple(split.columns[group][pair[0]] for group in protocol.groups), (pair[0], pair[1]))
        for pair in complete
        if len(pair) == 2 and split.labels[pair[0]] != split.labels[pair[1]]
    ]
