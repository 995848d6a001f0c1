"""How large one request may be: the service refuses more, and the client sends several."""

from __future__ import annotations

__all__ = ["BODY_BYTES", "NODES", "PAIRS", "RECOMMEND_NODES", "TEXT"]

BODY_BYTES = 4 << 20  # enough for 100,000 pairs of short ids
PAIRS = 10_000  # scored or changed
NODES = 1_000  # asked about or added
RECOMMEND_NODES = 100  # each may mean a look at every node
TEXT = 1_024  # characters of an id or a label
