/** A page of one node: the explorer's drawing, with its data beside it in the file. Notebooks show it. */

import type { Neighbourhood, NodeInfo, Recommendation } from "./contract";
import { nameOf } from "./contract";
import { byId, h } from "./dom";
import { parseExact } from "./exact_json";
import { GraphView } from "./graph_view";
import { keyOf, TypedId, type Id, type Plain } from "./ids";
import { legend } from "./legend";
import { counted, drawAt } from "./scales";
import { sceneOf } from "./scene";
import { setTypes } from "./shapes";

type Spelled = Plain | [string, Plain]; // with its type, where a relation joins two types
type Named<Thing, Key extends keyof Thing> = Omit<Thing, Key> & Record<Key, Spelled>;

interface Content {
  nodes: Named<Neighbourhood["nodes"][number], "id">[]; // the one in the middle first
  links: [Spelled, Spelled][];
  predictions: Named<Recommendation, "target">[];
  probabilities: [Spelled, number][];
  base_rate: number;
  directed: boolean;
  types: string[];
}

const idOf = (id: Spelled): Id => (Array.isArray(id) ? new TypedId(...id) : id);

const content = parseExact(byId("data").textContent ?? "") as Content;
const { directed, types } = content;
const nodes = content.nodes.map((node) => ({ ...node, id: idOf(node.id) }));
const links = content.links.map(([a, b]): [Id, Id] => [idOf(a), idOf(b)]);
const neighbourhood: Neighbourhood = { nodes, links, version: 0 };
const centre: NodeInfo = nodes[0]!;
const predictions = content.predictions.map((one): Recommendation => ({ ...one, target: idOf(one.target) }));
const probabilities = new Map(content.probabilities.map(([id, probability]) => [keyOf(idOf(id)), probability]));
const summary = `${counted(centre.degree, "edge")}, ${counted(predictions.length, "predicted link")}`;
const graph = new GraphView({ walk: () => undefined, hover: () => undefined });

drawAt(content.base_rate);
setTypes(types);
byId("content").replaceChildren(
  h("header", { class: "head" }, h("h1", {}, nameOf(centre)), h("p", { class: "small" }, summary)),
  h("section", { class: "drawing", "aria-label": "Drawing" }, graph.element, legend(types)),
);
graph.show(
  sceneOf({ centre, neighbourhood, predictions, probabilities, links: true, directed }),
  `${nameOf(centre)} with ${summary}`,
);
