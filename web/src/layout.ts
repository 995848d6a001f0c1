/** Where the nodes of a scene stand: springs and repulsion (d3-force), run to rest before anything is drawn. */

import {
  forceCollide,
  forceLink,
  forceManyBody,
  forceSimulation,
  forceX,
  forceY,
  type SimulationLinkDatum,
  type SimulationNodeDatum,
} from "d3-force";
import { fan } from "./fan";
import { nodeRadius } from "./scales";
import type { Scene, SceneLink } from "./scene";

export type Point = { x: number; y: number };
export type Places = Map<string, Point>;

interface Body extends SimulationNodeDatum {
  key: string;
  radius: number;
  charge: number;
}

type Spring = SimulationLinkDatum<Body> & { link: SceneLink };

const STEPS = 260;
const CHARGES = { centre: -900, link: -420, predicted: -420, far: -130 }; // what is read most gets most room

function restLength({ link }: Spring): number {
  if (!link.central) return 70;
  return link.known ? 95 : 150;
}

/** Links among others only lean nodes to each other: stiff ones would draw the centre's links into one bundle. */
function stiffness({ link }: Spring): number {
  return link.central ? 0.35 : 0.1;
}

/** Places for all nodes, with the centre at the origin; nodes start where they were before, if they were. */
export function placesOf(scene: Scene, before: Places, aspect: number): Places {
  const shift = before.get(scene.centre) ?? { x: 0, y: 0 };
  const bodies = scene.nodes.map((node): Body => {
    const was = before.get(node.key);
    const start = was === undefined ? {} : { x: was.x - shift.x, y: was.y - shift.y };
    const pinned = node.key === scene.centre ? { x: 0, y: 0, fx: 0, fy: 0 } : {};
    return { key: node.key, radius: nodeRadius(node.degree), charge: CHARGES[node.role], ...start, ...pinned };
  });
  const springs = scene.links.map((link): Spring => ({ source: link.source, target: link.target, link }));
  const near = new Set(scene.nodes.filter(({ role }) => role === "link" || role === "predicted").map(({ key }) => key));
  const around = bodies.filter(({ key }) => near.has(key));
  const wide = Math.max(0.5, Math.min(2, aspect));
  forceSimulation(bodies)
    .force(
      "springs",
      forceLink<Body, Spring>(springs)
        .id((body) => body.key)
        .distance(restLength)
        .strength(stiffness),
    )
    .force(
      "apart",
      forceManyBody<Body>()
        .strength((body) => body.charge)
        .distanceMax(700),
    )
    .force(
      "room",
      forceCollide<Body>((body) => body.radius + 10),
    )
    .force("fan", fan(around))
    .force("left and right", forceX<Body>(0).strength(0.04 / wide))
    .force("up and down", forceY<Body>(0).strength(0.04 * wide))
    .stop()
    .tick(STEPS);
  return new Map(bodies.map(({ key, x = 0, y = 0 }) => [key, { x, y }]));
}
