/** The list of a node's edges, each with its score. */

import type { NodeInfo, Scored } from "./contract";
import { h } from "./dom";
import { keyOf, typeOf, type Id } from "./ids";
import { isInward } from "./loading";
import { nameFor } from "./names";
import { lightWith, nameLine, scoreOf, surenessOf, walkButton, type RowEvents } from "./prediction_row";
import { counted } from "./scales";
import { edgeKey } from "./scene";

export interface LinksContent {
  shown: NodeInfo[];
  complete: boolean;
  degree: number;
  scores: ReadonlyMap<string, Scored>;
  centre: Id;
}

export class LinksList {
  readonly element = h("section", { class: "links", "aria-labelledby": "links-title" });

  constructor(
    private readonly events: Pick<RowEvents, "walk" | "light">,
    private readonly more: () => void,
  ) {}

  show({ shown, complete, degree, scores, centre }: LinksContent): void {
    const rows = shown.map((node) => this.row(node, scores.get(edgeKey(node.id, node.relation)) ?? null, centre));
    const nothing = degree === 0 ? "This node has no edge yet." : "The filters hide all edges.";
    this.element.replaceChildren(
      h("h2", { id: "links-title" }, "Edges ", h("span", { class: "count" }, degree.toLocaleString("en"))),
      rows.length > 0 ? h("ul", { class: "rows" }, ...rows) : h("p", { class: "small" }, nothing),
      ...(!complete
        ? [h("button", { type: "button", onclick: this.more }, `Show more of ${counted(degree, "edge")}`)]
        : []),
    );
  }

  light(key: string | null): void {
    for (const row of this.element.querySelectorAll("li")) row.classList.toggle("lit", row.dataset["key"] === key);
  }

  private row(node: NodeInfo, scored: Scored | null, centre: Id): HTMLLIElement {
    const key = keyOf(node.id);
    const name = nameFor(node.id);
    const walk = walkButton(node.id, name, this.events.walk);
    const within = typeOf(node.id) === typeOf(centre); // between two types the relation says which way it goes
    const inward = scored !== null && within && isInward(scored, centre);
    const relation = node.relation !== undefined && h("span", { class: "tag" }, node.relation);
    const under =
      (scored !== null || relation) &&
      h(
        "div",
        { class: "under" },
        scored && surenessOf(scored.probability),
        scored && scoreOf(scored.score),
        relation,
        inward && h("span", { class: "tag" }, "edge to this node"),
      );
    const row = h(
      "li",
      { class: "row", "data-key": key },
      h("div", { class: "what" }, nameLine(walk, node.id, name), under),
    );
    lightWith(row, key, this.events.light);
    return row;
  }
}
