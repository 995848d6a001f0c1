"""What a pickle would build, seen before it is built: small ones can ask for endless work or for all memory."""

from __future__ import annotations

import io
import pickletools
from typing import Any

__all__ = ["check_pickle"]

_SMALL = 10_000  # objects within a tuple that any file may hold; a larger one, as many as it has bytes
_REPEATS = 10  # times its bytes that a file may have hashed
_JOINED = frozenset({"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "FROZENSET"})
_HASHED = frozenset({"SETITEM", "SETITEMS", "DICT", "ADDITEMS", "FROZENSET"})
_KEPT = frozenset({"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"})
_TAKEN = frozenset({"GET", "BINGET", "LONG_BINGET"})
_MARK = -1


def check_pickle(file: io.BytesIO) -> None:
    """Read one pickle's operations without doing them; raises ValueError where they would not end well.

    A stack of sizes stands for the stack of objects. A tuple is as large as all that is in it, anything else counts
    one: only tuples are hashed by their content, and two names for one tuple within the next make its size grow as a
    power of two.
    """
    stack: list[int] = []
    memo: dict[int, int] = {}
    room, hashed = max(_SMALL, len(file.getbuffer()) - file.tell()), 0
    for operation, given, _ in pickletools.genops(file):
        name = operation.name
        if name in _KEPT:
            place = len(memo) if name == "MEMOIZE" else int(given or 0)
            if place > room:
                raise ValueError(f"a memo of {place:,} objects in {room:,} bytes")
            memo[place] = stack[-1] if stack else 1
        elif name in _TAKEN:
            stack.append(memo.get(int(given or 0), 1))
        elif name == "DUP":
            stack.append(stack[-1] if stack else 1)
        else:
            taken = _popped(stack, operation.stack_before)
            size = 1 + sum(taken) if name in _JOINED else 1
            hashed += sum(taken) if name in _HASHED else 0
            if size > room or hashed > _REPEATS * room:
                raise ValueError(f"tuples within tuples that stand for more than {room:,} objects")
            stack += [_MARK if made is pickletools.markobject else size for made in operation.stack_after]


def _popped(stack: list[int], before: list[Any]) -> list[int]:
    """Take off what an operation takes: so many objects, and all down to the last mark if it says so."""
    taken: list[int] = []
    for wanted in reversed(before):
        if wanted is pickletools.stackslice:
            while stack and stack[-1] != _MARK:
                taken.append(stack.pop())
        elif stack:
            found = stack.pop()
            taken += [found] if found != _MARK else []
    return taken
