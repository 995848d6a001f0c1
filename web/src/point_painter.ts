/** Many points on canvas in one pass: the common ones beneath, the found ones above. */

import { placedLabels, shortened } from "./labels";
import { paintEdges, paintRanked, type Place, type Segment } from "./link_painter";
import type { Palette } from "./theme";
import type { Viewport } from "./viewport";

export interface Points {
  x: Float64Array;
  y: Float64Array;
  name: (place: number) => string;
  edges: readonly (readonly [number, number])[]; // between points
  predicted: readonly (readonly [number, number])[]; // best first
  type: Int8Array | null; // of each point, as the place of its colour
}

export interface PointLook {
  viewport: Viewport;
  fitted: number; // the scale at which the whole map is shown
  palette: Palette;
  width: number;
  height: number;
  found: ReadonlySet<number> | null; // null: nothing is sought
  lit: number; // -1: none
}

const NAMED = 40; // found points that may be named
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

/** The side of a point in pixels: smaller where there are many, larger where one looks closely. */
export function pointSize(count: number, zoom: number): number {
  const whole = Math.max(1.75, Math.min(4, 6 - Math.log10(Math.max(1, count))));
  return Math.min(7, whole * Math.max(1, Math.sqrt(zoom)));
}

function paintFound(context: CanvasRenderingContext2D, points: Points, look: PointLook): void {
  const { viewport, palette, found, lit, width } = look;
  const places = [...(found ?? []), ...(lit >= 0 ? [lit] : [])];
  context.fillStyle = palette.accent;
  context.strokeStyle = palette.paper;
  context.lineWidth = 1.5;
  for (const i of places) {
    const [x, y] = viewport.toScreen(points.x[i]!, points.y[i]!);
    context.beginPath();
    context.arc(x, y, i === lit ? 5.5 : 4, 0, 2 * Math.PI);
    context.fill();
    context.stroke();
  }
  if (places.length > NAMED && lit < 0) return;
  const widthOf = (text: string): number => context.measureText(text).width;
  const wishes = (places.length > NAMED ? [lit] : places).map((i) => {
    const [x, y] = viewport.toScreen(points.x[i]!, points.y[i]!);
    const text = shortened(points.name(i), 32);
    return { text, x, ys: [y + 15, y - 15], weight: i === lit ? 1 : 0, certain: i === lit };
  });
  context.lineWidth = 4;
  for (const label of placedLabels(wishes, widthOf, width).reverse()) {
    context.strokeText(label.text, label.x, label.y);
    context.fillStyle = palette.ink;
    context.fillText(label.text, label.x, label.y);
  }
}

export function paintPoints(context: CanvasRenderingContext2D, points: Points, look: PointLook): void {
  const { viewport, palette, width, height, found } = look;
  const at = (i: number): Place => viewport.toScreen(points.x[i]!, points.y[i]!);
  const segments = (pairs: Points["edges"]): Segment[] => pairs.map(([a, b]) => [at(a), at(b)]);
  paintEdges(context, segments(points.edges), palette);
  const size = pointSize(points.x.length, viewport.scale / look.fitted);
  context.fillStyle = palette.point;
  context.globalAlpha = found === null ? 0.6 : 0.2;
  for (let i = 0; i < points.x.length; i++) {
    const x = viewport.x + points.x[i]! * viewport.scale;
    const y = viewport.y + points.y[i]! * viewport.scale;
    if (x < -4 || y < -4 || x > width + 4 || y > height + 4) continue;
    if (points.type !== null) context.fillStyle = palette.types[points.type[i]! % palette.types.length]!;
    context.fillRect(x - size / 2, y - size / 2, size, size); // squares: circles take many times as long
  }
  context.globalAlpha = 1;
  paintRanked(context, segments(points.predicted), palette, width, height);
  context.font = FONT;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  paintFound(context, points, look);
}
