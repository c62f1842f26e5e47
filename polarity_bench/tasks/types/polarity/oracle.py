"""The oracle: retrieval that knows the gold labels.

The oracle retrieves only sources with the query's label, most similar first. It therefore maximises
P and then S.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polarity_bench.embedding.arrays import ArrayStorage, Embeddings, gather
from polarity_bench.retrieval import Retrieval, top_k
from polarity_bench.values import FloatArray, IntArray


def nearest_of_own_label(
    query: Embeddings,
    source: Embeddings,
    query_labels: IntArray,
    source_labels: IntArray,
    k: int,
    *,
    excluded: Sequence[IntArray],
) -> Retrieval:
    """Retrieve the k nearest sources that have the query's label.

    If the label has fewer than k sources, the nearest sources of other labels fill the remaining
    ranks. No retrieval of k sources has a higher P. If the similarity is the cosine, as in S,
    no retrieval with the same P has a higher S.

    Args:
        query: Embeddings of the queries, (q, d).
        source: Embeddings of the sources, (n, d).
        query_labels: Label of each query, (q,).
        source_labels: Label of each source, (n,).
        k: Number of sources to retrieve. At least k sources per query must not be excluded.
        excluded: Positions of the excluded sources, one array per query.

    Returns:
        The retrieval: first sources of the query's label, then other sources. Both groups are
        sorted by similarity, and ties by position.
    """
    index = np.zeros((len(query), k), dtype=np.int64)
    similarity: FloatArray = np.zeros((len(query), k))

    def retrieve(rows: IntArray, positions: IntArray, ranks: slice) -> None:
        queries, sources = _take(query, rows), _take(source, positions)
        not_allowed = [barred[row] for row in rows.tolist()]
        nearest = top_k(queries, sources, ranks.stop - ranks.start, excluded=not_allowed)
        index[rows, ranks], similarity[rows, ranks] = positions[nearest.index], nearest.similarity

    barred = list(excluded)
    n_same = np.zeros(len(query), dtype=np.int64)
    for label in np.unique(query_labels):
        rows, same = np.flatnonzero(query_labels == label), np.flatnonzero(source_labels == label)
        for row in rows.tolist():
            own = excluded[row][source_labels[excluded[row]] == label]
            barred[row] = np.searchsorted(same, own)
            n_same[row] = min(len(same) - len(own), k)
        for n in np.unique(n_same[rows]):  # `n` is k, unless the label has fewer than k sources.
            if n > 0:
                retrieve(rows[n_same[rows] == n], same, slice(0, n))
        for row in rows[n_same[rows] < k].tolist():
            barred[row] = np.union1d(excluded[row], same)
    for n in np.unique(n_same[n_same < k]):  # All labels at once, because this ranks all sources.
        retrieve(np.flatnonzero(n_same == n), np.arange(len(source)), slice(n, k))
    return Retrieval(index, similarity)


def _take(embeddings: Embeddings, rows: IntArray) -> Embeddings:
    """Return some rows of embeddings, stored in a temporary file if they are large."""
    return Embeddings(gather(embeddings.vectors, rows, ArrayStorage()), embeddings.similarity)
