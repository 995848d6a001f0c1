/** Which predictions and links pass the filters. */

import type { NodeInfo, Recommendation } from "./contract";
import type { Id } from "./ids";
import type { Filters } from "./url_state";

function plain(word: string): string {
  return word.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
}

/** A test whether a text occurs in a name or an id, whatever its case and accents. */
export function textFilter(text: string): (name: string, id: Id) => boolean {
  const wanted = plain(text.trim());
  if (wanted === "") return () => true;
  return (name, id) => plain(name).includes(wanted) || plain(String(id)).includes(wanted);
}

export function passingPredictions(
  predictions: readonly Recommendation[],
  filters: Filters,
  nameFor: (id: Id) => string,
): Recommendation[] {
  if (!filters.predictions) return [];
  const matches = textFilter(filters.text);
  return predictions.filter(
    ({ target, probability }) =>
      // a model without calibration states no probability: there is nothing to compare
      (probability === null || probability >= filters.least) && matches(nameFor(target), target),
  );
}

export function passingLinks(links: readonly NodeInfo[], filters: Filters, nameFor: (id: Id) => string): NodeInfo[] {
  const matches = textFilter(filters.text);
  return filters.links ? links.filter(({ id }) => matches(nameFor(id), id)) : [];
}
