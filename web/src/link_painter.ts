/** Links on a map: edges of the graph as thin lines, recommended links dashed and numbered by rank. */

import type { Palette } from "./theme";

export type Place = readonly [number, number];
export type Segment = readonly [Place, Place];

const RADIUS = 9; // of the disc that holds a rank
const FONT = "600 10.5px system-ui, sans-serif";
const DIRECTIONS = Array.from({ length: 24 }, (_, i) => (i * Math.PI) / 12);
const RINGS = Array.from({ length: 20 }, (_, i) => 1.6 + 0.7 * i); // in radii

export function paintEdges(context: CanvasRenderingContext2D, edges: readonly Segment[], palette: Palette): void {
  context.globalAlpha = Math.max(0.06, Math.min(0.35, 20 / Math.sqrt(edges.length)));
  context.strokeStyle = palette.muted;
  context.lineWidth = 0.6;
  context.beginPath();
  for (const [[ax, ay], [bx, by]] of edges) {
    context.moveTo(ax, ay);
    context.lineTo(bx, by);
  }
  context.stroke();
  context.globalAlpha = 1;
}

function apart([ax, ay]: Place, [bx, by]: Place): number {
  return Math.hypot(ax - bx, ay - by);
}

/** A place for each disc: as near to the middle of its link as other discs, the ends of links and the frame allow. */
export function discPlaces(links: readonly Segment[], width: number, height: number): Place[] {
  const ends = links.flat();
  const taken: Place[] = [];
  const isFree = (place: Place): boolean => {
    const within = place.every((value, axis) => value > RADIUS && value < (axis === 0 ? width : height) - RADIUS);
    const clear = ends.every((end) => apart(end, place) > RADIUS + 4);
    return within && clear && taken.every((other) => apart(other, place) > 2 * RADIUS + 1);
  };
  for (const [[ax, ay], [bx, by]] of links) {
    const [x, y] = [(ax + bx) / 2, (ay + by) / 2];
    const around = RINGS.flatMap((ring) =>
      DIRECTIONS.map((turn): Place => [x + ring * RADIUS * Math.cos(turn), y + ring * RADIUS * Math.sin(turn)]),
    );
    taken.push([[x, y] as const, ...around].find(isFree) ?? [x, y]);
  }
  return taken;
}

function line(context: CanvasRenderingContext2D, from: Place, to: Place): void {
  context.beginPath();
  context.moveTo(...from);
  context.lineTo(...to);
  context.stroke();
}

function ring(context: CanvasRenderingContext2D, [x, y]: Place, radius: number): void {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
}

export function paintRanked(
  context: CanvasRenderingContext2D,
  links: readonly Segment[],
  palette: Palette,
  width: number,
  height: number,
): void {
  const discs = discPlaces(links, width, height);
  links.forEach(([a, b], i) => {
    context.strokeStyle = palette.ink;
    context.lineWidth = 0.8;
    line(context, [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2], discs[i]!);
    context.strokeStyle = palette.paper;
    context.lineWidth = 3.5; // lifts the dashes off the points
    line(context, a, b);
    context.strokeStyle = palette.ink;
    context.lineWidth = 1.6;
    context.setLineDash([4, 3]);
    line(context, a, b);
    context.setLineDash([]);
    for (const end of [a, b]) {
      ring(context, end, 3.5);
      context.fillStyle = palette.paper;
      context.fill();
      context.stroke();
    }
  });
  context.font = FONT;
  context.textAlign = "center";
  context.textBaseline = "middle";
  discs.forEach((disc, i) => {
    ring(context, disc, RADIUS);
    context.fillStyle = palette.ink;
    context.strokeStyle = palette.paper;
    context.fill();
    context.stroke();
    context.fillStyle = palette.paper;
    context.fillText(String(i + 1), disc[0], disc[1] + 0.5);
  });
}
