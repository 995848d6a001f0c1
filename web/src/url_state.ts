/** What the address says: the view, the node and the filters, in the part after `#`. */

import { idFrom, kindOf, TypedId, typeOf, type Id } from "./ids";

export interface Filters {
  k: number;
  least: number; // probability below which predictions are left out
  text: string;
  links: boolean;
  predictions: boolean;
  relation: string; // that is predicted; "" for the first that the node has
  edges: string; // relation of the edges that are shown; "" for all
}

export type View =
  | { page: "explore"; node: Id | null; filters: Filters }
  | { page: "model"; highlight: string; relation: string };

export const DEFAULTS: Filters = { k: 10, least: 0, text: "", links: true, predictions: true, relation: "", edges: "" };
export const MOST = 100; // predictions asked for at once

function wholeBetween(text: string | null, least: number, most: number, otherwise: number): number {
  const number = text !== null && /^\d+$/.test(text) ? Number(text) : otherwise;
  return Math.min(most, Math.max(least, number));
}

function share(text: string | null): number {
  const number = text === null || text.trim() === "" ? DEFAULTS.least : Number(text);
  return Number.isFinite(number) ? Math.min(1, Math.max(0, number)) : DEFAULTS.least;
}

function nodeFrom(query: URLSearchParams): Id | null {
  const whole = query.get("number");
  const text = query.get("node");
  const type = query.get("type");
  const id = whole !== null ? idFrom(whole, "integer") : text === null ? null : idFrom(text, "text");
  return id === null || type === null ? id : new TypedId(type, id);
}

/** The view that an address names; what it does not name is as by default, what it cannot mean is left out. */
export function viewFrom(hash: string): View {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const query = new URLSearchParams(search);
  if (path === "model") return { page: "model", highlight: query.get("highlight") ?? "", relation: query.get("relation") ?? "" };
  return {
    page: "explore",
    node: nodeFrom(query),
    filters: {
      k: wholeBetween(query.get("k"), 1, MOST, DEFAULTS.k),
      least: share(query.get("min")),
      text: query.get("text") ?? DEFAULTS.text,
      links: query.get("links") !== "0",
      predictions: query.get("predictions") !== "0",
      relation: query.get("relation") ?? DEFAULTS.relation,
      edges: query.get("edges") ?? DEFAULTS.edges,
    },
  };
}

/** The address of a view: `node` for an id of text, `number` for a whole number, and what is not as by default. */
export function addressOf(view: View): string {
  const query = new URLSearchParams();
  if (view.page === "model") {
    if (view.highlight !== "") query.set("highlight", view.highlight);
    if (view.relation !== "") query.set("relation", view.relation);
  } else {
    const { node, filters } = view;
    const type = node === null ? null : typeOf(node);
    if (node !== null) query.set(kindOf(node) === "text" ? "node" : "number", String(node));
    if (type !== null) query.set("type", type);
    if (filters.k !== DEFAULTS.k) query.set("k", String(filters.k));
    if (filters.least !== DEFAULTS.least) query.set("min", String(filters.least));
    if (filters.text !== DEFAULTS.text) query.set("text", filters.text);
    if (!filters.links) query.set("links", "0");
    if (!filters.predictions) query.set("predictions", "0");
    if (filters.relation !== DEFAULTS.relation) query.set("relation", filters.relation);
    if (filters.edges !== DEFAULTS.edges) query.set("edges", filters.edges);
  }
  const search = query.toString();
  return `#/${view.page}${search === "" ? "" : `?${search}`}`;
}
