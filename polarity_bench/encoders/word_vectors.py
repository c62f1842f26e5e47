"""Average word vectors: the papers' "Avg. GloVe" row, from a file that the user has.

The file is GloVe's text format (a word and its numbers on each line; word2vec's heading of two
numbers is skipped), or an .npy matrix beside a list of its words, `NAME.words.txt`. Texts are split
into words and marks; a word that is not known as it stands is looked up in lower case, and left
out if that fails. A text without a known word gets the mean of all vectors, as GloVe's authors
advise for unknown words, since a zero vector has no cosine.

Shapes: v words, d dimensions, b texts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from polarity_bench.errors import InputError
from polarity_bench.types import EncoderId, FloatArray, IntArray

_WORD = re.compile(r"\w+|[^\w\s]")


class Unpadded:
    """An encoder whose texts need no padding, so that batches are cut by their number alone."""

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Return 1 for each text, (n,): nothing is padded."""
        return np.ones(len(texts), dtype=np.int64)


class WordVectorsEncoder(Unpadded):
    """The average of the vectors of a text's words.

    Args:
        file: The vectors: GloVe's text, or .npy beside `NAME.words.txt`.

    Raises:
        InputError: If the file cannot be read as either; names the line.
    """

    def __init__(self, file: Path) -> None:
        words, self._vectors = _read_npy(file) if file.suffix == ".npy" else _read_text(file)
        self._rows = {word: row for row, word in enumerate(words)}
        self._unknown: FloatArray = self._vectors.mean(axis=0, dtype=np.float64)
        sha = hashlib.sha256("\n".join(words).encode())
        sha.update(np.ascontiguousarray(self._vectors).data)
        self.id = EncoderId(name=f"average of {file.name}", weights=f"{sha.hexdigest()[:16]}-v1")

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Average the words of each text, (b, d) float32."""
        return np.stack([self._average(text) for text in texts]).astype(np.float32)

    def _average(self, text: str) -> FloatArray:
        found = [row for row in map(self._row, _WORD.findall(text)) if row is not None]
        if not found:
            return self._unknown
        average: FloatArray = self._vectors[found].mean(axis=0, dtype=np.float64)
        return average

    def _row(self, word: str) -> int | None:
        row = self._rows.get(word)
        return self._rows.get(word.lower()) if row is None else row


def _read_text(file: Path) -> tuple[list[str], FloatArray]:
    words: list[str] = []
    rows: list[FloatArray] = []
    for number, line in enumerate(_lines(file), start=1):
        word, *values = line.rstrip().split(" ")
        if number == 1 and len(values) == 1:
            continue  # word2vec's heading: how many words, how many dimensions
        if rows and len(values) != len(rows[0]):
            raise InputError(
                f"{file}, line {number}: {len(values)} numbers where the lines before have "
                f"{len(rows[0])}"
            )
        try:
            rows.append(np.array(values, dtype=np.float32))
        except ValueError as error:
            raise InputError(f"{file}, line {number}: a word and numbers are wanted") from error
        words.append(word)
    if not rows or not len(rows[0]):
        raise InputError(f"{file}: holds no word vectors")
    return words, np.stack(rows)


def _read_npy(file: Path) -> tuple[list[str], FloatArray]:
    beside = file.with_suffix(".words.txt")
    try:
        vectors = np.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: not an .npy matrix: {error}") from error
    if not beside.is_file():
        raise InputError(f"{file}: its words are wanted one a line in {beside}, which is missing")
    words = [line.rstrip("\r\n") for line in _lines(beside)]
    if vectors.ndim != 2 or len(vectors) != len(words):
        raise InputError(
            f"{file}: has the shape {vectors.shape}, {beside.name} {len(words):,} words; they must "
            "agree"
        )
    return words, vectors.astype(np.float32)


def _lines(file: Path) -> Iterator[str]:
    try:
        with file.open(encoding="utf-8", newline="\n") as stream:
            yield from stream
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not UTF-8 at byte {error.start}") from error
