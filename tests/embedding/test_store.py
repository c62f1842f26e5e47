from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from polarity_bench.embedding.arrays import ArrayStorage, MemoryStore
from polarity_bench.embedding.store import EmbeddingStore, StoredEncoder
from polarity_bench.embedding.store_file import (
    initialise_file,
    open_file,
    prepare_file,
    read_dimension,
)
from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.values import FloatArray

ROOT = Path(__file__).parents[2]
ENCODER = EncoderId(name="hash", weights="a")
TEXTS = [f"text {i}" for i in range(2500)]
Store = EmbeddingStore | MemoryStore


def vectors_of(texts: list[str], dimension: int = 8) -> FloatArray:
    seeds = [int.from_bytes(text.encode()[-6:], "big") for text in texts]
    return np.stack(
        [np.random.default_rng(seed).standard_normal(dimension, np.float32) for seed in seeds]
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddingStore]:
    with EmbeddingStore(tmp_path) as store:
        yield store


@pytest.fixture(params=["on disk", "in memory"])
def either(request: pytest.FixtureRequest, store: EmbeddingStore) -> Store:
    """What both stores promise."""
    return store if request.param == "on disk" else MemoryStore([*TEXTS, "b", "a", "c"])


def everything(stored: tuple[StoredEncoder, ...]) -> tuple[StoredEncoder, ...]:
    return stored


def age(path: Path, days: float) -> None:
    connection = sqlite3.connect(path)
    connection.execute("UPDATE encoder SET used = ?", (time.time() - days * 86400,))
    connection.commit()
    connection.close()


def test_what_is_written_is_read_in_any_order_and_repeated(either: Store) -> None:
    vectors = vectors_of(TEXTS)
    order = np.random.default_rng(0).permutation(len(TEXTS))
    for start in range(0, len(TEXTS), 300):
        chunk = order[start : start + 300]
        either.write(ENCODER, [TEXTS[i] for i in chunk], vectors[chunk])
    asked = [*range(len(TEXTS)), *order, 7, 7, 7]
    assert np.array_equal(either.read(ENCODER, [TEXTS[i] for i in asked]), vectors[asked])


def test_missing_keeps_the_order(either: Store) -> None:
    assert either.missing(ENCODER, ["b", "a"]) == ["b", "a"]
    either.write(ENCODER, ["b"], vectors_of(["b"]))
    assert either.missing(ENCODER, ["c", "b", "a"]) == ["c", "a"]


def test_asking_makes_no_file(store: EmbeddingStore, tmp_path: Path) -> None:
    assert store.missing(ENCODER, ["a"]) == ["a"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "other",
    [
        replace(ENCODER, weights="b"),
        replace(ENCODER, prompt="query: "),
        replace(ENCODER, max_tokens=64),
        replace(ENCODER, dtype="float16"),
    ],
)
def test_another_encoder_is_served_nothing(either: Store, other: EncoderId) -> None:
    either.write(ENCODER, ["a"], vectors_of(["a"]))
    assert either.missing(other, ["a"]) == ["a"]
    with pytest.raises(KeyError, match="no vector"):
        either.read(other, ["a"])


def test_the_name_is_no_part_of_the_key(either: Store) -> None:
    either.write(ENCODER, ["a"], vectors_of(["a"]))
    assert either.missing(replace(ENCODER, name="renamed"), ["a"]) == []


@pytest.mark.parametrize("text", ["", "é", "e\u0301", "\x00", "\ud800", "🙂 " * 5000])
def test_every_string_is_a_key_of_its_own(store: EmbeddingStore, text: str) -> None:
    store.write(ENCODER, [text], vectors_of(["a"]))
    assert store.missing(ENCODER, [text, text + " "]) == [text + " "]
    assert np.array_equal(store.read(ENCODER, [text]), vectors_of(["a"]))


def test_the_first_vector_of_a_text_stays(either: Store) -> None:
    either.write(ENCODER, ["a"], vectors_of(["a"]))
    either.write(ENCODER, ["a", "b"], vectors_of(["x", "b"]))
    assert np.array_equal(either.read(ENCODER, ["a", "b"]), vectors_of(["a", "b"]))


def test_a_text_that_is_not_stored_is_named(either: Store) -> None:
    either.write(ENCODER, ["a"], vectors_of(["a"]))
    with pytest.raises(KeyError, match="no vector is stored for the text 'b'"):
        either.read(ENCODER, ["a", "b"])


