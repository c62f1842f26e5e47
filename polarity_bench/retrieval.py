"""Exact top-k retrieval by cosine similarity or inner product. All ranking happens in this module.

Similarities are exact. Each vector is scaled to the length 2^26, and its values are rounded to
integers of at most 26 bits. The products and partial sums of two such vectors stay below 2^53, so
float64 computes them without rounding. A similarity therefore does not depend on the machine, the
BLAS, the number of threads or the block. Equal vectors tie exactly, and the earlier source of a tie
ranks first. The rounding of the values changes a cosine by about 1e-8, less than float32 does.

If the similarity is the inner product, the sources keep their relative lengths: all are divided by
the length of the longest source. Each query is divided by its own length, which does not
change its ranking.

Only a few products need to be exact. A float32 matrix product with a known error bound first
excludes most sources. Only the sources that may be among the k nearest are scored exactly. If there
are few pairs of queries and sources, all are scored exactly, which does not need torch.

Shapes: n sources, b sources in a block, q queries, d dimensions, k ranks, m candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from polarity_bench.embedding.arrays import Embeddings
from polarity_bench.encoders.base import multiplies_bfloat16
from polarity_bench.values import FloatArray, IntArray

if TYPE_CHECKING:
    from torch import Tensor

_SCALE = float(2**26)
_BLOCK = 16_384  # sources processed at once
_QUERY_BLOCK = 1024  # queries processed at once
_EXACT_ROWS = 128  # queries whose products with a block are computed in float64 at once
_PAIRS = 256  # query-source pairs scored at once; their vectors should fit in the CPU cache
_CROWDED = 1 / 32  # share of candidates above which scoring the whole block at once is faster
_SMALL = 2**20  # number of pairs up to which exact products take less time than importing torch
_LARGE = 2**23  # number of pairs from which products in bfloat16 save time overall
_SHRUNK = 0.98  # length of queries in rough products, which therefore stay below 1
_SAFE = 1e15  # vectors up to this length have squares that float32 can represent
_GROUP = 16  # sources per group; only the nearest source of a group affects the threshold

_NONE: IntArray = np.empty(0, dtype=np.int64)


def top_k(
    query: Embeddings,
    source: Embeddings,
    k: int,
    *,
    excluded: Sequence[Sequence[int] | IntArray] = (),
) -> Retrieval:
    """Retrieve the k most similar sources of each query, by the encoder's similarity function.

    Memory use, apart from the embeddings and the result, does not depend on the number of sources
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
    n_pairs = len(query) * len(source)
    in_bfloat16 = n_pairs >= _LARGE and multiplies_bfloat16()
    is_small = n_pairs <= _SMALL
    rough = None if is_small else _memory(len(query), len(source), in_bfloat16)
    for start in range(0, len(source), _BLOCK):
        vectors = source.vectors[start : start + _BLOCK]
        screen = None if is_small else _rough(vectors, longest, in_bfloat16)
        # With few queries, few sources need exact products, and scaling all takes longer.
        units = _units(vectors, longest) if len(query) > _QUERY_BLOCK else None
        for rows in _blocks(len(query), _QUERY_BLOCK):
            in_rows = slice(*np.searchsorted(barred[0], [rows.start, rows.stop]))
            in_block = (barred[1][in_rows] >= start) & (barred[1][in_rows] < start + len(vectors))
            cells = barred[0][in_rows][in_block] - rows.start, barred[1][in_rows][in_block] - start
            query_units = _units(query.vectors[rows])
            row, column = _NONE, _NONE
            crowded: IntArray = np.arange(len(query_units))
            if screen is not None and rough is not None:
                (row, column), crowded = _screen(
                    query_units, *screen, rough, cells, product[rows, -1], k
                )
            if units is None:
                needed, at = np.unique(column, return_inverse=True)
                exact = _pair_products(query_units, row, _units(vectors[needed], longest), at)
            else:
                exact = _pair_products(query_units, row, units, column)
            if len(crowded):
                of_all = _units(vectors, longest) if units is None else units
                more = _crowded_candidates(
                    query_units, of_all, cells, crowded, product[rows, -1], k
                )
                parts = zip((row, column, exact), more, strict=True)
                row, column, exact = (np.concatenate(pair) for pair in parts)
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

    This function also returns cosines if the encoder's similarity is the inner product.
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


def pair_similarity(
    query: Embeddings, source: Embeddings, row: IntArray, column: IntArray
) -> FloatArray:
    """Return the similarity of pairs: the query at each row to the source at each column, (m,).

    Each vector is scaled once, however many pairs it is in.
    """
    rows, row = np.unique(row, return_inverse=True)
    columns, column = np.unique(column, return_inverse=True)
    queries, sources = query.vectors[rows], source.vectors[columns]
    longest = _longest(Embeddings(sources, source.similarity))
    product = _pair_products(_units(queries), row, _units(sources, longest), column)
    cosine = _cosine(product)
    return cosine if longest is None else cosine * (_lengths(queries) * longest)[row]


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
    """Return the length of the longest source vector, or None if the similarity is the cosine."""
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
    # Rounded vectors may be 1e-7 too long.
    return np.asarray(np.clip(product / _SCALE**2, -1.0, 1.0))


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
    return rows, np.concatenate([*columns, _NONE])


