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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
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


_STATUSES: dict[str, tuple[int, dict[str, str]]] = {
    "416": (416, {}),
    "429": (429, {"Retry-After": "3600"}),
    "500": (500, {}),
    "503": (503, {}),
    "file 416": (416, {}),
    "file 429": (429, {"Retry-After": "7"}),
    "file 500": (500, {}),
    "file 503": (503, {}),
}
_TRY_AGAIN = {
    "stalls": "the connection failed (",
    "file stalls": "the connection failed (",
    "file is cut": "the connection failed (",
    "file is short": "a file has another size than the hub declares; try again",
    "file is long": "a file has another size than the hub declares; try again",
    "file is wrong": " arrived damaged and was removed; try again",
}
FAULTS = {
    name: f"the hub answered {status}; try again "
    + (f"in {int(headers['Retry-After']):,} seconds" if headers else "later")
    for name, (status, headers) in _STATUSES.items()
} | _TRY_AGAIN
"""What the message says of each fault, which all requests have, or those for files alone."""

_LARGE = (".parquet", ".safetensors", ".bin")
"""Files that the hub names by their SHA-256; the others have the hash of git."""


@cache
def _tag(file: bytes | Path, is_large: bool) -> str:
    content = file.read_bytes() if isinstance(file, Path) else file
    if is_large:
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass(frozen=True)
class Repo:
    """A repository with one commit, to which `main` points. A gated one needs a token."""

    commit: str
    files: Mapping[str, bytes | Path]
    is_gated: bool = False

    def content(self, path: str) -> bytes:
        file = self.files[path]
        return file.read_bytes() if isinstance(file, Path) else file

    def size(self, path: str) -> int:
        file = self.files[path]
        return file.stat().st_size if isinstance(file, Path) else len(file)

    def oid(self, path: str) -> str:
        return _tag(self.files[path], path.endswith(_LARGE))


@dataclass
class Hub:
    """What the stand-in serves, by ('datasets' or 'models', 'org/name'), and what it was asked.

    A request for /fault/NAME sets one of `FAULTS`, or none. A stalled answer ends with the next
    such request.
    """

    endpoint: str
    repos: dict[tuple[str, str], Repo] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    fault: str = ""
    moved_on: threading.Event = field(default_factory=threading.Event)


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
            if url.path.startswith("/fault/"):
                self.hub.fault = unquote(url.path).removeprefix("/fault/")
                self.hub.moved_on.set()
                self.hub.moved_on = threading.Event()
            return self._send(404, b'{"error": "no such route"}')
        fault = self.hub.fault
        if fault.startswith("file ") and not (file and self.command == "GET"):
            fault = ""
        if fault in _STATUSES:
            status, headers = _STATUSES[fault]
            return self._send(status, b'{"error": "a fault"}', headers=headers)
        if fault.endswith("stalls"):
            self.hub.moved_on.wait(60)
            self.close_connection = True
            return None
        repo = self.hub.repos.get((match["kind"] or "models", match["id"]))
        if repo is None:
            return self._refuse("RepoNotFound", "Repository not found")
        if repo.is_gated and "Authorization" not in self.headers:
            return self._refuse("GatedRepo", "Access to this data set is restricted", status=401)
        revision = match["revision"] or "main"
        if revision not in {"main", repo.commit}:
            return self._refuse("RevisionNotFound", f"Invalid rev id: {revision}")
        if file:
            return self._send_file(repo, file["path"], fault)
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

    def _send_file(self, repo: Repo, path: str, fault: str) -> None:
        if path not in repo.files:
            return self._refuse("EntryNotFound", "Entry not found")
        headers = {"ETag": f'"{repo.oid(path)}"', "X-Repo-Commit": repo.commit}
        content = repo.content(path)
        end: int | None = None
        if fault == "file is cut":
            self.close_connection, end = True, len(content) // 2
        elif fault == "file is short":
            content = content[:-9]
        elif fault == "file is long":
            content += bytes(9)
        elif fault == "file is wrong":
            content = content[:-40] + bytes(20) + content[-20:]
        return self._send(200, content, "application/octet-stream", headers, end)

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
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that gave up
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


