"""Truncated and quantized vectors, as vector stores keep them to save space.

The store contains whole vectors. They are truncated and quantized when texts are retrieved, so all
settings of an encoder share their stored vectors, and its whole vectors can measure S.

Shapes: n texts, d dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from polarity_bench.encoders.base import Encoder, EncoderId, Quantization
from polarity_bench.errors import InputError
from polarity_bench.values import FloatArray

_ROWS = 8192
"""Number of rows to quantize at once."""


def compressed(
    encoder: Encoder, truncate_dim: int | None, quantize: Quantization | None
) -> Encoder:
    """Return a copy of an encoder with other settings of compression; both share stored vectors.

    Raises:
        InputError: If the encoder has an axis, which compression would remove or distort.
    """
    if encoder.id.axis and (truncate_dim is not None or quantize is not None):
        option = "quantize" if truncate_dim is None else "truncate_dim"
        raise InputError(
            f"the encoder {encoder.id.name!r} has an axis, so `{option}` cannot be used; remove it"
        )
    changed: Any = copy(encoder)
    changed.id = replace(encoder.id, truncate_dim=truncate_dim, quantize=quantize)
    return changed  # type: ignore[no-any-return]  # copied from an encoder


def uncompressed(encoder: Encoder) -> Encoder | None:
    """Return the encoder of the whole vectors, or None if the encoder is not compressed."""
    return compressed(encoder, None, None) if encoder.id.is_compressed else None


def truncated(vectors: FloatArray, encoder: EncoderId) -> FloatArray:
    """Return the first dimensions of vectors, as a view.

    Raises:
        InputError: If the encoder has fewer dimensions, or a shortened vector is zero.
    """
    if (n_kept := encoder.truncate_dim) is None:
        return vectors
    check_dimension(encoder, vectors.shape[1])
    kept = vectors[:, :n_kept]
    if n_zero := np.count_nonzero(~kept.any(axis=1)):
        raise InputError(
            f"`truncate_dim` {n_kept}: the first dimensions of {n_zero} vectors of {encoder.name} "
            "are all zero; keep more dimensions"
        )
    return kept


def check_dimension(encoder: EncoderId, dimension: int) -> None:
    """Raise InputError if an encoder of a dimension cannot be truncated as its identity says."""
    if encoder.truncate_dim is not None and encoder.truncate_dim > dimension:
        raise InputError(
            f"`truncate_dim` must be at most {dimension}, the number of dimensions of "
            f"{encoder.name}, got {encoder.truncate_dim}"
        )


def quantized(
    vectors: FloatArray,
    calibration: FloatArray,
    kind: Quantization,
    new_array: Callable[[int, int], FloatArray],
) -> FloatArray:
    """Return the values that quantized vectors stand for, (n, d) float32.

    In int8, each dimension has 255 steps between its least and greatest value in the calibration,
    as in sentence-transformers. A code stands for the middle of its step; values outside are cut.
    In binary, a value stands for its sign, 1 or -1, so the inner product ranks by Hamming distance.

    Args:
        vectors: Vectors to quantize, (n, d).
        calibration: Vectors of the sources, which set the ranges of the dimensions.
        kind: Precision of the codes.
        new_array: Function that allocates an array of n rows and d columns.
    """
    values = new_array(*vectors.shape)
    ranges = np.stack([calibration.min(axis=0), calibration.max(axis=0)])
    for start in range(0, len(vectors), _ROWS):
        rows = slice(start, start + _ROWS)
        values[rows] = _decoded(vectors[rows], ranges, kind)
    return values


def _decoded(vectors: FloatArray, ranges: FloatArray, kind: Quantization) -> FloatArray:
    if kind == "binary":
        return np.where(vectors > 0, np.float32(1), np.float32(-1))
    from sentence_transformers.util import quantize_embeddings

    steps = (ranges[1] - ranges[0]) / 255
    codes: Any = quantize_embeddings(vectors, "int8", ranges=ranges)
    return np.asarray((codes + np.float32(128.5)) * steps + ranges[0])
