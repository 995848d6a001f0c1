/** What a screen reader is told, and the note at the foot of the page with its way back. */

import { byId, h } from "./dom";
import { icon } from "./icons";

let timer = 0;

/** Says something politely, without showing it. */
export function announce(text: string): void {
  const region = byId("announcements");
  region.textContent = ""; // the same words twice are two announcements
  requestAnimationFrame(() => (region.textContent = text));
}

/** Shows a note for a while; with `undo`, a button to take it back. */
export function note(text: string, undo?: () => void): void {
  const place = byId("note");
  clearTimeout(timer);
  const back =
    undo &&
    h("button", { type: "button", class: "undo", onclick: undo, "aria-keyshortcuts": "u" }, icon("undo"), "Undo");
  place.replaceChildren(h("span", {}, text), ...(back ? [back] : []));
  place.hidden = false;
  announce(undo === undefined ? text : `${text} Press u to undo.`);
  timer = setTimeout(closeNote, undo === undefined ? 5000 : 12000);
}

export function closeNote(): void {
  byId("note").hidden = true;
}
