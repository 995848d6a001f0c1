"""Log lines that a thread writes: whoever answers requests never waits for whoever reads the log."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

from yinyan.service.doors import escaped

__all__ = ["LogHandler", "LogLines"]

_WAITING = 10_000  # lines, about 2 MB
_STDERR = 2
_LOGGERS = ("uvicorn", "yinyan")
_LONGEST = 2_000  # characters of a message


class LogLines:
    """A bounded queue of lines and a thread that writes them to a file, or to standard error.

    A line that finds the queue full is dropped and counted. The file descriptor is written directly: a thread that is
    stuck in a write holds no lock of `sys.stderr`, so that the process can still end.
    """

    def __init__(self, path: Path | None, dropped: Callable[[], None], *, waiting: int = _WAITING) -> None:
        """`dropped` is called for each line that is lost."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = _STDERR if path is None else os.open(path, flags, 0o666)
        self._dropped = dropped
        self._queue: queue.Queue[str | None] = queue.Queue(waiting)
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def put(self, line: str) -> None:
        """Have a line written, without waiting for it."""
        try:
            self._queue.put_nowait(line)
        except queue.Full:
            self._dropped()

    def close(self, seconds: float = 1.0) -> None:
        """Write what waits, as far as somebody reads it within `seconds`."""
        deadline = time.monotonic() + seconds
        try:
            self._queue.put(None, timeout=seconds)
        except queue.Full:
            return  # nobody reads: the thread ends with the process
        self._thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        while (line := self._queue.get()) is not None:
            content = memoryview((line + "\n").encode("utf-8", "backslashreplace"))
            try:
                while content:
                    content = content[os.write(self._file, content) :]
            except OSError:  # a full disk, a closed pipe: there is nowhere to report it but in the count
                self._dropped()
        if self._file != _STDERR:
            os.close(self._file)


class LogHandler(logging.Handler):
    """Gives records of Python's logging to log lines, with what a client may have sent escaped."""

    def __init__(self, lines: LogLines) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """One line, and the lines of a traceback."""
        text = f"{record.levelname.lower()}: {escaped(record.getMessage(), _LONGEST)}"
        if record.exc_info:
            trace = logging.Formatter().formatException(record.exc_info)
            text = "\n".join([text, *(escaped(line, _LONGEST) for line in trace.split("\n"))])
        self._lines.put(text)

    def attach(self) -> None:
        """Take the place of handlers that would wait."""
        for name in _LOGGERS:
            logging.getLogger(name).addHandler(self)

    def detach(self) -> None:
        """Leave Python's logging as it was."""
        for name in _LOGGERS:
            logging.getLogger(name).removeHandler(self)
