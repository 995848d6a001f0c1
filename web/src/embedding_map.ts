/** The map of the embeddings: points, edges and recommended links, searched and walked from. */

import { nameOf, type PointMap } from "./contract";
import { controls } from "./controls";
import { h } from "./dom";
import { textFilter } from "./filtering";
import { followPointers } from "./gestures";
import { Grid } from "./grid";
import type { Id } from "./ids";
import { paintPoints, type Points } from "./point_painter";
import { counted, extent } from "./scales";
import { placeOfType, typeTag } from "./shapes";
import { Surface } from "./surface";
import { colours } from "./theme";
import { Viewport } from "./viewport";

const NEAR = 10; // pixels within which a point is hit

export interface MapEvents {
  walk?: (id: Id) => void; // without it a click names the node
  highlight?: (text: string) => void;
}

/** The place of each point's type; null where there is nothing to tell apart. */
function typesOf({ types }: PointMap): Int8Array | null {
  const places = types?.map(placeOfType) ?? [];
  return places.some((place) => place >= 0) ? Int8Array.from(places) : null;
}

export class EmbeddingMap {
  readonly element: HTMLElement;
  readonly version: number | undefined;
  private readonly surface: Surface;
  private readonly viewport = new Viewport([0.01, 1000]);
  private readonly input = h("input", { type: "search", id: "map-search", placeholder: "Name or id" });
  private readonly told = h("output", { class: "small", for: "map-search" });
  private readonly results = h("ul", { class: "found", "aria-label": "Highlighted nodes" });
  private readonly points: Points;
  private readonly grid: Grid;
  private found: Set<number> | null = null;
  private lit = -1;
  private fitted = 1;

  constructor(
    private readonly map: PointMap,
    private readonly events: MapEvents,
  ) {
    this.version = map.version;
    const [least, most] = extent([...extent(map.x), ...extent(map.y)]);
    const scale = 1000 / (most - least || 1);
    const placed = (values: number[], factor: number): Float64Array =>
      Float64Array.from(values, (value) => value * factor);
    this.points = { x: placed(map.x, scale), y: placed(map.y, -scale), name: (i) => this.name(i), edges: map.edges ?? [], predicted: map.predicted ?? [], type: typesOf(map) };
    this.grid = new Grid(this.points.x, this.points.y);
    this.surface = new Surface(
      (context) => this.paint(context),
      () => this.fit(),
    );
    this.surface.canvas.setAttribute("role", "img");
    this.surface.canvas.setAttribute(
      "aria-label",
      `Map of ${counted(map.ids.length, "node")}; search to find some of them`,
    );
    followPointers(
      this.surface.canvas,
      this.viewport,
      {
        moved: () => this.surface.ask(),
        hovered: (x, y) => this.point(this.at(x, y)),
        left: () => this.point(-1),
        clicked: (x, y) => this.clicked(this.at(x, y)),
      },
      { plainWheel: false },
    );
    this.input.addEventListener("input", () => {
      this.seek(this.input.value);
      events.highlight?.(this.input.value.trim());
    });
    const zoom = (factor: number): void => this.zoom(factor);
    const buttons = controls("Map", { zoom, fit: () => this.fit(), step: 1.5, keys: false });
    this.element = h(
      "div",
      { class: "map" },
      h("div", { class: "field" }, h("label", { for: "map-search" }, "Highlight"), this.input, this.told),
      this.points.type !== null &&
        h("p", { class: "small kinds" }, ...[...new Set(map.types ?? [])].map((type) => typeTag(type))),
      h("div", { class: "surface" }, this.surface.canvas, buttons),
      this.results,
    );
  }

  /** Highlights the nodes whose name or id holds a text. */
  seek(text: string): void {
    if (this.input.value.trim() !== text.trim()) this.input.value = text;
    const wanted = text.trim();
    const matches = textFilter(wanted);
    const places = wanted === "" ? [] : this.map.ids.flatMap((id, i) => (matches(this.name(i), id) ? [i] : []));
    this.found = wanted === "" ? null : new Set(places);
    this.told.textContent = wanted === "" ? "" : `${counted(places.length, "node")} found`;
    this.results.replaceChildren(
      ...places
        .slice(0, 12)
        .map((i) =>
          h("li", {}, h("button", { type: "button", class: "chip", onclick: () => this.clicked(i) }, this.name(i))),
        ),
    );
    this.surface.ask();
  }

  private name(place: number): string {
    return nameOf({ id: this.map.ids[place] ?? "", label: this.map.labels?.[place] ?? null });
  }

  private zoom(factor: number): void {
    this.viewport.zoom(factor, this.surface.width / 2, this.surface.height / 2);
    this.surface.ask();
  }

  private fit(): void {
    const [left, right] = extent(this.points.x);
    const [top, bottom] = extent(this.points.y);
    this.viewport.fit({ left, right, top, bottom }, this.surface.width, this.surface.height, 24, 1000);
    this.fitted = this.viewport.scale;
    this.surface.ask();
  }

  private paint(context: CanvasRenderingContext2D): void {
    const { viewport, fitted, found, lit } = this;
    const { width, height } = this.surface;
    paintPoints(context, this.points, { viewport, fitted, palette: colours(), width, height, found, lit });
  }

  private at(x: number, y: number): number {
    const [px, py] = this.viewport.toPlane(x, y);
    return this.grid.nearest(px, py, NEAR / this.viewport.scale);
  }

  private point(place: number): void {
    if (place === this.lit) return;
    this.lit = place;
    this.surface.canvas.classList.toggle("pointing", place >= 0);
    this.surface.ask();
  }

  private clicked(place: number): void {
    const id = this.map.ids[place];
    if (this.events.walk === undefined) this.point(place);
    else if (id !== undefined) this.events.walk(id);
  }
}
