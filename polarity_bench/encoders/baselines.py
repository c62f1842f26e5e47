"""Baselines: encoders that need no weights, to say what a score is worth.

`random` gives every text vectors that only equal texts share, `constant` gives all texts one
vector and `tfidf` counts words. The first two score chance; the last knows words but no meaning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from polarity_bench.encoders.word_vectors import Unpadded, WordVectorsEncoder
from polarity_bench.errors import InputError
from polarity_bench.types import Encoder, EncoderId, FloatArray


class RandomEncoder(Unpadded):
    """Vectors drawn from a normal distribution, seeded by the text."""

    id = EncoderId(name="random", weights="random-384-v1")

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Draw one vector a text, (b, 384) float32."""
        seeds = (hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts)
        generators = (np.random.default_rng(int.from_bytes(seed)) for seed in seeds)
        return np.stack([generator.standard_normal(384, np.float32) for generator in generators])


class ConstantEncoder(Unpadded):
    """One vector for all texts: everything ties, so only the source's order decides."""

    id = EncoderId(name="constant", weights="constant-8-v1")

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return the same vector for each text, (b, 8) float32."""
        return np.full((len(texts), 8), 0.5, dtype=np.float32)


class TfidfEncoder(Unpadded):
    """Bag of words, weighted by inverse document frequency over the texts of one task.

    Words and punctuation marks are hashed to 4,096 dimensions. The weights depend on the corpus,
    so that `for_corpus` must come first, and the vectors hold for one task alone.
    """

    id = EncoderId(name="tfidf", weights="tfidf-4096-v1")
    n_dimensions = 4096

    def __init__(self, idf: FloatArray | None = None) -> None:
        from sklearn.feature_extraction.text import HashingVectorizer

        self._idf = idf
        self._counter = HashingVectorizer(
            n_features=self.n_dimensions,
            token_pattern=r"(?u)\w+|[^\w\s]",  # noqa: S106  no password
            alternate_sign=False,
            norm=None,
        )

    def for_corpus(self, texts: Sequence[str]) -> TfidfEncoder:
        """Return the encoder weighted by the document frequencies of these texts."""
        counts = self._counter.transform(sorted(set(texts)))
        frequency = np.asarray((counts > 0).sum(axis=0)).ravel()
        return TfidfEncoder(np.log((1 + counts.shape[0]) / (1 + frequency)) + 1)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Weigh the words of each text, (b, 4096) float32."""
        if self._idf is None:
            raise RuntimeError("tfidf has no corpus yet; call for_corpus first")
        weighted = self._counter.transform(texts).toarray() * self._idf
        result: FloatArray = weighted.astype(np.float32)
        return result


BASELINES: dict[str, Callable[[], Encoder]] = {
    "random": RandomEncoder,
    "constant": ConstantEncoder,
    "tfidf": TfidfEncoder,
}
BASELINE_NAMES = (*BASELINES, "glove")


def load_baseline(name: str) -> Encoder:
    """Return the baseline of this name: `random`, `constant`, `tfidf` or `glove:FILE`.

    Raises:
        InputError: If an argument is missing, or given where none is taken.
    """
    kind, _, argument = name.partition(":")
    if kind == "glove":
        if not argument:
            raise InputError("the encoder 'glove': name the file of word vectors, glove:FILE")
        return WordVectorsEncoder(Path(argument).expanduser())
    if argument:
        raise InputError(f"the encoder {name!r}: the baseline {kind!r} takes nothing after a colon")
    return BASELINES[kind]()
