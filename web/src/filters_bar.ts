/** The controls of the filters. */

import { h } from "./dom";
import { DEFAULTS, MOST, type Filters } from "./url_state";

const COUNTS = [5, 10, 20, 50, MOST];

export class FiltersBar {
  readonly element: HTMLElement;
  private filters: Filters = DEFAULTS;
  private readonly text = h("input", { type: "search", id: "filter-text", placeholder: "Name or id" });
  private readonly least = h("input", { type: "range", id: "filter-least", min: 0, max: 100, step: 1 });
  private readonly shownLeast = h("output", { for: "filter-least" });
  private readonly count = h("select", { id: "filter-k" });
  private readonly links = h("button", { type: "button", class: "toggle solid", id: "filter-links" }, "Edges");
  private readonly predictions = h(
    "button",
    { type: "button", class: "toggle dashed", id: "filter-predictions" },
    "Predictions",
  );

  constructor(private readonly changed: (filters: Filters) => void) {
    this.element = h(
      "form",
      { class: "filters", "aria-label": "Filters", onsubmit: (event) => event.preventDefault() },
      h("div", { class: "toggles", role: "group", "aria-label": "Shown" }, this.predictions, this.links),
      h("div", { class: "field" }, h("label", { for: "filter-k" }, "Best"), this.count),
      h("div", { class: "field wide" }, h("label", { for: "filter-text" }, "Filter"), this.text),
      h("div", { class: "field wide" }, h("label", { for: "filter-least" }, "At least"), this.least, this.shownLeast),
    );
    this.text.addEventListener("input", () => this.change({ text: this.text.value }));
    this.least.addEventListener("input", () => this.change({ least: Number(this.least.value) / 100 }));
    this.count.addEventListener("change", () => this.change({ k: Number(this.count.value) }));
    this.links.addEventListener("click", () => this.change({ links: !this.filters.links }));
    this.predictions.addEventListener("click", () => this.change({ predictions: !this.filters.predictions }));
  }

  show(filters: Filters): void {
    this.filters = filters;
    if (this.text.value !== filters.text) this.text.value = filters.text;
    this.least.value = String(Math.round(100 * filters.least));
    this.shownLeast.textContent = filters.least === 0 ? "any" : `${Math.round(100 * filters.least)}%`;
    this.least.setAttribute("aria-valuetext", `${Math.round(100 * filters.least)} per cent`);
    const counts = [...new Set([...COUNTS, filters.k])].sort((a, b) => a - b);
    this.count.replaceChildren(...counts.map((k) => h("option", { value: k, selected: k === filters.k }, String(k))));
    this.links.setAttribute("aria-pressed", String(filters.links));
    this.predictions.setAttribute("aria-pressed", String(filters.predictions));
  }

  private change(part: Partial<Filters>): void {
    this.show({ ...this.filters, ...part });
    this.changed(this.filters);
  }
}
