/** A page of one node: the explorer's drawing, with its data beside it in the file. Notebooks show it. */

import type { Neighbourhood, NodeInfo, Recommendation } from "./contract";
import { nameOf } from "./contract";
import { byId, h } from "./dom";
import { parseExact } from "./exact_json";
import { GraphView } from "./graph_view";
import { keyOf, type Id } from "./ids";
import { legend } from "./legend";
import { counted, drawAt } from "./scales";
import { sceneOf } from "./scene";

interface Content {
  centre: NodeInfo;
  neighbourhood: Neighbourhood;
  predictions: Recommendation[];
  probabilities: [Id, number][];
  base_rate: number;
  directed: boolean;
}

const content = parseExact(byId("data").textContent ?? "") as Content;
const { centre, neighbourhood, predictions, directed } = content;
const probabilities = new Map(content.probabilities.map(([id, probability]) => [keyOf(id), probability]));
const told = `${counted(centre.degree, "edge")}, ${counted(predictions.length, "predicted link")}`;
const graph = new GraphView({ walk: () => undefined, hover: () => undefined });

drawAt(content.base_rate);
byId("content").replaceChildren(
  h("header", { class: "head" }, h("h1", {}, nameOf(centre)), h("p", { class: "small" }, told)),
  h("section", { class: "drawing", "aria-label": "Drawing" }, graph.element, legend()),
);
graph.show(
  sceneOf({ centre, neighbourhood, predictions, probabilities, links: true, directed }),
  `${nameOf(centre)} with ${told}`,
);
