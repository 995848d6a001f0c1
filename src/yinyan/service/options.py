"""How a service is to run: where, for whom, and within which limits."""

from __future__ import annotations

import ipaddress
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

from pydantic import PlainValidator
from pydantic.dataclasses import dataclass

from yinyan.errors import SettingsError
from yinyan.live.database_url import is_url
from yinyan.service import sizes

__all__ = ["Limits", "Options", "check_metrics", "check_proxy", "is_loopback"]


@dataclass(frozen=True)
class Limits:
    """What one request, and all together, may ask for."""

    body_bytes: int = sizes.BODY_BYTES
    body_seconds: float = 10.0  # in which a body has to arrive whole
    lists: int = 50_000  # lists and objects of one body: more than any valid request has
    pairs: int = sizes.PAIRS  # scored or changed by one request; also links of its new nodes
    nodes: int = sizes.NODES  # asked about or added by one request
    features: int = 100_000  # values or columns of one new node
    recommend_nodes: int = sizes.RECOMMEND_NODES
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


def _log(given: Any) -> Path | str | None:
    """A URL stays a text, also on its way to another process: a path of it would show its password."""
    return given if given is None or is_url(str(given)) else Path(given)


@dataclass(frozen=True)
class Options:
    """All that a process that serves needs to know."""

    model: Path
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    threads: int | None = None  # of each process, for one question; else the cores shared among all
    keys: Path | None = None  # file of hashed API keys
    metrics_keys: Path | None = None  # file of hashed keys that open /metrics alone
    metrics_open: bool = False  # /metrics without a key
    read_only: bool = False
    # change log: a file or a postgresql:// URL, whose password is not shown; beside the model if not named
    log: Annotated[Path | str | None, PlainValidator(_log)] = field(default=None, repr=False)
    carry_over: bool = False
    accept_loss: bool = False  # go on with a change log that lost its newest changes
    labels: Path | None = None  # table with ids, labels and attributes; those of the model if not named
    no_labels: bool = False  # show neither
    label_column: str | None = None
    id_column: str | None = None
    index: str = "auto"
    proxy: str | None = None  # address of the proxy whose X-Forwarded-For is believed; none if not named
    recall: float | None = None  # of the index; as that of a saved one, or 0.98, if not named
    access_log: Path | None = None  # file of JSON lines; standard error if not named
    shared: Path | None = None  # folder of the processes' counters
    limits: Limits = Limits()


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    if host == "localhost":
        return True
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False


def check_metrics(options: Options) -> None:
    """Refuse two contradictory wishes about /metrics."""
    if options.metrics_open and options.metrics_keys is not None:
        raise SettingsError("--metrics-open and --metrics-keys exclude each other: leave one out")


def check_proxy(proxy: str | None) -> None:
    """Refuse what is no address of a proxy: everybody would be one with `*`."""
    try:
        if proxy is not None:
            ipaddress.ip_network(proxy, strict=False)
    except ValueError:
        raise SettingsError(f"'proxy' needs to be an IP address or network, as 10.0.0.5 (got {proxy!r})") from None
