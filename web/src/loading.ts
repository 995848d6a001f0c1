/** All that is shown about one node, fetched at once. */

import { api, type Pair } from "./api";
import type { BaseRate, Neighbourhood, NodeDetail, NodeInfo, Recommendation, Scored } from "./contract";
import { keyOf, type Id } from "./ids";
import { withKey } from "./key_prompt";
import { remember } from "./names";

export const DRAWN = 60; // nodes of a neighbourhood
export const LISTED = 100; // links of a node at a time

export interface Loaded {
  detail: NodeDetail;
  neighbourhood: Neighbourhood;
  predictions: Recommendation[];
  rate: BaseRate; // of their probabilities
  scores: Map<string, Scored>; // of the node's links, by the other end's key
  directed: boolean;
  complete: boolean; // whether all links are listed
}

export async function loadNode(id: Id, k: number, directed: boolean, signal: AbortSignal): Promise<Loaded> {
  const [detail, neighbourhood, { recommendations: predictions, ...rate }] = await withKey(() =>
    Promise.all([api.node(id, LISTED, 0, signal), api.neighbourhood(id, DRAWN, signal), api.recommend(id, k, signal)]),
  );
  remember([detail, ...detail.neighbours, ...neighbourhood.nodes]);
  remember(predictions.map(({ target, label }) => ({ id: target, label: label ?? null })));
  return {
    detail,
    neighbourhood,
    predictions,
    rate,
    scores: new Map(),
    directed,
    complete: detail.neighbours.length < LISTED,
  };
}

/** What the model thinks of links that are there, by the other end's key; in a directed graph, in their own direction. */
async function scoresOf(
  { detail, directed }: Loaded,
  ends: readonly NodeInfo[],
  signal: AbortSignal,
): Promise<[string, Scored][]> {
  const ways = ends.flatMap(({ id }): Pair[] =>
    directed
      ? [
          [detail.id, id],
          [id, detail.id],
        ]
      : [[detail.id, id]],
  );
  const scores = ways.length === 0 ? [] : await withKey(() => api.score(ways, signal));
  const [there, back] = directed
    ? [scores.filter((_, i) => i % 2 === 0), scores.filter((_, i) => i % 2 === 1)]
    : [scores, []];
  return there.map((one, i) => {
    const other = back[i];
    return [keyOf(one.target), other !== undefined && !one.is_link ? other : one];
  });
}

/** Adds the scores of the node's links to what is loaded. */
export async function loadScores(loaded: Loaded, signal: AbortSignal): Promise<void> {
  const { detail, scores } = loaded;
  for (const [key, one] of await scoresOf(loaded, detail.neighbours, signal)) scores.set(key, one);
}

/** The next links of a node, and their scores, added to what is loaded. */
export async function loadMore(loaded: Loaded, signal: AbortSignal): Promise<void> {
  const { detail, scores } = loaded;
  const { neighbours } = await withKey(() => api.node(detail.id, LISTED, detail.neighbours.length, signal));
  remember(neighbours);
  for (const [key, one] of await scoresOf(loaded, neighbours, signal)) scores.set(key, one);
  detail.neighbours.push(...neighbours);
  loaded.complete = neighbours.length < LISTED;
}
