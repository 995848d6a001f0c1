"""What changes do to a graph: each checked whole against those before it, all of them then applied together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from yinyan.errors import InputError, YinYanError
from yinyan.graph.ids import Id
from yinyan.live.new_nodes import NewFeatures, new_features
from yinyan.live.row_sets import RowSets
from yinyan.live.structure import Change, ConflictError, Effect, NewNode, Pair, Structure, joined

__all__ = ["Draft", "planned"]

_KINDS = ("add_nodes", "add_links", "remove_links", "reject", "take_back")


class Draft:
    """A structure with changes that are not yet joined to it: a change costs what it names, whatever came before.

    `plan` says what a change would do, and refuses an impossible one; `take` makes it; `finished` is the structure
    after all that were taken.

    Links that are there already are not added again, and those that are not there are not removed: a change may be
    sent twice. `lenient` skips the parts that do not fit the graph, as where a log is replayed or carried over.
    """

    def __init__(self, structure: Structure, changes: Sequence[Change] = (), *, lenient: bool = False) -> None:
        """`changes` that are going to be planned are looked up together, which is faster than one by one."""
        self.structure, self._lenient = structure, lenient
        self.effects: list[Effect] = []
        self._nodes: list[NewNode] = []
        self._rows: dict[Id, int] = {}  # of ids that were looked up or added; -1 for unknown ones
        self._links: dict[Pair, bool] = {}  # whether a pair is a link now, where a change said so
        self._rejected: dict[Pair, bool] = {}
        self._features: dict[int, NewFeatures] = {}  # by the identity of a node of `changes`
        self._changes = changes  # so that identities stay
        self._look_up([value for change in changes for value in _ids(change)])
        self._encode([node for change in changes if change["kind"] == "add_nodes" for node in change["nodes"]])

    def plan(self, change: Change) -> Effect:
        """What a change does to rows."""
        if change["kind"] not in _KINDS:
            raise InputError(f"a change needs one of the kinds {', '.join(_KINDS)} (got {change['kind']!r})")
        self._look_up(_ids(change))
        return self._new_nodes(change) if change["kind"] == "add_nodes" else self._pairs(change)

    def take(self, effect: Effect) -> None:
        """Make what `plan` gave."""
        start = self._num_nodes
        for place, node in enumerate(effect.nodes):
            self._rows[node.id] = start + place
            for row in node.neighbours:
                self._links[self._ordered(start + place, row)] = True
        self._nodes += effect.nodes
        self._links.update(dict.fromkeys(effect.added, True))
        self._links.update(dict.fromkeys(effect.removed, False))
        self._rejected.update(dict.fromkeys(effect.rejected, True))
        self._rejected.update(dict.fromkeys(effect.taken_back, False))
        self.effects.append(effect)

    def finished(self) -> Structure:
        """The structure with all that was taken."""
        added = sum(len(e.added) + sum(len(node.neighbours) for node in e.nodes) for e in self.effects)
        removed = sum(len(e.removed) for e in self.effects)
        if not any(effect.num or effect.nodes or effect.added for effect in self.effects):
            return self.structure
        return joined(self.structure, self._nodes, self._links, self._rejected, (added, removed))

    @property
    def _num_nodes(self) -> int:
        return self.structure.num_nodes + len(self._nodes)

    def _look_up(self, ids: Sequence[Id]) -> None:
        unknown = [value for value in dict.fromkeys(ids) if value not in self._rows]
        if unknown:
            self._rows.update(zip(unknown, self.structure.names.find(unknown).tolist(), strict=True))

    def _encode(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        """Features of many nodes at once; where any is wrong, each is encoded by itself when its turn comes."""
        given = [node["features"] for node in nodes if node.get("features") is not None]
        if len(given) < 2 or len(given) < len(nodes):
            return
        if all(isinstance(features, Mapping) for features in given):
            table: Any = {name: [features.get(name) for features in given] for name in given[0]}
            if any(features.keys() != given[0].keys() for features in given):
                return
        else:
            table = given
        try:
            found = new_features(self.structure.graph, table, len(given))
        except YinYanError:
            return
        if found is not None:
            self._features = {id(node): found.row(place) for place, node in enumerate(nodes)}

    def _ordered(self, a: int, b: int) -> Pair:
        return (a, b) if self.structure.graph.directed or a < b else (b, a)

    def _known(self, value: Id, fresh: Mapping[Id, int]) -> int:
        """The row of an id, or -1; `fresh` ones are those of the change that is planned."""
        return fresh.get(value, self._rows[value])

    def _row(self, value: Id, fresh: Mapping[Id, int]) -> int:
        row = self._known(value, fresh)
        return self.structure.names.row(value) if row < 0 else row  # which says what is wrong

    # -- pairs ---------------------------------------------------------------------------------------------

    def _pairs(self, change: Change, fresh: Mapping[Id, int] | None = None) -> Effect:
        """Links or rejected pairs, added or removed: those that are not there yet, or are."""
        kind = change["kind"]
        adds, of_links = kind in ("add_links", "reject"), kind in ("add_links", "remove_links")
        before, now = (
            (self.structure.out, self._links) if of_links else (self.structure.rejected, self._rejected)
        )  # fmt: skip
        pairs, skipped = self._rows_of(change["pairs"], fresh or {})
        chosen = tuple(pair for pair in pairs if _holds(before, now, pair) != adds)
        done = Effect(num=len(chosen), skipped=tuple(skipped))
        if of_links:
            return done._replace(added=chosen) if adds else done._replace(removed=chosen)
        return done._replace(rejected=chosen) if adds else done._replace(taken_back=chosen)

    def _rows_of(self, pairs: Sequence[Sequence[Id]], fresh: Mapping[Id, int]) -> tuple[list[Pair], list[str]]:
        """Distinct pairs of rows; undirected, the lower first. And what was skipped."""
        found: dict[Pair, None] = {}
        skipped: list[str] = []
        for place, (one, other) in enumerate(pairs):
            try:
                a, b = self._row(one, fresh), self._row(other, fresh)
                if a == b:
                    raise InputError(f"pair {place} joins {one!r} to itself: a link needs two nodes")
                left = self.structure.num_left
                if left is not None and (a < left) == (b < left):
                    raise InputError(
                        f"{one!r} and {other!r} are on one side of a bipartite graph: a link joins both sides"
                    )
            except YinYanError as error:
                if not self._lenient:
                    raise
                skipped.append(str(error))
                continue
            found[self._ordered(a, b)] = None
        return list(found), skipped

    # -- nodes ---------------------------------------------------------------------------------------------

    def _new_nodes(self, change: Change) -> Effect:
        fresh: dict[Id, int] = {}
        known: list[Mapping[str, Any]] = []
        new: list[tuple[Mapping[str, Any], NewFeatures | None]] = []
        skipped: list[str] = []
        for node in change["nodes"]:
            value = node["id"]
            if self._rows[value] >= 0:
                if not self._lenient:
                    raise ConflictError(f"node {value!r} is already in the graph: leave it out, or add links to it")
                known.append(node)
                continue
            try:
                if value in fresh:
                    raise InputError(f"id {value!r} occurs more than once: node ids must be distinct")
                new.append((node, self._node_features(node)))
            except YinYanError as error:
                if not self._lenient:
                    raise
                skipped.append(str(error))
                continue
            fresh[value] = self._num_nodes + len(fresh)
        made = [self._new_node(node, features, fresh, skipped) for node, features in new]
        start = self._num_nodes
        links = [(start + place, row) for place, node in enumerate(made) for row in node.neighbours]
        if len({(min(p), max(p)) for p in links}) != len(links):
            if not self._lenient:
                raise InputError("two new nodes name each other as neighbours: one of them is enough")
            made = _one_way(made, start)
        again = [(node["id"], other) for node in known for other in node.get("neighbours") or ()]
        more = self._pairs({"kind": "add_links", "pairs": again}, fresh)
        return Effect(tuple(made), added=more.added, num=len(made), skipped=(*skipped, *more.skipped))

    def _new_node(
        self, node: Mapping[str, Any], features: NewFeatures | None, fresh: Mapping[Id, int], skipped: list[str]
    ) -> NewNode:
        rows: dict[int, None] = {}
        value, left = node["id"], self.structure.num_left
        for other in node.get("neighbours") or ():
            try:
                row = self._row(other, fresh)
                if row == fresh[value]:
                    raise InputError(f"node {value!r} names itself as a neighbour: a link needs two nodes")
                if left is not None and row >= left:
                    raise ConflictError(
                        f"new nodes join the second side of a bipartite graph, and node {value!r} has a neighbour "
                        "there (fit again to add nodes to the first side)"
                    )
            except YinYanError as error:
                if not self._lenient:
                    raise
                skipped.append(str(error))
                continue
            rows[row] = None
        if features is None:
            return NewNode(None, tuple(rows), value, node.get("label"))
        clipped = bool(features.outside[0])
        return NewNode(features.values, tuple(rows), value, node.get("label"), clipped, features.imputed)

    def _node_features(self, node: Mapping[str, Any]) -> NewFeatures | None:
        found = self._features.get(id(node))
        if found is not None:
            return found
        given = node.get("features")
        table: Any = {column: [value] for column, value in given.items()} if isinstance(given, Mapping) else given
        if given is not None and not isinstance(given, Mapping):
            table = [given]
        try:
            return new_features(self.structure.graph, table, 1)
        except InputError as error:
            raise InputError(f"node {node['id']!r}: {error}") from error


def planned(structure: Structure, change: Change, *, lenient: bool = False) -> tuple[Structure, Effect]:
    """What the graph becomes by one change, and what that does to rows; an impossible one is refused."""
    draft = Draft(structure, lenient=lenient)
    effect = draft.plan(change)
    draft.take(effect)
    return draft.finished(), effect


def _ids(change: Change) -> list[Id]:
    """All ids that a change names."""
    if change["kind"] == "add_nodes":
        nodes = change["nodes"]
        return [node["id"] for node in nodes] + [other for node in nodes for other in node.get("neighbours") or ()]
    return [value for pair in change.get("pairs", ()) for value in pair]


def _holds(before: RowSets, now: Mapping[Pair, bool], pair: Pair) -> bool:
    found = now.get(pair)
    return before.has(*pair) if found is None else found


def _one_way(nodes: Sequence[NewNode], start: int) -> list[NewNode]:
    """A link that both of two new nodes name is that of the first."""
    seen: set[Pair] = set()
    made: list[NewNode] = []
    for row, node in enumerate(nodes, start):
        kept = tuple(other for other in node.neighbours if (min(row, other), max(row, other)) not in seen)
        seen |= {(min(row, other), max(row, other)) for other in kept}
        made.append(node._replace(neighbours=kept))
    return made
