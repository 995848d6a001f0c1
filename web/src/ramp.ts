/** The colour of a probability: from unlikely over the middle to likely. */

import { clamp } from "./scales";

type Rgb = readonly [number, number, number];

function rgb(hex: string): Rgb {
  const value = Number.parseInt(hex.replace("#", ""), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

function between(a: Rgb, b: Rgb, t: number): string {
  const mixed = a.map((channel, i) => Math.round(channel + (b[i as 0 | 1 | 2] - channel) * t));
  return `#${mixed.map((channel) => channel.toString(16).padStart(2, "0")).join("")}`;
}

/** Three colours `#rrggbb` at 0, ½ and 1, mixed in between. */
export function rampColour(probability: number, unlikely: string, middle: string, likely: string): string {
  const p = clamp(probability, [0, 1]);
  return p < 0.5 ? between(rgb(unlikely), rgb(middle), 2 * p) : between(rgb(middle), rgb(likely), 2 * p - 1);
}
