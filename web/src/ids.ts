/** Ids of nodes: text or whole numbers, opaque, with 7 and "7" apart. */

export type Id = string | number | bigint; // bigint: whole numbers that a double cannot hold
export type Kind = "text" | "integer";

export function kindOf(id: Id): Kind {
  return typeof id === "string" ? "text" : "integer";
}

/** A key for maps that tells 7 from "7". */
export function keyOf(id: Id): string {
  return `${kindOf(id)}:${id}`;
}

export function sameId(a: Id, b: Id): boolean {
  return keyOf(a) === keyOf(b);
}

/** The id that a spelling and a kind name; null where the spelling is no whole number. */
export function idFrom(spelling: string, kind: Kind): Id | null {
  if (kind === "text") return spelling;
  if (!/^-?\d{1,20}$/.test(spelling)) return null;
  const number = Number(spelling);
  return Number.isSafeInteger(number) ? number : BigInt(spelling);
}

/** An id for people: in quotes where it is text that looks like a number. */
export function spelled(id: Id): string {
  return typeof id === "string" && /^-?\d+$/.test(id) ? `'${id}'` : String(id);
}
