/** How sure some predicted links are, in words. */

import type { BaseRate } from "./contract";

const NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
const SIZES = [
  [10, "ten"],
  [100, "a hundred"],
  [1000, "a thousand"],
] as const;

/** A share in per cent, with two digits: 0.014%. */
export function shareInWords(share: number): string {
  return `${Number((100 * share).toPrecision(2))}%`;
}

/** The base rate, and what it assumes. */
export function rateInWords({ base_rate, missing_share }: BaseRate): string {
  const assumed = `as many missing edges as ${shareInWords(missing_share)} of the known`;
  return `Probabilities hold at a base rate of ${shareInWords(base_rate)} (${assumed}).`;
}

/** Of ten such links, about three are missing edges: of a hundred or a thousand, where ten have less than one. */
export function countInWords(mean: number): string {
  for (const [size, name] of SIZES) {
    const count = Math.round(size * mean);
    if (count === 1) return `Of ${name} such links, about one is a missing edge.`;
    if (count > 1) return `Of ${name} such links, about ${NUMBERS[count] ?? count} are missing edges.`;
  }
  return "Of a thousand such links, fewer than one is a missing edge.";
}

/** Both, for a list of links. */
export function howSure(rate: BaseRate, links: readonly { probability: number | null }[]): string {
  const stated = links.flatMap(({ probability }) => (probability === null ? [] : [probability]));
  if (stated.length === 0) return "";
  return `${countInWords(stated.reduce((sum, p) => sum + p, 0) / stated.length)} ${rateInWords(rate)}`;
}
