/** The lists as a CSV file. */

import type { NodeInfo, Recommendation, Scored } from "./contract";
import { fileStem, toCsv, type Cell } from "./csv";
import { h } from "./dom";
import { keyOf, type Id } from "./ids";

export const HEADER = ["source", "target", "label", "known", "rank", "score", "probability"];

/** A line for each prediction, then for each link. */
export function tableRows(
  source: Id,
  predictions: readonly Recommendation[],
  links: readonly NodeInfo[],
  scores: ReadonlyMap<string, Scored>,
): Cell[][] {
  const predicted = predictions.map(({ target, label, rank, score, probability }): Cell[] => [
    source,
    target,
    label ?? null,
    false,
    rank,
    score,
    probability,
  ]);
  const known = links.map(({ id, label }): Cell[] => {
    const scored = scores.get(keyOf(id));
    return [source, id, label ?? null, true, null, scored?.score ?? null, scored?.probability ?? null];
  });
  return [...predicted, ...known];
}

/** Hands a table to the reader as a file. */
export function download(name: string, rows: Cell[][]): void {
  const blob = new Blob(["\ufeff", toCsv(HEADER, rows)], { type: "text/csv;charset=utf-8" }); // Excel needs the mark to see UTF-8
  const address = URL.createObjectURL(blob);
  const anchor = h("a", { href: address, download: `${fileStem(name)}-links.csv` });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
