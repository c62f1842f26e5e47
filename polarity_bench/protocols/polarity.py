"""Polarity retrieval: rank once at the largest k, then score every metric at every k.

Scores are named as mteb names its own: `polarity_at_16` is weighted linearly, the papers'
equation; `polarity_uniform_at_16` uniformly, as their released code computed it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from polarity_bench.data.load import PolarityData
from polarity_bench.metrics import pairs, polarity, similarity
from polarity_bench.metrics.statistics import SEED, Bootstrap
from polarity_bench.retrieval import cosine_at, mean_cosine, pair_cosine, top_k
from polarity_bench.types import (
    WEIGHTINGS,
    BoolArray,
    Embeddings,
    FloatArray,
    IntArray,
    Retrieval,
    Score,
    Split,
    Weighting,
)

N_PAIRS = 20_000


@dataclass(frozen=True)
class EmbeddedTask:
    """The embeddings of a task's sources and queries under one encoder."""

    source: Embeddings
    query: Embeddings


@dataclass(frozen=True)
class PolarityScores:
    """All scores of a task, with what they were made of.

    Attributes:
        scores: Scores by name; P, S and the like in [0, 1] or [-1, 1].
        values: Values per query by metric name, (q,) each.
        retrieval: The sources retrieved at the largest k.
    """

    scores: dict[str, Score]
    values: dict[str, FloatArray]
    retrieval: Retrieval


def score_name(metric: str, weighting: Weighting, k: int) -> str:
    """Name a score: `polarity_at_16`, `polarity_uniform_at_16`."""
    return f"{metric}_at_{k}" if weighting == "linear" else f"{metric}_{weighting}_at_{k}"


def score_polarity(
    data: PolarityData,
    embedded: EmbeddedTask,
    *,
    reference: EmbeddedTask | None = None,
    ks: Sequence[int] = (16,),
) -> PolarityScores:
    """Score one encoder on one task.

    Args:
        data: The task's texts and labels.
        embedded: The encoder's embeddings of them.
        reference: The reference encoder's, the encoder itself by default.
        ks: How many sources to score; retrieved once, at the largest.
    """
    excluded = _equal_texts(data)
    found = top_k(embedded.query, embedded.source, max(ks), excluded=excluded)
    if reference is None:
        reference, reference_found = embedded, found
        reference_cosine = found.similarity
    else:
        reference_found = top_k(reference.query, reference.source, max(ks), excluded=excluded)
        reference_cosine = cosine_at(reference.query, reference.source, found.index)

    query_labels, source_labels = _codes(data.query.labels, data.source.labels)
    values = {
        "polarity_chance": polarity.chance_polarity(query_labels, source_labels),
        "similarity_chance": mean_cosine(reference.query, reference.source),
    }
    for k in sorted(set(ks)):
        index, theirs = found.at(k).index, reference_found.at(k)
        labels = source_labels[index]
        hits = labels == query_labels[:, None]
        for weighting in WEIGHTINGS:

            def name(metric: str, k: int = k, weighting: Weighting = weighting) -> str:
                return score_name(metric, weighting, k)

            p = polarity.polarity(hits, weighting)
            values[name("polarity")] = p
            values[name("similarity")] = similarity.similarity(reference_cosine[:, :k], weighting)
            values[name("similarity_reference")] = similarity.similarity(
                theirs.similarity, weighting
            )
            values[name("knn_accuracy")] = polarity.neighbour_vote(query_labels, labels, weighting)
            for column in data.spec.protocol.groups:
                same = _same_group(data, column, index)
                values[name(column)] = polarity.polarity(same, weighting)
            for part, rows in _parts(data.query, data.spec.protocol.breakdown):
                values[name(f"polarity_of_{part}")] = np.where(rows, p, np.nan)
        values[f"overlap_at_{k}"] = similarity.overlap(index, theirs.index)

    bootstrap = Bootstrap(values)
    scores = {metric: bootstrap.score(metric) for metric in values}
    parts = {part for part, _ in _parts(data.query, data.spec.protocol.breakdown)}
    for metric in scores:  # the queries of other parts are no undefined ones of this
        if any(metric.startswith(f"polarity_of_{part}_") for part in parts):
            scores[metric] = replace(scores[metric], n_undefined=0)
    for k in sorted(set(ks)):
        for weighting in WEIGHTINGS:
            scores |= _derived(bootstrap, k, weighting)
    scores["sgts"] = _sgts(embedded, query_labels, source_labels)
    if data.spec.protocol.pair is not None:
        scores["pairwise_accuracy"] = _pairwise(data, embedded)
    return PolarityScores(scores, values, found)


