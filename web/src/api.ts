/** Questions to the service, and what goes wrong with them. */

import type * as contract from "./contract";
import { parseExact, stringifyExact } from "./exact_json";
import { kindOf, plainOf, TypedId, typeOf, type Id, type Plain } from "./ids";
import type { Document } from "./openapi";

export type Pair = readonly [Id, Id];

/** A refusal in the service's own words, or a silence. */
export class Problem extends Error {
  constructor(
    readonly status: number, // 0: no answer at all
    readonly title: string,
    readonly detail: string,
  ) {
    super(detail);
  }
}

const KEY = "yinyan.key";

/** The key of this tab alone: it is forgotten when the tab is closed. */
export const apiKey = {
  read: (): string | null => sessionStorage.getItem(KEY),
  keep: (key: string): void => sessionStorage.setItem(KEY, key),
  forget: (): void => sessionStorage.removeItem(KEY),
};

async function problemOf(response: Response): Promise<Problem> {
  const title = response.statusText || `Status ${response.status}`;
  const text = await response.text();
  try {
    const told = JSON.parse(text) as { title?: string; detail?: unknown };
    const detail = typeof told.detail === "string" ? told.detail : JSON.stringify(told.detail ?? told);
    return new Problem(response.status, told.title ?? title, detail);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return new Problem(response.status, title, text.slice(0, 500) || "The service gave no reason.");
  }
}

const VERSION = "X-Yinyan-Version";
let seen = 0; // the largest version of an answer: the service gives no older one to who sends it

async function ask<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  let response = await send(method, path, body, signal);
  if (response.status === 412 && seen > 0) {
    seen = 0; // another change log: what this page has seen is no longer there
    response = await send(method, path, body, signal);
  }
  if (!response.ok) throw await problemOf(response);
  seen = Math.max(seen, Number(response.headers.get(VERSION) ?? 0));
  return parseExact(await response.text()) as T;
}

function send(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  return sendText(method, path, body === undefined ? undefined : stringifyExact(body), signal);
}

/** A request with a body that is text already, and its answer, whatever it is. */
export async function sendText(method: string, path: string, body?: string, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (seen > 0) headers[VERSION] = String(seen);
  const key = apiKey.read();
  if (key !== null) headers["Authorization"] = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  try {
    return await fetch(path, { method, headers, body: body ?? null, signal: signal ?? null });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "No answer", "The service does not answer. Is it running, and can this page reach it?");
  }
}

/** The part of an address after `?`, of what is given. */
function query(given: Record<string, string | number | null | undefined>): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(given))
    if (value !== null && value !== undefined && value !== "") found.set(name, String(value));
  const text = found.toString().replaceAll("+", "%20");
  return text === "" ? "" : `?${text}`;
}

function ofNode(path: string, id: Id, more: Record<string, string | number | null | undefined>): string {
  const asked = query({ kind: kindOf(id), type: typeOf(id), ...more });
  return `v1/${path}/${encodeURIComponent(String(plainOf(id)))}${asked}`;
}

type WithType = { id: Id; type?: string | null };

/** An id with the type that an answer names beside it. */
function typed(id: Id, type: string | null | undefined): Id {
  return type === null || type === undefined ? id : new TypedId(type, id as Plain);
}

function withType<Node extends WithType>(node: Node): Node {
  return { ...node, id: typed(node.id, node.type) };
}

type Ends = { source_type?: string | null; target_type?: string | null };

function withEndTypes<Answer extends contract.Scored & Ends>(answer: Answer): Answer {
  const { source, target, source_type, target_type } = answer;
  return { ...answer, source: typed(source, source_type), target: typed(target, target_type) };
}

type TypedContribution = contract.Contribution & { end_type?: string | null; neighbour_type?: string | null };

function explained(answer: contract.Explanation & Ends): contract.Explanation {
  const contributions = answer.contributions.map((one: TypedContribution) => ({
    ...one,
    end: typed(one.end, one.end_type),
    neighbour: one.neighbour === null ? null : typed(one.neighbour, one.neighbour_type),
  }));
  return { ...withEndTypes(answer), contributions };
}

