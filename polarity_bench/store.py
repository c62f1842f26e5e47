"""Embeddings on disk, keyed by the encoder's digest and the text.

One SQLite file per encoder, `<digest>.sqlite`. The digest is over the weights, the prompt, the
maximum of tokens and the dtype, so that no encoder is ever served another's vectors. A row holds
a 16-byte hash of the text, the vector as little-endian float32, and a checksum over both, so that
a flipped bit is refused and not scored.

What is written is whole: every write is one transaction of a write-ahead log. A process killed at
any moment, or a full disk, loses the write under way and nothing before it. Several processes may
read and write one folder at once; of two vectors for one text, the first written stays.

A store belongs to one thread. Shapes: n texts, d dimensions.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import IO

import numpy as np

from polarity_bench.data.sources import cache_folder
from polarity_bench.types import EncoderId, FloatArray, InputError, IntArray

if sys.platform != "win32":
    import fcntl

MEMORY_BYTES = 4 * 2**30
"""Arrays above this size lie in a temporary file."""

_APPLICATION = int.from_bytes(b"POLB", "big")
_VERSION = 1
_PAGE_BYTES = 16384  # ten vectors of 384 to a page; SQLite's 4096 would leave a quarter empty
_CHUNK = 1000  # rows per statement: bounds memory, and stays under SQLite's limit of parameters
_NAME = re.compile(r"([0-9a-f]{16})\.sqlite")
_SCHEMA = (
    """CREATE TABLE encoder (
        digest TEXT NOT NULL, id TEXT NOT NULL, dimension INTEGER NOT NULL,
        created REAL NOT NULL, used REAL NOT NULL)""",
    """CREATE TABLE vectors (
        row INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE,
        vector BLOB NOT NULL, crc INTEGER NOT NULL)""",
)


@dataclass(frozen=True)
class StoredEncoder:
    """What the store holds of one encoder.

    Attributes:
        digest: Names the encoder and its file.
        name: The encoder's label when it was first stored; None where the file cannot be read.
        n_texts: How many texts have a vector; None where the file cannot be read.
        n_bytes: Size on disk.
        last_used: When a run last opened it.
    """

    digest: str
    name: str | None
    n_texts: int | None
    n_bytes: int
    last_used: datetime


class EmbeddingStore:
    """Vectors of texts, in a folder with one file per encoder.

    Args:
        folder: Where the files lie, made when first written to; `embeddings` in the cache folder
            if not given.
        wait_seconds: How long to wait for another process's write before giving up.
    """

    def __init__(self, folder: Path | None = None, *, wait_seconds: float = 60.0) -> None:
        self.folder = cache_folder() / "embeddings" if folder is None else folder
        self._wait_seconds = wait_seconds
        self._connections: dict[str, sqlite3.Connection] = {}
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> EmbeddingStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files; the next call opens them again."""
        while self._connections:
            self._connections.popitem()[1].close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def path(self, encoder: EncoderId) -> Path:
        """Return the file that holds this encoder's vectors, there or not."""
        return self.folder / f"{encoder.digest}.sqlite"

    def dimension(self, encoder: EncoderId) -> int | None:
        """Return d of this encoder's vectors, None where nothing is stored.

        Raises:
            InputError: If the file is corrupt or not this encoder's.
        """
        path = self.path(encoder)
        with _explained(path):
            connection = self._connect(path)
            return None if connection is None else _dimension(connection, path)

    def missing(self, encoder: EncoderId, texts: Sequence[str]) -> list[str]:
        """Return the texts that have no vector yet, in their order.

        Raises:
            InputError: If the file is corrupt or not this encoder's.
        """
        path = self.path(encoder)
        with _explained(path):
            connection = self._connect(path)
            if connection is None or _dimension(connection, path) is None:
                return list(texts)
            keys = [_key(text) for text in texts]
            rows = _find(connection, keys)
            return [text for text, key in zip(texts, keys, strict=True) if key not in rows]

    def write(self, encoder: EncoderId, texts: Sequence[str], vectors: FloatArray) -> None:
        """Store the vectors of some texts, all or none; a text that has one keeps it.

        Args:
            encoder: Whose vectors these are.
            texts: The texts.
            vectors: Their vectors, (n, d).

        Raises:
            InputError: If the file is corrupt, not this encoder's, or holds vectors of another
                dimension; if the disk is full.
        """
        path = self.path(encoder)
        block = np.ascontiguousarray(vectors, dtype="<f4")
        if block.ndim != 2 or len(block) != len(texts):
            raise ValueError(f"{len(texts)} texts need as many vectors, got shape {block.shape}")
        with _explained(path):
            connection = self._connect(path, create=True)
            if connection is None:
                raise FileNotFoundError(path)
            _prepare(connection, path, self._wait_seconds)
            with _transaction(connection):
                dimension = _dimension(connection, path)
                if dimension is None:
                    _initialise(connection, encoder, block.shape[1])
                elif dimension != block.shape[1]:
                    raise _wrong_dimension(path, dimension, block.shape[1])
                connection.executemany(
                    "INSERT OR IGNORE INTO vectors (key, vector, crc) VALUES (?, ?, ?)",
                    (_row(_key(text), vector) for text, vector in zip(texts, block, strict=True)),
                )

    def read(self, encoder: EncoderId, texts: Sequence[str], into: FloatArray) -> None:
        """Fill an array with the vectors of some texts, in their order, repeated or not.

        Rows are read in the order in which they lie in the file, a thousand at a time.

        Args:
            encoder: Whose vectors to read.
            texts: The texts, each of which must be stored.
            into: Where the vectors go, (n, d).

        Raises:
            InputError: If the file is corrupt, not this encoder's, or holds vectors of another
                dimension.
            KeyError: If a text is not stored.
        """
        path = self.path(encoder)
        with _explained(path):
            connection = self._connect(path)
            dimension = None if connection is None else _dimension(connection, path)
            if connection is None or dimension is None:
                raise KeyError(f"{path} holds no vectors")
            if into.shape != (len(texts), dimension):
                if into.ndim != 2 or len(into) != len(texts):
                    raise ValueError(f"{len(texts)} texts do not fit an array {into.shape}")
                raise _wrong_dimension(path, dimension, into.shape[1])
            keys = [_key(text) for text in texts]
            row_of = _find(connection, keys)
            for text, key in zip(texts, keys, strict=True):
                if key not in row_of:
                    raise KeyError(f"{path} has no vector of {text!r}")
            key_of = {row: key for key, row in row_of.items()}
            rows: IntArray = np.array([row_of[key] for key in keys], dtype=np.int64)
            by_row = np.argsort(rows, kind="stable")
            for start in range(0, len(rows), _CHUNK):
                places = by_row[start : start + _CHUNK]
                distinct, which = np.unique(rows[places], return_inverse=True)
                block = _read_rows(connection, path, distinct.tolist(), key_of, dimension)
                into[places] = block[which]

    def usage(self) -> tuple[StoredEncoder, ...]:
        """Return what is stored, by digest; a file that cannot be read is listed without a name."""
        if not self.folder.is_dir():
            return ()
        with _explained(self.folder):
            self._share()
            return _usage(self.folder, self._wait_seconds)

    def prune(
        self,
        *,
        older_than_days: float | None = None,
        encoder: str | None = None,
        everything: bool = False,
    ) -> tuple[StoredEncoder, ...]:
        """Delete the files of some encoders, readable or not, and return what was deleted.

        Args:
            older_than_days: Those that no run has used for so many days.
            encoder: The one whose digest begins so.
            everything: All of them.

        Raises:
            InputError: If a run is using the folder, or the digest matches none or several.
            ValueError: Unless exactly one of the three is given.
        """
        if [older_than_days is not None, encoder is not None, everything].count(True) != 1:
            raise ValueError("give exactly one of older_than_days, encoder and everything")
        self.close()
        held: tuple[StoredEncoder, ...] = ()
        if self.folder.is_dir():
            with _explained(self.folder), _lock(self.folder, exclusive=True):
                held = _usage(self.folder, self._wait_seconds)
                if older_than_days is not None:
                    oldest = datetime.now(UTC) - timedelta(days=older_than_days)
                    held = tuple(one for one in held if one.last_used < oldest)
                elif encoder is not None:
                    held = _matching(self.folder, held, encoder)
                for one in held:
                    for file in _files(self.folder / f"{one.digest}.sqlite"):
                        file.unlink()
        elif encoder is not None:
            _matching(self.folder, (), encoder)
        return held

    def _connect(self, path: Path, *, create: bool = False) -> sqlite3.Connection | None:
        """Return the connection to a file, or None where it is not there."""
        known = self._connections.get(path.stem)
        if known is not None:
            return known
        if create:
            self.folder.mkdir(parents=True, exist_ok=True)
        elif not path.is_file():
            return None
        self._share()
        if not create and not path.is_file():
            return None  # pruned while we waited
        connection = _open(path, self._wait_seconds)
        try:
            if _dimension(connection, path) is not None:
                with suppress(sqlite3.OperationalError):  # a full disk can still be read
                    connection.execute("UPDATE encoder SET used = ?", (time.time(),))
        except BaseException:
            connection.close()
            raise
        self._connections[path.stem] = connection
        return connection

    def _share(self) -> None:
        """Hold the folder against a prune for as long as its files may be open."""
        if self._lock is None:
            self._lock = _lock(self.folder, exclusive=False)


