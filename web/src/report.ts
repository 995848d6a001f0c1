/** A report: the model page with its data beside it in the file. */

import { typedMap } from "./api";
import type { ModelInfo } from "./contract";
import { byId, h } from "./dom";
import { EmbeddingMap } from "./embedding_map";
import { parseExact } from "./exact_json";
import { modelSections } from "./model_sections";
import { setTypes } from "./shapes";
import { themeButton } from "./theme";

const content = parseExact(byId("report-data").textContent ?? "") as ModelInfo;
const page = h("div", { class: "model" });
setTypes((content.types ?? []).map(({ name }) => name));

/** Shows the page, with relations that of one of them. */
function show(relation: string | null): void {
  const { predicted = content.map?.predicted ?? [], ...own } = content.by_relation?.[relation ?? ""] ?? {};
  const map = content.map === undefined ? undefined : { ...typedMap(content.map), predicted };
  const shown = { ...content, ...own, relation, ...(map === undefined ? {} : { map }) };
  const mapPlace = h("div", { class: "map-place" });
  const choose = content.by_relation === undefined ? undefined : (name: string): void => show(name);
  const focused = document.activeElement?.id ?? "";
  page.replaceChildren(...modelSections(shown, mapPlace, choose));
  if (map !== undefined) mapPlace.append(new EmbeddingMap(map, {}).element);
  if (focused !== "") document.getElementById(focused)?.focus();
}

byId("content").replaceChildren(page);
show(content.relation ?? null);
byId("tools").append(themeButton(), h("button", { type: "button", onclick: () => print() }, "Print"));