def _screen(
    query: FloatArray,
    rough_source: Tensor,
    source_error: float,
    product: Tensor,
    barred: tuple[IntArray, IntArray],
    least: FloatArray,
    k: int,
) -> tuple[tuple[IntArray, IntArray], IntArray]:
    """Find the sources of a block that may be among the k nearest.

    Rough products differ from `_SHRUNK` times the exact products by less than `error`. Hence the
    scaled exact products exceed t = (k-th greatest rough product) - error for at least k sources,
    and for each of the k nearest. The k nearest also exceed the k-th greatest product of earlier
    blocks, because earlier sources win ties. Their rough products therefore exceed the greater of
    these two bounds minus `error`.

    Args:
        query: Scaled queries, see `_units`, (q, d).
        rough_source: Sources, see `_rough`, (b, d).
        source_error: Bound on the error of `rough_source`, see `_rough`.
        product: Memory for the rough products, at least (q, b + `_GROUP`).
        barred: Rows and columns of the excluded pairs.
        least: The k-th greatest product of each query in earlier blocks, (q,).
        k: Number of sources to retrieve.

    Returns:
        Rows and columns of the candidates, each (m,), and the rows with so many candidates that
        one exact matrix product is faster. These rows have no candidates in the first lists.
    """
    import torch

    in_bfloat16 = rough_source.dtype == torch.bfloat16
    rough_query, query_error = _rounded(query * (_SHRUNK / _SCALE), in_bfloat16)
    n_sources = len(rough_source)
    n_in_group = max(1, min(_GROUP, n_sources // (4 * k)))
    rough = product[: len(query), : n_sources + -n_sources % n_in_group]
    torch.mm(rough_query, rough_source.T, out=rough[:, :n_sources])
    rough[:, n_sources:] = -torch.inf
    rough[tuple(map(torch.from_numpy, barred))] = -torch.inf
    error = _error(query.shape[1], in_bfloat16) + query_error + source_error
    # Columns of a group lie as far apart as there are groups, so that maxima read memory in order.
    groups = rough.view(len(query), n_in_group, -1)
    maxima = groups.amax(dim=1).float().numpy()
    near = _nearly_kth(maxima, k)
    broken = np.isnan(near)  # rows with NaN are scored exactly
    bound = (
        np.maximum(least * (_SHRUNK / _SCALE**2), np.where(broken, -np.inf, near) - error) - error
    )
    most = _CROWDED * n_sources
    is_near = maxima > bound[:, None]
    crowded = broken | (np.count_nonzero(is_near, axis=1) > most)
    is_near[crowded] = False
    row, group = np.divmod(np.flatnonzero(is_near), maxima.shape[1])  # faster than np.nonzero
    members = groups[torch.from_numpy(row), :, torch.from_numpy(group)].float().numpy()
    which, place = np.nonzero(members > bound[row, None])
    row, column = row[which], group[which] + place * maxima.shape[1]
    crowded |= np.bincount(row, minlength=len(query)) > most
    pair = np.sort((row * rough.shape[1] + column)[~crowded[row]])
    return np.divmod(pair, rough.shape[1]), np.flatnonzero(crowded)


def _pair_products(
    query: FloatArray, row: IntArray, source: FloatArray, column: IntArray
) -> FloatArray:
    """Return the exact products of pairs of scaled queries and sources, (m,)."""
    product: FloatArray = np.empty(len(row))
    for pairs in _blocks(len(row), _PAIRS):
        product[pairs] = np.einsum("md,md->m", query[row[pairs]], source[column[pairs]])
    return product


def _crowded_candidates(
    query: FloatArray,
    source: FloatArray,
    barred: tuple[IntArray, IntArray],
    crowded: IntArray,
    least: FloatArray,
    k: int,
) -> tuple[IntArray, IntArray, FloatArray]:
    """Score all sources of a block exactly for some queries.

    Returns:
        Rows, columns and products of the k nearest of each query, each (m,).
    """
    found = []
    for block in _blocks(len(crowded), _EXACT_ROWS):
        chosen = crowded[block]
        with np.errstate(invalid="ignore"):
            exact = query[chosen] @ source.T
        is_barred = np.isin(barred[0], chosen)
        exact[np.searchsorted(chosen, barred[0][is_barred]), barred[1][is_barred]] = -np.inf
        row, column = _first_k(exact, least[chosen], k)
        found.append((chosen[row], column, exact[row, column]))
    rows, columns, products = map(np.concatenate, zip(*found, strict=True))
    return rows, columns, products


def _memory(n_queries: int, n_sources: int, in_bfloat16: bool) -> Tensor:
    """Return memory for the rough products of blocks; new memory for each would take longer."""
    import torch

    shape = min(n_queries, _QUERY_BLOCK), min(n_sources, _BLOCK) + _GROUP
    return torch.empty(shape, dtype=torch.bfloat16 if in_bfloat16 else torch.float32)


def _rough(vectors: FloatArray, length: float | None, in_bfloat16: bool) -> tuple[Tensor, float]:
    """Scale rows to unit length, as `_units` does to 2^26, but with a known error.

    Args:
        vectors: Rows to scale.
        length: Length that becomes 1, at least that of each row; None uses each row's own.
        in_bfloat16: Whether to round to bfloat16.

    Returns:
        The rows, (b, d) bfloat16 or float32, and the length of the greatest error of a row.
    """
    d = vectors.shape[1]
    if length is not None:
        return _rounded(vectors / np.float64(length), in_bfloat16)
    with np.errstate(over="ignore", under="ignore"):
        lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))
    # The squares of other lengths may overflow or underflow.
    if not (lengths.min() > _SAFE**-1 and lengths.max() < _SAFE):
        lengths = _lengths(vectors)
    rough, error = _rounded(vectors / lengths[:, None], in_bfloat16)
    # d squares and d - 1 sums change the squared length by at most d e, e = 2^-24, and the root
    # halves this; the root and the quotient are rounded, and values may underflow.
    return rough, error + 1.01 * (d / 2 + 4) * 2.0**-24


