/** The page of the API: every request that the service answers, with an example to send. */

import { api } from "./api";
import { byId, h } from "./dom";
import { withKey } from "./key_prompt";
import { routesByTag, type Document } from "./openapi";
import { OperationCard } from "./operation_card";
import { failure, loading } from "./states";
import { themeButton } from "./theme";
import type { Id } from "./ids";

const TITLES: Record<string, string> = {
  questions: "Questions about links",
  browsing: "The graph and the model",
  changes: "Changes of the graph",
  state: "State of the service",
};

async function show(): Promise<void> {
  const content = byId("content");
  content.replaceChildren(loading("the API"));
  try {
    const document = await withKey(() => api.openapi());
    const { nodes } = await withKey(() => api.search("", 3));
    content.replaceChildren(page(document, nodes.map(({ id }) => id)));
    openNamed();
  } catch (error) {
    content.replaceChildren(failure(error, () => void show()));
  }
}

function page(document: Document, ids: readonly Id[]): HTMLElement {
  const sections = [...routesByTag(document)].map(([tag, routes]) =>
    h(
      "section",
      { "aria-labelledby": `tag-${tag}` },
      h("h2", { id: `tag-${tag}` }, TITLES[tag] ?? tag),
      ...routes.map((route) => new OperationCard(document, route, ids).element),
    ),
  );
  return h(
    "div",
    { class: "docs" },
    h("h1", {}, `API of this service, version ${document.info.version}`),
    h(
      "p",
      {},
      "Requests and answers are JSON. An example stands in each form, with nodes of this graph: change it and send it. ",
      "Errors are problem details (RFC 9457). The same description for programs is ",
      h("a", { href: "openapi.json" }, "openapi.json"),
      "; in Python there is ",
      h("code", {}, "yinyan.Client"),
      ".",
    ),
    ...sections,
  );
}

/** Opens the request that the address names. */
function openNamed(): void {
  const named = location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null;
  if (named instanceof HTMLDetailsElement) {
    named.open = true;
    named.scrollIntoView();
  }
}

byId("tools").append(themeButton());
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  byId("content").focus();
});
addEventListener("hashchange", openNamed);
void show();
