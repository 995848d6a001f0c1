/** The sections of the model page, of a served model and in a report. */

import { nameOf, type Epoch, type ModelInfo } from "./contract";
import { h } from "./dom";
import type { Id } from "./ids";
import { histogramChart } from "./histogram_chart";
import { lineChart, type Curve } from "./line_chart";
import { comparison, metricName, tiles } from "./metrics";
import { spelledValue } from "./node_head";
import { degreeTable, reliabilityChart } from "./reliability_chart";
import { counted, figure, percent, scoreText } from "./scales";
import { typeMark, typeTag } from "./shapes";
import { howSure, rateInWords } from "./sure";

type Choose = ((relation: string) => void) | undefined;

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
  const relations = content.relations ?? [];
  const types = counted(content.types?.length ?? 0, "type");
  const kind = relations.length > 0 ? `${types}, ${counted(relations.length, "relation")}` : kindOf(content.model);
  const facts = [counted(num_nodes, "node"), counted(num_links, "edge"), kind];
  const subtitle = [...facts, counted(dimensions, "dimension")].join(" · ");
  return h("header", { class: "head" }, h("h1", {}, content.name), h("p", { class: "subtitle" }, subtitle));
}

/** Metrics over all predicted relations. */
function overallOf({ overall, overall_peers }: ModelInfo): HTMLElement[] {
  if (!overall || Object.keys(overall).length === 0) return [];
  const others = Object.keys(overall_peers ?? {}).length > 0 && comparison(overall, overall_peers ?? {});
  return [section("overall", "Metrics of all predicted relations", tiles(overall), others)];
}

function metricsOf({ metrics, peers, num_seeds, seed, relation }: ModelInfo): HTMLElement {
  const title = relation ? `Metrics of relation '${relation}'` : "Metrics";
  const seeds =
    (num_seeds ?? 1) > 1 &&
    h("p", { class: "small" }, `Metrics are means of ${counted(num_seeds ?? 1, "seed")}; charts are of seed ${seed}.`);
  if (Object.keys(metrics).length === 0) {
    const which = relation ? "all edges of this relation" : "all edges of the graph";
    return section("metrics", title, h("p", {}, `No metrics were measured: ${which} were used for training.`));
  }
  const others = Object.keys(peers ?? {}).length > 0 && comparison(metrics, peers ?? {});
  return section("metrics", title, tiles(metrics), seeds, others);
}

/** Types and relations; a predicted one can be chosen, and the sections that follow are about it. */
function relationsOf(content: ModelInfo, choose: Choose): HTMLElement[] {
  const { types, relations, relation, overall } = content;
  if (!types || !relations || relations.length === 0) return [];
  const named = ["mrr", "auc", "ap"].filter((name) => relations.some(({ metrics }) => name in metrics));
  const hits = Object.keys(overall ?? {}).find((name) => name.startsWith("hits@"));
  const shown = [...(hits === undefined ? [] : [hits]), ...named];
  const heads = ["relation", "from", "to", "edges", "attraction", ...shown.map(metricName)];
  const rows = relations.map(({ name, source, target, directed, num_links, predicted, attraction, metrics }) =>
    h(
      "tr",
      { class: name === relation ? "chosen" : null },
      h(
        "th",
        { scope: "row" },
        h("bdi", {}, name),
        !predicted && h("span", { class: "small" }, " messages only"),
        directed && source === target && h("span", { class: "small" }, " directed"),
      ),
      h("td", {}, typeTag(source) ?? source),
      h("td", {}, typeTag(target) ?? target),
      h("td", { class: "number" }, num_links.toLocaleString("en")),
      h("td", { class: "number" }, figure(attraction)),
      ...shown.map((metric) => h("td", { class: "number" }, metric in metrics ? figure(metrics[metric] ?? null) : "")),
    ),
  );
  const charted = content.by_relation;
  const predicted = relations.filter(({ name, predicted }) => predicted && (charted === undefined || name in charted));
  const select = h(
    "select",
    { id: "model-relation", onchange: () => choose?.(select.value) },
    ...predicted.map(({ name }) => h("option", { value: name, selected: name === relation }, name)),
  );
  const counts = types.map(({ name, num_nodes, num_features }) => {
    const features = num_features > 0 ? `, ${counted(num_features, "feature")}` : "";
    return h("li", {}, typeTag(name) ?? name, ` ${counted(num_nodes, "node")}${features}`);
  });
  return [
    section(
      "relations",
      "Types and relations",
      h("ul", { class: "kinds small" }, ...counts),
      h(
        "div",
        { class: "scrolls" },
        h(
          "table",
          { class: "table" },
          h("thead", {}, h("tr", {}, ...heads.map((name) => h("th", { scope: "col" }, name)))),
          h("tbody", {}, ...rows),
        ),
      ),
      choose !== undefined && predicted.length > 1
        ? h("div", { class: "field" }, h("label", { for: "model-relation" }, "Figures and charts of relation"), select)
        : h("p", { class: "small" }, `Figures and charts below are of relation '${relation ?? ""}'.`),
    ),
  ];
}

