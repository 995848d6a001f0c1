/** Relations of the model: which are predicted of a node, and which way round a pair goes. */

import type { Pair } from "./api";
import type { NodeInfo, RelationFacts } from "./contract";
import { typeOf, type Id } from "./ids";

/** The predicted relations that join nodes of the type of this node. */
export function predictedOf(relations: readonly RelationFacts[], id: Id): RelationFacts[] {
  const type = typeOf(id);
  return relations.filter(({ predicted, source, target }) => predicted && (source === type || target === type));
}

/** The relation that is asked about: the chosen one if the node has it, or else its first; null if it has none. */
export function chosenOf(relations: readonly RelationFacts[], id: Id, chosen: string): RelationFacts | null {
  const found = predictedOf(relations, id);
  return found.find(({ name }) => name === chosen) ?? found[0] ?? null;
}

/** The pairs to score for an edge of a node: source first, and both ways where only the answer tells which. */
export function pairsOf(relation: RelationFacts, id: Id, other: Id): Pair[] {
  if (relation.source !== relation.target) return [relation.source === typeOf(id) ? [id, other] : [other, id]];
  return relation.directed
    ? [
        [id, other],
        [other, id],
      ]
    : [[id, other]];
}

/** The source and the target of a recommended link of a node. */
export function pairOf(relation: RelationFacts | null, source: Id, target: Id): Pair {
  const [pair] = relation === null ? [] : pairsOf(relation, source, target);
  return pair ?? [source, target];
}

/** Neighbours by the relation of their edge, of those that are predicted. */
export function byRelation(
  relations: readonly RelationFacts[],
  ends: readonly NodeInfo[],
): [RelationFacts, NodeInfo[]][] {
  const predicted = relations.filter(({ predicted }) => predicted);
  return predicted.map((relation) => [relation, ends.filter((end) => end.relation === relation.name)]);
}
