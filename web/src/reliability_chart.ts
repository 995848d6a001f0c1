/** Stated against observed probability. */

import type { HeldOut, ReliabilityBin } from "./contract";
import { svg } from "./dom";
import { axes, framed, markLine } from "./line_chart";
import { counted, figure } from "./scales";

/** How many bins hold the stated probability within the interval of the observed share. */
export function withinInterval(bins: readonly ReliabilityBin[]): number {
  return bins.filter(({ predicted, low, high }) => low <= predicted && predicted <= high).length;
}

export function reliabilityChart(bins: readonly ReliabilityBin[], { pairs, base_rate }: HeldOut): HTMLElement {
  const title = "Calibration";
  const [chart, frame] = axes(
    { name: "stated probability", range: [0, 1] },
    { name: "observed share of positives", range: [0, 1] },
    `Stated and observed probability in ${counted(bins.length, "bin")}`,
  );
  const { x, y } = frame;
  chart.append(markLine([0, 0], [1, 1], frame));
  const most = Math.max(1, ...bins.map(({ count }) => count));
  for (const { predicted, low, high } of bins)
    chart.append(svg("line", { class: "curve curve-1", x1: x(predicted), x2: x(predicted), y1: y(low), y2: y(high) }));
  for (const { predicted, observed, count } of bins) {
    const radius = 2.5 + 4.5 * Math.sqrt(count / most);
    chart.append(svg("circle", { class: "dot dot-1", cx: x(predicted), cy: y(observed), r: radius.toFixed(1) }));
  }
  const rows = bins.map(({ predicted, observed, low, high, count }) => [
    figure(predicted),
    figure(observed),
    `${figure(low)} to ${figure(high)}`,
    count.toLocaleString("en"),
  ]);
  const caption =
    `In ${withinInterval(bins)} of ${counted(bins.length, "bin")} the stated probability lies within the 95 % interval ` +
    `(vertical line) of the observed share. ${pairs === "test" ? "Test" : "Validation"} pairs, weighted to a base rate ` +
    `of ${base_rate}; larger points hold more pairs.`;
  return framed(title, [], chart, caption, { header: ["stated", "observed", "95 % interval", "pairs"], rows });
}
