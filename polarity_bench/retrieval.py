"""Exact top-k retrieval by cosine similarity or inner product. All ranking happens in this module.

Similarities are exact. Every vector is scaled to unit length and rounded to a multiple of 2^-26.
Its values are then integers of at most 26 bits, whose products and partial sums stay below 2^53, so
a float64 product of two vectors involves no rounding. A similarity therefore does not depend on the
machine, the BLAS, the number of threads or the block. Equal vectors tie exactly, and ties go to the
earlier source. The rounding changes a cosine by about 1e-8, less than float32 does.

For encoders that are compared by inner product, sources keep their relative lengths: they are
divided by the length of the longest, so that none exceeds unit length. A query is divided by its
own length, which does not change its ranking.

Few products need to be exact. A float32 matrix product with a known error bound screens the sources
first. Only the sources that may be among the k nearest are scored exactly and compared.

Shapes: n sources, b sources of a block, q queries, d dimensions, k ranks, m candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from polarity_bench.embedding.arrays import Embeddings
from polarity_bench.values import FloatArray, IntArray

_SCALE = float(2**26)
_BLOCK = 16_384  # sources
_QUERY_BLOCK = 1024
_EXACT_ROWS = 128  # queries whose products with a block are computed in float64 at once
_PAIRS = 256  # query-source pairs scored at once; they should fit in the CPU cache
_CROWDED = 1 / 32  # share of a block above which one exact matrix product beats single pairs
_GROUP = 16  # sources per group; only the nearest of a group counts for the threshold


def top_k(
    query: Embeddings,
    source: Embeddings,
    k: int,
    *,
    excluded: Sequence[Sequence[int] | IntArray] = (),
) -> Retrieval:
    """Retrieve the k most similar sources of each query, by the encoder's similarity function.

    Beyond the embeddings and the result, memory is bounded by the block size and does not grow with
    the number of sources and queries: 0.2 GB at 384 dimensions, 0.4 GB at 1,000.

    Args:
        query: Embeddings of the queries, (q, d).
        source: Embeddings of the sources, (n, d).
        k: Number of sources to retrieve, at least 1.
        excluded: For each query, the positions of the sources that it must not retrieve; () if
            every query may retrieve all.

    Returns:
        The retrieval, nearest first, ties in order of position.

    Raises:
        ValueError: If k is below 1, or a query has fewer than k sources to retrieve from.
    """
    n_excluded = max(map(len, excluded), default=0)
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    if len(source) - n_excluded < k:
        raise ValueError(f"k = {k} needs as many sources, there are {len(source) - n_excluded}")
    index = np.zeros((len(query), k), dtype=np.int64)
    product = np.full((len(query), k), -np.inf)  # placeholders, all replaced
    barred = _pairs(excluded)
    longest = _longest(source)
    for start in range(0, len(source), _BLOCK):
        units = _units(source.vectors[start : start + _BLOCK], longest)
        rough = units.astype(np.float32)
        for rows in _blocks(len(query), _QUERY_BLOCK):
            in_rows = slice(*np.searchsorted(barred[0], [rows.start, rows.stop]))
            in_block = (barred[1][in_rows] >= start) & (barred[1][in_rows] < start + len(units))
            cells = barred[0][in_rows][in_block] - rows.start, barred[1][in_rows][in_block] - start
            query_units = _units(query.vectors[rows])
            row, column, exact = _candidates(query_units, units, rough, cells, product[rows, -1], k)
            _merge(index[rows], product[rows], row, column + start, exact)
    return Retrieval(index, _similarity(product, query, longest))


def similarity_at(query: Embeddings, source: Embeddings, index: IntArray) -> FloatArray:
    """Return the similarity of each query to the sources at these positions, (q, k).

    The values equal those of `top_k` to the last bit.
    """
    longest = _longest(source)
    return _similarity(_products_at(query, source, index, longest), query, longest)


def cosine_at(query: Embeddings, source: Embeddings, index: IntArray) -> FloatArray:
    """Return the cosine of each query and the sources at these positions, (q, k).

    It is the cosine even if the encoder is compared by inner product.
    """
    return _cosine(_products_at(query, source, index, None))


def mean_cosine(query: Embeddings, source: Embeddings) -> FloatArray:
    """Return the mean cosine similarity of each query to all sources, (q,).

    This is the expected score of random retrieval.
    """
    total = np.zeros(source.vectors.shape[1])
    for rows in _blocks(len(source), _BLOCK):
        total += _units(source.vectors[rows]).sum(axis=0)
    return _cosine(_units(query.vectors) @ (total / len(source)))


def pair_similarity(first: Embeddings, second: Embeddings) -> FloatArray:
    """Return the similarity of each row of `first` to the same row of `second`, (n,)."""
    return similarity_at(first, second, np.arange(len(first))[:, None])[:, 0]


def _products_at(
    query: Embeddings, source: Embeddings, index: IntArray, longest: float | None
) -> FloatArray:
    product: FloatArray = np.empty(index.shape)
    for rows in _blocks(len(query), 256):
        query_units = _units(query.vectors[rows])
        source_units = _units(source.vectors[index[rows].ravel()], longest)
        source_units = source_units.reshape(*index[rows].shape, -1)
        product[rows] = np.einsum("qd,qkd->qk", query_units, source_units)
    return product


def _longest(source: Embeddings) -> float | None:
    """Return the length of the longest source; None if the encoder is compared by cosine."""
    if source.similarity == "cosine":
        return None
    blocks = _blocks(len(source), _BLOCK)
    return float(max(_lengths(source.vectors[rows]).max() for rows in blocks))


def _units(vectors: FloatArray, length: float | None = None) -> FloatArray:
    """Scale rows to length 2^26 and round them to integers, as float64; their products are exact.

    Args:
        vectors: Rows to scale.
        length: Length that becomes 2^26, at least that of each row; None uses each row's own.
    """
    units: FloatArray = np.array(vectors, dtype=np.float64)
    lengths = _lengths(units) if length is None else np.array([length])
    units *= (_SCALE / lengths)[:, None]
    return np.rint(units, out=units)


def _lengths(vectors: FloatArray) -> FloatArray:
    """Return the length of each row, (n,), to the same bits however many rows there are.

    numpy buffers 8,192 numbers. It sums a longer row in a different order if the row is alone, so
    the sums are taken over blocks of columns.
    """
    squared: FloatArray = np.zeros(len(vectors))
    for columns in _blocks(vectors.shape[1], 8192):
        values = np.asarray(vectors[:, columns], dtype=np.float64)
        squared += np.einsum("nd,nd->n", values, values)
    return np.sqrt(squared)


def _cosine(product: FloatArray) -> FloatArray:
    cosine: FloatArray = np.clip(product / _SCALE**2, -1.0, 1.0)  # a unit may be 1e-7 too long
    return cosine


def _similarity(product: FloatArray, query: Embeddings, longest: float | None) -> FloatArray:
    """Undo the scaling of products; return cosines, or inner products if `longest` is given."""
    cosine = _cosine(product)
    if longest is None:
        return cosine
    for rows in _blocks(len(query), _BLOCK):
        cosine[rows] *= (_lengths(query.vectors[rows]) * longest)[:, None]
    return cosine


def _blocks(n: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def _pairs(excluded: Sequence[Sequence[int] | IntArray]) -> tuple[IntArray, IntArray]:
    """Flatten a list of positions per query into row numbers, ascending, and positions."""
    lengths = [len(positions) for positions in excluded]
    columns = [np.asarray(positions, dtype=np.int64) for positions in excluded]
    rows = np.repeat(np.arange(len(lengths)), lengths)
    return rows, np.concatenate([*columns, np.empty(0, dtype=np.int64)])


def _candidates(
    query: FloatArray,
    source: FloatArray,
    rough_source: FloatArray,
    barred: tuple[IntArray, IntArray],
    least: FloatArray,
    k: int,
) -> tuple[IntArray, IntArray, FloatArray]:
    """Find the sources of a block that may be among the k nearest, and score them exactly.

    Rough products differ from the exact ones by less than `error`. Hence at least k sources have a
    product above t = (k-th greatest rough product) - error, and so has each of the k nearest. Each
    of them also exceeds the k-th best of earlier blocks, because it would lose a tie. Its rough
    product therefore exceeds the greater of these two bounds minus the error.

    Args:
        query: Scaled queries, see `_units`, (q, d).
        source: Scaled sources, (b, d).
        rough_source: The scaled sources in float32.
        barred: Rows and columns of the excluded pairs.
        least: The k-th greatest product of each query in earlier blocks, (q,).
        k: Number of sources to retrieve.

    Returns:
        Rows, columns and products of the candidates, each (m,).
    """
    with np.errstate(invalid="ignore"):  # OpenBLAS was seen to raise the flag on finite numbers
        rough = np.matmul(query.astype(np.float32), rough_source.T)
    rough[barred] = -np.inf
    error = _error(query.shape[1])
    near = _nearly_kth(rough, k)
    broken = np.isnan(near)  # such rows are scored exactly
    threshold = np.maximum(least, np.where(broken, -np.inf, near) - error) - error
    passed = rough > threshold.astype(np.float32)[:, None]
    crowded = broken | (np.count_nonzero(passed, axis=1) > _CROWDED * len(source))
    passed[crowded] = False
    row, column = np.divmod(np.flatnonzero(passed), len(source))  # np.nonzero is slow on 2-D arrays
    product = np.empty(len(row))
    for pairs in _blocks(len(row), _PAIRS):
        product[pairs] = np.einsum("md,md->m", query[row[pairs]], source[column[pairs]])
    candidates = [(row, column, product)]
    for block in _blocks(int(crowded.sum()), _EXACT_ROWS):
        rows = np.flatnonzero(crowded)[block]
        with np.errstate(invalid="ignore"):
            exact = query[rows] @ source.T
        exact[np.isneginf(rough[rows])] = -np.inf
        row, column = _first_k(exact, least[rows], k)
        candidates.append((rows[row], column, exact[row, column]))
    rows, columns, products = (np.concatenate(parts) for parts in zip(*candidates, strict=True))
    return rows, columns, products


def _error(d: int) -> float:
    """Return a bound on the error of a float32 product of two integer vectors of length 2^26.

    Let e = 2^-24. Rounding an integer to float32 changes it by at most e times its value, and so
    changes the product of the vectors by at most 2e + e^2 times the sum of |u_i s_i|, which is at
    most |u| |s|. The d products and d - 1 sums, in any order, fused or not, add at most
    de / (1 - de) times the same sum (Higham, Accuracy and Stability of Numerical Algorithms,
    section 3.1). Integers do not underflow. |u| is at most 2^26 + sqrt(d) / 2. The factor 1.01
    covers this excess and the terms in e^2 up to d = 100,000. Two further e cover the rounding of
    the threshold to float32.
    """
    return 1.01 * (d + 4) * 2.0**-24 * _SCALE**2


def _nearly_kth(rough: FloatArray, k: int) -> FloatArray:
    """Return a lower bound of the k-th greatest value of each row, (q,).

    It is the k-th greatest of the maxima of groups of columns, and nan if the row contains a nan.
    """
    n_queries, width = rough.shape
    group = max(1, min(_GROUP, width // (4 * k)))
    grouped = width // group * group
    # Columns of a group lie width // group apart, so that the maximum reads memory in order.
    maxima = rough[:, :grouped].reshape(n_queries, group, -1).max(axis=1)
    maxima = np.concatenate([maxima, rough[:, grouped:]], axis=1)  # the rest, one column each
    broken = np.isnan(maxima).any(axis=1)
    kth = np.full(n_queries, -np.inf)
    if width >= k:
        maxima.partition(maxima.shape[1] - k, axis=1)
        kth = maxima[:, -k].astype(np.float64)
    kth[broken] = np.nan
    return kth


def _first_k(exact: FloatArray, least: FloatArray, k: int) -> tuple[IntArray, IntArray]:
    """Find the k greatest values of each row above `least`; ties go to the earlier column."""
    k = min(k, exact.shape[1])
    kth = np.partition(exact, -k, axis=1)[:, -k]
    above = exact > np.maximum(kth, least)[:, None]
    tied = (exact == kth[:, None]) & (kth > least)[:, None]
    room = k - np.count_nonzero(above, axis=1)
    above |= tied & (np.cumsum(tied, axis=1, dtype=np.int32) <= room[:, None])
    row, column = np.divmod(np.flatnonzero(above), exact.shape[1])
    return row, column


def _merge(
    index: IntArray, product: FloatArray, row: IntArray, position: IntArray, exact: FloatArray
) -> None:
    """Merge the candidates of a block into the k nearest so far, in place; ties by position."""
    n_queries, k = index.shape
    rows = np.concatenate([np.repeat(np.arange(n_queries), k), row])
    positions = np.concatenate([index.ravel(), position])
    values = np.concatenate([product.ravel(), exact])
    order = np.lexsort((positions, -values, rows))
    first = np.searchsorted(rows[order], np.arange(n_queries))
    chosen = order[first[:, None] + np.arange(k)]
    index[:], product[:] = positions[chosen], values[chosen]


@dataclass(frozen=True)
class Retrieval:
    """The k nearest sources of each query, nearest first, ties by position in the source.

    Attributes:
        index: Positions in the source, (q, k) int64.
        similarity: Cosine similarities, or inner products if the encoder is compared by them,
            (q, k) float64.
    """

    index: IntArray
    similarity: FloatArray

    @property
    def k(self) -> int:
        """Number of sources retrieved for each query."""
        return int(self.index.shape[1])

    def at(self, k: int) -> Retrieval:
        """Return the first k ranks."""
        if not 1 <= k <= self.k:
            raise ValueError(f"k must be between 1 and {self.k}, the ranks retrieved, got {k}")
        return Retrieval(self.index[:, :k], self.similarity[:, :k])
