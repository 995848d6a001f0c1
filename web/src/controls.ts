/** The buttons of a drawing: zoom in, zoom out, fit. */

import { h } from "./dom";
import { icon, type Icon } from "./icons";

export interface Controlled {
  zoom: (factor: number) => void;
  fit: () => void;
  step: number; // factor of one zoom
  keys: boolean; // whether the page listens to + - f for it
}

export function controls(label: string, { zoom, fit, step, keys }: Controlled): HTMLElement {
  const button = (name: Icon, what: string, key: string, act: () => void): HTMLElement => {
    const words = { title: keys ? `${what} (${key})` : what, "aria-label": what, "aria-keyshortcuts": keys && key };
    return h("button", { type: "button", ...words, onclick: act }, icon(name));
  };
  return h(
    "div",
    { class: "controls", role: "group", "aria-label": label },
    button("plus", "Zoom in", "+", () => zoom(step)),
    button("minus", "Zoom out", "-", () => zoom(1 / step)),
    button("fit", "Fit", "f", fit),
  );
}
