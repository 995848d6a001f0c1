/** The keys, and the dialog that tells them. */

import { byId, h } from "./dom";

const OFF = "yinyan.keys";

export const KEYS: readonly (readonly [string, string])[] = [
  ["/", "search"],
  ["j, k", "next and previous prediction"],
  ["Enter", "walk to it"],
  ["w", "why: open or close its explanation"],
  ["a", "accept it"],
  ["r", "reject it"],
  ["u", "undo the last decision"],
  ["+, −, f", "zoom in, zoom out, fit"],
  ["e, m", "explorer, model"],
  ["?", "this help"],
  ["Esc", "close"],
];

/** Whether single keys act at all: who speaks to the computer may not want them. */
export function keysAreOn(): boolean {
  return localStorage.getItem(OFF) !== "off";
}

export function showHelp(): void {
  const box = h("input", { type: "checkbox", id: "keys-on" });
  box.checked = keysAreOn();
  box.addEventListener("change", () => localStorage.setItem(OFF, box.checked ? "on" : "off"));
  const dialog = h(
    "dialog",
    { class: "panel", "aria-labelledby": "help-title" },
    h("h2", { id: "help-title" }, "Keys"),
    h(
      "dl",
      { class: "keys" },
      ...KEYS.map(([keys, what]) =>
        h("div", {}, h("dt", {}, ...keys.split(", ").map((key) => h("kbd", {}, key))), h("dd", {}, what)),
      ),
    ),
    h("p", { class: "check" }, box, h("label", { for: "keys-on" }, "Single keys act")),
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Close"),
    ),
  );
  dialog.addEventListener("close", () => dialog.remove());
  byId("dialogs").append(dialog);
  dialog.showModal();
}
