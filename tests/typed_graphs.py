"""Small graphs with relations whose right answers are known."""

from __future__ import annotations

import numpy as np

from yinyan import Graph, TypedGraph

__all__ = ["QUICK", "odd", "one_kind", "shop", "shop_tables"]

# settings of a fit in a second
QUICK = {
    "encoder": {"hidden_size": 16, "embedding_size": 8, "sketch_size": 8, "num_steps": 2},
    "decoder": {"depth": 2, "width": 16},
    "training": {"epochs": 3, "batch_size": 40, "evaluate_every": 1},
}


def shop_tables(people: int = 24, products: int = 18, *, seed: int = 0) -> dict[str, object]:
    """Two groups of people who view and buy products of their own group, and follow each other."""
    draw = np.random.default_rng(seed)
    bought, viewed, followed = [], [], []
    for i in range(people):
        own = [j for j in range(products) if j % 2 == i % 2]
        bought += [(i, int(j)) for j in draw.choice(own, 4, replace=False)]
        viewed += [(i, int(j)) for j in draw.choice(own, 6, replace=False)]
        friends = [j for j in range(people) if j % 2 == i % 2 and j != i]
        followed += [(i, int(j)) for j in draw.choice(friends, 3, replace=False)]
    return {"buys": bought, "views": viewed, "follows": followed}


def shop(*, seed: int = 0, people: int = 24, products: int = 18) -> TypedGraph:
    """People and products with the same ids, '0', '1', ...; people have two features, products none."""
    tables = shop_tables(people, products, seed=seed)

    def columns(pairs: object, names: tuple[str, str]) -> dict[str, list[str]]:
        first, second = zip(*pairs, strict=True)  # type: ignore[call-overload]
        return {names[0]: list(map(str, first)), names[1]: list(map(str, second))}

    draw = np.random.default_rng(seed + 1)
    person = {
        "id": [str(i) for i in range(people)],
        "age": draw.normal(40, 10, people).tolist(),
        "group": [float(i % 2) for i in range(people)],
    }
    product = {"id": [str(i) for i in range(products)], "title": [f"thing {i}" for i in range(products)]}
    edges = {
        ("person", "buys", "product"): columns(tables["buys"], ("who", "what")),
        ("person", "views", "product"): columns(tables["views"], ("who", "what")),
        ("person", "follows", "person"): columns(tables["follows"], ("who", "whom")),
    }
    return Graph.from_tables(edges, {"person": person, "product": product}, directed=["follows"], unmatched="keep")


def odd() -> TypedGraph:
    """A ring, a hub that has every edge of its relation, a relation of three edges, and a type without edges.

    The ids of the type without edges are those of other nodes too.
    """
    count = 30

    def columns(pairs: list[tuple[int, int]]) -> dict[str, list[str]]:
        return {"source": [str(a) for a, _ in pairs], "target": [str(b) for _, b in pairs]}

    edges = {
        ("node", "ring", "node"): columns([(i, (i + 1) % count) for i in range(count)]),
        ("node", "hub", "node"): columns([(0, i) for i in range(1, count)]),
        ("node", "few", "node"): columns([(0, 9), (3, 12), (5, 20)]),
    }
    nodes = {"node": {"id": [str(i) for i in range(count)]}, "shop": {"id": ["1", "2"], "size": [1.0, 2.0]}}
    return Graph.from_tables(edges, nodes, unmatched="keep")


def one_kind(
    *, nodes: int = 40, seed: int = 0, directed: bool = False, features: bool = False
) -> tuple[Graph, TypedGraph]:
    """The same graph without relations, and with one relation and one type."""
    draw = np.random.default_rng(seed)
    pairs = [
        (i, j) for i in range(nodes) for j in range(nodes) if i < j and draw.random() < (0.4 if (i + j) % 2 else 0.05)
    ]
    if directed:
        pairs = [(j, i) if draw.random() < 0.5 else (i, j) for i, j in pairs]
    head, tail = (list(column) for column in zip(*pairs, strict=True))
    table = {"source": head, "target": tail}
    described = None
    if features:
        x = draw.normal(size=(nodes, 3))
        described = {"id": list(range(nodes)), **{f"x{k}": x[:, k].tolist() for k in range(3)}}
    plain = Graph.from_table(table, nodes=described, directed=directed, unmatched="keep" if features else "error")
    typed = Graph.from_tables(
        {"links": table},
        None if described is None else {"node": described},
        directed=directed,
        unmatched="keep" if features else "error",
    )
    return plain, typed
