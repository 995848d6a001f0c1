/** The sections of the model page, of a served model and in a report. */

import { nameOf, type Epoch, type ModelInfo } from "./contract";
import { h } from "./dom";
import type { Id } from "./ids";
import { histogramChart } from "./histogram_chart";
import { lineChart, type Curve } from "./line_chart";
import { comparison, tiles } from "./metrics";
import { spelledValue } from "./node_head";
import { degreeTable, reliabilityChart } from "./reliability_chart";
import { counted, figure, percent, scoreText } from "./scales";
import { howSure, rateInWords } from "./sure";

function section(id: string, title: string, ...parts: (Node | false)[]): HTMLElement {
  const attributes = { "aria-labelledby": `${id}-title`, id };
  return h("section", attributes, h("h2", { id: `${id}-title` }, title), ...parts);
}

function factsOf(facts: Record<string, unknown>): HTMLElement {
  const lines = Object.entries(facts).map(([name, value]) =>
    h("div", {}, h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, spelledValue(value))),
  );
  return h("dl", { class: "facts" }, ...lines);
}

function kindOf({ directed, bipartite }: ModelInfo["model"]): string {
  return [directed ? "directed" : "undirected", bipartite ? "bipartite" : ""].filter(Boolean).join(", ");
}

function headOf(content: ModelInfo): HTMLElement {
  const { num_nodes, num_links, dimensions } = content.model;
  const facts = [counted(num_nodes, "node"), counted(num_links, "edge"), kindOf(content.model)];
  const subtitle = [...facts, counted(dimensions, "dimension")].join(" · ");
  return h("header", { class: "head" }, h("h1", {}, content.name), h("p", { class: "subtitle" }, subtitle));
}

function metricsOf({ metrics, peers, num_seeds, seed }: ModelInfo): HTMLElement {
  const seeds =
    (num_seeds ?? 1) > 1 &&
    h("p", { class: "small" }, `Metrics are means of ${counted(num_seeds ?? 1, "seed")}; charts are of seed ${seed}.`);
  if (Object.keys(metrics).length === 0) {
    const why = "No metrics were measured: all edges of the graph were used for training.";
    return section("metrics", "Metrics", h("p", {}, why));
  }
  const others = Object.keys(peers ?? {}).length > 0 && comparison(metrics, peers ?? {});
  return section("metrics", "Metrics", tiles(metrics), seeds, others);
}

function dataOf(content: ModelInfo): HTMLElement {
  const { model, split, protocol, seed, seconds, training, best_epoch, notes } = content;
  const epochs = `${counted(training.length, "epoch")} in ${seconds.toFixed(0)} s`;
  const facts = {
    nodes: model.num_nodes.toLocaleString("en"),
    edges: `${model.num_links.toLocaleString("en")}, ${kindOf(model)}`,
    "node features": model.num_features > 0 ? model.num_features.toLocaleString("en") : "none",
    seed: String(seed),
    training: training.length > 0 ? `${epochs}, weights of epoch ${best_epoch}` : "–",
  };
  const how = split.includes(protocol) ? split : `protocol '${protocol}'\n${split}`;
  return section(
    "data",
    "Data and protocol",
    h(
      "div",
      { class: "pair" },
      h("div", {}, h("h3", {}, "Graph and training"), factsOf(facts)),
      h("div", {}, h("h3", {}, "Protocol"), h("p", { class: "small lines" }, how)),
      notes.length > 0 &&
        h("div", {}, h("h3", {}, "Notes"), h("ul", { class: "notes small" }, ...notes.map((note) => h("li", {}, note)))),
    ),
  );
}

/** The label of a node with its id beside it, or the id alone. */
function named(id: Id, label: string | null | undefined): HTMLElement[] {
  const name = nameOf({ id, label: label ?? null });
  const shown = h("bdi", {}, name);
  return name === String(id) ? [shown] : [shown, h("span", { class: "small id" }, " ", h("bdi", {}, String(id)))];
}

function recommendedOf({ recommended, model, probabilities }: ModelInfo): HTMLElement[] {
  if (recommended === undefined || recommended.links.length === 0) return [];
  const rows = recommended.links.map(({ source, source_label, target, target_label, score, probability }, i) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, String(i + 1)),
      h("td", {}, ...named(source, source_label)),
      h("td", {}, ...named(target, target_label)),
      h("td", { class: "number" }, scoreText(score)),
      h("td", { class: "number" }, percent(probability)),
    ),
  );
  const whose =
    recommended.num_asked < model.num_nodes
      ? `The best new links of ${counted(recommended.num_asked, "node")} drawn at random.`
      : "The best new links of the whole graph.";
  const sure = ` ${howSure(probabilities, recommended.links)}`;
  const heads = ["rank", "source", "target", "score", "probability"].map((name) => h("th", { scope: "col" }, name));
  return [
    section(
      "recommended",
      "Recommended links",
      h("p", { class: "small" }, whose + sure),
      h("table", { class: "table links-table" }, h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows)),
    ),
  ];
}

