"""Tables on disk, divided into numbered buckets that are read one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from yinyan.errors import StoreError
from yinyan.files import atomic_path

__all__ = ["BucketFile", "bucket_file", "read_batches", "read_bucket", "sorted_by"]

Numbers = npt.NDArray[np.int64] | npt.NDArray[np.uint64] | npt.NDArray[np.uint16]


class BucketFile:
    """An Arrow file under construction: each table that is added fills one batch of every bucket."""

    def __init__(self, sink: pa.NativeFile, num_buckets: int) -> None:
        self._sink, self._count = sink, num_buckets
        self._writer: Any = None

    def add(self, table: pa.Table, buckets: Numbers) -> None:
        """Add rows, each to its bucket; within a bucket they keep their order."""
        ordered, ends = sorted_by(table, buckets, self._count)
        self.add_sorted(ordered, ends)

    def add_sorted(self, table: pa.Table, ends: npt.NDArray[np.int64]) -> None:
        """Add rows that are in the order of their buckets; bucket b is between ends[b] and ends[b + 1]."""
        if self._writer is None:
            self._writer = pa.ipc.new_file(self._sink, table.schema)
        whole = table.combine_chunks()
        for begin, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            batches = whole.slice(begin, end - begin).to_batches()
            batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
            self._writer.write_batch(batch)

    def close(self) -> None:
        """Write the index of the batches."""
        if self._writer is not None:
            self._writer.close()


@contextmanager
def bucket_file(path: Path, num_buckets: int) -> Iterator[BucketFile]:
    """A file of buckets that is there whole or not at all; without rows it is empty."""
    with atomic_path(path) as temporary, pa.OSFile(str(temporary), "wb") as sink:
        file = BucketFile(sink, num_buckets)
        yield file
        file.close()


def sorted_by(table: pa.Table, buckets: Numbers, count: int) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """The rows in the order of their buckets, and where each bucket begins."""
    small = buckets.astype(np.uint16) if count <= 1 << 16 else buckets  # of 16 bits numpy sorts by counting
    order = np.argsort(small, kind="stable")
    sizes = np.bincount(buckets.astype(np.int64, copy=False), minlength=count)
    return table.take(pa.array(order)), np.concatenate([[0], np.cumsum(sizes)])


def read_bucket(paths: Iterable[Path], bucket: int, num_buckets: int) -> pa.Table | None:
    """The rows of one bucket, in the order of the files and of what was added to them; None if there are none."""
    batches = [batch for path in paths for batch in read_batches(path, bucket, num_buckets) if batch.num_rows]
    return pa.Table.from_batches(batches) if batches else None


def read_batches(path: Path, bucket: int, num_buckets: int) -> Iterator[pa.RecordBatch]:
    """The batches of one bucket of a file, one for each table that was added."""
    if not path.stat().st_size:
        return
    try:
        with pa.OSFile(str(path)) as source:
            reader = pa.ipc.open_file(source)
            for place in range(bucket, reader.num_record_batches, num_buckets):
                yield reader.get_batch(place)
    except pa.ArrowInvalid as error:
        raise StoreError(f"'{path}' is damaged ({error}): prepare anew with restart=True (--restart)") from None
