"""An index whose lists stand with the shards: built by each of its own rows, measured on merged answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.graph import Graph
from yinyan.model.decoder import Decoder
from yinyan.retrieval.budgets import Budget
from yinyan.retrieval.building import Building, sample_size
from yinyan.retrieval.cells import num_cells
from yinyan.retrieval.efforts import Effort, Efforts
from yinyan.retrieval.index import Index
from yinyan.retrieval.shards import ShardedProbing, ShardedSearch

__all__ = ["ShardedIndex", "build_sharded_index"]


class ShardedIndex(Index):
    """Recommends as its model does, by search in shards; made by `LinkPredictor.index` within `sharded`.

    It ends with the shards, whose rows cannot be changed.
    """

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise SettingsError(
            "an index over shards ends with them, and its rows are fixed (build one outside of `sharded` to save or "
            "change it)"
        )

    update = remove = rebuild = save = _refresh = _refuse


def build_sharded_index(
    graph: Graph,
    decoder: Decoder,
    embeddings: Tensor,
    search: ShardedSearch,
    *,
    kind: str = "auto",
    budget: Budget | None = None,
    seed: int = 0,
    sample: int | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Index:
    """An index of a decoder and its embeddings, whose rows stand in the shards that `search` asks.

    Efforts are chosen, and recall is measured, on the merged answers.
    """
    build = _ShardedBuilding(graph, decoder, embeddings, search, budget or Budget(), seed, is_auto=kind == "auto")
    return build.of_kind(kind, sample or sample_size(embeddings.shape[0]), tell)


class _ShardedBuilding(Building):
    """The same, with searches that ask shards."""

    made = ShardedIndex

    def __init__(
        self,
        graph: Graph,
        decoder: Decoder,
        y: Tensor,
        search: ShardedSearch,
        budget: Budget,
        seed: int,
        *,
        is_auto: bool,
    ) -> None:
        self._sharded = search
        super().__init__(graph, decoder, y, budget, seed, is_auto=is_auto)

    def exact_search(self) -> tuple[ShardedSearch, int]:
        """Exact search of the shards, whose screens are their own."""
        return self._sharded, 0

    def num_cells(self) -> int:
        """Cells of all shards."""
        return sum(num_cells(last - first) for first, last in self._sharded.ranges)

    def searched_lists(self) -> tuple[ShardedProbing, int]:
        """A search in lists that the shards make now, and their bytes."""
        efforts = Efforts({self.budget.k: Effort(1, 1)})
        made = ShardedProbing(self._sharded, self.decoder, self.seed, efforts)
        return made, made.build()
