"""Vectors in memory, and arrays that may be larger than memory."""

from __future__ import annotations

import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from polarity_bench.encoders.base import EncoderId, Similarity
from polarity_bench.errors import InputError
from polarity_bench.values import FloatArray, IntArray

MEMORY_BYTES = 4 * 2**30
"""Larger arrays are kept in a temporary file."""


@dataclass(frozen=True)
class ArrayStorage:
    """Storage of vector arrays: in memory, or in a temporary file if they are large.

    Attributes:
        folder: Folder of the temporary files; by default the system's.
        memory_bytes: Size of the largest array to keep in memory.
    """

    folder: Path | None = None
    memory_bytes: int = MEMORY_BYTES

    def array(self, n_texts: int, dimension: int) -> FloatArray:
        """Return an array for the vectors of n texts.

        A temporary file has no name, so it disappears with its array, however the process ends.

        Returns:
            An uninitialised array, (n, d) float32.

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
                    os.posix_fallocate(file.fileno(), 0, n_bytes)  # else SIGBUS on a full disk
                else:
                    file.truncate(n_bytes)
                return np.memmap(file, dtype=np.float32, mode="r+", shape=(n_texts, dimension))
        except OSError as error:
            raise InputError(
                f"{place}: no room for a temporary file of {n_bytes / 2**30:.1f} GiB, the vectors "
                f"of {n_texts} texts ({error}); free some space"
            ) from error


class MemoryStore:
    """In-memory counterpart of `EmbeddingStore` for a single embedding.

    It holds one vector per text, in whichever group the text was embedded.

    Args:
        texts: All distinct texts that may be stored. Each has its row from the start, so that
            reading all of them copies nothing.
        room: Where the arrays are kept.
    """

    def __init__(self, texts: Sequence[str], room: ArrayStorage | None = None) -> None:
        self.room = room or ArrayStorage()
        self._row_of = {text: row for row, text in enumerate(texts)}
        self._arrays: dict[str, FloatArray] = {}  # by the encoder's digest
        self._stored: defaultdict[str, set[str]] = defaultdict(set)

    def missing(self, encoder: EncoderId, texts: Sequence[str], group: str = "") -> list[str]:  # noqa: ARG002
        """Return the texts that have no vector yet, in the given order."""
        return [text for text in texts if text not in self._stored[encoder.digest]]

    def write(
        self,
        encoder: EncoderId,
        texts: Sequence[str],
        vectors: FloatArray,
        group: str = "",  # noqa: ARG002
    ) -> None:
        """Store the vectors of some texts, (n, d); vectors that are already stored stay."""
        digest = encoder.digest
        if digest not in self._arrays:
            self._arrays[digest] = self.room.array(len(self._row_of), vectors.shape[1])
        stored = self._stored[digest]
        new = [i for i, t in enumerate(texts) if t in self._row_of and t not in stored]
        self._arrays[digest][[self._row_of[texts[i]] for i in new]] = vectors[new]
        stored.update(texts[i] for i in new)

    def read(self, encoder: EncoderId, texts: Sequence[str], group: str = "") -> FloatArray:  # noqa: ARG002
        """Return the vectors of some texts, in the given order, (n, d); texts may repeat.

        Raises:
            KeyError: If a text is not stored.
        """
        for text in self.missing(encoder, texts):
            raise KeyError(f"there is no vector of {text!r}")
        array = self._arrays[encoder.digest]
        return gather(array, np.array([self._row_of[text] for text in texts]), self.room)


def gather(array: FloatArray, rows: IntArray, room: ArrayStorage) -> FloatArray:
    """Return some rows of an array: a view if the rows are consecutive, otherwise a copy."""
    n = len(rows)
    if n and np.array_equal(rows, np.arange(rows[0], rows[0] + n)):
        return array[rows[0] : rows[0] + n]
    taken = room.array(n, array.shape[1])
    for start in range(0, n, 8192):  # indexing copies to memory, so copy by blocks
        block = slice(start, start + 8192)
        taken[block] = array[rows[block]]
    return taken


@dataclass(frozen=True)
class Embeddings:
    """Vectors of texts, (n, d) float32, and how they are compared.

    Every row is finite and not all zero.
    """

    vectors: FloatArray
    similarity: Similarity = "cosine"

    def __len__(self) -> int:
        return len(self.vectors)
