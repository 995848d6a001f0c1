"""Lists and matrices that grow behind what earlier snapshots read: appending costs what is appended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from torch import Tensor

__all__ = ["GrowingList", "GrowingRows"]

_T = TypeVar("_T")

_SLACK = 4  # a matrix that has to move gets a quarter more room than it needs


class GrowingRows:
    """The first `count` rows of a buffer that later versions share; what a version reads is never written again.

    One thread appends. A version that is not the last one appended to is copied first, so that what was appended to
    an abandoned version is seen by nobody.
    """

    def __init__(self, buffer: Tensor, count: int, filled: list[int] | None = None) -> None:
        self._buffer, self.count = buffer, count
        self._filled = [count] if filled is None else filled  # rows in use by any version, shared

    @property
    def rows(self) -> Tensor:
        """(count, ·) the rows."""
        return self._buffer[: self.count]

    def extended(self, more: Tensor) -> GrowingRows:
        """Another version with more rows at the end."""
        count = self.count + more.shape[0]
        buffer, filled = self._buffer, self._filled
        if filled[0] != self.count or count > buffer.shape[0]:
            buffer = more.new_empty(count + count // _SLACK + 8, *more.shape[1:])
            buffer[: self.count] = self.rows
            filled = [self.count]
        buffer[self.count : count] = more
        filled[0] = count
        return GrowingRows(buffer, count, filled)


class GrowingList(Generic[_T]):
    """The first `count` items of a list that later versions share, under the rules of `GrowingRows`."""

    def __init__(self, items: list[_T] | None = None, count: int | None = None) -> None:
        self._items: list[_T] = [] if items is None else items
        self.count = len(self._items) if count is None else count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int) -> _T:
        if not 0 <= place < self.count:
            raise IndexError(place)
        return self._items[place]

    def listed(self) -> list[_T]:
        """All items, in a list of their own."""
        return self._items[: self.count]

    def extended(self, more: Sequence[_T]) -> GrowingList[_T]:
        """Another version with more items at the end."""
        items = self._items if len(self._items) == self.count else self._items[: self.count]
        items.extend(more)
        return GrowingList(items, self.count + len(more))
