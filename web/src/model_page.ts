/** The model page of a service: asked for, and kept while it is the same. */

import { api } from "./api";
import { h } from "./dom";
import { EmbeddingMap, type MapEvents } from "./embedding_map";
import { withKey } from "./key_prompt";
import { modelSections } from "./model_sections";
import { setTypes } from "./shapes";
import { failure, isWithdrawn, loading } from "./states";

const POINTS = 20_000;

export interface ModelEvents extends MapEvents {
  relation: (name: string) => void;
}

export class ModelPage {
  readonly element = h("div", { class: "model" });
  private readonly mapPlace = h("div", { class: "map-place" });
  private map: EmbeddingMap | null = null;
  private highlight = "";
  private relation = "";
  private question = new AbortController();

  constructor(private readonly events: ModelEvents) {}

  async show(highlight: string, relation: string): Promise<void> {
    if (relation === this.relation && this.map !== null && this.element.contains(this.map.element) && highlight !== this.highlight) {
      this.highlight = highlight;
      return this.map.seek(highlight);
    }
    this.highlight = highlight;
    this.relation = relation;
    this.question.abort();
    const { signal } = (this.question = new AbortController());
    if (this.element.childElementCount === 0) this.element.replaceChildren(loading("the model", 8));
    try {
      const model = await withKey(() => api.model(signal, relation === "" ? null : relation));
      setTypes((model.types ?? []).map(({ name }) => name));
      this.element.replaceChildren(...modelSections(model, this.mapPlace, this.events.relation));
      await this.showMap(model.live?.["version"], signal);
    } catch (error) {
      if (!isWithdrawn(error)) this.element.replaceChildren(failure(error, () => void this.show(highlight, relation)));
    }
  }

  /** The map of this version of the graph; one that is there already is kept. */
  private async showMap(version: unknown, signal: AbortSignal): Promise<void> {
    if (this.map?.version === version) return this.map?.seek(this.highlight);
    if (this.map === null) this.mapPlace.replaceChildren(loading("the map", 3));
    try {
      const map = await withKey(() => api.map(POINTS, signal));
      if (map.ids.length === 0) {
        this.mapPlace.replaceChildren(h("p", {}, "There is nothing to draw: this graph has no nodes yet."));
        return;
      }
      this.map = new EmbeddingMap(map, this.events);
      this.mapPlace.replaceChildren(this.map.element);
      this.map.seek(this.highlight);
    } catch (error) {
      if (!isWithdrawn(error))
        this.mapPlace.replaceChildren(failure(error, () => void this.showMap(version, signal), "h3"));
    }
  }
}
