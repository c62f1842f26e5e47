"""Encoders made from a user's function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.values import FloatArray, IntArray, digest_of

PROBES = ("A good film.", "A bad film.", "It rains in Oslo today, and nobody minds.", "no")
"""Texts to encode with a function; their vectors identify the function."""


class FunctionEncoder:
    """Encoder that calls a user's function.

    Two functions are treated as the same encoder if they return the same vectors for the probe
    texts. Vectors are not cached on disk.

    Args:
        function: Function that takes a list of b texts and returns their vectors, (b, d).

    Raises:
        InputError: If the function returns an array of another shape.
    """

    def __init__(self, function: Callable[[list[str]], Any]) -> None:
        self._function = function
        name = getattr(function, "__name__", type(function).__name__)
        vectors = [[float(value) for value in row] for row in self.encode(PROBES)]
        self.id = EncoderId(name=name, weights=f"function {digest_of(vectors)}")

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Return the number of words of each text, (n,)."""
        return np.array([len(text.split()) for text in texts], dtype=np.int64)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return the function's vectors of one batch, (b, d) float32."""
        vectors = np.asarray(self._function(list(texts)), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise InputError(
                f"`encoder`: the function must return an array of shape ({len(texts)}, d) for "
                f"{len(texts)} texts, got {vectors.shape}"
            )
        return vectors
