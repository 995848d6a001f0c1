/** Metrics as tiles, and beside those of other methods. */

import type { Metrics } from "./contract";
import { h } from "./dom";
import { counted, figure } from "./scales";

const LOWER_IS_BETTER = new Set(["brier", "ece", "log_loss", "loss", "mean_rank"]);
const FILTERED = "filtered "; // ranking of both ends of test links, in a graph with relations
const KNOWN: Record<string, readonly [string, string]> = {
  mrr: ["MRR", "mean of 1 / rank of a positive among negatives"],
  auc: ["AUC", "how often a positive scores above a negative"],
  ap: ["AP", "area under the precision-recall curve"],
  average_precision: ["AP", "area under the precision-recall curve"],
};

export function metricName(name: string): string {
  if (name.startsWith(FILTERED)) return `Filtered ${metricName(name.slice(FILTERED.length))}`;
  return KNOWN[name]?.[0] ?? name.replaceAll("_", " ").replace(/^./, (letter) => letter.toUpperCase());
}

export function ordinal(n: number): string {
  const teen = n % 100 >= 11 && n % 100 <= 13;
  return `${n}${teen ? "th" : (["th", "st", "nd", "rd"][n % 10] ?? "th")}`;
}

export function metricMeaning(name: string): string {
  if (name === `${FILTERED}mrr`) return "mean of 1 / rank of a true end among all nodes, other edges left out";
  const best = /^filtered hits@(\d+)$/.exec(name)?.[1];
  if (best !== undefined) return `share of true ends among the best ${best === "1" ? "one" : best} of all nodes`;
  const part = /^hits@(\d+)%$/.exec(name)?.[1];
  if (part !== undefined) return `share of positives above the best ${part} % of the negatives`;
  const among = /^hits@(\d+)$/.exec(name)?.[1];
  if (among === undefined) return KNOWN[name]?.[1] ?? "";
  return `share of positives above the ${among === "1" ? "" : `${ordinal(Number(among))} `}best negative`;
}

function spelled(value: number | null | undefined): string {
  return figure(value ?? null, Number.isInteger(value) && value !== 0 && value !== 1 ? 0 : 3);
}

export function tiles(metrics: Metrics): HTMLElement {
  const parts = Object.entries(metrics).map(([name, value]) => {
    const meaning = metricMeaning(name);
    const under = meaning !== "" && h("dd", { class: "small" }, meaning);
    return h("div", {}, h("dt", {}, metricName(name)), h("dd", {}, spelled(value)), under);
  });
  return h("dl", { class: "tiles" }, ...parts);
}

/** The best value of a metric as it is spelled, so that values spelled alike are best together. */
export function bestOf(name: string, models: readonly Metrics[]): string {
  const values = models.flatMap((metrics) => metrics[name] ?? []);
  const best = LOWER_IS_BETTER.has(name) ? Math.min(...values) : Math.max(...values);
  return values.length > 0 ? spelled(best) : "";
}

/** This model and its peers in one table, the best of each column in bold. */
export function comparison(metrics: Metrics, peers: Record<string, Metrics>): HTMLElement {
  const models = { yinyan: metrics, ...peers };
  const columns = [...new Set(Object.values(models).flatMap((figures) => Object.keys(figures)))];
  const best = new Map(columns.map((name) => [name, bestOf(name, Object.values(models))]));
  const won = columns.filter((name) => spelled(metrics[name]) === best.get(name)).length;
  const falls = columns.some((name) => LOWER_IS_BETTER.has(name));
  const heads = columns.map((name) =>
    h("th", { scope: "col" }, metricName(name) + (LOWER_IS_BETTER.has(name) ? " ↓" : "")),
  );
  const rows = Object.entries(models).map(([model, figures]) => {
    const cells = columns.map((name) => {
      const text = spelled(figures[name]);
      return h("td", {}, text === best.get(name) ? h("strong", {}, text) : text);
    });
    return h("tr", { class: figures === metrics && "ours" }, h("th", { scope: "row" }, model), ...cells);
  });
  return h(
    "div",
    {},
    h("h3", {}, "Comparison with other methods"),
    h(
      "p",
      { class: "small" },
      `yinyan has the best value, alone or shared, in ${won} of ${counted(columns.length, "metric")}. All methods are ` +
        `measured on the same held-out pairs; bold marks the best of each column${falls ? ", ↓ lower is better" : ""}.`,
    ),
    h(
      "div",
      { class: "wide", tabindex: 0, role: "region", "aria-label": "Comparison with other methods" },
      h(
        "table",
        { class: "table figures" },
        h("thead", {}, h("tr", {}, h("td"), ...heads)),
        h("tbody", {}, ...rows),
      ),
    ),
  );
}
