/** What is drawn around a node: its links, its predictions, and what joins them. */

import { nameOf, type Neighbourhood, type NodeInfo, type Recommendation } from "./contract";
import { keyOf, spelled, typeOf, type Id } from "./ids";

export type Role = "centre" | "link" | "predicted" | "far";

export interface SceneNode {
  key: string;
  id: Id;
  name: string;
  degree: number;
  role: Role;
  probability: number | null; // of a link to the centre
  type: string | null; // in a graph with relations
}

export interface SceneLink {
  source: string;
  target: string;
  known: boolean;
  central: boolean; // one end is the node in the middle
  probability: number | null;
  relation?: string; // in a graph with relations
  lane?: number; // how far beside the straight line: several relations may join two nodes
}

/** A key of an edge of the node in the middle: by the other end, and by the relation where there are several. */
export function edgeKey(id: Id, relation: string | undefined): string {
  return relation === undefined ? keyOf(id) : `${relation} ${keyOf(id)}`;
}

export interface Scene {
  centre: string;
  directed: boolean;
  nodes: SceneNode[];
  links: SceneLink[];
}

export interface Material {
  centre: NodeInfo;
  neighbourhood: Neighbourhood;
  predictions: readonly Recommendation[]; // those that pass the filters
  probabilities: ReadonlyMap<string, number | null>; // of the centre's links, by the other end's key
  links: boolean; // whether links are drawn
  directed: boolean;
}

function knownLinks({ centre, neighbourhood, probabilities, links }: Material): SceneLink[] {
  if (!links) return [];
  const middle = keyOf(centre.id);
  const relations = neighbourhood.relations ?? null;
  const found = neighbourhood.links.map(([a, b], i): SceneLink => {
    const [source, target] = [keyOf(a), keyOf(b)];
    const central = source === middle || target === middle;
    const relation = relations?.[i];
    const chance = central ? (probabilities.get(edgeKey(source === middle ? b : a, relation)) ?? null) : null;
    return { source, target, known: true, central, probability: chance, ...(relation === undefined ? {} : { relation }) };
  });
  return relations === null ? found : inLanes(found);
}

/** Links between the same two nodes side by side. */
function inLanes(links: SceneLink[]): SceneLink[] {
  const pairOf = ({ source, target }: SceneLink): string => [source, target].sort().join(" – ");
  const counts = new Map<string, number>();
  for (const link of links) counts.set(pairOf(link), (counts.get(pairOf(link)) ?? 0) + 1);
  const used = new Map<string, number>();
  return links.map((link) => {
    const pair = pairOf(link);
    const [count, place] = [counts.get(pair) ?? 1, used.get(pair) ?? 0];
    used.set(pair, place + 1);
    const side = link.source < link.target ? 1 : -1; // whichever way round the edge goes
    return count === 1 ? link : { ...link, lane: side * (place - (count - 1) / 2) };
  });
}

/** The scene of a node. Without links only the centre and its predictions are left. */
export function sceneOf(material: Material): Scene {
  const { centre, neighbourhood, predictions, links } = material;
  const middle = keyOf(centre.id);
  const known = knownLinks(material);
  const near = new Set(known.filter((link) => link.central).flatMap((link) => [link.source, link.target]));
  const chances = new Map(
    known.flatMap(({ central, source, target, probability }) =>
      central ? [[source === middle ? target : source, probability] as const] : [],
    ),
  );
  const nodes = new Map<string, SceneNode>();
  const add = (node: NodeInfo, role: Role, probability: number | null): void => {
    const key = keyOf(node.id);
    nodes.set(key, { key, id: node.id, name: nameOf(node), degree: node.degree, role, probability, type: typeOf(node.id) });
  };

  add(centre, "centre", null);
  for (const node of neighbourhood.nodes) {
    const key = keyOf(node.id);
    if (key === middle || !links) continue;
    add(node, near.has(key) ? "link" : "far", chances.get(key) ?? null);
  }
  const degrees = new Map(neighbourhood.nodes.map((node) => [keyOf(node.id), node.degree]));
  const predicted = predictions.map((one): SceneLink => {
    const key = keyOf(one.target);
    add({ id: one.target, label: one.label ?? null, degree: degrees.get(key) ?? 0 }, "predicted", one.probability);
    return { source: middle, target: key, known: false, central: true, probability: one.probability };
  });
  return {
    centre: middle,
    directed: material.directed,
    nodes: toldApart([...nodes.values()]),
    links: [...known, ...predicted],
  };
}

/** Whether two scenes join the same nodes by the same links, so that one layout serves both. */
export function sameShape(a: Scene, b: Scene): boolean {
  const shape = ({ centre, nodes, links }: Scene): string =>
    JSON.stringify([
      centre,
      nodes.map(({ key }) => key),
      links.map(({ source, target, known }) => [source, target, known]),
    ]);
  return shape(a) === shape(b);
}

/** Adds the id to names that several nodes bear. */
function toldApart(nodes: SceneNode[]): SceneNode[] {
  const bearers = new Map<string, number>();
  for (const { name } of nodes) bearers.set(name, (bearers.get(name) ?? 0) + 1);
  return nodes.map((node) => {
    if (bearers.get(node.name) === 1) return node;
    const id = node.type === null ? spelled(node.id) : `${node.type} ${spelled(node.id)}`;
    return { ...node, name: node.name === String(node.id) ? id : `${node.name} (${id})` };
  });
}