def test_another_dimension_is_refused_and_changes_nothing(store: EmbeddingStore) -> None:
    store.write(ENCODER, ["a"], vectors_of(["a"]))
    with pytest.raises(
        InputError, match=r"\.sqlite: expected vectors of 8 dimensions as in the file, got 4"
    ):
        store.write(ENCODER, ["b"], vectors_of(["b"], 4))
    assert store.missing(ENCODER, ["a", "b"]) == ["b"]


def test_shapes_that_do_not_fit_are_refused(store: EmbeddingStore) -> None:
    with pytest.raises(ValueError, match=r"expected vectors of shape \(2, d\) for 2 texts"):
        store.write(ENCODER, ["a", "b"], vectors_of(["a"]))


@pytest.mark.parametrize(
    "content", [b"not a database" * 1000, b"SQLite format 3\x00" + b"x" * 9000]
)
def test_a_corrupt_file_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    with EmbeddingStore(tmp_path) as store:
        store.path(ENCODER).write_bytes(content)
        for call in (
            lambda: store.missing(ENCODER, ["a"]),
            lambda: store.write(ENCODER, ["a"], vectors_of(["a"])),
            lambda: store.read(ENCODER, ["a"]),
        ):
            with pytest.raises(InputError, match=rf"{ENCODER.digest}\.sqlite: .*delete the file"):
                call()
    assert store.path(ENCODER).read_bytes() == content


def test_a_flipped_bit_is_refused(tmp_path: Path) -> None:
    with EmbeddingStore(tmp_path) as store:
        store.write(ENCODER, ["a"], vectors_of(["a"]))
    content = bytearray(store.path(ENCODER).read_bytes())
    content[content.index(vectors_of(["a"]).tobytes()) + 3] ^= 1
    store.path(ENCODER).write_bytes(content)
    with (
        EmbeddingStore(tmp_path) as store,
        pytest.raises(InputError, match=r"checksum.*delete the file"),
    ):
        store.read(ENCODER, ["a"])


def test_another_encoders_file_is_refused(tmp_path: Path) -> None:
    other = replace(ENCODER, weights="b")
    with EmbeddingStore(tmp_path) as store:
        store.write(other, ["a"], vectors_of(["a"]))
    shutil.copy(store.path(other), store.path(ENCODER))
    refused = pytest.raises(
        InputError, match=f"got vectors of encoder {other.digest}; delete the file"
    )
    with EmbeddingStore(tmp_path) as store, refused:
        store.missing(ENCODER, ["a"])


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("PRAGMA application_id = 7", "got another database; move the file"),
        ("PRAGMA user_version = 9", "expected format 1, got 9; delete the file"),
        ("DROP TABLE vectors", "no such table: vectors.*delete the file"),
    ],
)
def test_a_foreign_database_is_refused(tmp_path: Path, statement: str, message: str) -> None:
    with EmbeddingStore(tmp_path) as store:
        store.write(ENCODER, ["a"], vectors_of(["a"]))
    connection = sqlite3.connect(store.path(ENCODER))
    connection.execute(statement)
    connection.close()
    with EmbeddingStore(tmp_path) as store, pytest.raises(InputError, match=message):
        store.missing(ENCODER, ["a"])


def test_an_empty_file_left_by_a_killed_process_is_filled(store: EmbeddingStore) -> None:
    store.path(ENCODER).touch()
    assert store.missing(ENCODER, ["a"]) == ["a"]
    store.write(ENCODER, ["a"], vectors_of(["a"]))
    assert store.missing(ENCODER, ["a"]) == []


