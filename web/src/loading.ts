/** All that is shown about one node, fetched at once. */

import { api, type Pair } from "./api";
import type { BaseRate, Neighbourhood, NodeDetail, NodeInfo, Recommendation, RelationFacts, Scored } from "./contract";
import { sameId, type Id } from "./ids";
import { withKey } from "./key_prompt";
import { remember } from "./names";
import { byRelation, chosenOf, pairsOf } from "./relations";
import { edgeKey } from "./scene";

export const DRAWN = 60; // nodes of a neighbourhood
export const LISTED = 100; // links of a node at a time

export interface Question {
  id: Id;
  k: number;
  directed: boolean;
  relations: readonly RelationFacts[]; // of the model; empty without
  relation: string; // that is predicted, if the node has it
  edges: string; // relation of the edges that are shown; "" for all
}

export interface Loaded extends Question {
  detail: NodeDetail;
  neighbourhood: Neighbourhood;
  predictions: Recommendation[];
  asked: RelationFacts | null; // the relation of the predictions
  rate: BaseRate; // of their probabilities
  scores: Map<string, Scored>; // of the node's links, by their keys
  complete: boolean; // whether all links are listed
}

const NONE = { recommendations: [], base_rate: 0.5, missing_share: 0 }; // no predicted relation joins the node

export async function loadNode(question: Question, signal: AbortSignal): Promise<Loaded> {
  const { id, k, relations, edges } = question;
  const asked = chosenOf(relations, id, question.relation);
  const nothing = relations.length > 0 && asked === null;
  const kept = edges === "" ? null : edges;
  const [detail, neighbourhood, { recommendations: predictions, ...rate }] = await withKey(() =>
    Promise.all([
      api.node(id, LISTED, 0, signal, kept),
      api.neighbourhood(id, DRAWN, signal, kept),
      nothing ? NONE : api.recommend(id, k, signal, asked?.name),
    ]),
  );
  remember([detail, ...detail.neighbours, ...neighbourhood.nodes]);
  remember(predictions.map(({ target, label }) => ({ id: target, label: label ?? null })));
  return {
    ...question,
    detail,
    neighbourhood,
    predictions,
    asked,
    rate,
    scores: new Map(),
    complete: detail.neighbours.length < LISTED,
  };
}

/** Scores of edges of a node by their keys; in a directed graph, in their own direction. */
async function scored(
  ends: readonly NodeInfo[],
  ways: (end: NodeInfo) => Pair[],
  signal: AbortSignal,
  relation?: string,
): Promise<[string, Scored][]> {
  const pairs = ends.map(ways);
  const found = pairs.flat();
  const answers = found.length === 0 ? [] : await withKey(() => api.score(found, signal, relation));
  let place = 0;
  return pairs.map((own, i) => {
    const both = answers.slice(place, (place += own.length));
    return [edgeKey(ends[i]!.id, relation), both.find(({ is_link }) => is_link) ?? both[0]!];
  });
}

/** What the model thinks of links that are there; with relations, of those that it predicts. */
async function scoresOf(loaded: Loaded, ends: readonly NodeInfo[], signal: AbortSignal): Promise<[string, Scored][]> {
  const { detail, directed, relations } = loaded;
  if (relations.length > 0) {
    const groups = byRelation(relations, ends).map(([relation, own]) =>
      scored(own, ({ id }) => pairsOf(relation, detail.id, id), signal, relation.name),
    );
    return (await Promise.all(groups)).flat();
  }
  const ways = ({ id }: NodeInfo): Pair[] =>
    directed
      ? [
          [detail.id, id],
          [id, detail.id],
        ]
      : [[detail.id, id]];
  return scored(ends, ways, signal);
}

/** Whether a scored edge comes from another node. */
export function isInward(one: Scored, centre: Id): boolean {
  return !sameId(one.source, centre);
}

/** Adds the scores of the node's links to what is loaded. */
export async function loadScores(loaded: Loaded, signal: AbortSignal): Promise<void> {
  const { detail, scores } = loaded;
  for (const [key, one] of await scoresOf(loaded, detail.neighbours, signal)) scores.set(key, one);
}

/** The next links of a node, and their scores, added to what is loaded. */
export async function loadMore(loaded: Loaded, signal: AbortSignal): Promise<void> {
  const { detail, scores } = loaded;
  const { neighbours } = await withKey(() =>
    api.node(detail.id, LISTED, detail.neighbours.length, signal, loaded.edges === "" ? null : loaded.edges),
  );
  remember(neighbours);
  for (const [key, one] of await scoresOf(loaded, neighbours, signal)) scores.set(key, one);
  detail.neighbours.push(...neighbours);
  loaded.complete = neighbours.length < LISTED;
}
