/** What the strokes, colours and shapes of the drawing mean. */

import { h } from "./dom";
import { typeTag } from "./shapes";

export function legend(types: readonly string[] = []): HTMLElement {
  const tags = types.length > 1 ? types.map((type) => typeTag(type)) : [];
  return h(
    "div",
    { class: "legend" },
    h("span", {}, h("span", { class: "sample" }), "edge", h("span", { class: "sample dashed" }), "predicted"),
    h("span", {}, "unlikely", h("span", { class: "ramp" }), "likely"),
    ...tags,
  );
}
