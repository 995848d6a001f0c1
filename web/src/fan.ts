/** A force that spreads the links of the centre like a fan, so that none lies upon another. */

import type { SimulationNodeDatum } from "d3-force";

const WIDEST = 0.4; // radians that two neighbouring links need at most
const STRENGTH = 0.6;

/** For bodies around the origin. */
export function fan<Body extends SimulationNodeDatum>(ends: readonly Body[]): (alpha: number) => void {
  const wanted = Math.min(WIDEST, (0.8 * 2 * Math.PI) / Math.max(1, ends.length));
  return (alpha) => {
    const turned = ends
      .map((body) => ({ body, x: body.x ?? 0, y: body.y ?? 0 }))
      .map((end) => ({ ...end, angle: Math.atan2(end.y, end.x) }))
      .sort((a, b) => a.angle - b.angle);
    turned.forEach((end, i) => {
      const next = turned[(i + 1) % turned.length];
      if (next === undefined || next === end) return;
      const gap = next.angle - end.angle + (i + 1 === turned.length ? 2 * Math.PI : 0);
      const push = Math.max(0, wanted - gap) * STRENGTH * alpha;
      for (const [{ body, x, y }, sign] of [
        [end, 1],
        [next, -1],
      ] as const) {
        body.vx = (body.vx ?? 0) + sign * push * y; // across the ray from the origin
        body.vy = (body.vy ?? 0) - sign * push * x;
      }
    });
  };
}