function evaluationOf({ held_out, histogram, roc, precision_recall }: ModelInfo): HTMLElement[] {
  if (held_out === null || histogram === null || roc === null || precision_recall === null) return [];
  const { num_positives, num_negatives } = held_out;
  const share = num_positives / (num_positives + num_negatives);
  const values = ({ x, y }: { x: number[]; y: number[] }): Curve["values"] => x.map((at, i) => [at, y[i]!]);
  const ranking = lineChart({
    title: "ROC",
    curves: [{ name: "true positive rate", values: values(roc) }],
    x: "false positive rate",
    y: "true positive rate",
    caption: `Area under the curve: ${figure(roc.area)}. The dashed line is chance (0.500).`,
    unit: true,
    chance: [
      [0, 0],
      [1, 1],
    ],
  });
  const precision = lineChart({
    title: "Precision-recall",
    curves: [{ name: "precision", values: values(precision_recall) }],
    x: "recall",
    y: "precision",
    caption:
      `Average precision: ${figure(precision_recall.area)}. The dashed line is chance (${figure(share)}), ` +
      "the share of positives among the pairs.",
    unit: true,
    chance: [
      [0, share],
      [1, share],
    ],
  });
  const charts = [histogramChart(histogram, held_out), ranking, precision];
  const title = held_out.pairs === "test" ? "Scores of the test pairs" : "Scores of the validation pairs";
  return [section("scores", title, h("div", { class: "charts" }, ...charts))];
}

function probabilitiesOf({ lists, reliability, probabilities }: ModelInfo): HTMLElement[] {
  if (lists === null || reliability.length === 0) return [];
  const charts = [reliabilityChart(reliability, lists), degreeTable(lists)];
  return [
    section(
      "probabilities",
      "Probabilities of recommended links",
      h("p", { class: "small" }, rateInWords(probabilities)),
      h("div", { class: "charts" }, ...charts),
    ),
  ];
}

function curve(name: string, epochs: readonly Epoch[], value: (epoch: Epoch) => number | null | undefined): Curve[] {
  const values = epochs.flatMap((epoch): [number, number][] => {
    const y = value(epoch);
    return y === null || y === undefined ? [] : [[epoch.epoch, y]];
  });
  return values.length > 0 ? [{ name, values }] : [];
}

function trainingOf({ training, energy, best_epoch }: ModelInfo): HTMLElement[] {
  const mark = best_epoch > 0 ? best_epoch : undefined;
  const kept = mark === undefined ? "" : ` The dashed line marks the epoch whose weights were kept (${mark}).`;
  const over = (title: string, curves: Curve[], y: string, caption: string): HTMLElement[] =>
    curves.length > 0 ? [lineChart({ title, curves, x: "epoch", y, caption: caption + kept, mark })] : [];
  const validation = [
    ...curve("Hits", training, ({ hits }) => hits),
    ...curve("MRR", training, ({ mrr }) => mrr),
    ...curve("AUC", training, ({ auc }) => auc),
  ];
  const repulsion = curve("repulsion", training, (epoch) => epoch.repulsion);
  const learned = new Set(repulsion[0]?.values.map(([, value]) => value)).size > 1;
  const steps = energy.flatMap((value, step) => (value === null ? [] : [[step, value] as const]));
  const falls = steps.every(([, value], i) => i === 0 || value < steps[i - 1]![1]);
  const charts = [
    ...over("Training loss", curve("loss", training, ({ loss }) => loss), "loss", "Mean loss per epoch."),
    ...over("Validation metrics", validation, "metric", "On the validation pairs."),
    ...over("Repulsion", learned ? repulsion : [], "mean repulsion", "Learned repulsion between nodes without an edge."),
    ...(steps.length > 1
      ? [
          lineChart({
            title: "Energy per layer",
            curves: [{ name: "energy", values: steps }],
            x: "layer (0: input)",
            y: "energy",
            caption: falls
              ? "The energy falls at every layer, as gradient descent should make it."
              : "The energy does not fall at every layer: the step size may be too large.",
          }),
        ]
      : []),
  ];
  return charts.length > 0 ? [section("training", "Training", h("div", { class: "charts" }, ...charts))] : [];
}

function settingsOf({ settings, versions, index, live }: ModelInfo): HTMLElement {
  const block = (name: string, facts: Record<string, unknown>): HTMLElement =>
    h("div", { class: "group" }, h("h3", {}, name.replaceAll("_", " ")), factsOf(facts));
  const groups = { versions, index: index ?? {}, "live graph": live ?? {}, ...settings };
  const blocks = Object.entries(groups).filter(([, facts]) => Object.keys(facts).length > 0);
  return section("settings", "Settings", h("div", { class: "groups" }, ...blocks.map((entry) => block(...entry))));
}

const ABOUT_MAP =
  "t-SNE of the embeddings: nodes that are near each other have similar embeddings; distances between far groups have " +
  "no meaning. Thin lines are some edges of the graph.";

/** All sections of the page; the map is put in a place of its own, because a served one comes later. */
export function modelSections(content: ModelInfo, mapPlace: HTMLElement): HTMLElement[] {
  const drawn = (content.map?.predicted ?? []).length > 0 ? " Dashed lines are the recommended links, numbered by rank." : "";
  const hint = content.map === undefined ? " A click opens a node; ctrl and wheel, or a pinch, zoom." : "";
  return [
    headOf(content),
    ...(content.read_only ? [h("p", { class: "banner" }, "This model is read only.")] : []),
    metricsOf(content),
    dataOf(content),
    ...recommendedOf(content),
    section("map", "Map of the embeddings", h("p", { class: "small" }, ABOUT_MAP + drawn + hint), mapPlace),
    ...probabilitiesOf(content),
    ...evaluationOf(content),
    ...trainingOf(content),
    settingsOf(content),
  ];
}
