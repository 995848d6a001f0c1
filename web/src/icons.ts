/** Small drawings for buttons, in the colour of their text. */

import { svg } from "./dom";

const PATHS = {
  accept: "M3.5 8.5l3 3 6-7",
  reject: "M4 4l8 8M12 4l-8 8",
  more: "M4 6l4 4 4-4",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  fit: "M6 2.5H2.5V6M10 2.5h3.5V6M6 13.5H2.5V10M10 13.5h3.5V10",
  download: "M8 2.5v7.5M4.8 7.2L8 10.4l3.2-3.2M3 13.5h10",
  link: "M6.8 9.2a2.6 2.6 0 0 0 3.7 0l2-2a2.6 2.6 0 0 0-3.7-3.7l-.9.9M9.2 6.8a2.6 2.6 0 0 0-3.7 0l-2 2a2.6 2.6 0 0 0 3.7 3.7l.9-.9",
  search: "M7 2.8a4.2 4.2 0 1 1 0 8.4a4.2 4.2 0 0 1 0-8.4zM10.2 10.2l3.3 3.3",
  light:
    "M8 5a3 3 0 1 1 0 6a3 3 0 0 1 0-6zM8 1.2v1.4M8 13.4v1.4M1.2 8h1.4M13.4 8h1.4M3.2 3.2l1 1M11.8 11.8l1 1M12.8 3.2l-1 1M4.2 11.8l-1 1",
  dark: "M13.2 9.6A5.6 5.6 0 0 1 6.4 2.8a5.6 5.6 0 1 0 6.8 6.8z",
  undo: "M5.5 2.8L2.8 5.5l2.7 2.7M3.2 5.5h6a3.6 3.6 0 0 1 0 7.2H6.5",
} as const;

export type Icon = keyof typeof PATHS;

export function icon(name: Icon): SVGElement {
  const path = svg("path", { d: PATHS[name] });
  return svg("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true", focusable: "false" }, path);
}
