/** Labels that answers have told, for answers that name ids alone. */

import { nameOf } from "./contract";
import { keyOf, kindOf, spelled, type Id } from "./ids";

const known = new Map<string, string>();

export function remember(nodes: Iterable<{ id: Id; label?: string | null }>): void {
  for (const node of nodes) known.set(keyOf(node.id), nameOf(node));
}

/** The label, or else the id; text that looks like the number of another node is quoted. */
export function nameFor(id: Id): string {
  const name = known.get(keyOf(id)) ?? String(id);
  const twin = kindOf(id) === "text" && name === String(id) && known.has(keyOf(id).replace(/text:(?=-?\d+$)/, "integer:"));
  return twin ? spelled(id) : name;
}
