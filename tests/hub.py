"""A stand-in for the Hugging Face hub on loopback: the routes that `datasets` and
`huggingface_hub` call to read a repository at a commit, and no others.

Run the client in a subprocess with `HF_ENDPOINT` set to `Hub.endpoint`: the libraries read it on
import.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from standins import call_several

_API = re.compile(
    r"/api/(?P<kind>datasets|models)/(?P<id>[\w.-]+(?:/[\w.-]+)?)"
    r"(?:/(?P<verb>revision|tree|paths-info)/(?P<revision>[^/]+)(?:/(?P<path>.*))?)?"
)
_FILE = re.compile(
    r"/(?:(?P<kind>datasets)/)?(?P<id>[\w.-]+/[\w.-]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)"
)


@dataclass(frozen=True)
class Repo:
    """A repository with one commit, to which `main` points.

    A gated one needs a token. A slow one waits before it sends a file, in seconds. If it is cut,
    the connection closes in the middle of each parquet file.
    """

    commit: str
    files: Mapping[str, bytes | Path]
    is_gated: bool = False
    delay: float = 0.0
    is_cut: bool = False

    def content(self, path: str) -> bytes:
        file = self.files[path]
        return file.read_bytes() if isinstance(file, Path) else file

    def size(self, path: str) -> int:
        file = self.files[path]
        return file.stat().st_size if isinstance(file, Path) else len(file)

    @staticmethod
    def oid(path: str) -> str:
        return hashlib.sha1(path.encode()).hexdigest()


@dataclass
class Hub:
    """What the stand-in serves, by ('datasets' or 'models', 'org/name'), and what it was asked.

    After a request for /whole, no repository is cut any more.
    """

    endpoint: str
    repos: dict[tuple[str, str], Repo] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    has_cuts: bool = True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_: Any) -> None:
        return

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        self.hub.requests.append(f"{self.command} {unquote(self.path)}")
        api, file = _API.fullmatch(unquote(url.path)), _FILE.fullmatch(unquote(url.path))
        match = api or file
        if match is None:
            self.hub.has_cuts &= url.path != "/whole"
            return self._send(404, b'{"error": "no such route"}')
        repo = self.hub.repos.get((match["kind"] or "models", match["id"]))
        if repo is None:
            return self._refuse("RepoNotFound", "Repository not found")
        if repo.is_gated and "Authorization" not in self.headers:
            return self._refuse("GatedRepo", "Access to this data set is restricted", status=401)
        revision = match["revision"] or "main"
        if revision not in {"main", repo.commit}:
            return self._refuse("RevisionNotFound", f"Invalid rev id: {revision}")
        if file:
            return self._send_file(repo, file["path"])
        return self._send(200, json.dumps(self._api(repo, match, url.query, body)).encode())

    def _api(self, repo: Repo, match: re.Match[str], query: str, body: bytes) -> Any:
        entries = [
            {"type": "file", "path": path, "size": repo.size(path), "oid": repo.oid(path)}
            for path in sorted(repo.files)
        ]
        if match["verb"] == "tree":
            prefix = f"{match['path']}/" if match["path"] else ""
            return [entry for entry in entries if str(entry["path"]).startswith(prefix)]
        if match["verb"] == "paths-info":
            is_json = self.headers.get("Content-Type", "").startswith("application/json")
            asked = json.loads(body) if is_json else parse_qs(body.decode())
            return [entry for entry in entries if entry["path"] in asked["paths"]]
        return {
            "id": match["id"],
            "sha": repo.commit,
            "private": False,
            "gated": False,
            "disabled": False,
            "tags": [],
            "downloads": 0,
            "likes": 0,
            "siblings": [{"rfilename": entry["path"]} for entry in entries],
        }

    def _send_file(self, repo: Repo, path: str) -> None:
        if path not in repo.files:
            return self._refuse("EntryNotFound", "Entry not found")
        headers = {"ETag": f'"{repo.oid(path)}"', "X-Repo-Commit": repo.commit}
        time.sleep(repo.delay)
        content = repo.content(path)
        if repo.is_cut and self.hub.has_cuts and path.endswith(".parquet"):
            self.close_connection = True
            cut = len(content) // 2
            return self._send(200, content, "application/octet-stream", headers, cut)
        return self._send(200, content, "application/octet-stream", headers)

    def _refuse(self, code: str, message: str, status: int = 404) -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": message}
        self._send(status, json.dumps({"error": message}).encode(), headers=headers)

    def _send(
        self,
        status: int,
        content: bytes,
        kind: str = "application/json",
        headers: Mapping[str, str] | None = None,
        cut: int | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            with suppress(BrokenPipeError, ConnectionResetError):  # the client gave up
                self.wfile.write(content[:cut])


@contextmanager
def serve() -> Iterator[Hub]:
    """Serve a hub on a free port of loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {}))
    server.daemon_threads = True
    hub = Hub(f"http://127.0.0.1:{server.server_address[1]}")
    server.RequestHandlerClass.hub = hub  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass(frozen=True)
class Done:
    """What one command said, and what it asked the hub."""

    code: int
    out: str
    err: str
    requests: list[str]

    @property
    def error(self) -> str:
        assert self.code == 2, self.err
        said = json.loads(self.out)["error"]
        assert self.err.splitlines()[-1] == f"error: {said}"
        return self.err.splitlines()[-1]

    @property
    def scores(self) -> dict[str, float]:
        assert self.code == 0, self.err
        (result,) = json.loads(self.out)["results"]
        scores: dict[str, float] = result["scores"]
        return scores


_ASK = """
import os, urllib.request
def ask(path):
    with contextlib.suppress(OSError):
        urllib.request.urlopen(os.environ["HF_ENDPOINT"] + path)
"""


RUN = "run --json --overwrite --task-dir tasks"


def bench(
    hub: Hub,
    home: Path,
    commands: Mapping[str, str],
    before: Mapping[str, str] | None = None,
) -> dict[str, Done]:
    """Run command lines by their names, one after the other in one process.

    Args:
        hub: The hub that the process reads.
        home: Folder of the process, and of its caches.
        commands: Command lines by name.
        before: Code to run before a command line, by its name; `ask(path)` sends a request.
    """
    hub.requests.clear()
    env = {name: v for name, v in os.environ.items() if not name.startswith("HF_")}
    env |= {
        "HF_ENDPOINT": hub.endpoint,
        "HF_HOME": str(home / "hf"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_XET": "1",
        "POLARITY_BENCH_CACHE": str(home / "cache"),
    }
    codes = ['ask("/next")\n' + (before or {}).get(name, "") for name in commands]
    lines = [shlex.split(command) for command in commands.values()]
    answers = call_several(lines, home, env, begin=_ASK, before=codes)
    asked = [part.strip().splitlines() for part in "\n".join(hub.requests).split("GET /next")]
    return {
        name: Done(answer.code, answer.out, answer.err, requests)
        for name, answer, requests in zip(commands, answers, asked[1:], strict=True)
    }
