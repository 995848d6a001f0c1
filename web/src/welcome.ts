/** The explorer before a node is chosen: where one could start. */

import { api } from "./api";
import { nameOf } from "./contract";
import { h } from "./dom";
import { typeOf, type Id } from "./ids";
import { withKey } from "./key_prompt";
import { counted } from "./scales";
import { setTypes, typeTag } from "./shapes";
import { empty, failure, isWithdrawn, loading } from "./states";

const STARTS = 8;

export async function showWelcome(place: HTMLElement, walk: (id: Id) => void, signal: AbortSignal): Promise<void> {
  place.replaceChildren(loading("nodes to start from", 4));
  try {
    const [{ nodes }, model] = await withKey(() => Promise.all([api.search("", STARTS, signal), api.model(signal)]));
    const { num_nodes, num_links } = model.model;
    setTypes((model.types ?? []).map(({ name }) => name));
    const size = `${model.name} · ${counted(num_nodes, "node")} · ${counted(num_links, "edge")}`;
    const starts = nodes.map((node) =>
      h(
        "li",
        {},
        h(
          "button",
          { type: "button", class: "start", onclick: () => walk(node.id) },
          typeTag(typeOf(node.id)),
          h("span", { class: "name" }, nameOf(node)),
          h("span", { class: "small" }, counted(node.degree, "edge")),
        ),
      ),
    );
    place.replaceChildren(
      starts.length === 0
        ? empty("This graph has no nodes", "Add some through the service, and they can be explored here.")
        : empty(
            "Which links are missing?",
            "Search a node, or start from one with many edges. Edges are drawn solid, predicted links dashed; colour and width show their probability.",
            h("p", { class: "small" }, size),
            h("ul", { class: "starts", "aria-label": "Nodes with many edges" }, ...starts),
          ),
    );
  } catch (error) {
    if (isWithdrawn(error)) return;
    place.replaceChildren(failure(error, () => void showWelcome(place, walk, signal)));
  }
}