_BEGIN = """
import os, shutil, types, urllib.parse, urllib.request
from huggingface_hub import constants, file_download
from huggingface_hub.utils import _http
from polarity_bench import hub

is_asking = False

def ask(path):
    global is_asking
    is_asking = True
    with contextlib.suppress(OSError):
        urllib.request.urlopen(os.environ["HF_ENDPOINT"] + urllib.parse.quote(path))
    is_asking = False

for module in (file_download, _http):
    module.time = types.SimpleNamespace(**{**vars(module.time), "sleep": lambda seconds: None})
limits = [
    (constants, "HF_HUB_DOWNLOAD_TIMEOUT"),
    (constants, "HF_HUB_ETAG_TIMEOUT"),
    (file_download, "_ETAG_RETRY_TIMEOUT"),
    (hub, "_SILENCE"),
]
usual = [getattr(*place) for place in limits]

def fault(name):
    if name:
        for cache in ("hub", "datasets"):
            shutil.rmtree(os.path.join(os.environ["HF_HOME"], cache), ignore_errors=True)
        if mteb_sets := sys.modules.get("polarity_bench.tasks.types.polarity.mteb_sets"):
            mteb_sets._load.cache_clear()
    for place, seconds in zip(limits, usual):
        setattr(*place, 0.2 if "stalls" in name else seconds)
    ask("/fault/" + name)
"""


REFUSING = """
def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto") and not is_asking:
        print("refused", event, file=sys.stderr)
        raise ConnectionRefusedError(event)

sys.addaudithook(refuse)
"""
"""Code that refuses all connections but those of `ask`, and says so on stderr."""


RUN = "run --json --overwrite --task-dir tasks"


def bench(
    hub: Hub,
    home: Path,
    commands: Mapping[str, str],
    before: Mapping[str, str] | None = None,
    *,
    begin: str = "",
) -> dict[str, Done]:
    """Run command lines by their names, one after the other in one process.

    Args:
        hub: The hub that the process reads.
        home: Folder of the process, and of its caches.
        commands: Command lines by name.
        before: Code to run before a command line, by its name; `fault(name)` empties the caches
            of the hub's libraries and sets a fault, `fault("")` repairs the hub.
        begin: Code to run before all of them, such as `REFUSING`.
    """
    hub.requests.clear()
    env = {name: v for name, v in os.environ.items() if not name.startswith("HF_")}
    env |= {
        "HF_ENDPOINT": hub.endpoint,
        "HF_HOME": str(home / "hf"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_VERBOSITY": "critical",
        "POLARITY_BENCH_CACHE": str(home / "cache"),
    }
    codes = ['ask("/next")\n' + (before or {}).get(name, "") for name in commands]
    lines = [shlex.split(command) for command in commands.values()]
    answers = call_several(lines, home, env, begin=_BEGIN + begin, before=codes)
    asked = [part.strip().splitlines() for part in "\n".join(hub.requests).split("GET /next")]
    return {
        name: Done(answer.code, answer.out, answer.err, requests)
        for name, answer, requests in zip(commands, answers, asked[1:], strict=True)
    }


def with_faults(first: str, command: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return command lines for `bench`, and the code before them.

    The command runs with each fault of `FAULTS`, named by a first word and the fault. After a
    fault that files have, it runs with the repaired hub, as `FIRST repaired FAULT`.
    """
    lines, before = {}, {}
    for name in FAULTS:
        lines[f"{first} {name}"], before[f"{first} {name}"] = command, f"fault({name!r})"
        if name.startswith("file "):
            repaired = f"{first} repaired {name}"
            lines[repaired], before[repaired] = command, 'fault("")'
    return lines, before


def part_of(done: Mapping[str, Done], first: str) -> dict[str, Done]:
    """Return the answers to the commands whose names begin with a word, by the other words."""
    named = (name.partition(" ") for name in done)
    return {rest: done[f"{first} {rest}"] for word, _, rest in named if word == first}


def check_faults(done: Mapping[str, Done], named: str, expected: dict[str, float]) -> None:
    """Check that each fault was named, and that nothing of it was left for the next command."""
    for name, why in FAULTS.items():
        assert named in done[name].error, name
        assert why in done[name].error, name
        if name.startswith("file "):
            assert done[f"repaired {name}"].scores == expected, name