def test_a_full_disk_leaves_what_was_there_whole(tmp_path: Path) -> None:
    with EmbeddingStore(tmp_path) as store:
        store.write(ENCODER, TEXTS[:100], vectors_of(TEXTS[:100]))
        connection = store._connections[ENCODER.digest]
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(InputError, match=r"the disk is full.*free some space"):
            store.write(ENCODER, TEXTS[100:], vectors_of(TEXTS[100:]))
        assert store.missing(ENCODER, TEXTS) == TEXTS[100:]
    with EmbeddingStore(tmp_path) as store:
        store.write(ENCODER, TEXTS[100:], vectors_of(TEXTS[100:]))
        assert np.array_equal(store.read(ENCODER, TEXTS), vectors_of(TEXTS))


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
def test_a_file_that_cannot_grow_leaves_what_was_there_whole(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from pathlib import Path; import tests.embedding.test_store as t\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2 ** 18, 2 ** 18))\n"
        "with t.EmbeddingStore(Path(sys.argv[1])) as store:\n"
        "    for i in range(0, 2500, 50):\n"
        "        store.write(t.ENCODER, t.TEXTS[i:i+50], t.vectors_of(t.TEXTS[i:i+50], 64))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code, tmp_path], cwd=ROOT, capture_output=True)
    assert b"InputError" in ended.stderr
    assert b"the disk is full or has an error" in ended.stderr
    with EmbeddingStore(tmp_path) as store:
        missing = store.missing(ENCODER, TEXTS)
        kept = TEXTS[: len(TEXTS) - len(missing)]
        assert kept
        assert missing == TEXTS[len(kept) :]
        assert np.array_equal(store.read(ENCODER, kept), vectors_of(kept, 64))


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = pytest.raises(InputError, match="set POLARITY_BENCH_CACHE to another folder")
    with EmbeddingStore(tmp_path / "file" / "folder") as store, refused:
        store.write(ENCODER, ["a"], vectors_of(["a"]))


def test_a_lock_that_is_never_let_go_is_named(tmp_path: Path) -> None:
    with EmbeddingStore(tmp_path, wait_seconds=0.05) as store:
        store.write(ENCODER, ["a"], vectors_of(["a"]))
        holder = sqlite3.connect(store.path(ENCODER), isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(InputError, match="another process has locked the file"):
            store.write(ENCODER, ["b"], vectors_of(["b"]))
        assert store.missing(ENCODER, ["a", "b"]) == ["b"]  # reading does not wait
        holder.close()


WRITER = """
import sys, time
from pathlib import Path
import tests.embedding.test_store as t
shift = int(sys.argv[2])
with t.EmbeddingStore(Path(sys.argv[1])) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(0, 1000, 20):
        texts = [t.TEXTS[(i + j + shift) % 1000] for j in range(20)]
        store.write(t.ENCODER, texts, t.vectors_of(texts))
"""


def test_processes_may_write_the_same_texts_at_once(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, tmp_path, shift],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for shift in ("0", "0", "310")
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:  # all at once, the making of the file included
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    with EmbeddingStore(tmp_path) as store:
        assert np.array_equal(store.read(ENCODER, TEXTS[:1000]), vectors_of(TEXTS[:1000]))
        assert [one.n_texts for one in store.usage()] == [1000]


class Raced:
    """A connection to an empty file that another process fills after one statement."""

    def __init__(self, connection: sqlite3.Connection, path: Path, after: str) -> None:
        self._connection, self._path, self._after = connection, path, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str) -> Any:
        rows = self._connection.execute(statement).fetchall()  # all, so that no lock is left
        if statement == self._after:
            with closing(open_file(self._path, 5)) as other, other:
                other.execute("BEGIN IMMEDIATE")
                initialise_file(other, ENCODER, 8)
        return SimpleNamespace(fetchone=lambda: rows[0] if rows else None, fetchall=lambda: rows)


@pytest.mark.parametrize(
    ("after", "dimension"),
    [("SELECT 1 FROM sqlite_master", 8), ("PRAGMA application_id", None)],
)
def test_a_file_that_another_process_fills_at_this_moment_is_ours(
    tmp_path: Path, after: str, dimension: int | None
) -> None:
    path = tmp_path / f"{ENCODER.digest}.sqlite"
    with closing(open_file(path, 5)) as connection:
        prepare_file(connection, path, 5)
        raced: Any = Raced(connection, path, after)
        assert read_dimension(raced, path) == dimension
        assert read_dimension(connection, path) == 8


