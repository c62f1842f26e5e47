"""The oracle: retrieval that knows the gold labels.

The oracle retrieves only sources with the query's label, most similar first. It therefore maximises
P and then S.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polarity_bench.embedding.arrays import ArrayStorage, Embeddings, gather
from polarity_bench.retrieval import Retrieval, top_k
from polarity_bench.values import BoolArray, FloatArray, IntArray


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

    def retrieve(rows: IntArray, among: BoolArray, ranks: slice) -> None:
        positions = np.flatnonzero(among)
        not_allowed = [excluded[row] for row in rows.tolist()]
        not_allowed = [np.searchsorted(positions, each[among[each]]) for each in not_allowed]
        queries, sources = _take(query, rows), _take(source, positions)
        nearest = top_k(queries, sources, ranks.stop - ranks.start, excluded=not_allowed)
        index[rows, ranks], similarity[rows, ranks] = positions[nearest.index], nearest.similarity

    for label in np.unique(query_labels):
        rows, same = np.flatnonzero(query_labels == label), source_labels == label
        n_excluded = np.array([np.count_nonzero(same[excluded[row]]) for row in rows.tolist()])
        n_same = np.minimum(np.count_nonzero(same) - n_excluded, k)
        for n in np.unique(n_same):  # `n` is k, unless a label has fewer than k sources.
            if n > 0:
                retrieve(rows[n_same == n], same, slice(0, n))
            if n < k:
                retrieve(rows[n_same == n], ~same, slice(n, k))
    return Retrieval(index, similarity)


def _take(embeddings: Embeddings, rows: IntArray) -> Embeddings:
    """Return some rows of embeddings, stored in a temporary file if they are large."""
    return Embeddings(gather(embeddings.vectors, rows, ArrayStorage()), embeddings.similarity)
