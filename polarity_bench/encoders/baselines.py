"""Baselines: simple encoders, for comparison with trained encoders.

`random` gives each distinct text its own random vector, and `constant` gives all texts the same
vector. Both score at chance. `tfidf` counts words and ignores their meaning. `glove:FILE` averages
word vectors from the user's file, like the row "Avg. GloVe" in the papers.

Shapes: v words, d dimensions, b texts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from polarity_bench.encoders.base import Encoder, EncoderId
from polarity_bench.errors import InputError, reworded
from polarity_bench.files import expanded, read_errors
from polarity_bench.values import FloatArray, IntArray

_WORD = re.compile(r"\w+|[^\w\s]")


class UnpaddedEncoder:
    """Base class of encoders without padding, so only the number of texts limits a batch."""

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Return 1 for each text, because these encoders do not pad texts, (n,)."""
        return np.ones(len(texts), dtype=np.int64)


class RandomEncoder(UnpaddedEncoder):
    """Encoder that draws each vector from a normal distribution, seeded by the text."""

    id = EncoderId(name="random", weights="random-384-v1")
    stores_vectors = True

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Draw one vector per text, (b, 384) float32."""
        seeds = (hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts)
        generators = (np.random.default_rng(int.from_bytes(seed)) for seed in seeds)
        return np.stack([generator.standard_normal(384, np.float32) for generator in generators])


class ConstantEncoder(UnpaddedEncoder):
    """Encoder with the same vector for all texts; all sources tie and keep their order."""

    id = EncoderId(name="constant", weights="constant-8-v1")
    stores_vectors = True

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return the same vector for each text, (b, 8) float32."""
        return np.full((len(texts), 8), 0.5, dtype=np.float32)


class TfidfEncoder(UnpaddedEncoder):
    """Bag of words, weighted by the inverse document frequency in one task.

    Words and punctuation marks are hashed to 4,096 dimensions. The weights depend on the task's
    texts, so call `for_corpus` before `encode`. The vectors are valid for one task only.
    """

    id = EncoderId(name="tfidf", weights="tfidf-4096-v1")

    def __init__(self) -> None:
        from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

        self._weights = TfidfTransformer(norm=None)
        self._counter = HashingVectorizer(
            n_features=4096,
            token_pattern=r"(?u)\w+|[^\w\s]",  # noqa: S106  no password
            alternate_sign=False,
            norm=None,
        )

    def for_corpus(self, texts: Sequence[str]) -> TfidfEncoder:
        """Return an encoder with weights from the document frequencies in these texts."""
        fitted = TfidfEncoder()
        fitted.id = self.id
        fitted._weights.fit(self._counter.transform(sorted(set(texts))))
        return fitted

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return the weighted word counts of each text, (b, 4096) float32."""
        weighted = self._weights.transform(self._counter.transform(texts))
        return np.asarray(weighted.toarray(), dtype=np.float32)


class WordVectorsEncoder(UnpaddedEncoder):
    """Average of the word vectors of a text's words and punctuation marks.

    If a word is unknown, its lower-case form is used. If that is unknown too, the word is skipped.
    A text without known words gets the mean of all vectors, because a zero vector
    has no cosine similarity. The authors of GloVe recommend this mean for unknown words.

    Args:
        file: File in GloVe's text format, with a word and its numbers on each line; a word2vec
            header line is skipped. Or an .npy matrix, whose words are listed in `NAME.words.txt` in
            the same folder.

    Raises:
        InputError: If the file cannot be read or has neither format.
    """

    stores_vectors = True

    def __init__(self, file: Path) -> None:
        words, self._vectors = _read_npy(file) if file.suffix == ".npy" else _read_text(file)
        self._rows = {word: row for row, word in enumerate(words)}
        self._unknown: FloatArray = self._vectors.mean(axis=0, dtype=np.float64)
        sha = hashlib.sha256("\n".join(words).encode())
        sha.update(np.ascontiguousarray(self._vectors).data)
        self.id = EncoderId(name=f"average of {file.name}", weights=f"{sha.hexdigest()[:16]}-v1")

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return the average word vector of each text, (b, d) float32."""
        return np.stack([self._average(text) for text in texts]).astype(np.float32)

    def _average(self, text: str) -> FloatArray:
        rows = (self._rows.get(w, self._rows.get(w.lower())) for w in _WORD.findall(text))
        known_rows = [row for row in rows if row is not None]
        if not known_rows:
            return self._unknown
        return np.asarray(self._vectors[known_rows].mean(axis=0, dtype=np.float64))


