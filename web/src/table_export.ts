/** The lists as a CSV file. */

import type { NodeInfo, Recommendation, Scored } from "./contract";
import { fileStem, toCsv, type Cell } from "./csv";
import { h } from "./dom";
import { plainOf, typeOf, type Id } from "./ids";
import { edgeKey } from "./scene";

export const HEADER = ["source", "target", "label", "known", "rank", "score", "probability"];
const OF_RELATIONS = ["source_type", "target_type", "relation"];

/** A line for each prediction, then for each link. */
export function tableRows(
  source: Id,
  predictions: readonly Recommendation[],
  links: readonly NodeInfo[],
  scores: ReadonlyMap<string, Scored>,
  relation?: string, // of the predictions
): Cell[][] {
  const [from, fromType] = [plainOf(source), typeOf(source)];
  const predicted = predictions.map(({ target, label, rank, score, probability }): Cell[] => [
    from,
    plainOf(target),
    label ?? null,
    false,
    rank,
    score,
    probability,
    ...(fromType === null ? [] : [fromType, typeOf(target), relation ?? null]),
  ]);
  const known = links.map(({ id, label, relation: own }): Cell[] => {
    const scored = scores.get(edgeKey(id, own));
    const cells = [from, plainOf(id), label ?? null, true, null, scored?.score ?? null, scored?.probability ?? null];
    return fromType === null ? cells : [...cells, fromType, typeOf(id), own ?? null];
  });
  return [...predicted, ...known];
}

/** The names of the columns that some rows have. */
export function headerOf(rows: readonly Cell[][]): string[] {
  return [...HEADER, ...OF_RELATIONS].slice(0, rows[0]?.length ?? HEADER.length);
}

/** Hands a table to the reader as a file. */
export function download(name: string, rows: Cell[][]): void {
  const blob = new Blob(["\ufeff", toCsv(headerOf(rows), rows)], { type: "text/csv;charset=utf-8" }); // Excel needs the mark to see UTF-8
  const address = URL.createObjectURL(blob);
  const anchor = h("a", { href: address, download: `${fileStem(name)}-links.csv` });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
