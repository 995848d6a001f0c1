/** How the scores of positives and of negatives are distributed. */

import type { HeldOut, Histogram } from "./contract";
import { svg } from "./dom";
import { axes, framed, pathOf, type Curve } from "./line_chart";
import { counted, figure } from "./scales";

/** The outline of bars that stand side by side, from the ground and back to it. */
export function outline(edges: readonly number[], shares: readonly number[]): Curve["values"] {
  const tops = shares.flatMap((share, i): Curve["values"] => [
    [edges[i]!, share],
    [edges[i + 1]!, share],
  ]);
  return [[edges[0]!, 0], ...tops, [edges.at(-1)!, 0]];
}

export function histogramChart({ edges, positives, negatives }: Histogram, heldOut: HeldOut): HTMLElement {
  const title = "Score distributions";
  const highest = Math.max(...positives, ...negatives);
  const percent = (share: number): string => `${Number((100 * share).toPrecision(3))}%`;
  const [chart, frame] = axes(
    { name: "score (log-odds)", range: [edges[0]!, edges.at(-1)!] },
    { name: "share of pairs", range: [0, highest * 1.06], spelled: percent },
    `${title} of positives and negatives`,
  );
  [negatives, positives].forEach((shares, i) => {
    const [kind, d] = [2 - i, pathOf(outline(edges, shares), frame)];
    chart.append(svg("path", { class: `area area-${kind}`, d }), svg("path", { class: `curve curve-${kind} thin`, d }));
  });
  const { pairs, num_positives, num_negatives } = heldOut;
  const caption =
    `Scores of ${counted(num_positives, "positive")} and ${counted(num_negatives, "negative")} among the ${pairs} pairs, ` +
    "each as shares of its kind. The less the two overlap, the better.";
  const rows = positives.map((share, i) => [
    `${figure(edges[i]!, 2)} to ${figure(edges[i + 1]!, 2)}`,
    percent(share),
    percent(negatives[i]!),
  ]);
  const names = ["positives", "negatives"];
  return framed(title, names, chart, caption, { header: ["score", ...names], rows });
}
