"""Vector store on disk, keyed by the encoder's digest and the text.

Each encoder has one SQLite file, `<digest>.sqlite`. The digest covers the weights, the prompt, the
maximum number of tokens and the dtype, so encoders never share vectors by mistake. A row contains
a 16-byte hash of the text, the vector as little-endian float32, and a checksum of both. If a bit is
flipped on disk, reading raises an error.

The hash also covers the text's group, if any (see `embedder`). A text may have one vector per group
and another vector without a group.

Every write is one transaction of a write-ahead log. If the process is killed or the disk is full,
only the current write is lost. Several processes may read and write one folder at the same time. If
two processes write the same text, the store keeps the first vector. Use each `EmbeddingStore`
object in one thread only.

Shapes: n texts, d dimensions.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import numpy as np

from polarity_bench.embedding.arrays import MEMORY_BYTES, ArrayStorage
from polarity_bench.embedding.store_file import (
    CHUNK,
    FILE_NAME,
    explain_errors,
    find_rows,
    hash_text,
    initialise_file,
    open_file,
    pack_row,
    prepare_file,
    read_dimension,
    read_encoder,
    read_vectors,
)
from polarity_bench.encoders.base import Encoder, EncoderId
from polarity_bench.encoders.probe import check_probe
from polarity_bench.errors import InputError, warn
from polarity_bench.files import cache_folder
from polarity_bench.values import FloatArray

if sys.platform != "win32":
    import fcntl


def keeps_vectors(encoder: Encoder) -> bool:
    """Return whether an encoder's vectors may be stored.

    The store identifies an encoder by its digest. The digest of an encoder of this package changes
    whenever a vector changes. A user-defined class may keep its `weights` when its code changes, so
    the class must set `stores_vectors = True` explicitly. Subclasses do not inherit this setting.

    Warns:
        InputWarning: If a user-defined class sets `stores_vectors`.
    """
    kind = type(encoder)
    if not vars(kind).get("stores_vectors", False):
        return False
    if kind.__module__.partition(".")[0] != "polarity_bench":
        warn(
            f"the store identifies the vectors of {encoder.id.label} only by its `weights`, "
            f"{encoder.id.weights!r}; change `weights` whenever {kind.__qualname__} changes, or "
            "the store returns outdated vectors"
        )
    return True


@dataclass(frozen=True)
class StoredEncoder:
    """Summary of one encoder's stored vectors.

    Attributes:
        digest: Digest of the encoder, which is also the stem of the file name.
        name: Label of the encoder when its first vectors were stored. None if the file is empty or
            cannot be read.
        n_texts: Number of vectors; None if the file cannot be read. A text counts once per group.
        n_bytes: Size on disk, in bytes.
        last_used: Time when a run last opened the file.
    """

    digest: str
    name: str | None
    n_texts: int | None
    n_bytes: int
    last_used: datetime


class EmbeddingStore(AbstractContextManager["EmbeddingStore"]):
    """Store of vectors in a folder, with one file per encoder.

    Args:
        folder: Folder of the files, created at the first write. None uses `embeddings` in the cache
            folder.
        wait_seconds: Maximum time to wait for another process's write, in seconds.
        memory_bytes: Maximum size of an array in memory, in bytes.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        wait_seconds: float = 60.0,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self.folder = cache_folder() / "embeddings" if folder is None else folder
        self.room = ArrayStorage(self.folder, memory_bytes)
        self._wait_seconds = wait_seconds
        self._connections: dict[str, sqlite3.Connection] = {}
        self._lock: IO[bytes] | None = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files; later calls open them again."""
        while self._connections:
            self._connections.popitem()[1].close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def path(self, encoder: EncoderId) -> Path:
        """Return the path of the file for an encoder's vectors; the file may not exist yet."""
        return self.folder / f"{encoder.digest}.sqlite"

    def missing(self, encoder: EncoderId, texts: Sequence[str], group: str = "") -> list[str]:
        """Return the texts without a stored vector, in the order of `texts`.

        Args:
            encoder: Encoder of the vectors.
            texts: Texts to look up.
            group: Digest of the texts' group; '' without a group.

        Raises:
            InputError: If the file is corrupt or belongs to another encoder, or the encoder gives
                other vectors now (see `encoders.probe`).
        """
        path = self.path(encoder)
        with explain_errors(path):
            stored = self._stored(path)
            if stored is None:
                return list(texts)
            check_probe(read_encoder(stored[0], path), encoder, path)
            keys = [hash_text(text, group) for text in texts]
            rows = find_rows(stored[0], keys)
            return [text for text, key in zip(texts, keys, strict=True) if key not in rows]

    def write(
        self, encoder: EncoderId, texts: Sequence[str], vectors: FloatArray, group: str = ""
    ) -> None:
        """Store the vectors of texts in one transaction, without replacing stored vectors.

        Args:
            encoder: Encoder of the vectors.
            texts: Texts to store.
            vectors: Vectors of the texts, (n, d).
            group: Digest of the texts' group; '' without a group.

        Raises:
            InputError: If the file is corrupt, belongs to another encoder, or contains vectors of
                another dimension, or if the disk is full.
            ValueError: If the number of vectors differs from the number of texts.
        """
        path = self.path(encoder)
        block = np.ascontiguousarray(vectors, dtype="<f4")
        if block.ndim != 2 or len(block) != len(texts):
            raise ValueError(
                f"expected vectors of shape ({len(texts)}, d) for {len(texts)} texts, "
                f"got {block.shape}"
            )
        with explain_errors(path):
            self.folder.mkdir(parents=True, exist_ok=True)
            connection = self._connect(path)
            prepare_file(connection, path, self._wait_seconds)
            with connection:  # The context commits, or rolls back after an error.
                connection.execute("BEGIN IMMEDIATE")
                dimension = read_dimension(connection, path)
                if dimension is None:
                    initialise_file(connection, encoder, block.shape[1])
                elif dimension != block.shape[1]:
                    raise InputError(
                        f"{path}: expected vectors of {dimension} dimensions as in the file, got "
                        f"{block.shape[1]}; if the file is wrong, delete it"
                    )
                connection.executemany(
                    "INSERT OR IGNORE INTO vectors (key, vector, crc) VALUES (?, ?, ?)",
                    (
                        pack_row(hash_text(text, group), vector)
                        for text, vector in zip(texts, block, strict=True)
                    ),
                )

    def read(self, encoder: EncoderId, texts: Sequence[str], group: str = "") -> FloatArray:
        """Return the vectors of texts in the order of `texts`, (n, d) float32.

        Rows are read in the order of the file, a thousand at a time, which is faster.

        Args:
            encoder: Encoder of the vectors.
            texts: Texts to look up; they may repeat.
            group: Digest of the texts' group; '' without a group.

        Raises:
            InputError: If the file is corrupt or belongs to another encoder.
            KeyError: If a text has no stored vector.
        """
        path = self.path(encoder)
        with explain_errors(path):
            stored = self._stored(path)
            if stored is None:
                raise KeyError(f"{path}: the file contains no vectors")
            connection, dimension = stored
            keys = [hash_text(text, group) for text in texts]
            row_of = find_rows(connection, keys)
            for text, key in zip(texts, keys, strict=True):
                if key not in row_of:
                    raise KeyError(f"{path}: no vector is stored for the text {text!r}")
            vectors = self.room.array(len(keys), dimension)
            in_file = sorted(range(len(keys)), key=lambda position: row_of[keys[position]])
            for start in range(0, len(keys), CHUNK):
                positions = in_file[start : start + CHUNK]
                key_of = {row_of[keys[position]]: keys[position] for position in positions}
                vector_of = read_vectors(connection, path, key_of, dimension)
                vectors[positions] = [vector_of[row_of[keys[position]]] for position in positions]
        return vectors

    def usage(self) -> tuple[StoredEncoder, ...]:
        """Return a summary of each stored encoder, sorted by digest."""
        if not self.folder.is_dir():
            return ()
        with explain_errors(self.folder):
            self._share()
            return self._list()

    def prune(
        self, choose: Callable[[tuple[StoredEncoder, ...]], tuple[StoredEncoder, ...]]
    ) -> tuple[StoredEncoder, ...]:
        """Delete the files of selected encoders, including unreadable files.

        Args:
            choose: Function that takes the stored encoders and returns the encoders to delete.

        Returns:
            The deleted encoders.

        Raises:
            InputError: If a run is using the folder.
        """
        self.close()
        if not self.folder.is_dir():
            return choose(())
        with explain_errors(self.folder), _lock(self.folder, exclusive=True):
            chosen = choose(self._list())
            for encoder in chosen:
                for file in _files(self.folder / f"{encoder.digest}.sqlite"):
                    file.unlink()
        return chosen

    def _list(self) -> tuple[StoredEncoder, ...]:
        paths = [path for path in self.folder.iterdir() if FILE_NAME.fullmatch(path.name)]
        return tuple(_usage_of(path, self._wait_seconds) for path in sorted(paths))

    def _stored(self, path: Path) -> tuple[sqlite3.Connection, int] | None:
        """Return a file's connection and dimension, or None if the file is missing or empty."""
        if path.stem not in self._connections:
            if not path.is_file():
                return None
            self._share()
            if not path.is_file():
                return None  # Another process pruned the file before we had the lock.
        connection = self._connect(path)
        dimension = read_dimension(connection, path)
        return None if dimension is None else (connection, dimension)

    def _connect(self, path: Path) -> sqlite3.Connection:
        """Return the connection to a file; a missing file is created."""
        if path.stem not in self._connections:
            self._share()
            connection = open_file(path, self._wait_seconds)
            try:
                if read_dimension(connection, path) is not None:
                    # Ignore a full disk, because its files can still be read.
                    with suppress(sqlite3.OperationalError):
                        connection.execute("UPDATE encoder SET used = ?", (time.time(),))
            except BaseException:
                connection.close()
                raise
            self._connections[path.stem] = connection
        return self._connections[path.stem]

    def _share(self) -> None:
        """Lock the folder against pruning while its files may be open."""
        if self._lock is None:
            self._lock = _lock(self.folder, exclusive=False)


