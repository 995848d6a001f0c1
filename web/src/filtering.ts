/** Which predictions and links pass the filters. */

import type { NodeInfo, Recommendation } from "./contract";
import type { Id } from "./ids";
import type { Filters } from "./url_state";

/** Whether a text occurs in a name or an id, whatever its case and accents. */
export function textMatches(text: string, name: string, id: Id): boolean {
  const plain = (word: string): string => word.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const wanted = plain(text.trim());
  return wanted === "" || plain(name).includes(wanted) || plain(String(id)).includes(wanted);
}

export function passingPredictions(
  predictions: readonly Recommendation[],
  filters: Filters,
  nameFor: (id: Id) => string,
): Recommendation[] {
  if (!filters.predictions) return [];
  return predictions.filter(
    ({ target, probability }) =>
      // a model without calibration states no probability: there is nothing to compare
      (probability === null || probability >= filters.least) && textMatches(filters.text, nameFor(target), target),
  );
}

export function passingLinks(links: readonly NodeInfo[], filters: Filters, nameFor: (id: Id) => string): NodeInfo[] {
  return filters.links ? links.filter(({ id }) => textMatches(filters.text, nameFor(id), id)) : [];
}
