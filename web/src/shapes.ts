/** Types of nodes by shape and colour; without types every node is a disc. */

import { h, svg } from "./dom";
import { colours } from "./theme";

type Corner = readonly [number, number];

/** Corners on a circle of radius 1, from the top. */
function corners(count: number, turn = 0): Corner[] {
  return Array.from({ length: count }, (_, i) => {
    const angle = turn - Math.PI / 2 + (2 * Math.PI * i) / count;
    return [Math.cos(angle), Math.sin(angle)] as const;
  });
}

// of about the same area as the disc, which comes first
const SHAPES: readonly (readonly Corner[] | null)[] = [
  null,
  corners(4, Math.PI / 4).map(([x, y]) => [1.2 * x, 1.2 * y] as const),
  corners(3).map(([x, y]) => [1.45 * x, 1.45 * y + 0.2] as const),
  corners(4).map(([x, y]) => [1.3 * x, 1.3 * y] as const),
  corners(6).map(([x, y]) => [1.1 * x, 1.1 * y] as const),
  corners(3, Math.PI).map(([x, y]) => [1.45 * x, 1.45 * y - 0.2] as const),
];

let order: readonly string[] = [];

/** Names the types of the graph, in their order. */
export function setTypes(names: readonly string[]): void {
  order = names;
}

/** The place of a type; with one type or none there is nothing to tell apart. */
export function placeOfType(type: string | null): number {
  return type === null || order.length < 2 ? -1 : order.indexOf(type);
}

/** The colour of a type on canvas; null without types. */
export function typeColour(type: string | null): string | null {
  const place = placeOfType(type);
  const { types } = colours();
  return place < 0 ? null : types[place % types.length]!;
}

/** Traces the outline of a node of a type around a place. */
export function traceShape(context: CanvasRenderingContext2D, type: string | null, x: number, y: number, radius: number): void {
  const shape = SHAPES[Math.max(0, placeOfType(type)) % SHAPES.length] ?? null;
  context.beginPath();
  if (shape === null) return context.arc(x, y, radius, 0, 2 * Math.PI);
  shape.forEach(([cx, cy], i) => context[i === 0 ? "moveTo" : "lineTo"](x + radius * cx, y + radius * cy));
  context.closePath();
}

/** The mark of a type in words and lists: its shape in its colour. Null without types. */
export function typeMark(type: string | null): SVGElement | null {
  const place = placeOfType(type);
  if (place < 0) return null;
  const shape = SHAPES[place % SHAPES.length] ?? null;
  const attributes = { class: `shape type-${place % colours().types.length}` };
  const drawn =
    shape === null
      ? svg("circle", { cx: 0, cy: 0, r: 1 })
      : svg("polygon", { points: shape.map((corner) => corner.join(",")).join(" ") });
  return svg("svg", { viewBox: "-1.6 -1.6 3.2 3.2", "aria-hidden": "true", focusable: "false", ...attributes }, drawn);
}

/** A type with its mark. */
export function typeTag(type: string | null): HTMLElement | null {
  return placeOfType(type) < 0 ? null : h("span", { class: "type" }, typeMark(type), type);
}
