"""Exact top-k retrieval by cosine similarity. The only place that ranks.

Similarities are exact. Every vector is brought to unit length and rounded to a multiple of 2^-26,
that is, to integers of at most 26 bits whose products and partial sums stay below 2^53: a float64
matrix product of such vectors rounds nothing. So a similarity does not depend on the machine, the
BLAS, the number of threads or the block that it fell into, equal vectors tie exactly, and ties go
to the earlier source. The rounding moves a cosine by about 1e-8, less than float32 does.

Shapes: n sources, q queries, d dimensions, k ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polarity_bench.types import Embeddings, FloatArray, IntArray, Retrieval

_SCALE = float(2**26)
_FIRST_BLOCK = 1024  # small: it only sets the threshold that later sources must pass
_BLOCK = 16_384
_QUERY_BLOCK = 1024


def top_k(
    query: Embeddings,
    source: Embeddings,
    k: int,
    *,
    excluded: Sequence[Sequence[int] | IntArray] | None = None,
) -> Retrieval:
    """Retrieve the k sources of greatest cosine similarity to each query.

    Memory beyond the embeddings is bounded by the blocks: about 0.6 GB at 1,000 dimensions,
    however many sources there are.

    Args:
        query: Embeddings of the queries, (q, d).
        source: Embeddings of the sources, (n, d).
        k: How many sources to retrieve, at least 1.
        excluded: For each query the positions of the sources that it must not retrieve.

    Returns:
        The retrieval, nearest first, ties in order of position.

    Raises:
        ValueError: If k is below 1, or a query has fewer than k sources to retrieve from.
    """
    n_excluded = max(map(len, excluded), default=0) if excluded is not None else 0
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    if len(source) - n_excluded < k:
        raise ValueError(f"k = {k} needs as many sources, there are {len(source) - n_excluded}")
    index = np.empty((len(query), k), dtype=np.int64)
    similarity = np.empty((len(query), k))
    for start in range(0, len(query), _QUERY_BLOCK):
        rows = slice(start, min(start + _QUERY_BLOCK, len(query)))
        barred = excluded[rows] if excluded is not None else None
        index[rows], similarity[rows] = _top_k_of_block(query.vectors[rows], source, k, barred)
    return Retrieval(index, similarity)


def cosine_at(query: Embeddings, source: Embeddings, index: IntArray) -> FloatArray:
    """Return the cosine similarity of each query to the sources at these positions.

    Args:
        query: Embeddings of the queries, (q, d).
        source: Embeddings of the sources, (n, d).
        index: Positions in the source, (q, k).

    Returns:
        Cosine similarities, (q, k), equal to those of `top_k` to the last bit.
    """
    similarity: FloatArray = np.empty(index.shape)
    for start in range(0, len(query), 256):
        rows = slice(start, start + 256)
        units = _units(query.vectors[rows])
        found = _units(source.vectors[index[rows].ravel()]).reshape(*index[rows].shape, -1)
        similarity[rows] = np.einsum("qd,qkd->qk", units, found)
    return _cosine(similarity)


def mean_cosine(query: Embeddings, source: Embeddings) -> FloatArray:
    """Return the mean cosine similarity of each query to all sources, (q,).

    It is what retrieval at random would score.
    """
    total = np.zeros(source.vectors.shape[1])
    for start in range(0, len(source), _BLOCK):
        total += _units(source.vectors[start : start + _BLOCK]).sum(axis=0)
    return _cosine(_units(query.vectors) @ (total / len(source)))


def pair_cosine(first: Embeddings, second: Embeddings) -> FloatArray:
    """Return the cosine similarity of each row of the one to the same row of the other, (n,)."""
    return cosine_at(first, second, np.arange(len(first))[:, None])[:, 0]


def _units(vectors: FloatArray) -> FloatArray:
    """Bring rows to length 2^26 and round them to integers; float64, whose products are exact."""
    wide = np.asarray(vectors, dtype=np.float64)
    lengths = np.sqrt(np.einsum("nd,nd->n", wide, wide))
    units: FloatArray = np.rint(wide * (_SCALE / lengths)[:, None])
    return units


def _cosine(product: FloatArray) -> FloatArray:
    cosine: FloatArray = np.clip(product / _SCALE**2, -1.0, 1.0)  # a unit may be 1e-7 too long
    return cosine


def _top_k_of_block(
    vectors: FloatArray,
    source: Embeddings,
    k: int,
    excluded: Sequence[Sequence[int] | IntArray] | None,
) -> tuple[IntArray, FloatArray]:
    units = _units(vectors)
    barred = _pairs(excluded)
    best_index: IntArray = np.empty((len(units), 0), dtype=np.int64)
    best: FloatArray = np.empty((len(units), 0))
    start, stop = 0, min(len(source), max(_FIRST_BLOCK, k))
    while start < len(source):
        similarity = units @ _units(source.vectors[start:stop]).T
        if barred is not None:
            inside = (barred[1] >= start) & (barred[1] < stop)
            similarity[barred[0][inside], barred[1][inside] - start] = -np.inf
        best_index, best = _merge(best_index, best, similarity, start, k)
        start, stop = stop, min(len(source), stop + _BLOCK)
    return best_index, _cosine(best)


def _pairs(excluded: Sequence[Sequence[int] | IntArray] | None) -> tuple[IntArray, IntArray] | None:
    if excluded is None:
        return None
    lengths = [len(positions) for positions in excluded]
    columns = [np.asarray(positions, dtype=np.int64) for positions in excluded]
    return np.repeat(np.arange(len(lengths)), lengths), np.concatenate(columns)


def _merge(
    best_index: IntArray, best: FloatArray, similarity: FloatArray, start: int, k: int
) -> tuple[IntArray, FloatArray]:
    """Merge a block of similarities into the best so far.

    A later source must be strictly nearer than the k-th best so far, since it loses every tie, so
    few pass; only the first block, which has no threshold yet, is partitioned.
    """
    if best.shape[1] == 0:
        threshold = np.partition(similarity, -k, axis=1)[:, -k]
        row, column = np.nonzero(similarity >= threshold[:, None])
    else:
        row, column = np.nonzero(similarity > best[:, -1:])
        if not len(row):
            return best_index, best
    held = np.repeat(np.arange(len(best)), best.shape[1])
    rows = np.concatenate([held, row])
    positions = np.concatenate([best_index.ravel(), column + start])
    values = np.concatenate([best.ravel(), similarity[row, column]])
    order = np.lexsort((positions, -values, rows))
    first = np.searchsorted(rows[order], np.arange(len(best)))
    chosen = order[first[:, None] + np.arange(k)]
    return positions[chosen], values[chosen]
