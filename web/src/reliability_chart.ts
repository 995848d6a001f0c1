/** Stated against observed probability. */

import type { ReliabilityBin } from "./contract";
import { h, svg } from "./dom";
import { axes, numbersOf } from "./line_chart";
import { counted, figure } from "./scales";

export function reliabilityChart(bins: readonly ReliabilityBin[]): HTMLElement {
  const title = "Stated and observed probability";
  const [chart, { x, y }] = axes([0, 1], [0, 1], "stated probability", `${title} in ${counted(bins.length, "bin")}`);
  chart.append(svg("line", { class: "mark", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }));
  const most = Math.max(1, ...bins.map(({ count }) => count));
  const path = bins.map(
    ({ predicted, observed }, i) => `${i === 0 ? "M" : "L"}${x(predicted).toFixed(1)} ${y(observed).toFixed(1)}`,
  );
  chart.append(svg("path", { class: "curve curve-1", d: path.join("") }));
  for (const { predicted, observed, count } of bins) {
    const radius = 2.5 + 4.5 * Math.sqrt(count / most);
    chart.append(svg("circle", { class: "dot dot-1", cx: x(predicted), cy: y(observed), r: radius.toFixed(1) }));
  }
  const rows = bins.map(({ predicted, observed, count }) => [
    figure(predicted),
    figure(observed),
    count.toLocaleString("en"),
  ]);
  return h(
    "figure",
    {},
    h("h3", {}, title),
    chart,
    h(
      "figcaption",
      {},
      "On validation pairs. On the dashed line the model is as sure as it should be; larger points hold more pairs.",
    ),
    numbersOf(title, ["stated", "observed", "pairs"], rows),
  );
}
