/** Ids of nodes: text or whole numbers, opaque, with 7 and "7" apart; in a graph with relations, ids of a type. */

export type Plain = string | number | bigint; // bigint: whole numbers that a double cannot hold
export type Id = Plain | TypedId;
export type Kind = "text" | "integer";

/** A node of a graph with several types: its id is unique among those of its type. As JSON it is what questions take. */
export class TypedId {
  constructor(
    readonly type: string,
    readonly id: Plain,
  ) {}

  toString(): string {
    return String(this.id);
  }
}

/** The id as its table has it. */
export function plainOf(id: Id): Plain {
  return id instanceof TypedId ? id.id : id;
}

/** The type of a node; null in a graph without relations. */
export function typeOf(id: Id): string | null {
  return id instanceof TypedId ? id.type : null;
}

export function kindOf(id: Id): Kind {
  return typeof plainOf(id) === "string" ? "text" : "integer";
}

/** A key for maps that tells 7 from "7", and a person from a product. */
export function keyOf(id: Id): string {
  const key = `${kindOf(id)}:${plainOf(id)}`;
  return id instanceof TypedId ? `${JSON.stringify(id.type)} ${key}` : key;
}

export function sameId(a: Id, b: Id): boolean {
  return keyOf(a) === keyOf(b);
}

/** The id that a spelling and a kind name; null where the spelling is no whole number. */
export function idFrom(spelling: string, kind: Kind): Plain | null {
  if (kind === "text") return spelling;
  if (!/^-?\d{1,20}$/.test(spelling)) return null;
  const number = Number(spelling);
  return Number.isSafeInteger(number) ? number : BigInt(spelling);
}

/** An id for people: in quotes where it is text that looks like a number. */
export function spelled(id: Id): string {
  const plain = plainOf(id);
  return typeof plain === "string" && /^-?\d+$/.test(plain) ? `'${plain}'` : String(plain);
}
