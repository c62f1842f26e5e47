"""Encoders without a model: vectors from hashes, equal on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from polarity_bench.embedding.arrays import Embeddings
from polarity_bench.encoders.base import EncoderId, Similarity
from polarity_bench.values import FloatArray, IntArray


class HashEncoder:
    """An encoder whose vectors are 16 numbers from a hash of the text."""

    stores_vectors = True

    def __init__(self, name: str = "hash", spoiled: Sequence[str] = (), spoil: float = 0.0) -> None:
        self.id: EncoderId = EncoderId(name=name, weights=f"hash-{name}")
        self.encoded: list[str] = []
        self._spoiled = spoiled
        self._spoil = spoil

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        return np.ones(len(texts), dtype=np.int64)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        self.encoded += texts
        vectors = np.stack([self._vector(text) for text in texts])
        for row, text in enumerate(texts):
            if text in self._spoiled:
                vectors[row] = self._spoil
        return vectors

    def _vector(self, text: str) -> FloatArray:
        key = self.id.name.encode()
        digest = hashlib.blake2b(text.encode(), digest_size=32, key=key).digest()
        return np.frombuffer(digest, dtype="<i2").astype(np.float32)


class BagEncoder(HashEncoder):
    """An encoder that averages hashed word vectors.

    It separates classes better than chance, but not perfectly. Texts without words share a vector.
    """

    stores_vectors = True

    def _vector(self, text: str) -> FloatArray:
        words = text.split() or [""]
        vectors = [super(BagEncoder, self)._vector(word) / 2**15 for word in words]
        mean: FloatArray = np.mean(vectors, axis=0, dtype=np.float32)
        return mean


def embeddings(vectors: FloatArray, similarity: Similarity = "cosine") -> Embeddings:
    return Embeddings(np.asarray(vectors, dtype=np.float32), similarity)
