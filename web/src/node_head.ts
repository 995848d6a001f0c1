/** Who stands in the middle: name, id, attributes. */

import type { NodeDetail } from "./contract";
import { nameOf } from "./contract";
import { h } from "./dom";
import { icon } from "./icons";
import { kindOf, typeOf } from "./ids";
import { counted } from "./scales";
import { typeTag } from "./shapes";

const SHOWN = 12;

export function spelledValue(value: unknown): string {
  if (typeof value === "number") return String(Number(value.toPrecision(5))).replace("-", "\u2212");
  if (value === null || value === undefined) return "–";
  if (Array.isArray(value)) return value.map(spelledValue).join(", ");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function attributesOf(attributes: Record<string, unknown>): HTMLElement | null {
  const entries = Object.entries(attributes);
  if (entries.length === 0) return null;
  const facts = entries
    .slice(0, SHOWN)
    .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, spelledValue(value))));
  const more = entries.length - SHOWN;
  return h(
    "details",
    { class: "attributes" },
    h("summary", {}, counted(entries.length, "attribute")),
    h("dl", { class: "facts" }, ...facts),
    more > 0 && h("p", { class: "small" }, `and ${counted(more, "more")}`.replace(/s$/, "")),
  );
}

export interface HeadEvents {
  share: () => void;
  save: () => void;
}

export function nodeHead(detail: NodeDetail, events: HeadEvents): HTMLElement {
  const name = nameOf(detail);
  const type = typeTag(typeOf(detail.id));
  const kind = kindOf(detail.id) === "integer" ? "a number" : "text";
  return h(
    "header",
    { class: "head" },
    h("h1", { tabindex: -1 }, name),
    h(
      "p",
      { class: "small" },
      type,
      `${type === null ? "" : " · "}${counted(detail.degree, "edge")} · id `,
      name !== String(detail.id) && h("strong", {}, String(detail.id)),
      name === String(detail.id) ? `is ${kind}` : ` (${kind})`,
    ),
    attributesOf(detail.attributes ?? {}),
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "button", id: "share", onclick: events.share }, icon("link"), "Copy address"),
      h("button", { type: "button", id: "export", onclick: events.save }, icon("download"), "Export CSV"),
    ),
  );
}
