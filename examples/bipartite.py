"""Users and items: recommendations come from the other side, and equal ids of the two sides are kept apart."""

import numpy as np

import yinyan

rng = np.random.default_rng(0)
users = np.repeat(np.arange(60), 8)
items = (users % 3) * 20 + rng.integers(0, 20, users.size)  # each user likes one third of the items

graph = yinyan.Graph.from_table(
    {"user": users, "item": items}, source="user", target="item", bipartite=True, prefixes=("user:", "item:")
)
print(graph.describe())

model = yinyan.LinkPredictor(seed=0, encoder={"hidden_size": 32}, training={"epochs": 20}).fit(graph)
found = model.recommend(["user:0", "user:1"], k=4)
print(found)
if not all(str(row.target).startswith("item:") for row in found):
    raise SystemExit("a user was recommended to a user")