def allocate(
    n_texts: int, dimension: int, *, memory_bytes: int = MEMORY_BYTES, folder: Path | None = None
) -> FloatArray:
    """Return an array for the vectors of n texts: in memory, or in a temporary file if larger.

    The file has no name, so it is gone with the array, whatever ends the process.

    Args:
        n_texts: Rows.
        dimension: Columns.
        memory_bytes: The largest array to hold in memory.
        folder: Where the file lies; the system's folder for temporary files if not given.

    Returns:
        Undefined values, (n, d) float32.

    Raises:
        InputError: If the disk has no room for the file.
    """
    n_bytes = n_texts * dimension * 4
    if n_bytes <= memory_bytes:
        return np.empty((n_texts, dimension), dtype=np.float32)
    place = Path(tempfile.gettempdir()) if folder is None else folder
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            if sys.platform == "linux":
                os.posix_fallocate(file.fileno(), 0, n_bytes)  # or a full disk is a bus error
            else:
                file.truncate(n_bytes)
            return np.memmap(file, dtype=np.float32, mode="r+", shape=(n_texts, dimension))
    except OSError as error:
        raise InputError(
            f"{place}: no room for a temporary file of {n_bytes / 2**30:.1f} GiB, the vectors of "
            f"{n_texts} texts ({error}); free some space"
        ) from error


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _row(key: bytes, vector: FloatArray) -> tuple[bytes, bytes, int]:
    blob = vector.tobytes()
    return key, blob, zlib.crc32(blob, zlib.crc32(key))


