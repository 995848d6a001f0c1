"""The first of several processes: it starts the workers, and another one for each that ends."""

from __future__ import annotations

from uvicorn.supervisors.multiprocess import Multiprocess

__all__ = ["Supervisor"]


class Supervisor(Multiprocess):
    """uvicorn's, which also notices workers that end while it waits for a sign of life from them.

    A worker has minutes to answer, since it may be reading a large model. uvicorn keeps the worker's end of the pipe
    open in this process too, so that the end of a worker does not end the wait: for minutes nobody took its place, and
    no signal was handled.
    """

    def keep_subprocess_alive(self) -> None:
        """Look after each worker; called twice a second."""
        for process in self.processes:
            process.child_conn.close()  # here, where it serves nobody: the worker has its own
        super().keep_subprocess_alive()
