"""Exact top-k retrieval by cosine similarity or inner product. All ranking happens in this module.

Similarities are exact. Each vector is scaled to the length 2^26, and its values are rounded to
integers of at most 26 bits. The products and partial sums of two such vectors stay below 2^53, so
float64 computes them without rounding. A similarity therefore does not depend on the machine, the
BLAS, the number of threads or the block. Equal vectors tie exactly, and the earlier source of a tie
ranks first. The rounding of the values changes a cosine by about 1e-8, less than float32 does.

For encoders that are compared by inner product, the sources keep their relative lengths: all are
divided by the length of the longest source. Each query is divided by its own length, which does not
change its ranking.

Only a few products need to be exact. A float32 matrix product with a known error bound first
excludes most sources. Only the sources that may be among the k nearest are scored exactly.

Shapes: n sources, b sources in a block, q queries, d dimensions, k ranks, m candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from polarity_bench.embedding.arrays import Embeddings
from polarity_bench.values import FloatArray, IntArray

_SCALE = float(2**26)
_BLOCK = 16_384  # sources processed at once
_QUERY_BLOCK = 1024  # queries processed at once
_EXACT_ROWS = 128  # queries whose products with a block are computed in float64 at once
_PAIRS = 256  # query-source pairs scored at once; their vectors should fit in the CPU cache
_CROWDED = 1 / 32  # share of candidates above which scoring the whole block at once is faster
_GROUP = 16  # sources per group; only the nearest source of a group affects the threshold


def top_k(
    query: Embeddings,
    source: Embeddings,
    k: int,
    *,
    excluded: Sequence[Sequence[int] | IntArray] = (),
) -> Retrieval:
    """Retrieve the k most similar sources of each query, by the encoder's similarity function.

    Apart from the embeddings and the result, the memory does not grow with the numbers of sources
    and queries: 0.2 GB at 384 dimensions, 0.4 GB at 1,000.

    Args:
        query: Embeddings of the queries, (q, d).
        source: Embeddings of the sources, (n, d).
        k: Number of sources to retrieve, at least 1.
        excluded: For each query, the positions of the sources that it must not retrieve; ()
            excludes no source.

    Returns:
        The retrieved sources, nearest first, with ties in order of position.

    Raises:
        ValueError: If k is below 1, or a query has fewer than k sources to retrieve from.
    """
    n_excluded = max(map(len, excluded), default=0)
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    if len(source) - n_excluded < k:
        raise ValueError(
            f"k must be at most the {len(source) - n_excluded} sources of a query, got {k}"
        )
    index = np.zeros((len(query), k), dtype=np.int64)
    product = np.full((len(query), k), -np.inf)  # every -inf is replaced below
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
    """Return the similarity of each query to the sources at the positions `index`, (q, k).

    The values equal those of `top_k` to the last bit.
    """
    longest = _longest(source)
    return _similarity(_products_at(query, source, index, longest), query, longest)


def cosine_at(query: Embeddings, source: Embeddings, index: IntArray) -> FloatArray:
    """Return the cosine of each query and the sources at the positions `index`, (q, k).

    This function also returns cosines for encoders that are compared by inner product.
    """
    return _cosine(_products_at(query, source, index, None))


def mean_cosine(query: Embeddings, source: Embeddings) -> FloatArray:
    """Return the mean cosine similarity of each query to all sources, (q,).

    The mean is the expected similarity under random retrieval.
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
    """Return the length of the longest source, or None if the encoder is compared by cosine."""
    if source.similarity == "cosine":
        return None
    blocks = _blocks(len(source), _BLOCK)
    return float(max(_lengths(source.vectors[rows]).max() for rows in blocks))


def _units(vectors: FloatArray, length: float | None = None) -> FloatArray:
    """Return rows scaled to length 2^26 and rounded to integers, (n, d) float64.

    The float64 products of such rows are exact.

    Args:
        vectors: Rows to scale, (n, d).
        length: Length that is scaled to 2^26; no row may be longer. None scales each row by its own
            length.
    """
    units: FloatArray = np.array(vectors, dtype=np.float64)
    lengths = _lengths(units) if length is None else np.array([length])
    units *= (_SCALE / lengths)[:, None]
    return np.rint(units, out=units)


def _lengths(vectors: FloatArray) -> FloatArray:
    """Return the length of each row, (n,). It is bit-identical for any number of other rows.

    numpy buffers 8,192 numbers. It sums a longer row in a different order if the array has only one
    row. Blocks of at most 8,192 columns avoid this difference.
    """
    squared: FloatArray = np.zeros(len(vectors))
    for columns in _blocks(vectors.shape[1], 8192):
        values = np.asarray(vectors[:, columns], dtype=np.float64)
        squared += np.einsum("nd,nd->n", values, values)
    return np.sqrt(squared)


def _cosine(product: FloatArray) -> FloatArray:
    cosine: FloatArray = np.clip(
        product / _SCALE**2, -1.0, 1.0
    )  # rounded vectors may be 1e-7 too long
    return cosine


