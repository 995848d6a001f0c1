/** Why a pair scores as it does: its neighbours and how far each moved the score. */

import { api } from "./api";
import type { Contribution, Explanation, RelationFacts } from "./contract";
import { h } from "./dom";
import { keyOf, sameId, type Id } from "./ids";
import { pairOf } from "./relations";
import { withKey } from "./key_prompt";
import { nameFor, remember } from "./names";
import { counted, scoreText, signed } from "./scales";
import { failure, loading } from "./states";
import { shareInWords } from "./sure";

const SHOWN = 6;
const NOTICED = 0.005; // of what the explanation could not assign

export interface Share {
  neighbour: Id | null; // null: all nodes together
  of: "this node" | "the other" | "both";
  attracts: boolean;
  amount: number;
  relation: string | null; // of the edge, in a graph with relations
}

/** What each neighbour did, whichever end it belongs to: a common neighbour is one, with the sum of both its amounts. */
export function sharesOf(contributions: readonly Contribution[], source: Id): Share[] {
  const shares = new Map<string, Share>();
  for (const { end, neighbour, kind, amount, relation = null } of contributions) {
    const attracts = kind !== "repels";
    const key = `${attracts} ${relation ?? ""} ${neighbour === null ? "" : keyOf(neighbour)}`;
    const of = sameId(end, source) ? "this node" : "the other";
    const before = shares.get(key);
    if (before === undefined) shares.set(key, { neighbour, of, attracts, amount, relation });
    else shares.set(key, { ...before, of: before.of === of ? of : "both", amount: before.amount + amount });
  }
  return [...shares.values()];
}

/** The largest shares, the sum of the rest, and how many these are. */
export function largest(shares: readonly Share[], count = SHOWN): [Share[], number, number] {
  const ordered = [...shares].sort((a, b) => Math.abs(b.amount) - Math.abs(a.amount));
  const rest = ordered.slice(count);
  return [ordered.slice(0, count), rest.reduce((sum, { amount }) => sum + amount, 0), rest.length];
}

function bar(amount: number, greatest: number): HTMLElement {
  const fill = h("span", { class: amount < 0 ? "lowers" : "raises" });
  fill.style.width = `${greatest === 0 ? 0 : (50 * Math.abs(amount)) / greatest}%`;
  return h("span", { class: "balance", "aria-hidden": "true" }, fill);
}

function row(name: string, role: string, amount: number, greatest: number): HTMLElement {
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, h("span", { class: "name" }, name), h("span", { class: "small" }, role)),
    h("td", {}, bar(amount, greatest)),
    h("td", { class: "number" }, signed(amount)),
  );
}

function roleOf({ neighbour, of, attracts, relation }: Share): string {
  if (neighbour === null) return `pushed away from ${of}`;
  const kind = relation === null ? "edge" : `edge '${relation}'`;
  return `${attracts ? kind : "negative"} of ${of}`;
}

function explained(explanation: Explanation, node: Id): HTMLElement {
  const { score, score_alone, contributions, base_rate, residue, shared } = explanation;
  const [shown, rest, count] = largest(sharesOf(contributions, node));
  const greatest = Math.max(Math.abs(rest), ...shown.map(({ amount }) => Math.abs(amount)), 0);
  const body = shown.map((one) =>
    row(one.neighbour === null ? "All other nodes" : nameFor(one.neighbour), roleOf(one), one.amount, greatest),
  );
  if (count > 0) body.push(row(counted(count, "smaller one"), "together", rest, greatest));
  if (Math.abs(shared) >= NOTICED) body.push(row("Both ends", "shared neighbours, counted exactly", shared, greatest));
  if (Math.abs(residue) >= NOTICED) body.push(row("Not assigned", "left over by the computation", residue, greatest));
  const rate = base_rate === null ? "" : ` Its probability holds at a base rate of ${shareInWords(base_rate)}.`;
  return h(
    "div",
    { class: "why" },
    h(
      "p",
      {},
      "The score is ",
      h("strong", {}, scoreText(score)),
      ". Without any neighbour it would be ",
      h("strong", {}, scoreText(score_alone)),
      body.length === 0 ? "." : "; this is what moved it.",
      rate,
    ),
    body.length > 0 &&
      h("table", { "aria-label": "Neighbours and how far each moved the score" }, h("tbody", {}, ...body)),
  );
}

/** An element that fetches its explanation and shows it. */
export function whyOf(source: Id, target: Id, relation: RelationFacts | null = null): HTMLElement {
  const place = h("div", { class: "why-place" });
  const load = async (): Promise<void> => {
    place.replaceChildren(loading("the explanation", 3));
    try {
      const explanation = await withKey(() =>
        api.explain(pairOf(relation, source, target), undefined, relation?.name),
      );
      remember(explanation.contributions.flatMap(({ neighbour: id, label }) => (id === null ? [] : [{ id, label: label ?? null }])));
      place.replaceChildren(explained(explanation, source));
    } catch (error) {
      place.replaceChildren(failure(error, () => void load(), "h3"));
    }
  };
  void load();
  return place;
}
