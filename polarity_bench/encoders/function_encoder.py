"""A function of your own as an encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.values import FloatArray, IntArray, digest_of

PROBES = ("A good film.", "A bad film.", "It rains in Oslo today, and nobody minds.", "no")
"""Texts whose vectors identify a function."""


class FunctionEncoder:
    """A function from a list of texts to their vectors, (b, d), as an encoder.

    Two functions are the same encoder if they give the same vectors of a few probe texts. Vectors
    are not kept on disk.
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
        """Call the function on one batch of texts, (b, d)."""
        vectors = np.asarray(self._function(list(texts)), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise InputError(
                f"`encoder`: the function must return an array of shape ({len(texts)}, d) for "
                f"{len(texts)} texts, got {vectors.shape}"
            )
        return vectors
