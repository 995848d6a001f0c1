"""Shards of a saved model's rows in Ray actors, which Ray starts again if one dies."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from yinyan.errors import InputError, MissingExtraError, StoreError
from yinyan.retrieval.exact import TopK
from yinyan.retrieval.shards import Ask, Question, Shard, shard_ranges
from yinyan.threads import use_threads

__all__ = ["ray_shards"]


@contextmanager
def ray_shards(
    path: Path, num_rows: int, *, shards: int | None = None, threads: int = 1, address: str | None = None
) -> Iterator[Ask]:
    """What asks all shards of the model in `path`, a folder that every host can read.

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
        wanted = shards or max(1, int(ray.cluster_resources().get("CPU", 1)) // threads)
        actor = ray.remote(_ShardActor).options(num_cpus=threads, max_restarts=-1, max_task_retries=-1)
        place, mark = str(path.resolve()), model_mark(path)
        actors = [actor.remote(place, mark, *span, threads) for span in shard_ranges(num_rows, wanted)]
        try:
            ray.get([each.ready.remote() for each in actors])

            def ask(question: Question) -> list[list[TopK]]:
                sent = ray.put(tuple(question))
                found: list[list[TopK]] = ray.get([each.answer.remote(sent) for each in actors])
                return found

            yield ask
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
    """A process of the cluster that holds a shard; rows stay in the model's file, which is mapped."""

    def __init__(self, path: str, mark: str, first: int, last: int, threads: int) -> None:
        from yinyan.store import load_model

        use_threads(threads)
        if model_mark(Path(path)) != mark:
            raise StoreError(
                f"the model in '{path}' of this host is another one than that of the command: copy it anew, or use a "
                "folder that all hosts share"
            )
        fitted, _ = load_model(Path(path), torch.device("cpu"), mapped=True)
        self._shard = Shard(fitted.model.decoder, fitted.embeddings[first:last], first)

    def ready(self) -> bool:
        return True

    def answer(self, question: tuple[Any, ...]) -> list[TopK]:
        return self._shard.answer(Question(*question))


def _own_error(error: Any) -> Exception:
    cause = error.cause
    return cause if isinstance(cause, Exception) else error


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtraError("the engine 'ray' needs Ray: pip install 'yinyan[cluster]'") from None
    return ray
