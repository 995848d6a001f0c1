/** Numbers as widths, positions and words. */

export type Range = readonly [number, number];

export function clamp(value: number, [least, most]: Range): number {
  return Math.min(most, Math.max(least, value));
}

/** A straight map from one range to another; the middle of the range where the domain is a point. */
export function linear([a, b]: Range, [c, d]: Range): (value: number) => number {
  return (value) => (a === b ? (c + d) / 2 : c + ((value - a) / (b - a)) * (d - c));
}

/** The least and the greatest of some numbers; [0, 1] of none. */
export function extent(values: Iterable<number>): Range {
  let least = Infinity;
  let most = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return least <= most ? [least, most] : [0, 1];
}

/** About `count` round numbers that span a range. */
export function ticks([a, b]: Range, count = 5): number[] {
  if (!(b > a)) return [a];
  const raw = (b - a) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999) ?? 10);
  const first = Math.ceil(a / step - 1e-9);
  const last = Math.floor(b / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

let rate = 0.001; // base rate of the probabilities that are drawn

/** Sets the base rate that `sureness` starts from: a page shows one model. */
export function drawAt(baseRate: number): void {
  rate = baseRate;
}

function logOdds(probability: number): number {
  const p = clamp(probability, [1e-9, 1 - 1e-9]);
  return Math.log(p / (1 - p));
}

/** From 0 (the base rate: no likelier than any new pair) to 1 (even odds, or better), by log-odds. */
export function sureness(probability: number, baseRate = rate): number {
  const least = Math.min(-1, logOdds(baseRate));
  return clamp(1 - logOdds(probability) / least, [0, 1]);
}

/** Width of a drawn link, in pixels, by its probability. */
export function linkWidth(probability: number | null): number {
  return probability === null ? 1 : linear([0, 1], [1, 4.5])(sureness(probability));
}

/** How much narrower links are drawn where a node has many. */
export function crowding(count: number): number {
  return clamp(Math.sqrt(24 / Math.max(1, count)), [0.45, 1]);
}

/** Radius of a drawn node: its area grows with the logarithm of its degree. */
export function nodeRadius(degree: number): number {
  return Math.sqrt(18 + 14 * Math.log2(1 + Math.max(0, degree)));
}

/** A probability in per cent, that never rounds to certainty. */
export function percent(probability: number | null): string {
  if (probability === null) return "–";
  if (probability > 0.999 && probability < 1) return ">99.9%";
  if (probability < 0.001 && probability > 0) return "<0.1%";
  const digits = probability >= 0.9495 || probability < 0.0505 ? 1 : 0;
  return `${(100 * probability).toFixed(digits)}%`;
}

/** A number to a few digits, with a proper minus. */
export function figure(value: number | null, digits = 3): string {
  if (value === null || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const text = size !== 0 && (size >= 1e6 || size < 10 ** -digits) ? value.toExponential(2) : value.toFixed(digits);
  return text.replaceAll("-", "\u2212");
}

/** A score, always to three decimals, so that those of a list can be compared. */
export function scoreText(value: number): string {
  const text = value.toFixed(3);
  return (Number(text) === 0 ? "0.000" : text).replace("-", "\u2212");
}

export function signed(value: number): string {
  return value < 0 ? scoreText(value) : `+${scoreText(value)}`;
}

/** A count and its noun, in the plural unless it is 1. */
export function counted(count: number, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}
