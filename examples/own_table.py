"""From a data frame of friendships to recommended friends, in your own ids."""

import random

import yinyan

random.seed(0)
people = [f"person {i:03d}" for i in range(120)]
town = {name: i % 4 for i, name in enumerate(people)}
friends = {"who": [], "whom": []}
for name in people:
    for other in random.sample([p for p in people if town[p] == town[name] and p != name], 5):
        friends["who"].append(name)
        friends["whom"].append(other)

graph = yinyan.Graph.from_table(friends, source="who", target="whom")
print(graph.describe())

model = yinyan.LinkPredictor(seed=0, encoder={"hidden_size": 32}, training={"epochs": 20}).fit(graph)
print(model.recommend("person 007", k=5))
print(model.explain("person 007", model.recommend("person 007", k=1)[0].target))
