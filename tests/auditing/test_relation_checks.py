"""Relations that give each other's answers away: planted ones are found, and others are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import yinyan
from typed_graphs import QUICK, shop
from yinyan import Graph, LinkPredictor, TypedGraph, audit
from yinyan.auditing.relation_checks import overlaps, relation_material
from yinyan.datasets.knowledge import KnowledgeGraph
from yinyan.errors import InputError, LeakError
from yinyan.splits.typed_split import typed_split

PEOPLE, PRODUCTS = 60, 50
Pairs = list[tuple[int, int]]


def random_pairs(count: int, seed: int, shape: tuple[int, int] = (PEOPLE, PRODUCTS)) -> Pairs:
    draw = np.random.default_rng(seed)
    codes = draw.choice(shape[0] * shape[1], count, replace=False)
    return [(int(code) // shape[1], int(code) % shape[1]) for code in codes]


def table(pairs: Pairs, first: str = "p", second: str = "q") -> dict[str, list[str]]:
    return {"a": [f"{first}{a}" for a, _ in pairs], "b": [f"{second}{b}" for _, b in pairs]}


def market(**relations: Any) -> TypedGraph:
    """People buy products; further relations as given."""
    edges = {("person", "buys", "product"): table(random_pairs(200, 0)), **relations.pop("more", {})}
    assert not relations
    return Graph.from_tables(edges)


def bought_by(share: float = 1.0, *, seed: int = 0) -> dict[Any, Any]:
    """The inverse of `buys`, but for some edges."""
    pairs = random_pairs(200, 0)
    kept = pairs[: int(share * len(pairs))] + random_pairs(200 - int(share * len(pairs)), seed + 7)
    return {("product", "bought_by", "person"): table([(b, a) for a, b in kept], "q", "p")}


class TestRelationsOfAGraph:
    @pytest.mark.parametrize("share", [1.0, 0.9])
    def test_an_inverse_relation_is_named_with_its_share(self, share: float) -> None:
        (found,) = audit(market(more=bought_by(share))).findings
        assert (found.kind, found.severity) == ("inverse-relations", "warning")
        assert found.share == pytest.approx(share, abs=0.03)
        assert "edges of relation 'buys' that are reversed edges of 'bought_by'" in found.words
        (person, first), (product, second) = found.example or ((), ())
        assert (person, product, first[0], second[0]) == ("person", "product", "p", "q")

    def test_half_an_inverse_is_none(self) -> None:
        assert audit(market(more=bought_by(0.5))).findings == ()

    def test_a_near_duplicate(self) -> None:
        pairs = random_pairs(200, 0)[:190] + random_pairs(10, 5)
        (found,) = audit(market(more={("person", "orders", "product"): table(pairs)})).findings
        assert found.kind == "near-duplicate-relations" and "'orders'" in found.words

    def test_a_part_of_another_relation(self) -> None:
        pairs = random_pairs(200, 0) + random_pairs(300, 3)
        (found,) = audit(market(more={("person", "views", "product"): table(list(dict.fromkeys(pairs)))})).findings
        assert found.kind == "contained-relation" and found.share == 1.0
        assert found.words.startswith("edges of relation 'buys' that are edges of 'views' (")

    def test_a_dense_relation_shares_edges_by_chance(self) -> None:
        every = [(a, b) for a in range(PEOPLE) for b in range(PRODUCTS)]
        assert audit(market(more={("person", "may buy", "product"): table(every)})).findings == ()

    def test_a_directed_relation_that_has_no_direction(self) -> None:
        pairs = random_pairs(150, 1, (PEOPLE, PEOPLE))
        both = list(dict.fromkeys([*pairs, *((b, a) for a, b in pairs)]))
        knows = {("person", "knows", "person"): table([(a, b) for a, b in both if a != b], "p", "p")}
        graph = Graph.from_tables(
            {("person", "buys", "product"): table(random_pairs(200, 0)), **knows}, directed=["knows"]
        )
        (found,) = audit(graph).findings
        assert found.kind == "symmetric-relation" and found.share == 1.0

    def test_two_relations_without_direction_are_reported_once(self) -> None:
        pairs = [(a, b) for a, b in random_pairs(150, 1, (PEOPLE, PEOPLE)) if a < b]
        turned = [(b, a) for a, b in pairs]
        edges = {("p", "knows", "p"): table(pairs, "x", "x"), ("p", "meets", "p"): table(turned, "x", "x")}
        (found,) = audit(Graph.from_tables(edges)).findings
        assert found.kind == "near-duplicate-relations"

    def test_relations_of_few_edges_say_nothing(self) -> None:
        graph = Graph.from_triples([(i, name, i + 1) for i in range(5) for name in ("r", "s")])
        assert audit(graph).findings == ()

    def test_independent_relations(self) -> None:
        assert audit(shop()).findings == ()
        assert overlaps(relation_material(shop())) == []


class TestSplits:
    def test_test_links_that_the_inverse_gives_away(self) -> None:
        graph = market(more=bought_by())
        split = typed_split(graph, "buys", seed=0)
        with pytest.raises(
            LeakError, match="test links of relation 'buys' whose reverse is a message of relation 'bought_by'"
        ):
            audit(split)
        found = audit(split, raises=False)
        (leak,) = found.leaks
        assert leak.kind == "answered-by-relation" and leak.share == 1.0
        assert leak.count == len(split.parts["buys"].test_targets)

    def test_both_relations_predicted(self) -> None:
        """Each is divided by itself, so that most test links of one are training edges of the other."""
        split = typed_split(market(more=bought_by()), seed=0)
        leaks = audit(split, raises=False).leaks
        assert {leak.words.split("'")[1] for leak in leaks} == {"buys", "bought_by"}
        assert all(0.5 < leak.share < 0.95 for leak in leaks)

    def test_without_the_inverse_nothing_is_found(self) -> None:
        graph = market(more=bought_by()).with_edges({"bought_by": []})
        assert audit(typed_split(graph, "buys", seed=0)).leaks == ()

    def test_a_part_of_the_test_links_is_a_warning(self) -> None:
        pairs = random_pairs(200, 0)[:100] + random_pairs(100, 11)
        graph = market(more={("person", "views", "product"): table(list(dict.fromkeys(pairs)))})
        found = audit(typed_split(graph, "buys", seed=0))
        assert [finding.kind for finding in found.warnings] == ["answered-by-relation"]
        assert found.leaks == ()

    def test_faults_of_one_relation_name_it(self) -> None:
        split = typed_split(shop(), seed=0)
        assert "links and negatives of 3 relations" in str(audit(split))

    def test_evaluate_refuses_and_names_the_cure(self) -> None:
        with pytest.raises(LeakError, match=r"leave the other one out"):
            yinyan.evaluate(market(more=bought_by()), predict="buys", peers=[], model=LinkPredictor(**QUICK))

    def test_a_graph_beside_relations(self) -> None:
        with pytest.raises(InputError, match="'graph' is for parts by relation"):
            audit(shop(), graph=shop().of_relation("buys"))


def test_parts_of_a_knowledge_graph() -> None:
    """A planted inverse among its triples is found in the parts that it comes with."""
    pairs = [(a, b) for a, b in random_pairs(300, 2, (40, 40)) if a != b]
    edges = {
        ("e", "child", "e"): table(pairs, "x", "x"),
        ("e", "parent", "e"): table([(b, a) for a, b in pairs], "x", "x"),
    }
    graph = Graph.from_tables(edges, directed=["child", "parent"])
    triples = [np.column_stack([r.edges, np.full(len(r.edges), n)]) for n, r in enumerate(graph.relations.values())]
    child, parent = triples
    kg = KnowledgeGraph("planted", graph, np.concatenate([child[:200], parent]), child[200:220], child[220:])
    found = audit(kg, raises=False)
    assert [finding.kind for finding in found.findings] == ["inverse-relations", "answered-by-relation"]
    assert found.leaks[0].share == 1.0
