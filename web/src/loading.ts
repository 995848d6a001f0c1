/** All that is shown about one node, fetched at once. */

import { api } from "./api";
import type { Neighbourhood, NodeDetail, NodeInfo, Recommendation, Scored } from "./contract";
import { keyOf, type Id } from "./ids";
import { withKey } from "./key_prompt";
import { remember } from "./names";

export const DRAWN = 60; // nodes of a neighbourhood
export const LISTED = 100; // links of a node at a time

export interface Loaded {
  detail: NodeDetail;
  neighbourhood: Neighbourhood;
  predictions: Recommendation[];
  scores: Map<string, Scored>; // of the node's links, by the other end's key
}

export async function loadNode(id: Id, k: number, signal: AbortSignal): Promise<Loaded> {
  const [detail, neighbourhood, predictions] = await withKey(() =>
    Promise.all([
      api.node(id, LISTED, 0, signal),
      api.neighbourhood(id, DRAWN, signal),
      api.recommend(id, k, signal),
    ]),
  );
  remember([detail, ...detail.neighbours, ...neighbourhood.nodes]);
  remember(predictions.map(({ target, label }) => ({ id: target, label: label ?? null })));
  return { detail, neighbourhood, predictions, scores: new Map() };
}

/** What the model thinks of links that are there. */
export async function scoreLinks(centre: Id, ends: readonly NodeInfo[], signal: AbortSignal): Promise<Scored[]> {
  if (ends.length === 0) return [];
  return withKey(() => api.score(ends.map(({ id }) => [centre, id] as const), signal));
}

/** The next links of a node, and their scores, added to what is loaded. */
export async function loadMore(loaded: Loaded, signal: AbortSignal): Promise<void> {
  const { detail, scores } = loaded;
  const { neighbours } = await withKey(() => api.node(detail.id, LISTED, detail.neighbours.length, signal));
  remember(neighbours);
  for (const one of await scoreLinks(detail.id, neighbours, signal)) scores.set(keyOf(one.target), one);
  detail.neighbours.push(...neighbours);
}