def _rounded(vectors: FloatArray, in_bfloat16: bool) -> tuple[Tensor, float]:
    """Round rows of at most unit length to bfloat16 or float32.

    Returns:
        The rows, and the length of the greatest error of a row.
    """
    import torch

    exact = torch.from_numpy(np.asarray(vectors, dtype=np.float32))
    if not in_bfloat16:
        return exact, 2.0**-23
    rough = exact.bfloat16()
    changes = (exact - rough.float()).numpy()
    squares = np.einsum("nd,nd->n", changes, changes)
    return rough, 1.01 * float(np.sqrt(squares.max(initial=0))) + 2.0**-23


def _error(d: int, in_bfloat16: bool) -> float:
    """Return a bound on the error that a rough product adds to that of its vectors.

    Let e = 2^-24. The d products and d - 1 sums in float32, in any order, fused or not, add at most
    de / (1 - de) times the sum of |u_i s_i|, which is at most 1 (Higham 2002, Accuracy and
    Stability of Numerical Algorithms, section 3.1). Four times this covers processors that round
    the sums of bfloat16 products otherwise. A result in bfloat16 is below 1, see `_SHRUNK`, so
    rounding it adds at most 2^-9. `_units` rounds values to multiples of 2^-26, which changes the
    exact product by at most sqrt(d) 2^-26. The factor 1.01 covers terms in e^2 up to d = 10,000.

    Args:
        d: Number of dimensions.
        in_bfloat16: Whether the product is computed in bfloat16.
    """
    sums: float = 1.01 * ((4 if in_bfloat16 else 1) * d + 0.25 * d**0.5 + 2) * 2.0**-24
    return sums + (2.0**-9 if in_bfloat16 else 0)


def _nearly_kth(maxima: FloatArray, k: int) -> FloatArray:
    """Return the k-th greatest of the groups' maxima in each row, (q,), or NaN if one is NaN.

    It is a lower bound of the k-th greatest value of the row.
    """
    n_queries, n_groups = maxima.shape
    if n_groups < k:
        return np.full(n_queries, -np.inf)
    kth = np.partition(maxima, n_groups - k, axis=1)[:, -k].astype(np.float64)
    kth[np.isnan(maxima).any(axis=1)] = np.nan
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
    """Merge the candidates of a block into the k nearest so far, in place; ties by position.

    Args:
        index: Positions of the k nearest so far, (q, k), all before those of the block.
        product: Their products, (q, k), descending.
        row: Rows of the candidates, (m,); those of one row have ascending positions.
        position: Their positions, (m,).
        exact: Their products, (m,).
    """
    n_queries, k = index.shape
    order = np.argsort(row, kind="stable")
    row, position, exact = row[order], position[order], exact[order]
    counts = np.bincount(row, minlength=n_queries)
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts) + k
    shape = n_queries, k + int(counts.max(initial=0))
    positions, values = np.zeros(shape, dtype=np.int64), np.full(shape, -np.inf)
    positions[:, :k], values[:, :k] = index, product
    positions[row, place], values[row, place] = position, exact
    nearest = np.argsort(-values, axis=1, kind="stable")[:, :k]
    index[:] = np.take_along_axis(positions, nearest, axis=1)
    product[:] = np.take_along_axis(values, nearest, axis=1)


@dataclass(frozen=True)
class Retrieval:
    """The k nearest sources of each query, nearest first, with ties in order of position.

    Attributes:
        index: Positions of the sources, (q, k) int64.
        similarity: Cosines or inner products, whichever the encoder uses, (q, k) float64.
    """

    index: IntArray
    similarity: FloatArray

    @property
    def k(self) -> int:
        """Number of sources retrieved for each query."""
        return int(self.index.shape[1])
