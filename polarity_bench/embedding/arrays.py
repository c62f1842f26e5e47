"""Vectors in memory, and arrays that may be larger than it."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.values import FloatArray, IntArray

MEMORY_BYTES = 4 * 2**30
"""Arrays above this size lie in a temporary file."""


@dataclass(frozen=True)
class ArrayStorage:
    """Where arrays of vectors lie: in memory, or in a temporary file if they are large.

    Attributes:
        folder: Where the files lie; the system's folder for temporary files if not given.
        memory_bytes: The largest array to hold in memory.
    """

    folder: Path | None = None
    memory_bytes: int = MEMORY_BYTES

    def array(self, n_texts: int, dimension: int) -> FloatArray:
        """Return an array for the vectors of n texts.

        A file has no name, so it is gone with its array, whatever ends the process.

        Returns:
            Undefined values, (n, d) float32.

        Raises:
            InputError: If the disk has no room for the file.
        """
        n_bytes = n_texts * dimension * 4
        if n_bytes <= self.memory_bytes:
            return np.empty((n_texts, dimension), dtype=np.float32)
        place = Path(tempfile.gettempdir()) if self.folder is None else self.folder
        try:
            with tempfile.TemporaryFile(dir=place) as file:
                if sys.platform == "linux":
                    os.posix_fallocate(file.fileno(), 0, n_bytes)  # or a full disk is a bus error
                else:
                    file.truncate(n_bytes)
                return np.memmap(file, dtype=np.float32, mode="r+", shape=(n_texts, dimension))
        except OSError as error:
            raise InputError(
                f"{place}: no room for a temporary file of {n_bytes / 2**30:.1f} GiB, the vectors "
                f"of {n_texts} texts ({error}); free some space"
            ) from error


class MemoryStore:
    """Vectors of one embedding, gone with this object; otherwise like `EmbeddingStore`.

    It holds one vector of each text, whatever the group that the text was embedded in.

    Args:
        texts: The distinct texts to store, no others: each has its row from the start, so that
            reading all of them copies nothing.
    """

    def __init__(self, texts: Sequence[str], room: ArrayStorage | None = None) -> None:
        self.room = room or ArrayStorage()
        self._row_of = {text: row for row, text in enumerate(texts)}
        self._arrays: dict[str, FloatArray] = {}  # by the encoder's digest
        self._stored: dict[str, set[str]] = {}

    def missing(self, encoder: EncoderId, texts: Sequence[str], group: str = "") -> list[str]:  # noqa: ARG002
        """Return the texts that have no vector yet, in their order."""
        stored = self._stored.get(encoder.digest, set())
        return [text for text in texts if text not in stored]

    def write(
        self,
        encoder: EncoderId,
        texts: Sequence[str],
        vectors: FloatArray,
        group: str = "",  # noqa: ARG002
    ) -> None:
        """Store the vectors of some texts, (n, d); a text that has one keeps it."""
        digest = encoder.digest
        if digest not in self._arrays:
            self._arrays[digest] = self.room.array(len(self._row_of), vectors.shape[1])
            self._stored[digest] = set()
        stored = self._stored[digest]
        new = [i for i, t in enumerate(texts) if t in self._row_of and t not in stored]
        self._arrays[digest][[self._row_of[texts[i]] for i in new]] = vectors[new]
        stored.update(texts[i] for i in new)

    def read(self, encoder: EncoderId, texts: Sequence[str], group: str = "") -> FloatArray:  # noqa: ARG002
        """Return the vectors of some texts, in their order, repeated or not, (n, d).

        Raises:
            KeyError: If a text is not stored.
        """
        for text in self.missing(encoder, texts):
            raise KeyError(f"there is no vector of {text!r}")
        array = self._arrays[encoder.digest]
        return gather(array, np.array([self._row_of[text] for text in texts]), self.room)


def gather(array: FloatArray, rows: IntArray, room: ArrayStorage) -> FloatArray:
    """Return some rows of an array: a view of it where they lie together, or else a copy."""
    n = len(rows)
    if n and np.array_equal(rows, np.arange(rows[0], rows[0] + n)):
        return array[rows[0] : rows[0] + n]
    taken = room.array(n, array.shape[1])
    for start in range(0, n, 8192):  # indexing copies to memory first
        block = slice(start, start + 8192)
        taken[block] = array[rows[block]]
    return taken


@dataclass(frozen=True)
class Embeddings:
    """Vectors of texts: (n, d) float32, every row finite and none all zero."""

    vectors: FloatArray
    encoder: EncoderId

    def __len__(self) -> int:
        return len(self.vectors)
