/** The model page: what was measured and how, training, calibration, map, settings. */

import { api } from "./api";
import type { Epoch, ModelInfo } from "./contract";
import { h } from "./dom";
import { EmbeddingMap, type MapEvents } from "./embedding_map";
import { withKey } from "./key_prompt";
import { lineChart, type Curve, type Mark } from "./line_chart";
import { spelledValue } from "./node_head";
import { reliabilityChart } from "./reliability_chart";
import { counted, figure } from "./scales";
import { failure, isWithdrawn, loading } from "./states";

const POINTS = 20_000;

function factsOf(facts: Record<string, unknown>): HTMLElement {
  const lines = Object.entries(facts).map(([name, value]) =>
    h("div", {}, h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, spelledValue(value))),
  );
  return h("dl", { class: "facts" }, ...lines);
}

function tile(name: string, value: string, under = ""): HTMLElement {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value), under !== "" && h("dd", { class: "small" }, under));
}

function metricName(name: string): string {
  const spelled = name.replaceAll("_", " ");
  return /^(mrr|auc|ap)\b/.test(spelled)
    ? spelled.toUpperCase()
    : spelled.replace(/^./, (letter) => letter.toUpperCase());
}

function metricsOf({ metrics, protocol, split }: ModelInfo): HTMLElement {
  const entries = Object.entries(metrics ?? {});
  const tiles = entries.map(([name, value]) =>
    tile(
      metricName(name),
      typeof value === "number" ? figure(value, Number.isInteger(value) ? 0 : 3) : spelledValue(value),
    ),
  );
  const told = split ? spelledValue(split) : "";
  const how = protocol && !told.includes(protocol) ? `Protocol ‘${protocol}’.\n${told}` : told;
  return h(
    "section",
    { "aria-labelledby": "metrics-title" },
    h("h2", { id: "metrics-title" }, "How good it is"),
    tiles.length > 0
      ? h("dl", { class: "tiles" }, ...tiles)
      : h("p", {}, "No figures were measured with this model: all its links were used to learn from."),
    how !== "" && h("p", { class: "small lines" }, how),
  );
}

function curve(name: string, epochs: readonly Epoch[], value: (epoch: Epoch) => number | null | undefined): Curve[] {
  const values = epochs.flatMap((epoch): [number, number][] => {
    const y = value(epoch);
    return y === null || y === undefined ? [] : [[epoch.epoch, y]];
  });
  return values.length > 0 ? [{ name, values }] : [];
}

function chartsOf({ training, energy, reliability, best_epoch }: ModelInfo): HTMLElement[] {
  const epochs = training ?? [];
  const best: Mark | undefined = typeof best_epoch === "number" ? { x: best_epoch, name: "best" } : undefined;
  const kept = best === undefined ? "" : ` The line marks the epoch whose weights were kept (${best.x}).`;
  const losses = curve("loss", epochs, ({ loss }) => loss);
  const judged = [
    ...curve("Hits", epochs, ({ hits }) => hits),
    ...curve("MRR", epochs, ({ mrr }) => mrr),
    ...curve("AUC", epochs, ({ auc }) => auc),
  ];
  const falls: Curve = {
    name: "energy",
    values: (energy ?? []).flatMap((value, step) => (value === null ? [] : [[step, value] as const])),
  };
  return [
    ...(losses.length > 0 ? [lineChart("Training", losses, "epoch", `The loss at each epoch.${kept}`, best)] : []),
    ...(judged.length > 0
      ? [lineChart("Validation", judged, "epoch", `On links that training did not see.${kept}`, best)]
      : []),
    ...(falls.values.length > 0
      ? [lineChart("Energy", [falls], "step", "How the energy falls over the encoder's steps.")]
      : []),
    ...((reliability ?? []).length > 0 ? [reliabilityChart(reliability ?? [])] : []),
  ];
}

