/** Labels that answers have told, for answers that name ids alone. */

import { nameOf } from "./contract";
import { keyOf, type Id } from "./ids";

const known = new Map<string, string>();

export function remember(nodes: Iterable<{ id: Id; label?: string | null }>): void {
  for (const node of nodes) known.set(keyOf(node.id), nameOf(node));
}

export function nameFor(id: Id): string {
  return known.get(keyOf(id)) ?? String(id);
}
