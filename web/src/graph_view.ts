/** The drawing of a neighbourhood: shown, moved, pointed at. */

import { controls } from "./controls";
import { h } from "./dom";
import { followPointers } from "./gestures";
import { placesOf, type Places } from "./layout";
import { paintScene, screenRadius } from "./painter";
import { counted, crowding, percent } from "./scales";
import { sameShape, type Scene, type SceneNode } from "./scene";
import { Surface } from "./surface";
import { colours, wantsStillness } from "./theme";
import { boxOf, Viewport } from "./viewport";

const LEGEND = 36; // pixels at the foot that the legend covers
const GLIDE = 450; // ms that nodes take to their new places
const NEAR = 8; // pixels beside a node that still hit it

export interface GraphEvents {
  walk: (node: SceneNode) => void;
  hover: (key: string | null) => void;
}

export class GraphView {
  readonly element: HTMLElement;
  private readonly surface: Surface;
  private readonly viewport = new Viewport([0.2, 5]);
  private readonly tip = h("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  private scene: Scene | null = null;
  private places: Places = new Map();
  private goals: Places = new Map();
  private lit: string | null = null;
  private matches: (key: string) => boolean = () => true;
  private glide = 0;

  constructor(private readonly events: GraphEvents) {
    this.surface = new Surface(
      (context) => this.paint(context),
      () => this.fit(),
    );
    this.surface.canvas.setAttribute("role", "img");
    const zoom = (factor: number): void => this.zoom(factor);
    const buttons = controls("Drawing", { zoom, fit: () => this.fit(), step: 1.3, keys: true });
    this.element = h("div", { class: "graph" }, this.surface.canvas, this.tip, buttons);
    const gestures = {
      moved: () => this.moved(),
      hovered: (x: number, y: number) => this.pointed(x, y),
      left: () => this.point(null),
      clicked: (x: number, y: number) => this.clicked(x, y),
    };
    followPointers(this.surface.canvas, this.viewport, gestures, { plainWheel: true });
  }

  /** Draws a scene; nodes that were there already glide to their new places, and stay where nothing was added. */
  show(scene: Scene, description: string): void {
    this.surface.canvas.setAttribute("aria-label", description);
    if (this.scene !== null && sameShape(this.scene, scene)) {
      this.scene = scene;
      return this.surface.ask();
    }
    const old = this.scene === null ? new Map() : this.goals;
    const origin = old.get(scene.centre) ?? { x: 0, y: 0 };
    this.goals = placesOf(scene, old, this.surface.width / Math.max(1, this.surface.height));
    const starts: Places = new Map();
    for (const { key } of scene.nodes) {
      const was = this.places.get(key);
      starts.set(key, was === undefined ? { x: 0, y: 0 } : { x: was.x - origin.x, y: was.y - origin.y });
    }
    this.scene = scene;
    this.point(null);
    this.fit();
    if (wantsStillness() || old.size === 0) this.settle();
    else this.move(starts);
  }

  /** Marks one node, as the list's current row does. */
  light(key: string | null): void {
    this.lit = key;
    this.surface.ask();
  }

  /** Fades what does not match. */
  filter(matches: (key: string) => boolean): void {
    this.matches = matches;
    this.surface.ask();
  }

  zoom(factor: number): void {
    this.viewport.zoom(factor, this.surface.width / 2, this.surface.height / 2);
    this.moved();
  }

  fit(): void {
    if (this.surface.width === 0) return;
    const margin = Math.min(56, this.surface.width / 9);
    this.viewport.fit(boxOf(this.goals.values()), this.surface.width, this.surface.height - LEGEND, margin, 1.5);
    this.moved();
  }

  /** Where a node stands on the screen, in pixels from the drawing's corner. */
  placeOf(key: string): [number, number] | null {
    const place = this.places.get(key);
    return place === undefined ? null : this.viewport.toScreen(place.x, place.y);
  }

  private settle(): void {
    cancelAnimationFrame(this.glide);
    this.places = this.goals;
    this.surface.ask();
  }

  private move(starts: Places): void {
    cancelAnimationFrame(this.glide);
    const begun = performance.now();
    const goals = this.goals;
    const step = (now: number): void => {
      const t = Math.min(1, (now - begun) / GLIDE);
      const eased = 1 - (1 - t) ** 3;
      this.places = new Map();
      for (const [key, goal] of goals) {
        const start = starts.get(key) ?? goal;
        this.places.set(key, { x: start.x + (goal.x - start.x) * eased, y: start.y + (goal.y - start.y) * eased });
      }
      this.surface.ask();
      if (t < 1) this.glide = requestAnimationFrame(step);
    };
    step(begun);
  }

  private paint(context: CanvasRenderingContext2D): void {
    if (this.scene === null) return;
    const { places, viewport, lit, matches } = this;
    const { width } = this.surface;
    const longest = Math.max(14, Math.min(26, Math.round(width / 28)));
    const faded = (key: string): boolean => !matches(key);
    const crowd = crowding(this.scene.links.filter(({ central }) => central).length);
    const { directed } = this.scene;
    const palette = colours();
    paintScene(context, this.scene, { places, viewport, lit, faded, longest, width, crowd, directed, palette });
  }

  private moved(): void {
    this.tip.hidden = true;
    this.surface.ask();
  }

  private nodeAt(x: number, y: number): SceneNode | null {
    let best: SceneNode | null = null;
    let nearest = Infinity;
    for (const node of this.scene?.nodes ?? []) {
      const place = this.placeOf(node.key);
      if (place === null) continue;
      const beyond = Math.hypot(place[0] - x, place[1] - y) - screenRadius(node, this.viewport.scale);
      if (beyond < NEAR && beyond < nearest) [best, nearest] = [node, beyond];
    }
    return best;
  }

  private pointed(x: number, y: number): void {
    const node = this.nodeAt(x, y);
    this.point(node);
    if (node === null) return;
    const chance = node.role !== "predicted" || node.probability === null ? "" : ` · ${percent(node.probability)}`;
    const type = node.type === null ? "" : `${node.type} · `;
    const kind = { centre: "in the middle", link: "linked", predicted: "predicted", far: "further away" }[node.role];
    const links = node.degree > 0 ? ` · ${counted(node.degree, "edge")}` : "";
    this.tip.replaceChildren(h("strong", {}, node.name), h("span", {}, `${type}${kind}${chance}${links}`));
    this.tip.hidden = false;
    const room = this.surface.width - this.tip.offsetWidth - 8;
    this.tip.style.left = `${Math.max(8, Math.min(room, x + 14))}px`;
    this.tip.style.top = `${Math.max(8, Math.min(this.surface.height - this.tip.offsetHeight - 8, y + 14))}px`;
  }

  private point(node: SceneNode | null): void {
    this.surface.canvas.classList.toggle("pointing", node !== null);
    if (node === null) this.tip.hidden = true;
    if ((node?.key ?? null) === this.lit) return;
    this.light(node?.key ?? null);
    this.events.hover(this.lit);
  }

  private clicked(x: number, y: number): void {
    const node = this.nodeAt(x, y);
    if (node !== null && node.role !== "centre") this.events.walk(node);
  }
}
