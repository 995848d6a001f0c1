"""A stand-in for a Neo4j server: it speaks Bolt to the real driver, and answers queries as a test says.

It knows no Cypher: what is tested with it is the traffic, not the meaning of a query.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_MAGIC, _VERSION = b"\x60\x60\xb0\x17", bytes([0, 0, 4, 5])  # Bolt 5.4
_NAMES = {0x01: "HELLO", 0x02: "GOODBYE", 0x0F: "RESET", 0x10: "RUN", 0x11: "BEGIN", 0x12: "COMMIT"}
_NAMES |= {0x13: "ROLLBACK", 0x2F: "DISCARD", 0x3F: "PULL", 0x54: "TELEMETRY", 0x66: "ROUTE", 0x6A: "LOGON"}


class Answer(NamedTuple):
    """What a query finds, or why it fails."""

    columns: tuple[str, ...] = ()
    rows: list[tuple[Any, ...]] = []  # noqa: RUF012
    created: int = 0
    failure: str = ""


class BoltServer:
    """`messages` are the names of those received, `queries` the queries with their parameters."""

    def __init__(self, answer: Callable[[str, dict[str, Any]], Answer]) -> None:
        self.answer = answer
        self.messages: list[str] = []
        self.queries: list[tuple[str, dict[str, Any]]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"bolt://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rwb") as stream:
            assert stream.read(20)[:4] == _MAGIC
            stream.write(_VERSION)
            stream.flush()
            found, failed = Answer(), False
            for tag, fields in _received(stream):
                name = _NAMES[tag]
                if name not in ("HELLO", "LOGON", "TELEMETRY", "RESET", "GOODBYE"):
                    self.messages.append(name)
                if name == "GOODBYE":
                    return
                failed = failed and name != "RESET"
                if failed:
                    _send(stream, 0x7E)
                    continue
                if name == "RUN":
                    self.queries.append((fields[0], fields[1]))
                    found = self.answer(fields[0], fields[1])
                    if found.failure:
                        failed = True
                        _send(stream, 0x7F, {"code": "Neo.ClientError.Statement.SyntaxError", "message": found.failure})
                        continue
                    _send(stream, 0x70, {"fields": list(found.columns)})
                elif name in ("PULL", "DISCARD"):
                    for row in found.rows if name == "PULL" else ():
                        _send(stream, 0x71, list(row))
                    stats = {"contains-updates": True, "relationships-created": found.created} if found.created else {}
                    _send(stream, 0x70, {"has_more": False, "type": "rw", "stats": stats})
                elif name == "HELLO":
                    _send(stream, 0x70, {"server": "Neo4j/5.13.0", "connection_id": "bolt-1", "hints": {}})
                else:
                    _send(stream, 0x70, {})


def _received(stream: Any) -> Iterator[tuple[int, list[Any]]]:
    """Messages, put together from their chunks."""
    while True:
        content = b""
        while size := struct.unpack(">H", stream.read(2).rjust(2, b"\0"))[0]:
            content += stream.read(size)
        if not content:
            return
        fields, at = [], 2
        for _ in range(content[0] & 0x0F):
            value, at = _unpacked(content, at)
            fields.append(value)
        yield content[1], fields


def _send(stream: Any, tag: int, *fields: Any) -> None:
    content = bytes([0xB0 | len(fields), tag]) + b"".join(map(_packed, fields))
    for start in range(0, len(content), 0xFFFF):
        part = content[start : start + 0xFFFF]
        stream.write(struct.pack(">H", len(part)) + part)
    stream.write(b"\0\0")
    stream.flush()


def _packed(value: Any) -> bytes:
    """PackStream, with long headers."""
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", True: b"\xc3", False: b"\xc2"}[value]
    if isinstance(value, int):
        return b"\xcb" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"\xc1" + struct.pack(">d", value)
    if isinstance(value, str):
        text = value.encode()
        return b"\xd2" + struct.pack(">I", len(text)) + text
    if isinstance(value, list):
        return b"\xd6" + struct.pack(">I", len(value)) + b"".join(map(_packed, value))
    assert isinstance(value, dict)
    return b"\xda" + struct.pack(">I", len(value)) + b"".join(_packed(k) + _packed(v) for k, v in value.items())


def _unpacked(content: bytes, at: int) -> tuple[Any, int]:
    marker, at = content[at], at + 1
    constants = {0xC0: None, 0xC2: False, 0xC3: True}
    if marker in constants:
        return constants[marker], at
    if marker < 0x80 or marker >= 0xF0:
        return marker - (0x100 if marker >= 0xF0 else 0), at
    for kind, numbers in (("b", 0xC8), ("h", 0xC9), ("i", 0xCA), ("q", 0xCB), ("d", 0xC1)):
        if marker == numbers:
            size = struct.calcsize(kind)
            return struct.unpack(f">{kind}", content[at : at + size])[0], at + size
    for first, tiny in ((0xD0, 0x80), (0xD4, 0x90), (0xD8, 0xA0)):  # texts, lists, maps
        if first <= marker < first + 3:
            size = 1 << (marker - first)
            count, at = int.from_bytes(content[at : at + size], "big"), at + size
        elif tiny <= marker < tiny + 0x10:
            count = marker - tiny
        else:
            continue
        if first == 0xD0:
            return content[at : at + count].decode(), at + count
        values = []
        for _ in range(count * (2 if first == 0xD8 else 1)):
            value, at = _unpacked(content, at)
            values.append(value)
        return (dict(zip(values[::2], values[1::2], strict=True)) if first == 0xD8 else values), at
    raise AssertionError(f"a value of unknown kind: {marker:#x}")
