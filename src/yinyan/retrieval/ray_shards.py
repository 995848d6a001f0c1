"""Shards of a model's rows in Ray actors, which Ray starts again if one dies."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from yinyan.errors import InputError, MissingExtraError, StoreError
from yinyan.model.decoder import Decoder
from yinyan.retrieval.shards import Shard, ShardedSearch, shard_ranges
from yinyan.text import counted
from yinyan.threads import use_threads

__all__ = ["HeldRows", "SavedRows", "model_mark", "ray_shards"]


class SavedRows(NamedTuple):
    """The rows of a saved model, in a folder that every host can read; they stay in its files, which are mapped."""

    path: str
    mark: str  # of the model
    num_rows: int

    @classmethod
    def of(cls, path: Path, num_rows: int) -> SavedRows:
        """Of the model in a folder."""
        return cls(str(path.resolve()), model_mark(path), num_rows)

    def to_send(self, ray: Any, first: int, last: int) -> None:
        """Nothing: every host reads the file."""

    def there(self, ray: Any, first: int, last: int, sent: None) -> tuple[Decoder, Tensor]:
        """The decoder and a range of the rows, in an actor."""
        from yinyan.store import saved_rows

        if model_mark(Path(self.path)) != self.mark:
            raise StoreError(
                f"the model in '{self.path}' of this host is another one than that of the command: copy it anew, or "
                "use a folder that all hosts share"
            )
        return saved_rows(Path(self.path), first, last)


class HeldRows:
    """Rows in the memory of this process; each actor is sent its own."""

    def __init__(self, decoder: Decoder, rows: Tensor) -> None:
        self.num_rows, self._rows = rows.shape[0], rows
        self._decoder = copy.deepcopy(decoder).cpu()

    def to_send(self, ray: Any, first: int, last: int) -> list[Any]:
        """Where Ray keeps the rows of one actor; in a list, since Ray would replace it by the rows."""
        return [ray.put(self._rows[first:last].detach().cpu().numpy())]

    def there(self, ray: Any, first: int, last: int, sent: list[Any]) -> tuple[Decoder, Tensor]:
        """The decoder and a range of the rows, in an actor: its own copy, since what Ray keeps cannot be written."""
        return self._decoder, torch.from_numpy(np.array(ray.get(sent[0])))

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the rows."""
        return {**vars(self), "_rows": None}


class RowSource(Protocol):
    """Where the rows of the shards come from."""

    num_rows: int

    def to_send(self, ray: Any, first: int, last: int) -> Any:
        """What an actor is sent."""
        ...

    def there(self, ray: Any, first: int, last: int, sent: Any) -> tuple[Decoder, Tensor]:
        """The decoder and a range of the rows, in an actor."""
        ...


@contextmanager
def ray_shards(
    source: SavedRows | HeldRows, *, shards: int | None = None, threads: int = 1, address: str | None = None
) -> Iterator[ShardedSearch]:
    """Exact search over the rows of a source, by Ray actors that hold a shard each.

    There is one shard per processor of the cluster unless `shards` says otherwise, each with `threads` threads. Without
    an `address` the cluster is that of the environment variable RAY_ADDRESS, or one of this machine, which ends here.
    """
    ray = _ray()
    if shards is not None and shards < 1:
        raise InputError(f"'shards' needs to be a positive integer (got {shards})")
    ours = not ray.is_initialized()
    if ours:
        try:
            ray.init(address=address, include_dashboard=False, log_to_driver=False, configure_logging=False)
        except ConnectionError as error:
            raise InputError(f"there is no Ray cluster at {address!r}: {error}") from error
    try:
        processors = int(ray.cluster_resources().get("CPU", 0))
        wanted = shards or max(1, processors // threads)
        if wanted * threads > processors:  # Ray would wait for more without end
            raise InputError(
                f"{counted(wanted, 'actor')} of {counted(threads, 'thread')} need as many processors, and the Ray "
                f"cluster has {processors}: lower 'shards' or 'threads', or add hosts"
            )
        ranges = shard_ranges(source.num_rows, wanted)
        actor = ray.remote(_ShardActor).options(num_cpus=threads, max_restarts=-1, max_task_retries=-1)
        sent = [source.to_send(ray, *span) for span in ranges]  # kept here for an actor that starts again
        actors = [actor.remote(source, *span, rows, threads) for span, rows in zip(ranges, sent, strict=True)]
        try:
            ray.get([each.ready.remote() for each in actors])

            def ask(question: Any) -> list[Any]:
                asked = ray.put(question)
                found: list[Any] = ray.get([each.answer.remote(asked) for each in actors])
                return found

            yield ShardedSearch(ask, ranges, threads=threads)
        except ray.exceptions.RayTaskError as error:  # of an actor: its own error, without Ray's frames
            raise _own_error(error) from error
        finally:
            for each in actors:
                ray.kill(each)
    finally:
        if ours:
            ray.shutdown()


def model_mark(path: Path) -> str:
    """A digest of a model's manifest, which names every file with its own."""
    from yinyan.store.opening import read_manifest

    return hashlib.blake2b(repr(sorted(read_manifest(path).items())).encode(), digest_size=16).hexdigest()


class _ShardActor:
    """A process of the cluster that holds a shard."""

    def __init__(self, source: RowSource, first: int, last: int, sent: Any, threads: int) -> None:
        use_threads(threads)
        decoder, rows = source.there(_ray(), first, last, sent)
        self._shard = Shard(decoder, rows, first)

    def ready(self) -> bool:
        return True

    def answer(self, question: Any) -> Any:
        return question.put_to(self._shard)


def _own_error(error: Any) -> Exception:
    cause = error.cause
    return cause if isinstance(cause, Exception) else error


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtraError("the engine 'ray' needs Ray: pip install 'yinyan[cluster]'") from None
    return ray
