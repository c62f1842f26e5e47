"""Arrays of vectors, in memory or in temporary files, and an in-memory vector store."""

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
from polarity_bench.errors import reworded
from polarity_bench.values import FloatArray, IntArray

MEMORY_BYTES = 4 * 2**30
"""Default maximum size of an array in memory, 4 GiB; larger arrays use a temporary file."""


@dataclass(frozen=True)
class ArrayStorage:
    """Storage of vector arrays, in memory or in temporary files.

    Attributes:
        folder: Folder for temporary files; None uses the default folder of the system.
        memory_bytes: Maximum size of an array in memory, in bytes.
    """

    folder: Path | None = None
    memory_bytes: int = MEMORY_BYTES

    def array(self, n_texts: int, dimension: int) -> FloatArray:
        """Allocate an array for the vectors of n texts.

        The temporary file has no name. The system therefore deletes the file with the array, even
        if the process is killed.

        Returns:
            An uninitialised array, (n, d) float32.

        Raises:
            InputError: If the disk has too little space for the file.
        """
        n_bytes = n_texts * dimension * 4
        if n_bytes <= self.memory_bytes:
            return np.empty((n_texts, dimension), dtype=np.float32)
        place = Path(tempfile.gettempdir()) if self.folder is None else self.folder
        size = f"{n_bytes / 2**30:.1f} GiB with the vectors of {n_texts} texts"
        problem = f"{place}: no space for a temporary file of {size} ("
        remedy = "); free some space"
        with reworded(problem, remedy, OSError), tempfile.TemporaryFile(dir=place) as file:
            if sys.platform == "linux":
                # Without allocated space, a full disk would kill the process with SIGBUS.
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            else:
                file.truncate(n_bytes)
            return np.memmap(file, dtype=np.float32, mode="r+", shape=(n_texts, dimension))


class MemoryStore:
    """In-memory counterpart of `EmbeddingStore` for a single embedding.

    The store keeps one vector per text and ignores the group.

    Args:
        texts: All distinct texts that may be stored. Their order determines the rows of the array.
        room: Storage of the array; None uses the defaults.
    """

    def __init__(self, texts: Sequence[str], room: ArrayStorage | None = None) -> None:
        self.room = room or ArrayStorage()
        self._row_of = {text: row for row, text in enumerate(texts)}
        self._arrays: dict[str, FloatArray] = {}  # One array for each encoder digest.
        self._stored: defaultdict[str, set[str]] = defaultdict(set)

    def missing(self, encoder: EncoderId, texts: Sequence[str], group: str = "") -> list[str]:  # noqa: ARG002  as in `EmbeddingStore`
        """Return the texts without a stored vector, in the order of `texts`."""
        return [text for text in texts if text not in self._stored[encoder.digest]]

    def write(
        self,
        encoder: EncoderId,
        texts: Sequence[str],
        vectors: FloatArray,
        group: str = "",  # noqa: ARG002  as in `EmbeddingStore`
    ) -> None:
        """Store the vectors of texts, (n, d), without replacing stored vectors."""
        digest = encoder.digest
        if digest not in self._arrays:
            self._arrays[digest] = self.room.array(len(self._row_of), vectors.shape[1])
        stored = self._stored[digest]
        new = [i for i, t in enumerate(texts) if t in self._row_of and t not in stored]
        self._arrays[digest][[self._row_of[texts[i]] for i in new]] = vectors[new]
        stored.update(texts[i] for i in new)

    def read(self, encoder: EncoderId, texts: Sequence[str], group: str = "") -> FloatArray:  # noqa: ARG002  as in `EmbeddingStore`
        """Return the vectors of texts in the order of `texts`, (n, d); texts may repeat.

        Raises:
            KeyError: If a text has no stored vector.
        """
        for text in self.missing(encoder, texts):
            raise KeyError(f"no vector is stored for the text {text!r}")
        array = self._arrays[encoder.digest]
        return gather(array, np.array([self._row_of[text] for text in texts]), self.room)


def gather(array: FloatArray, rows: IntArray, room: ArrayStorage) -> FloatArray:
    """Return rows of an array, as a view if the rows are consecutive, otherwise as a copy."""
    n = len(rows)
    if n and np.array_equal(rows, np.arange(rows[0], rows[0] + n)):
        return array[rows[0] : rows[0] + n]
    taken = room.array(n, array.shape[1])
    for start in range(0, n, 8192):  # Indexing copies to memory, so copy block by block.
        block = slice(start, start + 8192)
        taken[block] = array[rows[block]]
    return taken


@dataclass(frozen=True)
class Embeddings:
    """Vectors of texts, with the similarity function that compares them.

    Attributes:
        vectors: Vectors, (n, d) float32. Every row is finite and not zero.
        similarity: Similarity function.
    """

    vectors: FloatArray
    similarity: Similarity = "cosine"

    def __len__(self) -> int:
        return len(self.vectors)
