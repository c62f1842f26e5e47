"""Scores of your own vectors, without a task file or an encoder."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from polarity_bench.data.split import Split
from polarity_bench.embedding.embedder import EmbeddedTexts, Embedder
from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.baselines import UnpaddedEncoder
from polarity_bench.errors import InputError, check_at_least, check_known
from polarity_bench.metrics.register import metric_of
from polarity_bench.scores import WEIGHTINGS, Score
from polarity_bench.tasks.types.polarity.splits import PolarityProtocol
from polarity_bench.tasks.types.polarity.task import PolaritySpec, PolarityTask
from polarity_bench.values import FloatArray


def score(
    queries: ArrayLike,
    sources: ArrayLike,
    query_labels: Sequence[Hashable],
    source_labels: Sequence[Hashable],
    *,
    reference_queries: ArrayLike | None = None,
    reference_sources: ArrayLike | None = None,
    k: int = 16,
    weighting: str = "linear",
) -> dict[str, Score]:
    """Score polarity retrieval with your own vectors.

    Args:
        queries: Vectors of the queries, (q, d). Queries must not be among the sources, because a
            query would retrieve itself.
        sources: Vectors of the sources, (n, d).
        query_labels: Label of each query, (q,).
        source_labels: Label of each source, (n,).
        reference_queries: Vectors of the queries from the reference encoder, (q, e). By default, S
            uses the same vectors as P.
        reference_sources: Vectors of the sources from the reference encoder, (n, e).
        k: Number of sources to retrieve for each query.
        weighting: Weighting of the ranks.

    Returns:
        Scores keyed by metric, as fractions with 95 % intervals. `polarity` is P and `similarity`
        is S. The other keys include `retention`, `joint`, `front` and `knn_accuracy`. Joint and
        front are negative below chance, which tables show as 0.

    Raises:
        InputError: If the numbers of vectors and labels differ, if a vector is zero or not finite,
            if only one of the reference arguments is given, if no source has the label of a query,
            if the sources have fewer than two labels, if the weighting is unknown, or if k is below
            1 or above the number of sources.

    Example:
        >>> east, north = [1.0, 0.0], [0.0, 1.0]
        >>> scores = score([east, north], [east, north, north], "ab", "abb", k=1)
        >>> scores["polarity"].mean, scores["similarity"].mean
        (1.0, 1.0)
    """
    check_at_least(1, k=k)
    check_known(weighting, WEIGHTINGS, f"unknown `weighting` {weighting!r}")
    names = {label: str(i) for i, label in enumerate(dict.fromkeys(source_labels))}
    if missing := [label for label in query_labels if label not in names]:
        raise InputError(f"`query_labels`: no source has the label {missing[0]!r}")
    if len(names) < 2:
        raise InputError(
            "`source_labels`: the sources must have at least two labels, because P is chance with "
            f"one, got {', '.join(map(repr, names)) or 'no label'}"
        )
    if (reference_queries is None) != (reference_sources is None):
        raise InputError(
            "give both `reference_queries` and `reference_sources`, or neither of them"
        )
    source = _split("source", [names[label] for label in source_labels])
    query = _split("query", [names[label] for label in query_labels])
    fields: dict[str, Any] = {"name": "vectors", "protocol": PolarityProtocol(k=k)}
    spec = PolaritySpec.model_construct(**fields)
    task = PolarityTask(spec, source, query, 0, len(source), (k,))
    embedded = _embedded(task, queries, sources, "")
    reference = None
    if reference_queries is not None and reference_sources is not None:
        reference = _embedded(task, reference_queries, reference_sources, "reference_")
    scores = task.score(embedded, reference).scores
    return {
        key.metric: found
        for key, found in scores.items()
        if key == metric_of(key.metric).key(k, weighting)
    }


def _split(name: str, labels: Sequence[str]) -> Split:
    """Return a split with an invented text for each label, because tasks need distinct texts."""
    return Split(tuple(f"{name} {i}" for i in range(len(labels))), tuple(labels))


class _Lookup(UnpaddedEncoder):
    """Encoder that looks up vectors by text."""

    def __init__(self, name: str, rows: dict[str, FloatArray]) -> None:
        self.id = EncoderId(name=name, weights=name)
        self._rows = rows

    def encode(self, texts: Sequence[str]) -> FloatArray:
        return np.stack([self._rows[text] for text in texts])


def _embedded(
    task: PolarityTask, queries: ArrayLike, sources: ArrayLike, prefix: str
) -> EmbeddedTexts:
    """Return the vectors as embedded texts of the task."""
    rows: dict[str, FloatArray] = {}
    sides = ("queries", queries, task.query), ("sources", sources, task.source)
    for name, array, split in sides:
        vectors = np.asarray(array, dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(split):
            raise InputError(
                f"`{prefix}{name}`: expected vectors of shape ({len(split)}, d), one per label, "
                f"got {vectors.shape}"
            )
        rows |= dict(zip(split.texts, vectors, strict=True))
    return Embedder().embed(_Lookup(f"{prefix}vectors", rows), task.texts)
