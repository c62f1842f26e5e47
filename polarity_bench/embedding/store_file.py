"""One SQLite file of the store: opening and checking the file, its rows, and its errors."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import time
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.values import FloatArray

_APPLICATION = int.from_bytes(b"POLB", "big")
_VERSION = 1
_PAGE_BYTES = 16384  # ten vectors of 384 per page; SQLite's 4096 would leave a quarter empty
# The keys of a batch are spread over the whole index. The log gets these pages once per batch, the
# file once per checkpoint. SQLite's default of 1000 pages would write and sync the index four times
# as often.
_LOG_PAGES = 4000  # 64 MB
CHUNK = 1000  # rows per statement: bounds memory and stays below SQLite's limit of parameters
FILE_NAME = re.compile(r"([0-9a-f]{16})\.sqlite")
_SCHEMA = (
    """CREATE TABLE encoder (
        digest TEXT NOT NULL, id TEXT NOT NULL, dimension INTEGER NOT NULL,
        created REAL NOT NULL, used REAL NOT NULL)""",
    """CREATE TABLE vectors (
        row INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE,
        vector BLOB NOT NULL, crc INTEGER NOT NULL)""",
)


def hash_text(text: str, group: str = "") -> bytes:
    """Return the key of a text, a 16-byte hash; a text has a different key in each group."""
    encoded = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(encoded, digest_size=16, key=group.encode()).digest()


def pack_row(key: bytes, vector: FloatArray) -> tuple[bytes, bytes, int]:
    """Return a row: key, little-endian float32 vector, checksum over both."""
    blob = vector.tobytes()
    return key, blob, zlib.crc32(blob, zlib.crc32(key))


def open_file(path: Path, wait_seconds: float) -> sqlite3.Connection:
    """Open a file; statements wait for locks up to `wait_seconds`."""
    connection = sqlite3.connect(path, timeout=wait_seconds, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = NORMAL")  # unsynced commits survive kill -9
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
    except BaseException:
        connection.close()
        raise
    return connection


def prepare_file(connection: sqlite3.Connection, path: Path, wait_seconds: float) -> None:
    """Set the page size and the write-ahead log of a new file; leave existing files unchanged."""
    if read_dimension(connection, path) is not None:
        return
    connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # SQLite does not wait here if another process runs the same step.
            if not _is(error, "SQLITE_BUSY", "SQLITE_LOCKED") or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def initialise_file(connection: sqlite3.Connection, encoder: EncoderId, dimension: int) -> None:
    """Create the tables of a new file."""
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_VERSION}")
    connection.execute(
        "INSERT INTO encoder (digest, id, dimension, created, used) VALUES (?, ?, ?, ?, ?)",
        (encoder.digest, json.dumps(encoder.to_dict()), dimension, time.time(), time.time()),
    )


def read_dimension(connection: sqlite3.Connection, path: Path) -> int | None:
    """Return the dimension d of the vectors in a file; None if the file is empty.

    Another process may create the tables meanwhile. It does so in one transaction, so whatever is
    read after the first table is complete.

    Raises:
        InputError: If the file is no store, has another format version, or belongs to another
            encoder.
    """
    table = connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application == 0 and table is None:
        return None
    if application != _APPLICATION:
        raise InputError(
            f"{path}: another database, not a store of embeddings; move it out of the folder"
        )
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != _VERSION:
        raise InputError(
            f"{path}: has format {version}, expected {_VERSION}; delete it, and its texts are "
            "encoded again"
        )
    rows = connection.execute("SELECT digest, dimension FROM encoder").fetchall()
    if len(rows) != 1 or rows[0][0] != path.stem:
        raise InputError(
            f"{path}: expected the vectors of encoder {path.stem}, got those of "
            f"{', '.join(str(row[0]) for row in rows)}; delete it, and its texts are encoded again"
        )
    return int(rows[0][1])


def find_rows(connection: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, int]:
    """Return the row of each stored key."""
    rows: dict[bytes, int] = {}
    for start in range(0, len(keys), CHUNK):
        chunk = keys[start : start + CHUNK]
        rows.update(
            connection.execute(
                f"SELECT key, row FROM vectors WHERE key IN ({_marks(chunk)})",  # noqa: S608
                chunk,
            )
        )
    return rows


def read_vectors(
    connection: sqlite3.Connection, path: Path, key_of: Mapping[int, bytes], dimension: int
) -> dict[int, FloatArray]:
    """Return the vectors of some rows, each checked against its key, (d,), by row."""
    stored = connection.execute(
        f"SELECT row, vector, crc FROM vectors WHERE row IN ({_marks(key_of)})",  # noqa: S608
        list(key_of),
    )
    vectors = {
        row: np.frombuffer(blob, dtype="<f4")
        for row, blob, crc in stored
        if len(blob) == dimension * 4 and zlib.crc32(blob, zlib.crc32(key_of[row])) == crc
    }
    if len(vectors) < len(key_of):
        raise corrupt(path, "a vector does not match its checksum")
    return vectors


def _marks(values: Collection[object]) -> str:
    return ",".join("?" * len(values))


_CORRUPT = (
    "corrupt or not a store of embeddings ({}); delete it, with its -wal and -shm files, and its "
    "texts are encoded again"
)
_NOT_WRITABLE = (
    "cannot be opened for reading and writing ({}); set POLARITY_BENCH_CACHE to another folder"
)
_FULL = (
    "the disk is full or failing ({}); stored vectors are intact: free some space, or set "
    "POLARITY_BENCH_CACHE to another folder"
)
_LOCKED = "another process has locked it ({}); run again when that process is done"
_MEANINGS = {
    ("SQLITE_BUSY", "SQLITE_LOCKED"): _LOCKED,
    ("SQLITE_FULL", "SQLITE_IOERR"): _FULL,
    ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM"): _NOT_WRITABLE,
}
"""Names of SQLite errors, and their meaning to the user; all other errors mean a corrupt file."""


def corrupt(path: Path, reason: object) -> InputError:
    """Return the error for a corrupt file."""
    return InputError(f"{path}: {_CORRUPT.format(reason)}")


def _is(error: Exception, *names: str) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith(names)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Convert database errors to errors that tell the user what is wrong and what to do."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except (sqlite3.DatabaseError, OSError) as error:
        meaning = _NOT_WRITABLE if isinstance(error, OSError) else _CORRUPT
        meaning = next((what for names, what in _MEANINGS.items() if _is(error, *names)), meaning)
        raise InputError(f"{path}: {meaning.format(error)}") from error
