"""`polarity-bench cache`: what is stored, and removing it."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable

import pytest
from standins import Done, HashEncoder, call

from polarity_bench.embedding.embedder import Embedder
from polarity_bench.embedding.store import EmbeddingStore
from polarity_bench.files import cache_folder

ONE, TWO = HashEncoder("org/one"), HashEncoder("two")


Cache = Callable[..., Done]


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cache:
    def cache(*arguments: str) -> Done:
        return call(monkeypatch, capsys, "cache", *arguments)

    return cache


@pytest.fixture
def stored() -> None:
    """Three texts of one encoder, last used 40 days ago, and two of another."""
    with EmbeddingStore() as store:
        Embedder(store).embed(ONE, ["a", "b", "c"])
        Embedder(store).embed(TWO, ["a", "b"])
        path = store.path(ONE.id)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE encoder SET used = ?", (time.time() - 40 * 86_400,))
    connection.close()


def shown(cache: Cache) -> dict[str, int]:
    done = cache("--json")
    assert (done.code, done.err) == (0, "")
    said = json.loads(done.out)
    assert said["folder"] == str(cache_folder() / "embeddings")
    return {row["encoder"]: row["texts"] for row in said["encoders"]}


def test_an_empty_cache_is_shown_and_pruned(cache: Cache) -> None:
    assert shown(cache) == {}
    assert cache().out.startswith(f"{cache_folder() / 'embeddings'}: 0.0 MB\n")
    done = cache("prune", "--all")
    assert (done.code, done.out) == (0, "removed the embeddings of 0 encoders, 0.0 MB\n")


@pytest.mark.usefixtures("stored")
def test_what_is_stored_is_shown(cache: Cache) -> None:
    assert shown(cache) == {"org/one": 3, "two": 2}
    done = cache()
    head, *rows = [line for line in done.out.splitlines() if line.startswith("| ")]
    assert [cell.strip() for cell in head.strip("|").split("|")] == [
        "encoder",
        "digest",
        "texts",
        "megabytes",
        "last used",
    ]
    assert {row.split("|")[2].strip() for row in rows} == {ONE.id.digest, TWO.id.digest}
    rows = json.loads(cache("--json").out)["encoders"]
    assert all(row["megabytes"] > 0 and "T" in row["last used"] for row in rows)


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        ((), ["org/one", "two"]),
        (("--older-than", "41"), ["org/one", "two"]),
        (("--older-than", "39.5"), ["two"]),
        (("--encoder", ONE.id.digest[:6]), ["two"]),
        (("--encoder", TWO.id.digest), ["org/one"]),
        (("--all",), []),
    ],
)
def test_prune_removes_what_was_named_alone(
    cache: Cache, arguments: tuple[str, ...], left: list[str]
) -> None:
    if arguments:
        done = cache("prune", *arguments)
        assert (done.code, done.err) == (0, "")
        n_removed = 2 - len(left)
        what = "1 encoder," if n_removed == 1 else f"{n_removed} encoders,"
        assert done.out.startswith(f"removed the embeddings of {what}")
    assert sorted(shown(cache)) == left


@pytest.mark.usefixtures("stored")
def test_what_was_removed_is_said_in_json(cache: Cache) -> None:
    said = json.loads(cache("prune", "--encoder", TWO.id.digest, "--json").out)
    assert [row["encoder"] for row in said["removed"]] == ["two"]


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "give exactly one of --older-than DAYS, --encoder DIGEST and -"),
        ("--all --encoder ab", "give exactly one of --older-than DAYS, --encoder DIGEST and -"),
        (
            "--all --older-than 0",
            "give exactly one of --older-than DAYS, --encoder DIGEST and -",
        ),
        (
            "--encoder zz",
            "expected the start of one digest, got that of 0",
        ),
        ("--older-than -1", "--older-than must be from 0 to 100000 days, got -1"),
        ("--older-than nan", "--older-than must be from 0 to 100000 days, got nan"),
        ("--older-than 1e9", "--older-than must be from 0 to 100000 days, got 1e+09"),
    ],
)
def test_a_wrong_combination_removes_nothing(cache: Cache, arguments: str, message: str) -> None:
    done = cache("prune", *arguments.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert message in done.err
    assert sorted(shown(cache)) == ["org/one", "two"]


@pytest.mark.usefixtures("stored")
def test_an_empty_beginning_of_a_digest_names_no_encoder(cache: Cache) -> None:
    with EmbeddingStore() as store:
        store.prune(lambda stored: tuple(one for one in stored if one.name == "org/one"))
    done = cache("prune", "--encoder", "")
    assert done.code == 2
    assert "--encoder : expected the start of one digest, got that of 1" in done.err
    assert sorted(shown(cache)) == ["two"]


@pytest.mark.usefixtures("stored")
def test_an_unreadable_file_is_listed_and_can_be_removed(cache: Cache) -> None:
    path = cache_folder() / "embeddings" / f"{ONE.id.digest}.sqlite"
    path.write_bytes(b"no database" * 200)
    assert shown(cache) == {"(unreadable)": None, "two": 2}
    assert "(unreadable)" in cache().out
    assert "None" not in cache().out
    assert cache("prune", "--encoder", ONE.id.digest).code == 0
    assert shown(cache) == {"two": 2}


@pytest.mark.usefixtures("stored")
def test_a_run_under_way_is_not_pruned(cache: Cache) -> None:
    with EmbeddingStore() as store:
        assert store.missing(ONE.id, ["a"]) == []
        done = cache("prune", "--all")
        assert done.code == 2
        assert "a run is using this folder" in done.err
    assert sorted(shown(cache)) == ["org/one", "two"]
