/** A scene on canvas: known links solid, predicted ones dashed, width and colour by probability. */

import { placedLabels, shortened, type Frame, type Wish } from "./labels";
import type { Places, Point } from "./layout";
import { rampColour } from "./ramp";
import { linkWidth, nodeRadius, sureness } from "./scales";
import type { Scene, SceneLink, SceneNode } from "./scene";
import { traceShape, typeColour } from "./shapes";
import type { Palette } from "./theme";
import type { Viewport } from "./viewport";

export interface Look {
  places: Places;
  viewport: Viewport;
  palette: Palette;
  lit: string | null; // the node under the pointer, or the list's current one
  faded: (key: string) => boolean;
  longest: number; // letters of a name
  width: number; // of the drawing
  crowd: number; // by how much links are narrowed
  directed: boolean;
}

type Spot = readonly [number, number];

const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
const LANE = 6; // pixels between two links that join the same nodes
const NAMES_OF_ALL = 1.25; // zoom from which nodes further away are named
const ROLE_WEIGHT = { centre: 1e6, predicted: 1e4, link: 1e3, far: 0 };

/** The radius on the screen: it grows slower than the zoom, so that a close look shows more room. */
export function screenRadius(node: SceneNode, scale: number): number {
  const role = node.role === "centre" ? 1.35 : node.role === "far" ? 0.7 : 1;
  return nodeRadius(node.degree) * role * Math.min(1.6, Math.max(0.45, Math.sqrt(scale)));
}

function chance(probability: number | null, palette: Palette): string {
  return probability === null
    ? palette.muted
    : rampColour(sureness(probability), palette.unlikely, palette.middle, palette.likely);
}

/** A line moved aside by some pixels. */
function beside([[ax, ay], [bx, by]]: [Spot, Spot], away: number): [Spot, Spot] {
  const length = Math.hypot(bx - ax, by - ay) || 1;
  const [x, y] = [(-away * (by - ay)) / length, (away * (bx - ax)) / length];
  return [
    [ax + x, ay + y],
    [bx + x, by + y],
  ];
}

function paintLink(context: CanvasRenderingContext2D, link: SceneLink, look: Look, ends: [Point, Point]): void {
  const { palette, lit, viewport } = look;
  const touched = lit !== null && link.central && (link.source === lit || link.target === lit);
  const faded = look.faded(link.source) || look.faded(link.target);
  const straight: [Spot, Spot] = [viewport.toScreen(ends[0].x, ends[0].y), viewport.toScreen(ends[1].x, ends[1].y)];
  const [[ax, ay], [bx, by]] = beside(straight, LANE * (link.lane ?? 0));
  const width = link.central ? linkWidth(link.probability) * look.crowd : 1;
  context.globalAlpha = faded ? 0.12 : link.central ? (touched ? 1 : 0.8) : 0.9;
  context.strokeStyle = link.central ? chance(link.probability, palette) : palette.faint;
  context.lineWidth = width + (touched ? 1.5 : 0);
  context.setLineDash(link.known ? [] : [6, 5]);
  context.beginPath();
  context.moveTo(ax, ay);
  context.lineTo(bx, by);
  context.stroke();
  if (look.directed && link.central) paintHead(context, [ax, ay], [bx, by], look, width);
}

/** An arrow's head a little before the end, where no node covers it. */
function paintHead(context: CanvasRenderingContext2D, from: Spot, to: Spot, look: Look, width: number): void {
  const angle = Math.atan2(to[1] - from[1], to[0] - from[0]);
  const [size, away] = [6 + 1.5 * width, 16 * Math.min(1.6, Math.max(0.45, Math.sqrt(look.viewport.scale)))];
  const [x, y] = [to[0] - away * Math.cos(angle), to[1] - away * Math.sin(angle)];
  context.fillStyle = context.strokeStyle;
  context.beginPath();
  context.moveTo(x, y);
  for (const turn of [-0.42, 0.42])
    context.lineTo(x - size * Math.cos(angle + turn), y - size * Math.sin(angle + turn));
  context.fill();
}

function fillOf({ role, probability }: SceneNode, palette: Palette): string {
  return role === "centre" ? palette.ink : role === "link" ? chance(probability, palette) : palette.faint;
}

function paintNode(context: CanvasRenderingContext2D, node: SceneNode, look: Look, x: number, y: number): void {
  const { palette, lit } = look;
  const radius = screenRadius(node, look.viewport.scale);
  context.globalAlpha = look.faded(node.key) ? 0.2 : 1;
  context.setLineDash([]);
  const own = typeColour(node.type); // with types a node has the colour of its own, and links alone that of their chance
  traceShape(context, node.type, x, y, radius);
  context.fillStyle = palette.paper;
  context.fill(); // links end at the rim, also under a see-through node
  if (node.role === "predicted") {
    context.strokeStyle = own ?? chance(node.probability, palette);
    context.lineWidth = 2.5;
    context.stroke();
  } else {
    if (node.role === "far" && own !== null) context.globalAlpha *= 0.35;
    context.fillStyle = own ?? fillOf(node, palette);
    context.fill();
  }
  if (node.role === "centre" && own !== null) {
    context.strokeStyle = palette.ink;
    context.lineWidth = 2.5;
    context.stroke();
  }
  if (node.key !== lit) return;
  context.beginPath();
  context.arc(x, y, radius + 5, 0, 2 * Math.PI);
  context.strokeStyle = palette.ink;
  context.lineWidth = 2;
  context.stroke();
}

function paintLabels(context: CanvasRenderingContext2D, wishes: Wish[], discs: Frame[], look: Look): void {
  const { palette, width } = look;
  const widthOf = (text: string): number => context.measureText(text).width;
  context.font = FONT;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  context.globalAlpha = 1;
  context.setLineDash([]);
  for (const label of placedLabels(wishes, widthOf, width, discs).reverse()) {
    context.strokeStyle = palette.paper;
    context.lineWidth = 4;
    context.strokeText(label.text, label.x, label.y);
    context.fillStyle = label.certain ? palette.ink : palette.muted;
    context.fillText(label.text, label.x, label.y);
  }
}

export function paintScene(context: CanvasRenderingContext2D, scene: Scene, look: Look): void {
  const order = [...scene.links].sort((a, b) => Number(a.central) - Number(b.central));
  for (const link of order) {
    const [a, b] = [look.places.get(link.source), look.places.get(link.target)];
    if (a !== undefined && b !== undefined) paintLink(context, link, look, [a, b]);
  }
  const wishes: Wish[] = [];
  const discs: Frame[] = [];
  for (const node of [...scene.nodes].reverse()) {
    const place = look.places.get(node.key);
    if (place === undefined) continue;
    const [x, y] = look.viewport.toScreen(place.x, place.y);
    paintNode(context, node, look, x, y);
    const radius = screenRadius(node, look.viewport.scale);
    discs.push({ left: x - radius, right: x + radius, top: y - radius, bottom: y + radius });
    const certain = node.key === look.lit || node.role === "centre";
    const silent = look.faded(node.key) || (node.role === "far" && look.viewport.scale < NAMES_OF_ALL);
    if (silent && !certain) continue;
    const weight = ROLE_WEIGHT[node.role] + node.degree + (node.key === look.lit ? 1e7 : 0);
    const away = radius + 10;
    wishes.push({
      text: shortened(node.name, certain ? look.longest * 2 : look.longest),
      x,
      ys: [y + away, y - away],
      weight,
      certain,
    });
  }
  paintLabels(context, wishes, discs, look);
}
