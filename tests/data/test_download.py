"""Downloads through a real HTTP server on loopback."""

from __future__ import annotations

import gc
import gzip
import hashlib
import threading
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from standins import SOURCES, csv_text, write_task

from polarity_bench.data.sources import DataAccess
from polarity_bench.errors import InputError
from polarity_bench.files import cache_folder
from polarity_bench.kinds import read_task
from polarity_bench.kinds.polarity import PolaritySpec, PolarityTask
from polarity_bench.kinds.task import Settings

CONTENT = csv_text(SOURCES).encode()
SHA = hashlib.sha256(CONTENT).hexdigest()


class Server:
    def __init__(self, url: str, requests: list[str]) -> None:
        self.url = url
        self.requests = requests


@pytest.fixture
def server() -> Iterator[Server]:
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            return

        def do_GET(self) -> None:
            requests.append(self.path)
            found = {"/train.csv": CONTENT, "/train.csv.gz": gzip.compress(CONTENT, mtime=0)}
            content = found.get(self.path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield Server(f"http://127.0.0.1:{httpd.server_address[1]}", requests)
    httpd.shutdown()
    thread.join()
    httpd.server_close()
    with warnings.catch_warnings():  # pooch leaves the socket of a refused request open
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def load(folder: Path, url: str, sha256: str = SHA, offline: bool = False) -> PolarityTask:
    file = write_task(folder, split=f'url = "{url}"\nsha256 = "{sha256}"')
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


def test_a_damaged_earlier_download_is_refused(tmp_path: Path, server: Server) -> None:
    load(tmp_path, f"{server.url}/train.csv")
    (file,) = downloaded()
    file.write_bytes(CONTENT[:-20])
    with pytest.raises(InputError, match="a truncated or edited copy"):
        load(tmp_path, f"{server.url}/train.csv")


def test_a_file_that_is_not_there_says_where_and_how_to_help(
    tmp_path: Path, server: Server
) -> None:
    with pytest.raises(InputError, match=r"404.*To use a copy, put mini-source\.csv") as error:
        load(tmp_path, f"{server.url}/none.csv")
    assert f"{server.url}/none.csv" in str(error.value)
    assert downloaded() == []


def test_a_server_that_does_not_answer(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`data_dir` or POLARITY_BENCH_DATA"):
        load(tmp_path, "http://127.0.0.1:9/train.csv")
    assert downloaded() == []


def test_offline_forbids_the_download(tmp_path: Path, server: Server) -> None:
    with pytest.raises(InputError, match=r"`offline` \(or HF_HUB_OFFLINE\) forbids to download"):
        load(tmp_path, f"{server.url}/train.csv", offline=True)
    assert server.requests == []