def _derived(bootstrap: Bootstrap, k: int, weighting: Weighting) -> dict[str, Score]:
    def name(metric: str) -> str:
        return score_name(metric, weighting, k)

    def retention(means: Mapping[str, FloatArray]) -> FloatArray:
        return similarity.retention(
            means[name("similarity")],
            means["similarity_chance"],
            means[name("similarity_reference")],
        )

    def joint(means: Mapping[str, FloatArray]) -> FloatArray:
        kept = retention(means)
        return similarity.joint(means[name("polarity")], means["polarity_chance"], kept)

    return {
        name("retention"): bootstrap.derived(retention),
        name("joint"): bootstrap.derived(joint),
    }


def _equal_texts(data: PolarityData) -> list[IntArray]:
    """For each query, the sources of equal text: itself, which it must not retrieve."""
    positions: dict[str, list[int]] = {text: [] for text in data.query.texts}
    for i, text in enumerate(data.source.texts):
        if text in positions:
            positions[text].append(i)
    return [np.asarray(positions[text], dtype=np.int64) for text in data.query.texts]


def _codes(first: Sequence[str], second: Sequence[str]) -> tuple[IntArray, IntArray]:
    """Number the values of two columns alike."""
    _, codes = np.unique([*first, *second], return_inverse=True)
    return codes[: len(first)], codes[len(first) :]


def _same_group(data: PolarityData, column: str, index: IntArray) -> BoolArray:
    queries, sources = _codes(data.query.columns[column], data.source.columns[column])
    same: BoolArray = sources[index] == queries[:, None]
    return same


def _parts(query: Split, column: str | None) -> list[tuple[str, BoolArray]]:
    if column is None:
        return []
    cells = np.asarray(query.columns[column])
    return [(str(part), cells == part) for part in np.unique(cells)]


def _sgts(embedded: EmbeddedTask, query_labels: IntArray, source_labels: IntArray) -> Score:
    queries, sources = pairs.draw_pairs(len(query_labels), len(source_labels), N_PAIRS, SEED)
    cosine = pair_cosine(_take(embedded.query, queries), _take(embedded.source, sources))
    correlation = pairs.sentiment_guided_similarity(
        cosine, query_labels[queries] == source_labels[sources]
    )
    return Score.single(correlation, N_PAIRS)


def _pairwise(data: PolarityData, embedded: EmbeddedTask) -> Score:
    """Compare every minimal pair of queries with every one of sources on the same subject.

    The value of a query pair is its mean over the source pairs, so that intervals treat what one
    pair of sentences decides as one observation; nan where no source pair shares its subject.
    """
    query_pairs, source_pairs = _twins(data, data.query), _twins(data, data.source)
    compared = [
        (number, *query_pair, *source_pair)
        for number, (subject, query_pair) in enumerate(query_pairs)
        for other, source_pair in source_pairs
        if subject == other
    ]
    table = np.asarray(compared, dtype=np.int64).reshape(-1, 5)
    number, query, twin, source, source_twin = table.T

    def cosine(queries: IntArray, sources: IntArray) -> FloatArray:
        return pair_cosine(_take(embedded.query, queries), _take(embedded.source, sources))

    right = pairs.pairwise_accuracy(
        cosine(query, source),
        cosine(query, source_twin),
        cosine(twin, source_twin),
        cosine(twin, source),
    )
    n_pairs = max(len(query_pairs), 1)
    n_compared = np.bincount(number, minlength=n_pairs)
    n_right = np.bincount(number, right, minlength=n_pairs)
    per_pair = np.where(n_compared > 0, n_right / np.maximum(n_compared, 1), np.nan)
    return Bootstrap({"pairwise_accuracy": per_pair}).score("pairwise_accuracy")


def _twins(data: PolarityData, split: Split) -> list[tuple[tuple[str, ...], tuple[int, int]]]:
    """The minimal pairs of a split: what they speak of, and the positions in order of label."""
    protocol = data.spec.protocol
    if protocol.pair is None:
        return []
    rows: dict[str, list[int]] = {}
    for i, pair in enumerate(split.columns[protocol.pair]):
        rows.setdefault(pair, []).append(i)
    complete = [sorted(pair, key=lambda i: split.labels[i]) for pair in rows.values()]
    return [
        (tuple(split.columns[group][pair[0]] for group in protocol.groups), (pair[0], pair[1]))
        for pair in complete
        if len(pair) == 2 and split.labels[pair[0]] != split.labels[pair[1]]
    ]


def _take(embeddings: Embeddings, positions: IntArray) -> Embeddings:
    return Embeddings(embeddings.vectors[positions], embeddings.encoder)
