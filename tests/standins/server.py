"""A loopback web server that serves some files and records its requests."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Server:
    """The served files, by path, and the requested paths.

    `answers` has the status and the headers of paths that are answered in another way.
    """

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    answers: dict[str, tuple[int, dict[str, str]]] = field(default_factory=dict)


@contextmanager
def serve_files() -> Iterator[Server]:
    """Serve files on a free loopback port."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            return

        def do_GET(self) -> None:
            served.requests.append(self.path)
            content = served.files.get(self.path)
            usual = 404 if content is None else 200
            status, headers = served.answers.get(self.path, (usual, {}))
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(content or b""))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content or b"")

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Server(f"http://127.0.0.1:{httpd.server_address[1]}")
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield served
    httpd.shutdown()
    thread.join()
    httpd.server_close()
    with warnings.catch_warnings():  # pooch leaves the socket of a refused request open
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
