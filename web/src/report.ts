/** A report: the model page with its data beside it in the file. */

import type { ModelInfo } from "./contract";
import { byId, h } from "./dom";
import { EmbeddingMap } from "./embedding_map";
import { parseExact } from "./exact_json";
import { modelSections } from "./model_sections";
import { themeButton } from "./theme";

const content = parseExact(byId("report-data").textContent ?? "") as ModelInfo;
const mapPlace = h("div", { class: "map-place" });
byId("content").replaceChildren(h("div", { class: "model" }, ...modelSections(content, mapPlace)));
if (content.map !== undefined) mapPlace.append(new EmbeddingMap(content.map, {}).element);
byId("tools").append(themeButton(), h("button", { type: "button", onclick: () => print() }, "Print"));
