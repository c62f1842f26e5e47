"""SQLite files of the vector store: opening, checking and reading them, and their errors."""

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
# A page contains ten vectors of 384 dimensions. SQLite's default of 4096 bytes would leave a
# quarter of each page empty.
_PAGE_BYTES = 16384
# A batch changes pages throughout the index, and each checkpoint copies the changed pages from the
# log to the file. With SQLite's default of 1000 pages, checkpoints would be four times as frequent.
_LOG_PAGES = 4000  # 64 MB
# The number of rows per statement limits memory and respects SQLite's maximum number of parameters.
CHUNK = 1000
SYNCHRONOUS = "NORMAL"
"""Without a sync after each commit, commits still survive `kill -9`."""
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
    """Return the key of a text in a group, a 16-byte hash."""
    encoded = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(encoded, digest_size=16, key=group.encode()).digest()


def pack_row(key: bytes, vector: FloatArray) -> tuple[bytes, bytes, int]:
    """Return the row of a vector: its key, its bytes, and the checksum of both."""
    blob = vector.tobytes()
    return key, blob, zlib.crc32(blob, zlib.crc32(key))


def open_file(path: Path, wait_seconds: float) -> sqlite3.Connection:
    """Open a file with a limit on the time that statements wait for locks, in seconds."""
    connection = sqlite3.connect(path, timeout=wait_seconds, isolation_level=None)
    try:
        connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
    except BaseException:
        connection.close()
        raise
    return connection


def prepare_file(connection: sqlite3.Connection, path: Path, wait_seconds: float) -> None:
    """Set the page size and the write-ahead log of a new file; skip existing files."""
    if read_dimension(connection, path) is not None:
        return
    connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # SQLite does not wait if another process executes the same statement, so retry.
            if not _is_error(error, "SQLITE_BUSY", "SQLITE_LOCKED") or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def initialise_file(connection: sqlite3.Connection, encoder: EncoderId, dimension: int) -> None:
    """Create the tables of a new file and record its encoder and dimension."""
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_VERSION}")
    connection.execute(
        "INSERT INTO encoder (digest, id, dimension, created, used) VALUES (?, ?, ?, ?, ?)",
        (encoder.digest, json.dumps(encoder.to_record()), dimension, time.time(), time.time()),
    )


def read_dimension(connection: sqlite3.Connection, path: Path) -> int | None:
    """Return the dimension d of the vectors in a file; None if the file is empty.

    Raises:
        InputError: If the file is another kind of database, has another format version, or belongs
            to another encoder.
    """
    # Another process may create the tables at the same time, but in one transaction. If the first
    # statement finds a table, all later statements read complete data.
    table = connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application == 0 and table is None:
        return None
    if application != _APPLICATION:
        raise InputError(
            f"{path}: expected a file of the vector store, got another database; move the file out "
            "of the folder"
        )
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != _VERSION:
        raise InputError(
            f"{path}: expected format {_VERSION}, got {version}; delete the file, and its texts "
            "are encoded again"
        )
    rows = connection.execute("SELECT digest, dimension FROM encoder").fetchall()
    if len(rows) != 1 or rows[0][0] != path.stem:
        raise InputError(
            f"{path}: expected vectors of encoder {path.stem}, got vectors of encoder "
            f"{', '.join(str(row[0]) for row in rows)}; delete the file, and its texts are encoded "
            "again"
        )
    return int(rows[0][1])


def read_encoder(connection: sqlite3.Connection, path: Path) -> EncoderId:
    """Return the encoder that created a file; the file must not be empty.

    Raises:
        InputError: If the record of the encoder is damaged.
    """
    record = connection.execute("SELECT id FROM encoder").fetchone()[0]
    try:
        return EncoderId(**json.loads(record))
    except (ValueError, TypeError) as error:
        raise corrupt(path, "the record of the encoder is damaged") from error


def find_rows(connection: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, int]:
    """Return the row number of each key; missing keys are left out."""
    rows: dict[bytes, int] = {}
    for start in range(0, len(keys), CHUNK):
        chunk = keys[start : start + CHUNK]
        rows.update(
            connection.execute(
                f"SELECT key, row FROM vectors WHERE key IN ({_marks(chunk)})",  # noqa: S608  only question marks
                chunk,
            )
        )
    return rows


def read_vectors(
    connection: sqlite3.Connection, path: Path, key_of: Mapping[int, bytes], dimension: int
) -> dict[int, FloatArray]:
    """Read the vectors of rows and verify their checksums.

    Args:
        connection: Connection to the file.
        path: Path of the file, for error messages.
        key_of: Key of each row to read.
        dimension: Dimension d of the vectors.

    Returns:
        The vector of each row, (d,).

    Raises:
        InputError: If a row is missing or does not match its checksum.
    """
    stored = connection.execute(
        f"SELECT row, vector, crc FROM vectors WHERE row IN ({_marks(key_of)})",  # noqa: S608  only question marks
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
    "the file is corrupt or not part of the vector store ({}); delete the file and its -wal and "
    "-shm files, and its texts are encoded again"
)
_NOT_WRITABLE = (
    "the file cannot be opened for reading and writing ({}); set POLARITY_BENCH_CACHE to another "
    "folder"
)
_FULL = (
    "the disk is full or has an error ({}), but stored vectors are intact; free some space, or set "
    "POLARITY_BENCH_CACHE to another folder"
)
_LOCKED = "another process has locked the file ({}); run again when that process has finished"
_MEANINGS = {
    ("SQLITE_BUSY", "SQLITE_LOCKED"): _LOCKED,
    ("SQLITE_FULL", "SQLITE_IOERR"): _FULL,
    ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM"): _NOT_WRITABLE,
}
"""Error messages for SQLite errors, by error name; every other error means a corrupt file."""


def corrupt(path: Path, reason: object) -> InputError:
    """Return an error message for a corrupt file, as an `InputError`."""
    return InputError(f"{path}: {_CORRUPT.format(reason)}")


def _is_error(error: Exception, *names: str) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith(names)


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Convert database and file errors to an `InputError` with advice for the user."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except (sqlite3.DatabaseError, OSError) as error:
        meaning = _NOT_WRITABLE if isinstance(error, OSError) else _CORRUPT
        meaning = next(
            (what for names, what in _MEANINGS.items() if _is_error(error, *names)), meaning
        )
        raise InputError(f"{path}: {meaning.format(error)}") from error
