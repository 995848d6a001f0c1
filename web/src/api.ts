/** Questions to the service, and what goes wrong with them. */

import type * as contract from "./contract";
import { parseExact, stringifyExact } from "./exact_json";
import { kindOf, type Id } from "./ids";
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

function withKind(path: string, id: Id, more = ""): string {
  return `v1/${path}/${encodeURIComponent(String(id))}?kind=${kindOf(id)}${more}`;
}

export const api = {
  openapi: (): Promise<Document> => ask("GET", "openapi.json"),
  search: (query: string, limit: number, signal?: AbortSignal): Promise<{ nodes: contract.NodeInfo[] }> =>
    ask("GET", `v1/nodes?query=${encodeURIComponent(query)}&limit=${limit}`, undefined, signal),
  node: (id: Id, limit: number, offset: number, signal?: AbortSignal): Promise<contract.NodeDetail> =>
    ask("GET", withKind("nodes", id, `&limit=${limit}&offset=${offset}`), undefined, signal),
  neighbourhood: (id: Id, limit: number, signal?: AbortSignal): Promise<contract.Neighbourhood> =>
    ask("GET", withKind("neighbourhood", id, `&limit=${limit}`), undefined, signal),
  recommend: async (id: Id, k: number, signal?: AbortSignal): Promise<contract.Recommended> => {
    type Answer = contract.BaseRate & { results: { recommendations: contract.Recommendation[] }[] };
    const { results, base_rate, missing_share } = await ask<Answer>("POST", "v1/recommend", { nodes: [id], k }, signal);
    return { recommendations: results[0]?.recommendations ?? [], base_rate, missing_share };
  },
  score: async (pairs: readonly Pair[], signal?: AbortSignal): Promise<contract.Scored[]> =>
    (await ask<{ scores: contract.Scored[] }>("POST", "v1/score", { pairs }, signal)).scores,
  explain: async (pair: Pair, signal?: AbortSignal): Promise<contract.Explanation> => {
    type Answer = { explanations: contract.Explanation[] };
    const answer = await ask<Answer>("POST", "v1/explain", { pairs: [pair] }, signal);
    const explanation = answer.explanations[0];
    if (explanation === undefined) throw new Problem(502, "Empty answer", "The service explained nothing.");
    return explanation;
  },
  addLink: (pair: Pair): Promise<unknown> => ask("POST", "v1/edges", { edges: [pair] }),
  removeLink: (pair: Pair): Promise<unknown> => ask("DELETE", "v1/edges", { edges: [pair] }),
  reject: (pair: Pair): Promise<unknown> => ask("POST", "v1/rejections", { pairs: [pair] }),
  unreject: (pair: Pair): Promise<unknown> => ask("DELETE", "v1/rejections", { pairs: [pair] }),
  model: (signal?: AbortSignal): Promise<contract.ModelInfo> => ask("GET", "v1/model", undefined, signal),
  map: (limit: number, signal?: AbortSignal): Promise<contract.PointMap> =>
    ask("GET", `v1/map?limit=${limit}`, undefined, signal),
};