function dataOf(content: ModelInfo): HTMLElement {
  const { model, split, protocol, seed, seconds, training, best_epoch, notes } = content;
  const epochs = `${counted(training.length, "epoch")} in ${seconds.toFixed(0)} s`;
  const relations = content.relations ?? [];
  const features = model.num_features > 0 ? model.num_features.toLocaleString("en") : "none";
  const facts = {
    nodes: model.num_nodes.toLocaleString("en"),
    edges: `${model.num_links.toLocaleString("en")}, ${relations.length > 0 ? `${relations.length} relations` : kindOf(model)}`,
    ...(relations.length > 0 ? {} : { "node features": features }), // those of each type stand above
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
function named(id: Id, label: string | null | undefined, type: string | null = null): Element[] {
  const name = nameOf({ id, label: label ?? null });
  const mark = typeMark(type);
  const bare = h("bdi", {}, name);
  const shown = mark === null ? bare : h("span", { class: "type" }, mark, bare);
  return name === String(id) ? [shown] : [shown, h("span", { class: "small id" }, " ", h("bdi", {}, String(id)))];
}

function recommendedOf({ recommended, model, probabilities, relation }: ModelInfo): HTMLElement[] {
  if (recommended === undefined || recommended.links.length === 0) return [];
  const rows = recommended.links.map(({ score, probability, ...ends }, i) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, String(i + 1)),
      h("td", {}, ...named(ends.source, ends.source_label, ends.source_type)),
      h("td", {}, ...named(ends.target, ends.target_label, ends.target_type)),
      h("td", { class: "number" }, scoreText(score)),
      h("td", { class: "number" }, percent(probability)),
    ),
  );
  const whose =
    recommended.num_asked < (recommended.of ?? model.num_nodes)
      ? `The best new links of ${counted(recommended.num_asked, "node")} drawn at random.`
      : `The best new links ${relation ? `of relation '${relation}'` : "of the whole graph"}.`;
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

function tableOf(heads: string[], rows: (Node | string)[][], numbers: number): HTMLElement {
  const cell = (value: Node | string, i: number): HTMLElement =>
    h("td", i < numbers ? { class: "number" } : {}, value);
  const body = rows.map((row) => h("tr", {}, ...row.map(cell)));
  const head = heads.map((name) => h("th", { scope: "col" }, name));
  return h("table", { class: "table" }, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...body));
}

function tuningOf({ tuning }: ModelInfo): HTMLElement[] {
  if (tuning === undefined) return [];
  const signed = (gain: number): string => `${gain < 0 ? "−" : "+"}${Math.abs(gain).toFixed(4)}`;
  const spelled = (values: Record<string, unknown>): string =>
    Object.entries(values)
      .map(([name, value]) => `${name} = ${String(value)}`)
      .join(", ");
  const pruned = tuning.trials.filter(({ state }) => state === "pruned").length;
  const trials = `${counted(tuning.trials.length, "trial")} on seed ${tuning.search_seed}, ${pruned} of them ended early`;
  const spent = `${(tuning.seconds / 60).toFixed(1)} of ${tuning.minutes} minutes`;
  const candidates = tuning.candidates.map(({ values, gain, spread, better }) => [
    signed(gain),
    spread.toFixed(4),
    better ? "yes" : "no",
    spelled(values),
  ]);
  const shares = Object.entries(tuning.importances).map(([name, share]) => [percent(share), name]);
  const seeds = tuning.seeds.join(", ");
  return [
    section(
      "tuning",
      "Tuning",
      h("p", { class: "small" }, `${tuning.verdict}. ${trials}; ${spent}. Graph ${tuning.kind}.`),
      candidates.length > 0 && h("h3", {}, "Candidates against the defaults"),
      candidates.length > 0 && tableOf(["gain", "spread", "better", `settings, on seeds ${seeds}`], candidates, 2),
      shares.length > 0 && h("h3", {}, "What mattered"),
      shares.length > 0 && tableOf(["share of the variance of scores", "setting"], shares, 1),
    ),
  ];
}

const ABOUT_MAP =
  "t-SNE of the embeddings: nodes that are near each other have similar embeddings; distances between far groups have " +
  "no meaning. Thin lines are some edges of the graph.";

/** All sections of the page; the map is put in a place of its own, because a served one comes later. */
export function modelSections(content: ModelInfo, mapPlace: HTMLElement, choose?: Choose): HTMLElement[] {
  const drawn = (content.map?.predicted ?? []).length > 0 ? " Dashed lines are the recommended links, numbered by rank." : "";
  const hint = content.map === undefined ? " A click opens a node; ctrl and wheel, or a pinch, zoom." : "";
  return [
    headOf(content),
    ...(content.read_only ? [h("p", { class: "banner" }, "This model is read only.")] : []),
    ...overallOf(content),
    ...relationsOf(content, choose),
    metricsOf(content),
    dataOf(content),
    ...recommendedOf(content),
    section("map", "Map of the embeddings", h("p", { class: "small" }, ABOUT_MAP + drawn + hint), mapPlace),
    ...probabilitiesOf(content),
    ...evaluationOf(content),
    ...trainingOf(content),
    ...tuningOf(content),
    settingsOf(content),
  ];
}
