/** The controls of the filters. */

import type { RelationFacts } from "./contract";
import { h } from "./dom";
import { shareInWords } from "./sure";
import { DEFAULTS, MOST, type Filters } from "./url_state";

const COUNTS = [5, 10, 20, 50, MOST];
/** Probabilities that the slider stops at: most new links are unlikely, so the small ones stand apart. */
export const STOPS = [
  0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99,
];

/** The place of the last stop that a probability reaches. */
export function stopOf(least: number): number {
  return STOPS.filter((stop) => stop <= least).length - 1;
}

export class FiltersBar {
  readonly element: HTMLElement;
  private filters: Filters = DEFAULTS;
  private readonly text = h("input", { type: "search", id: "filter-text", placeholder: "Name or id" });
  private readonly least = h("input", { type: "range", id: "filter-least", min: 0, max: STOPS.length - 1, step: 1 });
  private readonly shownLeast = h("output", { for: "filter-least" });
  private readonly count = h("select", { id: "filter-k" });
  private readonly links = h("button", { type: "button", class: "toggle solid", id: "filter-links" }, "Edges");
  private readonly relation = h("select", { id: "filter-relation" });
  private readonly edges = h("select", { id: "filter-edges" });
  private readonly ofRelations: HTMLElement[];
  private readonly predictions = h(
    "button",
    { type: "button", class: "toggle dashed", id: "filter-predictions" },
    "Predictions",
  );

  constructor(private readonly changed: (filters: Filters) => void) {
    this.ofRelations = [
      h("div", { class: "field wide" }, h("label", { for: "filter-relation" }, "Predict"), this.relation),
      h("div", { class: "field wide" }, h("label", { for: "filter-edges" }, "Edges"), this.edges),
    ];
    for (const field of this.ofRelations) field.hidden = true;
    this.element = h(
      "form",
      { class: "filters", "aria-label": "Filters", onsubmit: (event) => event.preventDefault() },
      h("div", { class: "toggles", role: "group", "aria-label": "Shown" }, this.predictions, this.links),
      h("div", { class: "field" }, h("label", { for: "filter-k" }, "Best"), this.count),
      ...this.ofRelations,
      h("div", { class: "field wide" }, h("label", { for: "filter-text" }, "Filter"), this.text),
      h("div", { class: "field wide" }, h("label", { for: "filter-least" }, "At least"), this.least, this.shownLeast),
    );
    this.text.addEventListener("input", () => this.change({ text: this.text.value }));
    this.least.addEventListener("input", () => this.change({ least: STOPS[Number(this.least.value)] ?? 0 }));
    this.count.addEventListener("change", () => this.change({ k: Number(this.count.value) }));
    this.relation.addEventListener("change", () => this.change({ relation: this.relation.value }));
    this.edges.addEventListener("change", () => this.change({ edges: this.edges.value }));
    this.links.addEventListener("click", () => this.change({ links: !this.filters.links }));
    this.predictions.addEventListener("click", () => this.change({ predictions: !this.filters.predictions }));
  }

  show(filters: Filters): void {
    this.filters = filters;
    if (this.text.value !== filters.text) this.text.value = filters.text;
    this.least.value = String(stopOf(filters.least));
    this.shownLeast.textContent = filters.least === 0 ? "any" : shareInWords(filters.least);
    this.least.setAttribute("aria-valuetext", `${shareInWords(filters.least).replace("%", "")} per cent`);
    const counts = [...new Set([...COUNTS, filters.k])].sort((a, b) => a - b);
    this.count.replaceChildren(...counts.map((k) => h("option", { value: k, selected: k === filters.k }, String(k))));
    this.links.setAttribute("aria-pressed", String(filters.links));
    this.predictions.setAttribute("aria-pressed", String(filters.predictions));
  }

  /** The relations that can be predicted of a node, the one that is, and those whose edges can be shown. */
  offer(predicted: readonly RelationFacts[], chosen: RelationFacts | null, all: readonly RelationFacts[]): void {
    for (const field of this.ofRelations) field.hidden = all.length === 0;
    this.relation.disabled = predicted.length === 0;
    this.relation.replaceChildren(
      ...predicted.map(({ name }) => h("option", { value: name, selected: name === chosen?.name }, name)),
      ...(predicted.length === 0 ? [h("option", { value: "" }, "none for this type")] : []),
    );
    const kept = this.filters.edges;
    this.edges.replaceChildren(
      h("option", { value: "", selected: kept === "" }, "all relations"),
      ...all.map(({ name }) => h("option", { value: name, selected: name === kept }, name)),
    );
  }

  private change(part: Partial<Filters>): void {
    this.show({ ...this.filters, ...part });
    this.changed(this.filters);
  }
}
