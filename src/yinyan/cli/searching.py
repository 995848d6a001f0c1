"""Which search answers a command: the index kept with the model, one that is built now, or a scan of all nodes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from yinyan.errors import InputError, StoreError
from yinyan.predictor import LinkPredictor
from yinyan.progress import Progress
from yinyan.retrieval.index import Index
from yinyan.retrieval.index_store import index_file

__all__ = ["check_engine", "check_flags", "check_ranking", "chosen_index", "place"]

_ENGINES = ("local", "ray")
_FEW = 64  # nodes: reading an index takes longer than scoring all nodes for these


def check_flags(*, by_index: bool, exact: bool) -> None:
    """Refuse two flags that exclude each other."""
    if by_index and exact:
        raise InputError("--index and --exact exclude each other: leave one out")


def check_engine(engine: str, shards: int | None, *, everything: bool) -> None:
    """Refuse an engine that does not exist, and options that it does not have."""
    _check_shards(engine, shards)
    if engine == "ray" and not everything:
        raise InputError("--engine ray answers for every node: add --all, or leave --engine out")


def check_ranking(engine: str, shards: int | None, ranked: int | None, *, full_ranking: bool) -> None:
    """Refuse options of a full ranking where none is wanted."""
    _check_shards(engine, shards)
    for flag, given in (("--ranked", ranked is not None), ("--engine ray", engine == "ray")):
        if given and not full_ranking:
            raise InputError(f"{flag} is an option of --full-ranking: add it, or leave {flag} out")


def _check_shards(engine: str, shards: int | None) -> None:
    if engine not in _ENGINES:
        raise InputError(f"--engine needs to be {' or '.join(_ENGINES)} (got {engine!r})")
    if engine == "local" and shards is not None:
        raise InputError("--shards is an option of --engine ray: add it, or leave --shards out")


def place(
    predictor: LinkPredictor, folder: Path, engine: str, shards: int | None, threads: int | None
) -> AbstractContextManager[object]:
    """Where the model in a folder is searched as long as the context lasts: in this process, or in Ray actors."""
    if engine == "local":
        return nullcontext()
    return predictor.sharded(folder, shards=shards, threads=threads or 1)


def chosen_index(
    predictor: LinkPredictor,
    folder: Path,
    sources: int,
    k: int,
    progress: Progress,
    *,
    by_index: bool,
    exact: bool,
    engine: str = "local",
    relation: str | None = None,
) -> Index | None:
    """The index to ask about so many nodes, None for exact search; one that is built now is saved with the model.

    That of the engine 'ray' stands with its actors and is not saved.
    """
    if exact:
        return None
    if engine == "ray":
        return predictor.index(k=k, tell=progress.note) if by_index else predictor.choose_index(
            sources, k, tell=progress.note
        )  # fmt: skip
    if by_index:
        return predictor.load_index(folder, relation=relation)
    if sources <= _FEW:
        return None
    if (folder / index_file(predictor._asked(relation)[1].state.names)).is_file():
        try:
            return predictor.load_index(folder, relation=relation)
        except StoreError as error:  # of another model, or damaged: it is replaced if that is worth it
            progress.note(str(error))
    built = predictor.choose_index(sources, k, relation=relation, tell=progress.note)
    if built is not None:
        try:
            built.save(folder)
        except (StoreError, OSError) as error:
            progress.note(f"the index is used, and not kept for the next time: {error}")
    return built
