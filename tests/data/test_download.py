"""Downloads through a real HTTP server on loopback."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from standins import SOURCES, Server, csv_text, serve_files, write_task

from polarity_bench.data.sources import DataAccess
from polarity_bench.errors import InputError
from polarity_bench.files import cache_folder
from polarity_bench.tasks.catalogue import read_task
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity.task import PolaritySpec, PolarityTask

CONTENT = csv_text(SOURCES).encode()
SHA = hashlib.sha256(CONTENT).hexdigest()


# pooch leaves the sockets of refused requests open; `serve_files` collects them at its end.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module")
def files() -> Iterator[Server]:
    with serve_files() as server:
        yield server


@pytest.fixture
def server(files: Server) -> Server:
    """The server of the module with one file, without faults and requests."""
    files.files = {"/train.csv": CONTENT}
    files.requests.clear()
    files.answers.clear()
    return files


def load(
    folder: Path, url: str, checksum: str = SHA, offline: bool = False, key: str = "sha256"
) -> PolarityTask:
    file = write_task(folder, split=f'url = "{url}"\n{key} = "{checksum}"')
    (folder / "mini-source.csv").unlink()
    spec = read_task(file)
    assert isinstance(spec, PolaritySpec)
    return spec.load(DataAccess(offline=offline), Settings())


def downloaded() -> list[Path]:
    return [path for path in cache_folder().rglob("*") if path.is_file()]


def test_a_file_is_downloaded_once_and_found_again_offline(tmp_path: Path, server: Server) -> None:
    data = load(tmp_path, f"{server.url}/train.csv")
    assert data.source.texts == tuple(text for text, _ in SOURCES)
    assert server.requests == ["/train.csv"]
    (file,) = downloaded()
    assert file.read_bytes() == CONTENT
    assert load(tmp_path, f"{server.url}/train.csv", offline=True).digest == data.digest
    assert server.requests == ["/train.csv"]


def test_a_download_with_another_checksum_leaves_nothing(tmp_path: Path, server: Server) -> None:
    with pytest.raises(
        InputError, match=r"mini-source\.csv is not on this machine and downloading"
    ):
        load(tmp_path, f"{server.url}/train.csv", "0" * 64)
    assert downloaded() == []


def git_sha1(content: bytes) -> str:
    header = f"blob {len(content)}\0".encode()
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def test_a_file_may_have_the_checksum_that_git_computes(tmp_path: Path, server: Server) -> None:
    assert git_sha1(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"  # git hash-object
    right, url = git_sha1(CONTENT), f"{server.url}/train.csv"
    data = load(tmp_path, url, right, key="git_sha1")
    assert load(tmp_path, url, right, offline=True, key="git_sha1").digest == data.digest
    (file,) = downloaded()
    file.write_bytes(CONTENT[:-20])
    wanted = rf"mini expects the git_sha1 {right[:12]}…, got {git_sha1(CONTENT[:-20])[:12]}…"
    with pytest.raises(InputError, match=wanted):
        load(tmp_path, url, right, key="git_sha1")
    file.unlink()
    with pytest.raises(InputError, match=rf"expected git_sha1 0{{12}}…, got {right[:12]}…"):
        load(tmp_path, url, "0" * 40, key="git_sha1")
    assert downloaded() == []


def test_both_checksums_are_verified(tmp_path: Path, server: Server) -> None:
    two = f'{SHA}"\ngit_sha1 = "{"0" * 40}'
    with pytest.raises(InputError, match=r"expected git_sha1 0{12}…"):
        load(tmp_path, f"{server.url}/train.csv", two)


def test_a_damaged_earlier_download_is_refused(tmp_path: Path, server: Server) -> None:
    load(tmp_path, f"{server.url}/train.csv")
    (file,) = downloaded()
    file.write_bytes(CONTENT[:-20])
    with pytest.raises(InputError, match="is the file truncated or edited"):
        load(tmp_path, f"{server.url}/train.csv")


def test_a_file_that_is_not_there_says_where_and_how_to_help(
    tmp_path: Path, server: Server
) -> None:
    with pytest.raises(InputError, match=r"404.*To use a copy, put mini-source\.csv") as error:
        load(tmp_path, f"{server.url}/none.csv")
    assert f"{server.url}/none.csv" in str(error.value)
    assert downloaded() == []


@pytest.mark.parametrize(
    ("status", "headers", "reason"),
    [
        (401, {}, "401"),
        (403, {}, "403"),
        (416, {}, "416"),
        (429, {"Retry-After": "3600"}, "429"),
        (500, {}, "500"),
        (503, {}, "503"),
        (302, {"Location": "/train.csv"}, "redirects"),
        (200, {"Content-Length": str(len(CONTENT) + 9)}, "9 more expected"),
        (200, {"Content-Length": str(len(CONTENT) - 9)}, "expected sha256"),
        (200, {"Content-Encoding": "gzip"}, "gzip"),
    ],
)
def test_a_faulty_answer_leaves_nothing_and_the_next_command_succeeds(
    status: int, headers: dict[str, str], reason: str, tmp_path: Path, server: Server
) -> None:
    server.answers["/train.csv"] = (status, headers)
    with pytest.raises(InputError, match=f"{reason}.*To use a copy"):
        load(tmp_path, f"{server.url}/train.csv")
    assert downloaded() == []
    del server.answers["/train.csv"]
    load(tmp_path, f"{server.url}/train.csv")


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("POLARITY_BENCH_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(InputError, match="/file/cache'; set POLARITY_BENCH_CACHE to another fold"):
        load(tmp_path, f"{server.url}/train.csv")


def test_a_server_that_does_not_answer(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`data_dir` or POLARITY_BENCH_DATA"):
        load(tmp_path, "http://127.0.0.1:9/train.csv")
    assert downloaded() == []


def test_offline_forbids_the_download(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        pytest.fail("a connection")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with pytest.raises(InputError, match=r"`offline` \(or HF_HUB_OFFLINE\) forbids downloading"):
        load(tmp_path, f"{server.url}/train.csv", offline=True)
    assert server.requests == []
