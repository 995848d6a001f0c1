"""How a service is to run: where, for whom, and within which limits."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from pydantic.dataclasses import dataclass

__all__ = ["Limits", "Options", "is_loopback"]


@dataclass(frozen=True)
class Limits:
    """What one request, and all together, may ask for."""

    body_bytes: int = 4 << 20  # enough for 100,000 pairs of short ids
    body_seconds: float = 10.0  # in which a body has to arrive whole
    pairs: int = 10_000  # scored or changed by one request
    nodes: int = 1_000  # asked about or added by one request
    recommend_nodes: int = 100  # each may mean a look at every node
    explained_pairs: int = 10  # each means several passes over the graph
    k: int = 1_000
    listed: int = 1_000  # nodes in a list
    mapped: int = 50_000  # nodes on a map
    seconds: float = 20.0  # for an answer
    at_once: int = 2  # questions that are worked on
    waiting: int = 64  # that may wait for their turn; more get 503 at once
    slow_at_once: int = 1  # explanations and maps
    slow_waiting: int = 8
    connections: int = 1_000


@dataclass(frozen=True)
class Options:
    """All that a process that serves needs to know."""

    model: Path
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    keys: Path | None = None  # file of hashed API keys
    read_only: bool = False
    log: Path | None = None  # change log; beside the model if not named
    carry_over: bool = False
    labels: Path | None = None  # table with ids, labels and attributes
    label_column: str | None = None
    id_column: str | None = None
    index: str = "auto"
    recall: float | None = None  # of the index; as that of a saved one, or 0.98, if not named
    access_log: Path | None = None  # file of JSON lines; standard error if not named
    shared: Path | None = None  # folder of the processes' counters
    limits: Limits = Limits()


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