type Drawn = contract.Neighbourhood & { ends?: [number, number][] | null };

function drawn(answer: Drawn): contract.Neighbourhood {
  const nodes = answer.nodes.map(withType);
  const ends = answer.ends ?? null;
  const links = ends === null ? answer.links : ends.map(([a, b]): [Id, Id] => [nodes[a]!.id, nodes[b]!.id]);
  return { ...answer, nodes, links };
}

type Relation = string | null;

/** A map whose ids have their types. */
export function typedMap(map: contract.PointMap): contract.PointMap {
  const { types } = map;
  return types === undefined || types === null ? map : { ...map, ids: map.ids.map((id, i) => typed(id, types[i])) };
}

export const api = {
  openapi: (): Promise<Document> => ask("GET", "openapi.json"),
  search: async (text: string, limit: number, signal?: AbortSignal): Promise<{ nodes: contract.NodeInfo[] }> => {
    const path = `v1/nodes?query=${encodeURIComponent(text)}&limit=${limit}`;
    const { nodes } = await ask<{ nodes: contract.NodeInfo[] }>("GET", path, undefined, signal);
    return { nodes: nodes.map(withType) };
  },
  node: async (
    id: Id,
    limit: number,
    offset: number,
    signal?: AbortSignal,
    relation: Relation = null,
  ): Promise<contract.NodeDetail> => {
    const path = ofNode("nodes", id, { limit, offset, relation });
    const found = await ask<contract.NodeDetail>("GET", path, undefined, signal);
    return { ...withType(found), neighbours: found.neighbours.map(withType) };
  },
  neighbourhood: async (
    id: Id,
    limit: number,
    signal?: AbortSignal,
    relation: Relation = null,
  ): Promise<contract.Neighbourhood> =>
    drawn(await ask<Drawn>("GET", ofNode("neighbourhood", id, { limit, relation }), undefined, signal)),
  recommend: async (
    id: Id,
    k: number,
    signal?: AbortSignal,
    relation?: string,
  ): Promise<contract.Recommended> => {
    type Partner = contract.Recommendation & { type?: string | null };
    type Answer = contract.BaseRate & { results: { recommendations: Partner[] }[] };
    const body = { nodes: [id], k, relation };
    const { results, base_rate, missing_share } = await ask<Answer>("POST", "v1/recommend", body, signal);
    const found = results[0]?.recommendations ?? [];
    const recommendations = found.map((one) => ({ ...one, target: typed(one.target, one.type) }));
    return { recommendations, base_rate, missing_share };
  },
  score: async (pairs: readonly Pair[], signal?: AbortSignal, relation?: string): Promise<contract.Scored[]> => {
    const { scores } = await ask<{ scores: contract.Scored[] }>("POST", "v1/score", { pairs, relation }, signal);
    return scores.map(withEndTypes);
  },
  explain: async (pair: Pair, signal?: AbortSignal, relation?: string): Promise<contract.Explanation> => {
    type Answer = { explanations: contract.Explanation[] };
    const answer = await ask<Answer>("POST", "v1/explain", { pairs: [pair], relation }, signal);
    const explanation = answer.explanations[0];
    if (explanation === undefined) throw new Problem(502, "Empty answer", "The service explained nothing.");
    return explained(explanation);
  },
  addLink: (pair: Pair): Promise<unknown> => ask("POST", "v1/edges", { edges: [pair] }),
  removeLink: (pair: Pair): Promise<unknown> => ask("DELETE", "v1/edges", { edges: [pair] }),
  reject: (pair: Pair): Promise<unknown> => ask("POST", "v1/rejections", { pairs: [pair] }),
  unreject: (pair: Pair): Promise<unknown> => ask("DELETE", "v1/rejections", { pairs: [pair] }),
  model: (signal?: AbortSignal, relation: Relation = null): Promise<contract.ModelInfo> =>
    ask("GET", `v1/model${query({ relation })}`, undefined, signal),
  map: async (limit: number, signal?: AbortSignal): Promise<contract.PointMap> =>
    typedMap(await ask<contract.PointMap>("GET", `v1/map?limit=${limit}`, undefined, signal)),
};
