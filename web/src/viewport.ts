/** Pan and zoom of a drawing: which point of the plane stands where on the screen. */

import { clamp, type Range } from "./scales";

export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export class Viewport {
  x = 0; // of the plane's origin on the screen, in CSS pixels
  y = 0;
  scale = 1;

  constructor(private limits: Range = [0.1, 8]) {}

  toScreen(x: number, y: number): [number, number] {
    return [this.x + x * this.scale, this.y + y * this.scale];
  }

  toPlane(x: number, y: number): [number, number] {
    return [(x - this.x) / this.scale, (y - this.y) / this.scale];
  }

  pan(dx: number, dy: number): void {
    this.x += dx;
    this.y += dy;
  }

  /** Zooms so that the point of the screen (x, y) stays where it is. */
  zoom(factor: number, x: number, y: number): void {
    const scale = clamp(this.scale * factor, this.limits);
    this.x = x - ((x - this.x) / this.scale) * scale;
    this.y = y - ((y - this.y) / this.scale) * scale;
    this.scale = scale;
  }

  /** Shows a box of the plane whole, in the middle of the screen, never larger than `most` times its size. */
  fit(box: Box, width: number, height: number, margin: number, most: number): void {
    const room = (pixels: number): number => Math.max(1, pixels - 2 * margin);
    const spans: Range = [Math.max(1e-9, box.right - box.left), Math.max(1e-9, box.bottom - box.top)];
    this.scale = Math.min(room(width) / spans[0], room(height) / spans[1], most);
    this.limits = [Math.min(this.limits[0], this.scale / 2), Math.max(this.limits[1], this.scale * 2)];
    this.x = width / 2 - ((box.left + box.right) / 2) * this.scale;
    this.y = height / 2 - ((box.top + box.bottom) / 2) * this.scale;
  }
}

export function boxOf(points: Iterable<{ x: number; y: number }>): Box {
  const box = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
  for (const { x, y } of points) {
    box.left = Math.min(box.left, x);
    box.right = Math.max(box.right, x);
    box.top = Math.min(box.top, y);
    box.bottom = Math.max(box.bottom, y);
  }
  return Number.isFinite(box.left) ? box : { left: -1, top: -1, right: 1, bottom: 1 };
}
