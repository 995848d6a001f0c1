"""A server on this machine that behaves as badly as it is told to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Handler", "Server", "serving"]


@dataclass
class Server:
    """What is served, and what was asked and sent."""

    content: bytes = b""
    etag: str | None = '"one"'
    answers: list[Callable[[Handler], None]] = field(default_factory=list)  # one a request, then proper ones
    asked: list[dict[str, str]] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)  # bytes of content, one entry a request
    released: threading.Event = field(default_factory=threading.Event)
    url: str = ""


class Handler(BaseHTTPRequestHandler):
    served: Server

    def do_GET(self) -> None:
        self.served.asked.append({key.lower(): value for key, value in self.headers.items()})
        self.served.sent.append(0)
        answer = self.served.answers.pop(0) if self.served.answers else Handler.proper
        answer(self)

    def proper(self) -> None:
        """Ranges are honoured, unless If-Range names another version."""
        content, wanted = self.served.content, self.headers["Range"]
        if not wanted or self.headers["If-Range"] not in (None, self.served.etag):
            self.reply(200, content)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-"))
        if start >= len(content):
            self.reply(416, b"", {"Content-Range": f"bytes */{len(content)}"})
            return
        where = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
        self.reply(206, content[start:], where)

    def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None, length: int | None = None) -> None:
        self.send_response(status)
        named = {"Content-Length": str(len(body) if length is None else length), **(headers or {})}
        named |= {"ETag": self.served.etag} if self.served.etag else {}
        for key, value in named.items():
            self.send_header(key, value)
        self.end_headers()
        self.served.sent[-1] += len(body)  # before the client has it, and may ask for more
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def serving(content: bytes) -> Iterator[Server]:
    """Serve some bytes at a free port."""
    state = Server(content)
    kind = type("Serving", (Handler,), {"served": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}/data.bin"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
