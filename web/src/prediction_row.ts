/** One predicted link in the list: name, probability, score, why, accept and reject. */

import type { Recommendation, RelationFacts } from "./contract";
import { h } from "./dom";
import { icon } from "./icons";
import { keyOf, spelled, typeOf, type Id } from "./ids";
import type { Verdict } from "./judgements";
import { nameFor } from "./names";
import { percent, scoreText, sureness } from "./scales";
import { typeMark } from "./shapes";
import { whyOf } from "./why";

export interface RowEvents {
  walk: (id: Id) => void;
  light: (key: string | null) => void;
  judge: (verdict: Verdict, prediction: Recommendation) => void;
}

function barOf(probability: number | null, width: (probability: number) => number): HTMLElement {
  const fill = h("span", { class: "fill" });
  if (probability !== null) {
    const sure = sureness(probability);
    fill.style.width = `${100 * width(probability)}%`;
    fill.style.setProperty("--p", `${Math.round(100 * Math.abs(2 * sure - 1))}%`);
    fill.classList.toggle("below", sure < 0.5);
  }
  return h("span", { class: "bar", "aria-hidden": "true" }, fill);
}

/** A probability as a bar and a number. */
export function chanceOf(probability: number | null): HTMLElement {
  const number = h("span", { class: "number" }, percent(probability));
  return h("span", { class: "chance" }, number, barOf(probability, (p) => p));
}

/** How sure the model would be of an edge that it has: a bar alone, since a probability is one of new links. */
export function surenessOf(probability: number | null): HTMLElement {
  return h("span", { class: "chance" }, barOf(probability, sureness));
}

/** A button with the name of a node, which walks to it. */
export function walkButton(id: Id, name: string, walk: RowEvents["walk"]): HTMLButtonElement {
  const attributes = { type: "button", class: "walk", title: name, onclick: () => walk(id) };
  return h("button", attributes, h("span", { class: "name" }, name));
}

/** Lights a node in the drawing while its row is pointed at or has the focus. */
export function lightWith(row: HTMLElement, key: string, light: RowEvents["light"]): void {
  row.addEventListener("pointerenter", () => light(key));
  row.addEventListener("pointerleave", () => light(null));
  row.addEventListener("focusin", () => light(key));
}

/** A name that can be walked to, and the id where it is not the name itself. */
export function nameLine(walk: HTMLElement, id: Id, name: string): HTMLElement {
  return h(
    "div",
    { class: "called" },
    typeMark(typeOf(id)),
    walk,
    name !== String(id) && name !== spelled(id) && h("span", { class: "small id" }, String(id)),
  );
}

export function scoreOf(score: number): HTMLElement {
  return h("span", { class: "small number" }, h("span", { class: "word" }, "score "), scoreText(score));
}

export class PredictionRow {
  readonly element: HTMLLIElement;
  readonly key: string;
  private readonly walkButton: HTMLButtonElement;
  private readonly whyButton: HTMLButtonElement;
  private readonly place: HTMLElement;
  private readonly relation: RelationFacts | null;

  constructor(
    private readonly source: Id,
    readonly prediction: Recommendation,
    private readonly events: RowEvents,
    { readOnly, relation }: { readOnly: boolean; relation: RelationFacts | null },
  ) {
    this.relation = relation;
    const { target, score, probability, rank } = prediction;
    const name = nameFor(target);
    this.key = keyOf(target);
    const id = `why-${rank}`;
    this.walkButton = walkButton(target, name, events.walk);
    this.whyButton = h(
      "button",
      { type: "button", class: "textual", "aria-expanded": "false", "aria-controls": id, onclick: () => this.toggle() },
      h("span", {}, "Why", h("span", { class: "unseen" }, ` ${name}`)),
      icon("more"),
    );
    this.place = h("div", { id, hidden: true });
    this.element = h(
      "li",
      { class: "row prediction", "data-key": this.key },
      h("span", { class: "rank" }, h("span", { class: "unseen" }, "Rank "), String(rank)),
      h(
        "div",
        { class: "what" },
        nameLine(this.walkButton, target, name),
        h("div", { class: "under" }, chanceOf(probability), scoreOf(score), this.whyButton),
      ),
      readOnly ? null : h("div", { class: "verdicts" }, this.verdict("accept", name), this.verdict("reject", name)),
      this.place,
    );
    lightWith(this.element, this.key, events.light);
  }

  focus(): void {
    this.walkButton.focus();
    this.element.scrollIntoView({ block: "nearest" });
  }

  /** Opens or closes the explanation; it is asked for when first opened. */
  toggle(): void {
    const open = this.place.hidden;
    if (open && this.place.childElementCount === 0) this.place.append(whyOf(this.source, this.prediction.target, this.relation));
    this.place.hidden = !open;
    this.whyButton.setAttribute("aria-expanded", String(open));
  }

  judge(verdict: Verdict): void {
    for (const button of this.element.querySelectorAll<HTMLButtonElement>(".verdicts button")) button.disabled = true;
    this.element.classList.add("busy");
    this.events.judge(verdict, this.prediction);
  }

  private verdict(verdict: Verdict, name: string): HTMLButtonElement {
    const [label, key] =
      verdict === "accept" ? [`Accept the link to ${name}`, "a"] : [`Reject the link to ${name}`, "r"];
    return h(
      "button",
      {
        type: "button",
        class: `verdict ${verdict}`,
        title: `${label} (${key})`,
        "aria-label": label,
        "aria-keyshortcuts": key,
        onclick: () => this.judge(verdict),
      },
      icon(verdict),
    );
  }
}
