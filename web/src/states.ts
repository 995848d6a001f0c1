/** Loading, empty and wrong: what is shown in place of content. */

import { Problem } from "./api";
import { h } from "./dom";

/** Lines that stand where content will be. */
export function loading(what: string, lines = 5): HTMLElement {
  const bars = Array.from({ length: lines }, () => h("div", { class: "skeleton" }));
  return h("div", { class: "loading", role: "status" }, h("span", { class: "unseen" }, `Loading ${what} …`), ...bars);
}

export function empty(title: string, advice: string, ...more: Node[]): HTMLElement {
  return h("div", { class: "state" }, h("h1", {}, title), h("p", {}, advice), ...more);
}

/** An error in the service's own words, with a way to try again; alone on the page, or a part of it. */
export function failure(error: unknown, retry: () => void, heading: "h1" | "h3" = "h1"): HTMLElement {
  const known = error instanceof Problem;
  const title = !known ? "This page made a mistake" : error.status === 404 ? "Not found" : error.title;
  const detail = known ? error.detail : String(error);
  const status = known && error.status > 0 ? h("p", { class: "small" }, `Status ${error.status}`) : null;
  const again = h("button", { type: "button", onclick: retry }, "Try again");
  return h("div", { class: "state wrong", role: "alert" }, h(heading, {}, title), h("p", {}, detail), status, again);
}

/** Whether an error only says that the question was withdrawn. */
export function isWithdrawn(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}