BASELINES: dict[str, Callable[[], Encoder]] = {
    "random": RandomEncoder,
    "constant": ConstantEncoder,
    "tfidf": TfidfEncoder,
}
BASELINE_NAMES = (*BASELINES, "glove")


def load_baseline(name: str) -> Encoder:
    """Return the baseline of this name: `random`, `constant`, `tfidf` or `glove:FILE`.

    Raises:
        InputError: If `glove` has no file or an unreadable file, or if another baseline has an
            argument.
    """
    kind, _, argument = name.partition(":")
    if kind == "glove":
        if not argument:
            raise InputError("the baseline 'glove' needs a file of word vectors; use glove:FILE")
        return WordVectorsEncoder(expanded(argument))
    if argument:
        raise InputError(
            f"the encoder {name!r}: the baseline {kind!r} takes no argument; use {kind!r}"
        )
    return BASELINES[kind]()


def _read_text(file: Path) -> tuple[list[str], FloatArray]:
    words: list[str] = []
    rows: list[FloatArray] = []
    for number, line in enumerate(_lines(file), start=1):
        word, *values = line.rstrip().split(" ")
        if number == 1 and len(values) == 1:
            continue  # The header of word2vec has only the numbers of words and dimensions.
        if rows and len(values) != len(rows[0]):
            raise InputError(
                f"{file}, line {number}: expected {len(rows[0])} numbers as on earlier lines, "
                f"got {len(values)}"
            )
        try:
            rows.append(np.array(values, dtype=np.float32))
        except ValueError as error:
            raise InputError(
                f"{file}, line {number}: expected a word and numbers, got {line[:40]!r}"
            ) from error
        words.append(word)
    if not rows or not len(rows[0]):
        raise InputError(f"{file}: the file contains no word vectors")
    return words, np.stack(rows)


def _read_npy(file: Path) -> tuple[list[str], FloatArray]:
    beside, vectors = file.with_suffix(".words.txt"), read_matrix(file)
    if not beside.is_file():
        raise InputError(
            f"{file}: the list of words is missing; write the words, one per line, to {beside}"
        )
    words = [line.rstrip("\r\n") for line in _lines(beside)]
    check_rows(file, vectors, len(words), f"words in {beside.name}")
    return words, vectors.astype(np.float32)


def read_matrix(file: Path) -> FloatArray:
    """Open the array in an .npy file, without reading it into memory.

    Raises:
        InputError: If the file is missing, damaged or truncated.
    """
    problem = f"{file}: cannot be read as an .npy matrix: "
    with reworded(problem, "; is the file complete?", Exception):
        array: FloatArray = np.load(file, mmap_mode="r", allow_pickle=False)
    return array


def check_rows(file: Path, vectors: FloatArray, n_rows: int, of: str) -> None:
    """Raise InputError if an array is not a matrix with as many rows as texts or words."""
    if vectors.ndim != 2 or len(vectors) != n_rows:
        raise InputError(
            f"{file}: expected a matrix with a row for each of the {n_rows:,} {of}, got the shape "
            f"{vectors.shape}"
        )


def _lines(file: Path) -> Iterator[str]:
    with (
        read_errors(file, " as UTF-8", "convert the file to UTF-8"),
        file.open(encoding="utf-8", newline="\n") as stream,
    ):
        yield from stream
