"""What the routes share: the keeper of the live graph, the threads that answer, and what is kept between questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from yinyan.errors import SettingsError
from yinyan.graph import Graph
from yinyan.live.finder import IndexFinder, finder_for
from yinyan.live.keeper import Keeper, Made
from yinyan.live.live_state import LiveState, Served
from yinyan.live.log_places import log_place, open_log
from yinyan.live.opening import served_model
from yinyan.live.structure import Change
from yinyan.live.typed_state import TypedServed, TypedState
from yinyan.model.fitted import Fitted
from yinyan.retrieval.relation_names import RelationNames
from yinyan.service.answers import Asked, recommend_together
from yinyan.service.bodies import Bodies
from yinyan.service.browsing import Maps
from yinyan.service.options import Options
from yinyan.service.workers import Counter, Desk, within
from yinyan.threads import available_cores, use_threads

__all__ = ["Room"]

_TOGETHER = 32  # requests whose partners are looked for at a time


class Room:
    """A model in service."""

    def __init__(self, options: Options, *, tell: Callable[[str], None] = lambda text: None) -> None:
        """`tell` is called with lines about the start."""
        self.options, self._tell = options, tell
        limits = options.limits
        self.keeper = Keeper(
            self._load,
            open_log(log_place(options.model, options.log), accept_loss=options.accept_loss),
            read_only=options.read_only,
            carry_over=options.carry_over,
            tell=tell,
        )
        self._tell = lambda text: None  # a reload is no start
        self.desk = Desk("answers", at_once=limits.at_once, waiting=limits.waiting, seconds=limits.seconds)
        self.slow_desk = Desk(
            "explanations", at_once=limits.slow_at_once, waiting=limits.slow_waiting, seconds=limits.seconds
        )
        self.counter: Counter[Asked, dict[str, Any]] = Counter(
            "partners", self._recommended, waiting=limits.waiting, seconds=limits.seconds, most=_TOGETHER
        )
        self.maps = Maps()
        self.bodies = Bodies(limits)
        use_threads(options.threads or max(1, available_cores() // (options.workers * limits.at_once)))

    @property
    def now(self) -> LiveState | TypedState:
        """The current state of model and graph."""
        return self.keeper.now

    def is_full(self, path: str) -> bool:
        """Whether a question at this address would have to be refused: seen before it is read."""
        return (self.counter if path == "/v1/recommend" else self.desk).is_full and path.startswith("/v1/")

    async def changed(self, change: Change) -> Made:
        """Make a change, and wait until answers know of it."""
        return await within(self.keeper.submit(change), self.options.limits.seconds)

    async def reloaded(self) -> Made:
        """Read the model again, however long that takes."""
        return await within(self.keeper.reload(), 600.0)

    def gauges(self) -> dict[str, tuple[str, float]]:
        """Values of now, for Prometheus."""
        now = self.now
        arrived = {} if now.arrived is None else now.arrived.gauges()
        return {
            **arrived,
            "yinyan_version": ("Number of the last change that answers know of.", now.version),
            "yinyan_nodes": ("Nodes of the live graph.", now.num_nodes),
            "yinyan_links": ("Links of the live graph.", now.num_links),
            "yinyan_rejected_pairs": ("Pairs that are never recommended.", now.num_rejected),
            "yinyan_drift": ("Changed links as a share of those the model was saved with.", now.drift),
            "yinyan_embedding_drift_mean": (
                "Mean relative difference of live rows from a pass over the whole graph, at the last such pass.",
                now.measured.mean,
            ),
            "yinyan_embedding_drift_max": ("The largest of these differences.", now.measured.largest),
            "yinyan_top10_overlap": (
                "Share of the ten best links on which live rows and that pass agree, on a sample of nodes.",
                now.measured.overlap,
            ),
            "yinyan_pending": (
                "Questions worked on or waiting, in the process asked.",
                self.desk.pending + self.counter.pending,
            ),
        }

    def close(self) -> None:
        """Finish what was begun."""
        self.bodies.close()
        self.counter.close()
        self.desk.close()
        self.slow_desk.close()
        self.keeper.close()

    def _recommended(self, asked: Sequence[Asked]) -> Sequence[dict[str, Any] | Exception]:
        return recommend_together(self.now, asked)

    def _load(self) -> Served | TypedServed:
        options = self.options
        found = served_model(options.model, self._named, self._finder, self._tell, labels=not options.no_labels)
        if isinstance(found, TypedServed) and options.labels is not None:
            raise SettingsError(
                "--labels is for models without relations: one with relations shows the columns of its node tables "
                "(Graph.from_tables(..., nodes=...))"
            )
        return found

    def _named(self, graph: Graph) -> Graph:
        """The graph with the labels of the model, of a table, or with none."""
        options = self.options
        if options.no_labels:
            return graph.with_attributes(None)
        if options.labels is None:
            return graph
        return graph.with_attributes(options.labels, node_id=options.id_column, label=options.label_column)

    def _finder(self, fitted: Fitted, names: RelationNames | None) -> IndexFinder:
        places = [place for place in (self.options.model, self.options.shared) if place is not None]
        options = self.options
        return finder_for(fitted, options.index, places, names=names, recall=options.recall, tell=self._tell)
