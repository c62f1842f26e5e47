"""Embeddings on disk, keyed by the encoder's digest and the text.

Each encoder has one SQLite file, `<digest>.sqlite`. The digest covers the weights, the prompt, the
maximum number of tokens and the dtype, so that an encoder never gets the vectors of another. A row
holds a 16-byte hash of the text, the vector as little-endian float32, and a checksum over both. A
flipped bit therefore raises an error and is not scored.

Writes are atomic: every write is one transaction of a write-ahead log. If the process is killed or
the disk is full, only the write in progress is lost. Several processes may read and write one
folder at once; of two vectors for one text, the first written stays.

The hash also covers the group that a text was embedded in, if any (see `embedder`): a text may have
one vector for each group and one without a group.

A store belongs to one thread. Shapes: n texts, d dimensions.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
import warnings
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
    explained,
    find_rows,
    hash_text,
    initialise_file,
    open_file,
    pack_row,
    prepare_file,
    read_dimension,
    read_vectors,
)
from polarity_bench.encoders.base import Encoder, EncoderId
from polarity_bench.errors import InputError, InputWarning
from polarity_bench.files import cache_folder
from polarity_bench.values import FloatArray

if sys.platform != "win32":
    import fcntl


def keeps_vectors(encoder: Encoder) -> bool:
    """Return whether the vectors of an encoder are kept in a store.

    A store identifies an encoder by its digest. A digest computed by this package covers everything
    that changes a vector. The `weights` of a class from outside may stay the same when its code
    changes, so the class itself must set `stores_vectors = True`. Subclasses do not inherit it.

    Warns:
        InputWarning: If a class from outside this package sets it.
    """
    kind = type(encoder)
    if not vars(kind).get("stores_vectors", False):
        return False
    if kind.__module__.partition(".")[0] != "polarity_bench":
        warnings.warn(
            f"the store knows the vectors of {encoder.id.label} only by its `weights`, "
            f"{encoder.id.weights!r}; change them whenever {kind.__qualname__} changes, or the "
            "store returns old vectors",
            InputWarning,
            stacklevel=2,
        )
    return True


@dataclass(frozen=True)
class StoredEncoder:
    """Summary of the stored vectors of one encoder.

    Attributes:
        digest: Digest of the encoder, which also names its file.
        name: Label of the encoder when it was first stored; None if the file cannot be read.
        n_texts: Number of vectors; None if the file cannot be read. A text counts once for each
            group that it was embedded in.
        n_bytes: Size on disk.
        last_used: Time when a run last opened the file.
    """

    digest: str
    name: str | None
    n_texts: int | None
    n_bytes: int
    last_used: datetime


class EmbeddingStore(AbstractContextManager["EmbeddingStore"]):
    """Vectors of texts, in a folder with one file per encoder.

    Args:
        folder: Folder of the files, created at the first write; by default `embeddings` in the
            cache folder.
        wait_seconds: How long to wait for another process's write before giving up.
        memory_bytes: Size of the largest array of vectors to keep in memory.
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
        """Close the files; the next call opens them again."""
        while self._connections:
            self._connections.popitem()[1].close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def path(self, encoder: EncoderId) -> Path:
        """Return the path of the file for this encoder's vectors; the file may not exist yet."""
        return self.folder / f"{encoder.digest}.sqlite"

    def missing(self, encoder: EncoderId, texts: Sequence[str], group: str = "") -> list[str]:
        """Return the texts that have no vector yet, in the given order.

        Args:
            encoder: Encoder of the vectors.
            texts: Texts to look up.
            group: Digest of the group that the texts were embedded in; '' for none.

        Raises:
            InputError: If the file is corrupt or belongs to another encoder.
        """
        path = self.path(encoder)
        with explained(path):
            stored = self._stored(path)
            if stored is None:
                return list(texts)
            keys = [hash_text(text, group) for text in texts]
            rows = find_rows(stored[0], keys)
            return [text for text, key in zip(texts, keys, strict=True) if key not in rows]

    def write(
        self, encoder: EncoderId, texts: Sequence[str], vectors: FloatArray, group: str = ""
    ) -> None:
        """Store the vectors of some texts, (n, d), all or none.

        If a text already has a vector, that vector stays.

        Raises:
            InputError: If the file is corrupt, belongs to another encoder, or holds vectors of
                another dimension, or if the disk is full.
        """
        path = self.path(encoder)
        block = np.ascontiguousarray(vectors, dtype="<f4")
        if block.ndim != 2 or len(block) != len(texts):
            raise ValueError(f"{len(texts)} texts need as many vectors, got shape {block.shape}")
        with explained(path):
            self.folder.mkdir(parents=True, exist_ok=True)
            connection = self._connect(path)
            prepare_file(connection, path, self._wait_seconds)
            with connection:  # commits, or rolls back after an error
                connection.execute("BEGIN IMMEDIATE")
                dimension = read_dimension(connection, path)
                if dimension is None:
                    initialise_file(connection, encoder, block.shape[1])
                elif dimension != block.shape[1]:
                    raise InputError(
                        f"{path}: contains vectors of {dimension} dimensions, got "
                        f"{block.shape[1]}; if the vectors in the file are wrong, delete it"
                    )
                connection.executemany(
                    "INSERT OR IGNORE INTO vectors (key, vector, crc) VALUES (?, ?, ?)",
                    (
                        pack_row(hash_text(text, group), vector)
                        for text, vector in zip(texts, block, strict=True)
                    ),
                )

    def read(self, encoder: EncoderId, texts: Sequence[str], group: str = "") -> FloatArray:
        """Return the vectors of some texts, in the given order, (n, d) float32; texts may repeat.

        Rows are read in the order of the file, a thousand at a time.

        Raises:
            InputError: If the file is corrupt or belongs to another encoder.
            KeyError: If a text is not stored.
        """
        path = self.path(encoder)
        with explained(path):
            stored = self._stored(path)
            if stored is None:
                raise KeyError(f"{path} holds no vectors")
            connection, dimension = stored
            keys = [hash_text(text, group) for text in texts]
            row_of = find_rows(connection, keys)
            for text, key in zip(texts, keys, strict=True):
                if key not in row_of:
                    raise KeyError(f"{path}: there is no vector of {text!r}")
            vectors = self.room.array(len(keys), dimension)
            in_file = sorted(range(len(keys)), key=lambda place: row_of[keys[place]])
            for start in range(0, len(keys), CHUNK):
                places = in_file[start : start + CHUNK]
                key_of = {row_of[keys[place]]: keys[place] for place in places}
                vector_of = read_vectors(connection, path, key_of, dimension)
                vectors[places] = [vector_of[row_of[keys[place]]] for place in places]
        return vectors

    def usage(self) -> tuple[StoredEncoder, ...]:
        """Return the stored encoders, sorted by digest; if a file is unreadable, name is None."""
        if not self.folder.is_dir():
            return ()
        with explained(self.folder):
            self._share()
            return self._list()

    def prune(
        self, choose: Callable[[tuple[StoredEncoder, ...]], tuple[StoredEncoder, ...]]
    ) -> tuple[StoredEncoder, ...]:
        """Delete the files of some encoders, readable or not, and return the deleted encoders.

        Args:
            choose: Function of the stored encoders that returns those to delete.

        Raises:
            InputError: If a run is using the folder.
        """
        self.close()
        if not self.folder.is_dir():
            return choose(())
        with explained(self.folder), _lock(self.folder, exclusive=True):
            chosen = choose(self._list())
            for one in chosen:
                for file in _files(self.folder / f"{one.digest}.sqlite"):
                    file.unlink()
        return chosen

    def _list(self) -> tuple[StoredEncoder, ...]:
        paths = [path for path in self.folder.iterdir() if FILE_NAME.fullmatch(path.name)]
        return tuple(_usage_of(path, self._wait_seconds) for path in sorted(paths))

    def _stored(self, path: Path) -> tuple[sqlite3.Connection, int] | None:
        """Return the connection to a file and the dimension of its vectors; None if it has none."""
        if path.stem not in self._connections:
            if not path.is_file():
                return None
            self._share()
            if not path.is_file():
                return None  # pruned while we waited
        connection = self._connect(path)
        dimension = read_dimension(connection, path)
        return None if dimension is None else (connection, dimension)

    def _connect(self, path: Path) -> sqlite3.Connection:
        """Return the connection to a file, which is created if it does not exist."""
        if path.stem not in self._connections:
            self._share()
            connection = open_file(path, self._wait_seconds)
            try:
                if read_dimension(connection, path) is not None:
                    with suppress(sqlite3.OperationalError):  # a full disk can still be read
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
    """Lock a folder until the returned file is closed: shared for use, exclusive for pruning."""
    file = (folder / ".lock").open("ab")
    if sys.platform != "win32":  # Windows does not delete open files
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB if exclusive else fcntl.LOCK_SH)
        except BlockingIOError as error:
            file.close()
            raise InputError(
                f"{folder}: a run is using these embeddings; prune them when the run is done"
            ) from error
        except BaseException:
            file.close()
            raise
    return file


def _usage_of(path: Path, wait_seconds: float) -> StoredEncoder:
    name: str | None = None
    n_texts: int | None = None
    used = path.stat().st_mtime
    try:
        with closing(open_file(path, wait_seconds)) as connection:
            if read_dimension(connection, path) is None:
                n_texts = 0
            else:
                fields, used = connection.execute("SELECT id, used FROM encoder").fetchone()
                name = EncoderId(**json.loads(fields)).label
                n_texts = int(connection.execute("SELECT count(*) FROM vectors").fetchone()[0])
    except (sqlite3.DatabaseError, ValueError, TypeError):
        pass  # listed without the values that could not be read
    n_bytes = sum(file.stat().st_size for file in _files(path))
    return StoredEncoder(path.stem, name, n_texts, n_bytes, datetime.fromtimestamp(used, UTC))


def _files(path: Path) -> list[Path]:
    """Return the files of a database in the order to delete them.

    The database comes first: without it, SQLite ignores the rest of its log. Last come the files
    that other modules derived from these vectors and keep in the same folder.
    """
    every = (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm"))
    return [*(file for file in every if file.exists()), *path.parent.glob(f"{path.stem}.*.npz")]