def test_usage_says_what_is_stored(store: EmbeddingStore) -> None:
    other = replace(ENCODER, prompt="query: ")
    store.write(ENCODER, TEXTS[:10], vectors_of(TEXTS[:10]))
    store.write(other, TEXTS[:3], vectors_of(TEXTS[:3]))
    broken = store.folder / ("0" * 16 + ".sqlite")
    broken.write_bytes(b"broken" * 100)
    (store.folder / "notes.txt").write_text("not ours")
    (store.folder / "mine.sqlite").write_text("not ours")
    listed = {one.digest: one for one in store.usage()}
    assert set(listed) == {ENCODER.digest, other.digest, "0" * 16}
    assert (listed[ENCODER.digest].name, listed[ENCODER.digest].n_texts) == ("hash", 10)
    assert (listed[other.digest].name, listed[other.digest].n_texts) == (other.label, 3)
    assert (listed["0" * 16].name, listed["0" * 16].n_texts) == (None, None)
    assert listed["0" * 16].n_bytes == 600
    assert listed[ENCODER.digest].n_bytes > 10 * 8 * 4
    assert abs(listed[ENCODER.digest].last_used.timestamp() - time.time()) < 60


def test_usage_of_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    with EmbeddingStore(tmp_path / "none") as store:
        assert store.usage() == ()
        assert store.prune(everything) == ()
    assert not (tmp_path / "none").exists()


def test_opening_is_using(store: EmbeddingStore) -> None:
    for encoder in (ENCODER, replace(ENCODER, weights="b")):
        store.write(encoder, ["a"], vectors_of(["a"]))
        store.close()
        age(store.path(encoder), days=10)
    store.missing(ENCODER, ["a"])
    used = {one.digest: one.last_used for one in store.usage()}
    now = datetime.now(UTC)
    assert now - used.pop(ENCODER.digest) < timedelta(minutes=5)
    assert [(now - last).days for last in used.values()] == [10]


def test_prune_deletes_what_is_chosen(store: EmbeddingStore) -> None:
    other = replace(ENCODER, weights="b")
    for encoder in (ENCODER, other):
        store.write(encoder, ["a"], vectors_of(["a"]))
    (removed,) = store.prune(lambda stored: stored[:1])
    (left,) = store.usage()
    assert {removed.digest, left.digest} == {ENCODER.digest, other.digest}
    assert store.missing(ENCODER, ["a"]) == (["a"] if removed.digest == ENCODER.digest else [])


def test_prune_everything_deletes_broken_files_and_leaves_what_is_not_ours(
    store: EmbeddingStore,
) -> None:
    store.write(ENCODER, ["a"], vectors_of(["a"]))
    (store.folder / ("0" * 16 + ".sqlite")).write_bytes(b"broken" * 100)
    (store.folder / "notes.txt").touch()
    assert len(store.prune(everything)) == 2
    assert {path.name for path in store.folder.iterdir()} == {".lock", "notes.txt"}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows refuses by itself")
def test_prune_leaves_a_folder_in_use_alone(store: EmbeddingStore) -> None:
    store.write(ENCODER, ["a"], vectors_of(["a"]))
    with EmbeddingStore(store.folder) as another:
        with pytest.raises(InputError, match="a run is using this folder"):
            another.prune(everything)
        store.close()
        assert len(another.prune(everything)) == 1


def test_the_folder_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("POLARITY_BENCH_CACHE", str(tmp_path))
    assert EmbeddingStore().folder == tmp_path / "embeddings"


def test_a_large_array_lies_in_a_file_without_a_name(tmp_path: Path) -> None:
    room = ArrayStorage(tmp_path, memory_bytes=320)
    small, large = room.array(10, 8), room.array(11, 8)
    assert type(small) is np.ndarray
    assert isinstance(large, np.memmap)
    assert large.shape == (11, 8)
    assert large.dtype == np.float32
    large[:] = 1.5
    assert large.sum() == 1.5 * 88
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the file is sparse")
def test_a_file_that_does_not_fit_the_disk_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*arguments: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(InputError, match=r"no space for a temporary file of 2.0 GiB.*free some"):
        ArrayStorage(tmp_path, memory_bytes=1).array(2**20, 512)


def test_a_store_reads_into_a_file(tmp_path: Path) -> None:
    with EmbeddingStore(tmp_path, memory_bytes=100) as on_disk:
        for store in (on_disk, MemoryStore(TEXTS, ArrayStorage(tmp_path, memory_bytes=100))):
            store.write(ENCODER, TEXTS, vectors_of(TEXTS))
            for texts in (TEXTS, TEXTS[::-1]):
                vectors = store.read(ENCODER, texts)
                assert isinstance(vectors, np.memmap)
                assert np.array_equal(vectors, vectors_of(texts))
