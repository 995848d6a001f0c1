/** The list of predictions, best first, with one current row that keys act on. */

import type { BaseRate, Recommendation, RelationFacts } from "./contract";
import { h } from "./dom";
import type { Id } from "./ids";
import type { Verdict } from "./judgements";
import { PredictionRow, type RowEvents } from "./prediction_row";
import { counted } from "./scales";
import { howSure } from "./sure";

export interface ListContent {
  source: Id;
  shown: Recommendation[];
  total: number;
  rate: BaseRate;
  readOnly: boolean;
  relation: RelationFacts | null; // of the predictions, in a graph with relations
  without: boolean; // no predicted relation joins the node
}

export class RankedList {
  readonly element = h("section", { class: "predictions", "aria-labelledby": "predictions-title" });
  private rows: PredictionRow[] = [];
  private current = -1;

  constructor(private readonly events: RowEvents) {
    this.element.addEventListener("focusin", (event) => {
      const row = (event.target as Element).closest("li");
      this.current = this.rows.findIndex(({ element }) => element === row);
    });
  }

  show({ source, shown, total, rate, readOnly, relation, without }: ListContent): void {
    const hadFocus = this.element.contains(document.activeElement);
    this.rows = shown.map((one) => new PredictionRow(source, one, this.events, { readOnly, relation }));
    const hidden = total - shown.length;
    const title = h(
      "h2",
      { id: "predictions-title" },
      "Predicted links ",
      h("span", { class: "count" }, String(shown.length)),
    );
    const list = h("ol", { class: "rows" }, ...this.rows.map(({ element }) => element));
    const empty = without
      ? "No predicted relation joins nodes of this type."
      : "The model predicts no further link here.";
    const nothing = total === 0 ? empty : "The filters hide all predictions.";
    this.element.replaceChildren(
      title,
      ...(shown.length > 0 ? [h("p", { class: "small sure" }, howSure(rate, shown))] : []),
      shown.length > 0 ? list : h("p", { class: "small" }, nothing),
      ...(hidden > 0 && shown.length > 0
        ? [h("p", { class: "small" }, `${counted(hidden, "prediction")} left out by the filters`)]
        : []),
    );
    // a judged row is gone: the one in its place becomes current
    if (hadFocus && this.rows.length > 0) this.go(Math.max(0, Math.min(this.current, this.rows.length - 1)));
    else if (!hadFocus) this.current = -1;
  }

  /** Moves the current row by some places. */
  step(by: number): void {
    if (this.rows.length === 0) return;
    const next = this.current < 0 ? (by > 0 ? 0 : this.rows.length - 1) : this.current + by;
    this.go(Math.max(0, Math.min(next, this.rows.length - 1)));
  }

  judge(verdict: Verdict): void {
    const row = this.rows[this.current];
    if (row?.element.querySelector(".verdicts button:not(:disabled)")) row.judge(verdict);
  }

  explain(): void {
    this.rows[this.current]?.toggle();
  }

  /** Marks the row of a node that the drawing points at. */
  light(key: string | null): void {
    for (const row of this.rows) row.element.classList.toggle("lit", row.key === key);
  }

  private go(place: number): void {
    this.current = place;
    this.rows[place]?.focus();
  }
}