def _open(path: Path, wait_seconds: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=wait_seconds, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = NORMAL")  # a commit survives kill -9, unsynced
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path, wait_seconds: float) -> None:
    """Give a new file its page size and its log; leave any other as it is."""
    if _dimension(connection, path) is not None:
        return
    connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # SQLite does not wait here when another process is at the same step.
            if not _is(error, "SQLITE_BUSY", "SQLITE_LOCKED") or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _initialise(connection: sqlite3.Connection, encoder: EncoderId, dimension: int) -> None:
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_VERSION}")
    connection.execute(
        "INSERT INTO encoder (digest, id, dimension, created, used) VALUES (?, ?, ?, ?, ?)",
        (encoder.digest, json.dumps(asdict(encoder)), dimension, time.time(), time.time()),
    )


def _dimension(connection: sqlite3.Connection, path: Path) -> int | None:
    """Return d of the vectors in a file, None in an empty one; refuse any file but ours."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application == 0 and not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        return None
    if application != _APPLICATION:
        raise InputError(f"{path}: a database of something else; move it out of the folder")
    if version != _VERSION:
        raise InputError(
            f"{path}: written in format {version}, this version reads {_VERSION}; delete it and "
            "its texts are encoded again"
        )
    rows = connection.execute("SELECT digest, dimension FROM encoder").fetchall()
    if len(rows) != 1 or rows[0][0] != path.stem:
        raise InputError(
            f"{path}: holds the vectors of encoder {', '.join(str(row[0]) for row in rows)}, not "
            f"of {path.stem}; delete it and its texts are encoded again"
        )
    return int(rows[0][1])


def _find(connection: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, int]:
    """Return the row of each key that is there."""
    rows: dict[bytes, int] = {}
    for start in range(0, len(keys), _CHUNK):
        chunk = keys[start : start + _CHUNK]
        rows.update(
            connection.execute(
                f"SELECT key, row FROM vectors WHERE key IN ({_marks(chunk)})",  # noqa: S608
                chunk,
            )
        )
    return rows


def _read_rows(
    connection: sqlite3.Connection,
    path: Path,
    rows: Sequence[int],
    key_of: dict[int, bytes],
    dimension: int,
) -> FloatArray:
    """Return the vectors of some rows, given in ascending order, (n, d)."""
    found = connection.execute(
        f"SELECT row, vector, crc FROM vectors WHERE row IN ({_marks(rows)}) ORDER BY row",  # noqa: S608
        rows,
    ).fetchall()
    intact = len(found) == len(rows) and all(
        len(blob) == dimension * 4 and zlib.crc32(blob, zlib.crc32(key_of[row])) == crc
        for row, blob, crc in found
    )
    if not intact:
        raise _corrupt(path, "a vector does not match its checksum")
    block = np.frombuffer(b"".join(blob for _, blob, _ in found), dtype="<f4")
    return block.reshape(len(rows), dimension)


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite may have rolled back by itself
            connection.execute("ROLLBACK")
        raise


def _lock(folder: Path, *, exclusive: bool) -> IO[bytes]:
    """Lock a folder until the file returned is closed: shared to use it, exclusive to prune."""
    file = (folder / ".lock").open("ab")
    if sys.platform != "win32":  # Windows refuses by itself to delete an open file
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB if exclusive else fcntl.LOCK_SH)
        except BlockingIOError as error:
            file.close()
            raise InputError(
                f"{folder}: a run is using these embeddings; prune when it is done"
            ) from error
        except BaseException:
            file.close()
            raise
    return file


def _usage(folder: Path, wait_seconds: float) -> tuple[StoredEncoder, ...]:
    return tuple(
        _usage_of(path, wait_seconds)
        for path in sorted(folder.iterdir())
        if _NAME.fullmatch(path.name)
    )


def _usage_of(path: Path, wait_seconds: float) -> StoredEncoder:
    name: str | None = None
    n_texts: int | None = None
    used = path.stat().st_mtime
    try:
        connection = _open(path, wait_seconds)
        try:
            if _dimension(connection, path) is None:
                n_texts = 0
            else:
                fields, used = connection.execute("SELECT id, used FROM encoder").fetchone()
                name = EncoderId(**json.loads(fields)).label
                n_texts = int(connection.execute("SELECT count(*) FROM vectors").fetchone()[0])
        finally:
            connection.close()
    except (sqlite3.DatabaseError, ValueError, TypeError):
        pass  # listed without what could not be read
    n_bytes = sum(file.stat().st_size for file in _files(path))
    return StoredEncoder(path.stem, name, n_texts, n_bytes, datetime.fromtimestamp(used, UTC))


def _files(path: Path) -> list[Path]:
    """Return a database's files, itself first: without it, what is left of its log is ignored."""
    every = (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm"))
    return [file for file in every if file.exists()]


def _matching(
    folder: Path, held: tuple[StoredEncoder, ...], prefix: str
) -> tuple[StoredEncoder, ...]:
    found = tuple(one for one in held if one.digest.startswith(prefix))
    if len(found) != 1:
        there = ", ".join(one.digest for one in held) or "none"
        raise InputError(
            f"{folder}: {len(found)} encoders have a digest that begins with {prefix!r}, needed "
            f"is one; there are: {there}"
        )
    return found


def _wrong_dimension(path: Path, stored: int, given: int) -> InputError:
    return InputError(
        f"{path}: holds vectors of {stored} dimensions, got {given}; one encoder has one "
        "dimension, so delete the file if it is this one that is wrong"
    )


def _corrupt(path: Path, reason: object) -> InputError:
    return InputError(
        f"{path}: corrupt or not a store of embeddings ({reason}); delete it, with its -wal and "
        "-shm files, and its texts are encoded again"
    )


def _not_writable(path: Path, reason: object) -> InputError:
    return InputError(
        f"{path}: cannot be opened to read and write ({reason}); name another folder in "
        "POLARITY_BENCH_CACHE"
    )


def _is(error: sqlite3.Error, *names: str) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith(names)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Say what a database's error means for the user and what to do."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.DatabaseError as error:
        if _is(error, "SQLITE_BUSY", "SQLITE_LOCKED"):
            raise InputError(
                f"{path}: another process keeps it locked ({error}); run again when it is done"
            ) from error
        if _is(error, "SQLITE_FULL", "SQLITE_IOERR"):
            raise InputError(
                f"{path}: the disk is full or failing ({error}); what was stored before is "
                "whole: free some space, or name another folder in POLARITY_BENCH_CACHE"
            ) from error
        if _is(error, "SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM"):
            raise _not_writable(path, error) from error
        raise _corrupt(path, error) from error
    except OSError as error:
        raise _not_writable(path, error) from error
