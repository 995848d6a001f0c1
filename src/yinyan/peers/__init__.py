"""Other ways to predict links, scored by the same harness."""

from __future__ import annotations

from yinyan.peers.contract import Method, Outcome, Task
from yinyan.peers.registry import METHODS, method

__all__ = ["METHODS", "Method", "Outcome", "Task", "method"]
