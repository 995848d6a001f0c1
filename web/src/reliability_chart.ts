/** Stated against observed probability, over recommended lists of held-out edges. */

import type { DegreeGroup, Lists, ReliabilityBin } from "./contract";
import { h, svg } from "./dom";
import { axes, framed, markLine } from "./line_chart";
import { counted, figure } from "./scales";

/** How many bins hold the stated probability within the interval of the observed share. */
export function withinInterval(bins: readonly ReliabilityBin[]): number {
  return bins.filter(({ predicted, low, high }) => low <= predicted && predicted <= high).length;
}

/** The end of both axes: the largest value that is drawn, rounded up. */
export function reach(bins: readonly ReliabilityBin[]): number {
  const most = Math.max(1e-3, ...bins.flatMap(({ predicted, high }) => [predicted, high]));
  const step = 10 ** Math.floor(Math.log10(most));
  return Math.min(1, Math.ceil(most / step - 1e-9) * step);
}

function listsInWords({ edges, length, num_sources, num_hits }: Lists): string {
  return (
    `The ${length} best new links of ${counted(num_sources, "node")}, with the ${edges} edges hidden: ` +
    `${counted(num_hits, "link")} ${num_hits === 1 ? "is" : "are"} among these edges.`
  );
}

export function reliabilityChart(bins: readonly ReliabilityBin[], lists: Lists): HTMLElement {
  const title = "Calibration";
  const end = reach(bins);
  const [chart, frame] = axes(
    { name: "stated probability", range: [0, end] },
    { name: "observed share of missing edges", range: [0, end] },
    `Stated and observed probability in ${counted(bins.length, "bin")}`,
  );
  const { x, y } = frame;
  chart.append(markLine([0, 0], [end, end], frame));
  const most = Math.max(1, ...bins.map(({ count }) => count));
  for (const { predicted, low, high } of bins)
    chart.append(svg("line", { class: "curve curve-1", x1: x(predicted), x2: x(predicted), y1: y(low), y2: y(high) }));
  for (const { predicted, observed, count } of bins) {
    const radius = 2.5 + 4.5 * Math.sqrt(count / most);
    chart.append(svg("circle", { class: "dot dot-1", cx: x(predicted), cy: y(observed), r: radius.toFixed(1) }));
  }
  const rows = bins.map((bin) => cellsOf(bin));
  const caption =
    `In ${withinInterval(bins)} of ${counted(bins.length, "bin")} the stated probability lies within the 95 % interval ` +
    `(vertical line) of the observed share. Expected calibration error: ${figure(lists.error)}. ${listsInWords(lists)}`;
  return framed(title, [], chart, caption, { header: ["stated", "observed", "95 % interval", "links"], rows });
}

function cellsOf({ predicted, observed, low, high, count }: ReliabilityBin): string[] {
  return [figure(predicted), figure(observed), `${figure(low)} to ${figure(high)}`, count.toLocaleString("en")];
}

function edgesInWords({ least, most }: DegreeGroup): string {
  return least === most ? counted(least, "edge") : `${least.toLocaleString("en")} to ${counted(most, "edge")}`;
}

/** Stated and observed probability of nodes with few, more and many edges. */
export function degreeTable({ by_degree }: Lists): HTMLElement {
  const heads = ["node with", "stated", "observed", "95 % interval", "links"];
  const rows = by_degree.map((group) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, edgesInWords(group)),
      ...cellsOf(group).map((cell) => h("td", { class: "number" }, cell)),
    ),
  );
  return h(
    "figure",
    {},
    h("h3", {}, "Calibration by degree"),
    h(
      "div",
      { class: "wide", tabindex: 0, role: "region", "aria-label": "Calibration by degree" },
      h(
        "table",
        { class: "table figures" },
        h("thead", {}, h("tr", {}, ...heads.map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, ...rows),
      ),
    ),
    h("figcaption", {}, "The same links, by the number of known edges of the node that they are recommended to."),
  );
}
