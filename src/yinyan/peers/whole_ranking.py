"""Whether and where the test links of a model are ranked among all nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from yinyan.errors import SettingsError
from yinyan.peers.contract import Outcome, searches
from yinyan.peers.full_ranking import FULL_MRR, is_ranking_metric
from yinyan.predictor import LinkPredictor
from yinyan.retrieval.ray_shards import HeldRows, ray_shards
from yinyan.retrieval.state import reranker_of
from yinyan.splits import Split

__all__ = ["ENGINES", "WholeRanking"]

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class WholeRanking:
    """Test links ranked among all nodes: MRR, NDCG@10 and Recall@10 beside the figures of sampled negatives."""

    wanted: bool = True  # False: only where the data are judged by full ranking
    sources: int | None = None  # with test links, drawn by the seed; None: all
    engine: str = "local"  # where the model's ranks are counted: 'local' or 'ray'
    shards: int | None = None  # Ray actors

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise SettingsError(f"'engine' needs to be {' or '.join(map(repr, ENGINES))} (got {self.engine!r})")
        if self.shards is not None and self.engine != "ray":
            raise SettingsError("'shards' is an option of the engine 'ray': add engine='ray', or leave it out")
        for name in ("sources", "shards"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise SettingsError(f"{name!r} needs to be a positive integer (got {value!r})")

    def check(self, metric: str | None) -> None:
        """Refuse options of a full ranking where there is none."""
        if self.wanted or (metric is not None and is_ranking_metric(metric)):
            return
        for name, given in (("sources", self.sources is not None), ("engine", self.engine != "local")):
            if given:
                raise SettingsError(f"{name!r} is an option of full ranking: add full_ranking=True, or leave it out")

    def first(self, metric: str | None) -> str | None:
        """The metric that comes first, given that of the data."""
        return FULL_MRR if self.wanted else metric

    @contextmanager
    def outcome(self, model: LinkPredictor, split: Split) -> Iterator[Outcome]:
        """The scores and ranks of a model that was fitted to a split, as long as the context lasts."""
        fitted = model.fitted_
        found = fitted.model, fitted.embeddings, split, reranker_of(fitted)
        if self.engine == "local":
            best, ranks = searches(*found)
            yield Outcome(model.score_rows, best=best, ranks=ranks)
            return
        with ray_shards(HeldRows(fitted.model.decoder, fitted.embeddings), shards=self.shards) as search:
            best, ranks = searches(*found, search)
            yield Outcome(model.score_rows, best=best, ranks=ranks)