def _lock(folder: Path, *, exclusive: bool) -> IO[bytes]:
    """Lock a folder until the returned file is closed.

    Use a shared lock for reading and writing, and an exclusive lock for pruning.

    Raises:
        InputError: If the exclusive lock is not available.
    """
    file = (folder / ".lock").open("ab")
    if sys.platform != "win32":  # Windows needs no lock, because it does not delete open files.
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB if exclusive else fcntl.LOCK_SH)
        except BlockingIOError as error:
            file.close()
            raise InputError(
                f"{folder}: a run is using this folder; prune it when the run has finished"
            ) from error
        except BaseException:
            file.close()
            raise
    return file


def _usage_of(path: Path, wait_seconds: float) -> StoredEncoder:
    """Return the summary of one file."""
    name: str | None = None
    n_texts: int | None = None
    used = path.stat().st_mtime
    try:
        with closing(open_file(path, wait_seconds)) as connection:
            if read_dimension(connection, path) is None:
                n_texts = 0
            else:
                name = read_encoder(connection, path).label
                used = connection.execute("SELECT used FROM encoder").fetchone()[0]
                n_texts = int(connection.execute("SELECT count(*) FROM vectors").fetchone()[0])
    except (sqlite3.DatabaseError, ValueError, TypeError):
        pass  # The summary still lists the file, with None for unreadable values.
    n_bytes = sum(file.stat().st_size for file in _files(path))
    return StoredEncoder(path.stem, name, n_texts, n_bytes, datetime.fromtimestamp(used, UTC))


def _files(path: Path) -> list[Path]:
    """Return an encoder's files, in the order in which they must be deleted.

    The database is first, because SQLite ignores a log without its database. The last files are
    derived from the vectors by other modules.
    """
    every = (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm"))
    return [*(file for file in every if file.exists()), *path.parent.glob(f"{path.stem}.*.npz")]