def _similarity(product: FloatArray, query: Embeddings, longest: float | None) -> FloatArray:
    """Undo the scaling of products, (q, k).

    Args:
        product: Products of scaled queries and sources, (q, k).
        query: The queries, before scaling.
        longest: Length of the longest source.

    Returns:
        Inner products, or cosines if `longest` is None.
    """
    cosine = _cosine(product)
    if longest is None:
        return cosine
    for rows in _blocks(len(query), _BLOCK):
        cosine[rows] *= (_lengths(query.vectors[rows]) * longest)[:, None]
    return cosine


def _blocks(n: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def _pairs(excluded: Sequence[Sequence[int] | IntArray]) -> tuple[IntArray, IntArray]:
    """Flatten lists of positions, one per query, into ascending query numbers and positions."""
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

    Float32 products differ from the exact products by less than `error`. Hence the exact products
    of at least k sources, and of each of the k nearest, exceed t = (k-th greatest float32 product)
    - error. The k nearest also exceed the k-th greatest product of earlier blocks, because earlier
    sources win ties. Their float32 products therefore exceed the greater of these two bounds minus
    `error`.

    Args:
        query: Scaled queries, see `_units`, (q, d).
        source: Scaled sources, (b, d).
        rough_source: The scaled sources in float32, (b, d).
        barred: Rows and columns of the excluded pairs.
        least: The k-th greatest product of each query in earlier blocks, (q,).
        k: Number of sources to retrieve.

    Returns:
        Rows, columns and products of the candidates, each (m,).
    """
    with np.errstate(invalid="ignore"):  # OpenBLAS may set the flag for finite numbers
        rough = np.matmul(query.astype(np.float32), rough_source.T)
    rough[barred] = -np.inf
    error = _error(query.shape[1])
    near = _nearly_kth(rough, k)
    broken = np.isnan(near)  # rows with NaN are scored exactly
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
    """Return a bound on the error of the float32 product of two scaled vectors u and s.

    Let e = 2^-24. Rounding an integer to float32 changes it by at most e times its value. This
    changes the product of the vectors by at most 2e + e^2 times the sum of |u_i s_i|, and this sum
    is at most |u| |s|. The d products and d - 1 sums, in any order, fused or not, add an error of
    at most de / (1 - de) times the same sum (Higham 2002, Accuracy and Stability of Numerical
    Algorithms, section 3.1). Integers do not underflow. |u| is at most 2^26 + sqrt(d) / 2. The
    factor 1.01 covers this excess and the terms in e^2 up to d = 100,000. Another 2e cover the
    rounding of the threshold to float32.

    Args:
        d: Number of dimensions.
    """
    return 1.01 * (d + 4) * 2.0**-24 * _SCALE**2


def _nearly_kth(rough: FloatArray, k: int) -> FloatArray:
    """Return a lower bound of the k-th greatest value of each row, (q,).

    The bound is the k-th greatest of the maxima of groups of columns. It is NaN if the row contains
    NaN.
    """
    n_queries, width = rough.shape
    group = max(1, min(_GROUP, width // (4 * k)))
    grouped = width // group * group
    # The columns of a group are width // group apart, so the maximum reads memory in order.
    maxima = rough[:, :grouped].reshape(n_queries, group, -1).max(axis=1)
    maxima = np.concatenate([maxima, rough[:, grouped:]], axis=1)  # each other column is a group
    broken = np.isnan(maxima).any(axis=1)
    kth = np.full(n_queries, -np.inf)
    if width >= k:
        maxima.partition(maxima.shape[1] - k, axis=1)
        kth = maxima[:, -k].astype(np.float64)
    kth[broken] = np.nan
    return kth


def _first_k(exact: FloatArray, least: FloatArray, k: int) -> tuple[IntArray, IntArray]:
    """Find the k greatest values above `least` in each row; earlier columns win ties.

    Returns:
        Rows and columns of the values, each (m,).
    """
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
    """Merge the candidates of a block into the k nearest so far, in place.

    Earlier sources win ties.

    Args:
        index: Positions of the k nearest sources so far, (q, k).
        product: Products of the k nearest sources so far, (q, k).
        row: Query of each candidate, (m,).
        position: Position of each candidate, (m,).
        exact: Product of each candidate, (m,).
    """
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
    """The k nearest sources of each query, nearest first, with ties in order of position.

    Attributes:
        index: Positions of the sources, (q, k) int64.
        similarity: Cosines, or inner products if the encoder is compared by inner product,
            (q, k) float64.
    """

    index: IntArray
    similarity: FloatArray

    @property
    def k(self) -> int:
        """Number of sources retrieved for each query."""
        return int(self.index.shape[1])

    def at(self, k: int) -> Retrieval:
        """Return the retrieval cut to the first k ranks.

        Raises:
            ValueError: If k is below 1 or above the number of retrieved ranks.
        """
        if not 1 <= k <= self.k:
            raise ValueError(
                f"k must be from 1 to {self.k}, the number of retrieved ranks, got {k}"
            )
        return Retrieval(self.index[:, :k], self.similarity[:, :k])