function settingsOf({ settings, versions, index, live }: ModelInfo): HTMLElement {
  const groups = { ...(settings ?? {}) };
  const isGroup = (value: unknown): value is Record<string, unknown> =>
    typeof value === "object" && value !== null && !Array.isArray(value);
  const alone = Object.fromEntries(Object.entries(groups).filter(([, value]) => !isGroup(value)));
  const named = Object.entries(groups).filter(([, value]) => isGroup(value)) as [string, Record<string, unknown>][];
  const state = [
    ["versions", versions],
    ["index", index],
    ["live graph", live],
  ] as const;
  const block = (name: string, facts: Record<string, unknown>): HTMLElement =>
    h("div", { class: "group" }, h("h3", {}, name.replaceAll("_", " ")), factsOf(facts));
  return h(
    "section",
    { "aria-labelledby": "settings-title" },
    h("h2", { id: "settings-title" }, "State and settings"),
    h(
      "div",
      { class: "groups" },
      ...state.flatMap(([name, facts]) => (facts && Object.keys(facts).length > 0 ? [block(name, facts)] : [])),
      ...(Object.keys(alone).length > 0 ? [block("general", alone)] : []),
      ...named.map(([name, facts]) => block(name, facts)),
    ),
  );
}

export class ModelPage {
  readonly element = h("div", { class: "model" });
  private readonly mapPlace = h("div", { class: "map-place" });
  private map: EmbeddingMap | null = null;
  private highlight = "";
  private question = new AbortController();

  constructor(private readonly events: MapEvents) {}

  async show(highlight: string): Promise<void> {
    if (this.map !== null && this.element.contains(this.map.element) && highlight !== this.highlight) {
      this.highlight = highlight;
      return this.map.seek(highlight);
    }
    this.highlight = highlight;
    this.question.abort();
    const { signal } = (this.question = new AbortController());
    if (this.element.childElementCount === 0) this.element.replaceChildren(loading("the model", 8));
    try {
      const model = await withKey(() => api.model(signal));
      this.element.replaceChildren(...this.parts(model));
      await this.showMap(model.live?.["version"], signal);
    } catch (error) {
      if (!isWithdrawn(error)) this.element.replaceChildren(failure(error, () => void this.show(highlight)));
    }
  }

  private parts(model: ModelInfo): HTMLElement[] {
    const { num_nodes, num_links, directed, bipartite, dimensions } = model.model;
    const kind = [directed ? "directed" : "undirected", bipartite ? "bipartite" : ""].filter(Boolean).join(", ");
    const facts = `${counted(num_nodes, "node")} · ${counted(num_links, "link")} · ${kind} · ${counted(dimensions, "dimension")}`;
    const charts = chartsOf(model);
    return [
      h("header", { class: "head" }, h("h1", {}, model.name), h("p", { class: "subtitle" }, facts)),
      model.read_only
        ? h("p", { class: "banner" }, model.why_read_only ?? "This model is read only.")
        : h("span", { hidden: true }),
      metricsOf(model),
      h(
        "section",
        { "aria-labelledby": "map-title" },
        h("h2", { id: "map-title" }, "Map of the embeddings"),
        h(
          "p",
          { class: "small" },
          "Two principal components. A click walks to a node; ctrl and wheel, or a pinch, zoom.",
        ),
        this.mapPlace,
      ),
      h(
        "section",
        { "aria-labelledby": "curves-title" },
        h("h2", { id: "curves-title" }, "How it learned"),
        charts.length > 0
          ? h("div", { class: "charts" }, ...charts)
          : h("p", { class: "small" }, "No curves were kept."),
      ),
      settingsOf(model),
    ];
  }

  /** The map of this version of the graph; one that is there already is kept. */
  private async showMap(version: unknown, signal: AbortSignal): Promise<void> {
    if (this.map?.version === version) return this.map?.seek(this.highlight);
    if (this.map === null) this.mapPlace.replaceChildren(loading("the map", 3));
    try {
      const map = await withKey(() => api.map(POINTS, signal));
      if (map.ids.length === 0) {
        this.mapPlace.replaceChildren(h("p", {}, "There is nothing to draw: this graph has no nodes yet."));
        return;
      }
      this.map = new EmbeddingMap(map, this.events);
      this.mapPlace.replaceChildren(this.map.element);
      this.map.seek(this.highlight);
    } catch (error) {
      if (!isWithdrawn(error))
        this.mapPlace.replaceChildren(failure(error, () => void this.showMap(version, signal), "h3"));
    }
  }
}
