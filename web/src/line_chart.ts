/** Curves over a common axis, as SVG with the same numbers in a table. */

import { h, svg } from "./dom";
import { extent, figure, linear, ticks, type Range } from "./scales";

export interface Curve {
  name: string;
  values: (readonly [number, number])[];
}

export interface Frame {
  width: number;
  height: number;
  x: (value: number) => number;
  y: (value: number) => number;
}

const [WIDTH, HEIGHT] = [440, 240];
const MARGIN = { left: 52, right: 14, top: 12, bottom: 38 };

/** Axes with ticks and names; gives the element and where values stand in it. */
export function axes(xs: Range, ys: Range, xName: string, label: string): [SVGSVGElement, Frame] {
  const x = linear(xs, [MARGIN.left, WIDTH - MARGIN.right]);
  const y = linear(ys, [HEIGHT - MARGIN.bottom, MARGIN.top]);
  const chart = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label, class: "chart" });
  for (const tick of ticks(ys, 4)) {
    chart.append(
      svg("line", { class: "rule", x1: MARGIN.left, x2: WIDTH - MARGIN.right, y1: y(tick), y2: y(tick) }),
      svg("text", { class: "tick", x: MARGIN.left - 8, y: y(tick) + 4, "text-anchor": "end" }, spelledTick(tick)),
    );
  }
  for (const tick of ticks(xs, 5)) {
    chart.append(
      svg(
        "text",
        { class: "tick", x: x(tick), y: HEIGHT - MARGIN.bottom + 17, "text-anchor": "middle" },
        spelledTick(tick),
      ),
    );
  }
  const middle = (MARGIN.left + WIDTH - MARGIN.right) / 2;
  chart.append(svg("text", { class: "axis", x: middle, y: HEIGHT - 4, "text-anchor": "middle" }, xName));
  return [chart, { width: WIDTH, height: HEIGHT, x, y }];
}

function spelledTick(tick: number): string {
  const size = Math.abs(tick);
  if (size >= 1e5 || (size > 0 && size < 1e-3)) return tick.toExponential(0).replace("-", "\u2212");
  return tick.toLocaleString("en", { maximumFractionDigits: 4 }).replace("-", "\u2212");
}

/** A figure's numbers for those who do not see it. */
export function numbersOf(title: string, header: string[], rows: string[][]): HTMLElement {
  return h(
    "details",
    { class: "numbers" },
    h("summary", {}, "As a table"),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": `${title}, as a table` },
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, ...header.map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell) => h("td", {}, cell))))),
      ),
    ),
  );
}

function tableOf(title: string, curves: readonly Curve[], xName: string): HTMLElement {
  const places = [...new Set(curves.flatMap(({ values }) => values.map(([x]) => x)))].sort((a, b) => a - b);
  const columns = curves.map(({ values }) => new Map(values));
  const rows = places.map((x) => [String(x), ...columns.map((column) => figure(column.get(x) ?? null, 4))]);
  return numbersOf(title, [xName, ...curves.map(({ name }) => name)], rows);
}

export interface Mark {
  x: number;
  name: string;
}

/** A figure of some curves, with a mark at one place of the axis. */
export function lineChart(
  title: string,
  curves: readonly Curve[],
  xName: string,
  caption: string,
  mark?: Mark,
): HTMLElement {
  const points = curves.flatMap(({ values }) => values);
  const label = `${title}: ${curves.map(({ name }) => name).join(", ")} by ${xName}`;
  const [chart, { x, y }] = axes(
    extent(points.map(([a]) => a)),
    padded(extent(points.map(([, b]) => b))),
    xName,
    label,
  );
  if (mark !== undefined) {
    const place = x(mark.x);
    chart.append(svg("line", { class: "mark", x1: place, x2: place, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }));
  }
  curves.forEach(({ values }, i) => {
    const path = values.map(([a, b], j) => `${j === 0 ? "M" : "L"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");
    chart.append(svg("path", { class: `curve curve-${i + 1}`, d: path }));
    if (values.length === 1)
      chart.append(svg("circle", { class: `dot dot-${i + 1}`, cx: x(values[0]![0]), cy: y(values[0]![1]), r: 3 }));
  });
  const keys = curves.map(({ name }, i) => h("span", { class: `key key-${i + 1}` }, name));
  return h(
    "figure",
    {},
    h("h3", {}, title),
    curves.length > 1 && h("div", { class: "keys-of-curves", "aria-hidden": "true" }, ...keys),
    chart,
    h("figcaption", {}, caption),
    tableOf(title, curves, xName),
  );
}

function padded([least, most]: Range): Range {
  const room = (most - least || Math.abs(most) || 1) * 0.06;
  return [least - room, most + room];
}
