/** What the strokes and colours of the drawing mean. */

import { h } from "./dom";

export function legend(): HTMLElement {
  return h(
    "div",
    { class: "legend" },
    h("span", {}, h("span", { class: "sample" }), "edge", h("span", { class: "sample dashed" }), "predicted"),
    h("span", {}, "unlikely", h("span", { class: "ramp" }), "likely"),
  );
}
