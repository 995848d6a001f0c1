/** Curves over a common axis, as SVG with the same numbers in a table. */

import { h, svg } from "./dom";
import { extent, figure, linear, ticks, type Range } from "./scales";

export interface Curve {
  name: string;
  values: (readonly [number, number])[];
}

export interface Axis {
  name: string;
  range: Range;
  spelled?: (tick: number) => string;
  whole?: boolean; // ticks at whole numbers only
}

export interface Frame {
  x: (value: number) => number;
  y: (value: number) => number;
}

const [WIDTH, HEIGHT] = [440, 256];
const MARGIN = { left: 52, right: 14, top: 28, bottom: 38 };

/** Axes with ticks and names; gives the element and where values stand in it. */
export function axes(across: Axis, up: Axis, label: string): [SVGSVGElement, Frame] {
  const x = linear(across.range, [MARGIN.left, WIDTH - MARGIN.right]);
  const y = linear(up.range, [HEIGHT - MARGIN.bottom, MARGIN.top]);
  const chart = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label, class: "chart" });
  const text = (kind: string, at: Record<string, string | number>, words: string): SVGTextElement =>
    svg("text", { class: kind, ...at }, words);
  for (const tick of ticks(up.range, 5)) {
    const place = { x: MARGIN.left - 8, y: y(tick) + 4, "text-anchor": "end" };
    chart.append(
      svg("line", { class: "rule", x1: MARGIN.left, x2: WIDTH - MARGIN.right, y1: y(tick), y2: y(tick) }),
      text("tick", place, (up.spelled ?? spelledTick)(tick)),
    );
  }
  for (const tick of ticks(across.range, 5).filter((value) => !across.whole || Number.isInteger(value))) {
    const place = { x: x(tick), y: HEIGHT - MARGIN.bottom + 17, "text-anchor": "middle" };
    chart.append(text("tick", place, (across.spelled ?? spelledTick)(tick)));
  }
  const middle = (MARGIN.left + WIDTH - MARGIN.right) / 2;
  chart.append(
    text("axis", { x: middle, y: HEIGHT - 4, "text-anchor": "middle" }, across.name),
    text("axis", { x: 2, y: 13 }, up.name),
  );
  return [chart, { x, y }];
}

function spelledTick(tick: number): string {
  const size = Math.abs(tick);
  if (size >= 1e5 || (size > 0 && size < 1e-3)) return tick.toExponential(0).replace("-", "\u2212");
  return tick.toLocaleString("en", { maximumFractionDigits: 4 }).replace("-", "\u2212");
}

export function pathOf(values: Curve["values"], { x, y }: Frame): string {
  return values.map(([a, b], i) => `${i === 0 ? "M" : "L"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");
}

/** A figure's numbers for those who do not see it. */
export interface Numbers {
  header: string[];
  rows: string[][];
}

function numbersOf(title: string, header: string[], rows: string[][]): HTMLElement {
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

/** A chart under its title, with its caption, its numbers and, of several series, their names. */
export function framed(
  title: string,
  names: readonly string[],
  chart: SVGElement,
  caption: string,
  { header, rows }: Numbers,
): HTMLElement {
  const keys = names.map((name, i) => h("span", { class: `key key-${i + 1}` }, name));
  return h(
    "figure",
    {},
    h("h3", {}, title),
    names.length > 1 && h("div", { class: "keys-of-curves", "aria-hidden": "true" }, ...keys),
    chart,
    h("figcaption", {}, caption),
    numbersOf(title, header, rows),
  );
}

function tableOf(curves: readonly Curve[], xName: string): Numbers {
  const places = [...new Set(curves.flatMap(({ values }) => values.map(([x]) => x)))].sort((a, b) => a - b);
  const columns = curves.map(({ values }) => new Map(values));
  const rows = places.map((x) => [String(x), ...columns.map((column) => figure(column.get(x) ?? null, 4))]);
  return { header: [xName, ...curves.map(({ name }) => name)], rows };
}

export interface Plot {
  title: string;
  curves: readonly Curve[];
  x: string; // names of the axes
  y: string;
  caption: string;
  mark?: number | undefined; // a place on the x axis
  unit?: boolean; // both axes from 0 to 1
  chance?: Curve["values"]; // what guessing gives
}

/** A figure of some curves. */
export function lineChart({ title, curves, x, y, caption, mark, unit, chance }: Plot): HTMLElement {
  const points = curves.flatMap(({ values }) => values);
  const across: Range = unit ? [0, 1] : extent(points.map(([a]) => a));
  const up: Range = unit ? [0, 1] : padded(extent(points.map(([, b]) => b)));
  const label = `${title}: ${curves.map(({ name }) => name).join(", ")} by ${x}`;
  const [chart, frame] = axes({ name: x, range: across, whole: !unit }, { name: y, range: up }, label);
  if (mark !== undefined) chart.append(markLine([mark, up[0]], [mark, up[1]], frame));
  if (chance !== undefined) chart.append(svg("path", { class: "mark", d: pathOf(chance, frame) }));
  curves.forEach(({ values }, i) => {
    chart.append(svg("path", { class: `curve curve-${i + 1}`, d: pathOf(values, frame) }));
    if (values.length > 12) return;
    for (const [a, b] of values)
      chart.append(svg("circle", { class: `dot dot-${i + 1}`, cx: frame.x(a), cy: frame.y(b), r: 3.5 }));
  });
  const names = curves.map(({ name }) => name);
  return framed(title, names, chart, caption, tableOf(curves, x));
}

/** A dashed line between two places. */
export function markLine(from: readonly [number, number], to: readonly [number, number], frame: Frame): SVGElement {
  return svg("path", { class: "mark", d: pathOf([from, to], frame) });
}

function padded([least, most]: Range): Range {
  const room = (most - least || Math.abs(most) || 1) * 0.06;
  return [least - room, most + room];
}
