/** The page: its views, its address and its keys. */

import { api } from "./api";
import { byId, h } from "./dom";
import { ExplorerPage, type Traits } from "./explorer_page";
import { showHelp } from "./help";
import { withKey } from "./key_prompt";
import { ModelPage } from "./model_page";
import { SearchBox } from "./search_box";
import { listenToKeys } from "./shortcuts";
import { themeButton } from "./theme";
import { addressOf, DEFAULTS, viewFrom, type View } from "./url_state";
import type { Id } from "./ids";

let view = viewFrom(location.hash);
let lastExplored: View = view.page === "explore" ? view : { page: "explore", node: null, filters: DEFAULTS };
let traits: Promise<Traits> | null = null;

/** What the explorer needs to know of the model, asked for once. */
function modelTraits(): Promise<Traits> {
  traits ??= withKey(() => api.model()).then(
    ({ read_only, model, types, relations }) => ({
      readOnly: read_only === true,
      directed: (relations ?? []).length === 0 && model.directed,
      types: (types ?? []).map(({ name }) => name),
      relations: relations ?? [],
    }),
    (error: unknown) => {
      traits = null;
      throw error;
    },
  );
  return traits;
}

function go(next: View, { replace = false } = {}): void {
  const address = addressOf(next);
  if (replace) history.replaceState(null, "", address);
  else if (address !== location.hash) history.pushState(null, "", address);
  show();
}

function walk(node: Id): void {
  const filters = lastExplored.page === "explore" ? { ...lastExplored.filters, text: "" } : DEFAULTS;
  go({ page: "explore", node, filters });
  scrollTo({ top: 0 });
}

const explorer = new ExplorerPage({
  walk,
  filter: (filters) => {
    if (view.page === "explore") go({ ...view, filters }, { replace: true });
  },
  title: (name) => (document.title = name === null ? "yinyan" : `${name} – yinyan`),
  traits: modelTraits,
});
const model = new ModelPage({
  walk,
  highlight: (text) => {
    if (view.page === "model") go({ ...view, highlight: text }, { replace: true });
  },
  relation: (name) => {
    if (view.page === "model") go({ ...view, relation: name }, { replace: true });
  },
});
const search = new SearchBox(walk);

function show(): void {
  const before = view.page;
  view = viewFrom(location.hash);
  if (view.page === "explore") lastExplored = view;
  const page = view.page === "explore" ? explorer : model;
  if (page.element.parentElement === null) byId("content").replaceChildren(page.element);
  document.body.dataset["page"] = view.page;
  for (const name of ["explore", "model"]) {
    if (name === view.page) byId(`go-${name}`).setAttribute("aria-current", "page");
    else byId(`go-${name}`).removeAttribute("aria-current");
  }
  byId("go-explore").setAttribute("href", addressOf(lastExplored));
  if (view.page === "explore") void explorer.show(view.node, view.filters);
  else {
    document.title = "Model – yinyan";
    void model.show(view.highlight, view.relation);
  }
  if (before !== view.page) scrollTo({ top: 0 });
}

byId("search-place").append(search.element);
byId("tools").append(
  themeButton(),
  h(
    "button",
    { type: "button", class: "quiet", id: "help", "aria-label": "Keys", title: "Keys (?)", onclick: showHelp },
    "?",
  ),
);
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault(); // the part after # names a view, not a place of the page
  byId("content").focus();
});
addEventListener("hashchange", show);
listenToKeys({
  "/": () => search.focus(),
  "?": showHelp,
  j: () => explorer.list.step(1),
  k: () => explorer.list.step(-1),
  w: () => explorer.list.explain(),
  a: () => explorer.list.judge("accept"),
  r: () => explorer.list.judge("reject"),
  u: () => void explorer.judgements.undo(),
  f: () => explorer.graph.fit(),
  "+": () => explorer.graph.zoom(1.3),
  "=": () => explorer.graph.zoom(1.3),
  "-": () => explorer.graph.zoom(1 / 1.3),
  e: () => go(lastExplored),
  m: () => go({ page: "model", highlight: "", relation: "" }),
});
show();
