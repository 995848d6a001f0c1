/** The explorer: a node's neighbourhood drawn, and its links and predictions in lists. */

import { announce, note } from "./announce";
import type { RelationFacts } from "./contract";
import { h } from "./dom";
import { passingLinks, passingPredictions, textFilter } from "./filtering";
import { FiltersBar } from "./filters_bar";
import { GraphView } from "./graph_view";
import { sameId, typeOf, type Id } from "./ids";
import { Judgements, type Verdict } from "./judgements";
import { shortened } from "./labels";
import { legend } from "./legend";
import { LinksList } from "./links_list";
import { loadMore, loadNode, loadScores, type Loaded } from "./loading";
import { nameFor } from "./names";
import { nodeHead } from "./node_head";
import { RankedList } from "./ranked_list";
import { predictedOf } from "./relations";
import { counted, drawAt } from "./scales";
import { sceneOf } from "./scene";
import { setTypes } from "./shapes";
import { failure, isWithdrawn, loading } from "./states";
import { download, tableRows } from "./table_export";
import { DEFAULTS, type Filters } from "./url_state";
import { showWelcome } from "./welcome";

export interface Traits {
  readOnly: boolean;
  directed: boolean;
  types: readonly string[]; // of nodes, and relations between them; empty without relations
  relations: readonly RelationFacts[];
}

export interface ExplorerEvents {
  walk: (id: Id) => void;
  filter: (filters: Filters) => void;
  title: (name: string | null) => void;
  traits: () => Promise<Traits>;
}

export class ExplorerPage {
  readonly element = h("div", { class: "explorer" });
  readonly list: RankedList;
  readonly graph: GraphView;
  readonly judgements = new Judgements(() => this.reload());
  private readonly side = h("div", { class: "side" });
  private readonly place = h("div", { class: "place" });
  private readonly drawing: HTMLElement;
  private readonly bar: FiltersBar;
  private readonly links: LinksList;
  private question = new AbortController();
  private node: Id | null = null;
  private filters: Filters = DEFAULTS;
  private loaded: Loaded | null = null;
  private readOnly = true;

  constructor(private readonly events: ExplorerEvents) {
    const walk = (id: Id): void => events.walk(id);
    const light = (key: string | null): void => this.graph.light(key);
    this.graph = new GraphView({ walk: ({ id }) => walk(id), hover: (key) => this.lightRows(key) });
    this.list = new RankedList({
      walk,
      light,
      judge: (verdict, { target }) => void this.judge(verdict, target),
    });
    this.links = new LinksList({ walk, light }, () => void this.showMore());
    this.bar = new FiltersBar((filters) => events.filter(filters));
    this.drawing = h("section", { class: "drawing", "aria-label": "Drawing" }, this.graph.element, legend());
    this.place.append(this.drawing, this.side);
  }

  /** Shows a node with some filters; what is loaded already is not asked for again. */
  async show(node: Id | null, filters: Filters): Promise<void> {
    const known = node !== null && this.loaded !== null && sameId(node, this.loaded.detail.id);
    const same = (["k", "relation", "edges"] as const).every((name) => filters[name] === this.filters[name]);
    const enough = known && same;
    this.filters = filters;
    this.bar.show(filters);
    if (enough) return this.render();
    this.node = node;
    if (node === null) return this.welcome();
    await this.load(node, { fresh: !known });
  }

  private async welcome(): Promise<void> {
    this.withdraw();
    this.loaded = null;
    this.events.title(null);
    await showWelcome(this.element, this.events.walk, this.question.signal);
  }

  private withdraw(): AbortSignal {
    this.question.abort();
    this.question = new AbortController();
    return this.question.signal;
  }

  /** Asks again for the node that is shown, as after a change. */
  private async reload(): Promise<void> {
    if (this.node !== null) await this.load(this.node, { fresh: false });
  }

  private async load(node: Id, { fresh }: { fresh: boolean }): Promise<void> {
    const signal = this.withdraw();
    if (fresh) {
      if (this.loaded === null) this.side.replaceChildren(loading("the node", 8));
      this.place.setAttribute("aria-busy", "true");
      if (!this.place.isConnected) this.element.replaceChildren(this.place);
    }
    try {
      const { readOnly, directed, types, relations } = await this.events.traits();
      const { k, relation, edges } = this.filters;
      const loaded = await loadNode({ id: node, k, directed, relations, relation, edges }, signal);
      setTypes(types);
      this.drawing.lastElementChild?.replaceWith(legend(types));
      this.loaded = loaded;
      this.readOnly = readOnly;
      this.arrived(fresh);
      await loadScores(loaded, signal);
      this.renderLinks();
      this.draw();
    } catch (error) {
      if (isWithdrawn(error)) return;
      this.loaded = null;
      this.events.title(null);
      this.element.replaceChildren(failure(error, () => void this.load(node, { fresh: true })));
    } finally {
      if (!signal.aborted) this.place.removeAttribute("aria-busy");
    }
  }

  private arrived(fresh: boolean): void {
    if (this.loaded === null) return;
    const { detail, predictions } = this.loaded;
    if (!this.place.isConnected) this.element.replaceChildren(this.place);
    const head = nodeHead(detail, { share: () => void this.share(), save: () => this.save() });
    const focused = this.side.contains(document.activeElement);
    if (fresh || !this.side.contains(this.list.element)) {
      this.side.replaceChildren(head, this.bar.element, this.list.element, this.links.element);
      this.side.scrollTop = 0;
    } else this.side.querySelector(".head")?.replaceWith(head);
    this.events.title(nameFor(detail.id));
    this.render();
    if (!fresh) return;
    if (focused) head.querySelector("h1")?.focus({ preventScroll: true }); // the row that had it is gone
    announce(
      `${nameFor(detail.id)}: ${counted(detail.degree, "edge")}, ${counted(predictions.length, "predicted link")}.`,
    );
  }

  private render(): void {
    if (this.loaded === null) return;
    const { detail, predictions, rate, asked, relations } = this.loaded;
    const shown = passingPredictions(predictions, this.filters, nameFor);
    drawAt(rate.base_rate);
    this.list.element.hidden = !this.filters.predictions;
    this.links.element.hidden = !this.filters.links;
    const of = predictedOf(relations, detail.id);
    this.bar.offer(of, asked, relations);
    this.list.show({
      source: detail.id,
      shown,
      total: predictions.length,
      rate,
      readOnly: this.readOnly,
      relation: asked,
      without: relations.length > 0 && asked === null,
    });
    this.renderLinks();
    this.draw();
  }

  private renderLinks(): void {
    if (this.loaded === null) return;
    const { detail, scores, complete } = this.loaded;
    const shown = passingLinks(detail.neighbours, this.filters, nameFor);
    this.links.show({ shown, complete, degree: detail.degree, scores, centre: detail.id });
  }

  private draw(): void {
    if (this.loaded === null) return;
    const { detail, neighbourhood, predictions, scores } = this.loaded;
    const probabilities = new Map([...scores].map(([key, { probability }]) => [key, probability]));
    const shown = passingPredictions(predictions, { ...this.filters, text: "" }, nameFor);
    const scene = sceneOf({
      centre: detail,
      neighbourhood,
      predictions: shown,
      probabilities,
      links: this.filters.links,
      directed: this.loaded.directed || this.isDirected(),
    });
    const names = new Map(scene.nodes.map(({ key, id, name }) => [key, [name, id] as const]));
    const matches = textFilter(this.filters.text);
    this.graph.filter((key) => {
      const node = names.get(key);
      return key === scene.centre || node === undefined || matches(node[0], node[1]);
    });
    const links = scene.links.filter(({ central, known }) => central && known).length;
    const told = `${nameFor(detail.id)} with ${counted(links, "edge")} and ${counted(shown.length, "prediction")}`;
    this.graph.show(scene, `${told}. The lists hold the same in words.`);
  }

  /** Whether arrows say more than the types of the ends do. */
  private isDirected(): boolean {
    const { relations, detail } = this.loaded!;
    const type = typeOf(detail.id);
    return relations.some(({ directed, source, target }) => directed && source === target && source === type);
  }

  private async judge(verdict: Verdict, target: Id): Promise<void> {
    if (this.loaded === null) return;
    const source = this.loaded.detail.id; // of the rows that are shown, also while another node is on its way
    const names = [source, target].map((id) => shortened(nameFor(id), 40)).join(" – ");
    if (!(await this.judgements.judge(verdict, [source, target], names))) this.render(); // so that it can be tried again
  }

  private lightRows(key: string | null): void {
    this.list.light(key);
    this.links.light(key);
  }

  private async showMore(): Promise<void> {
    if (this.loaded === null) return;
    try {
      await loadMore(this.loaded, this.question.signal);
      this.renderLinks();
    } catch (error) {
      if (!isWithdrawn(error)) note(error instanceof Error ? error.message : String(error));
    }
  }

  private async share(): Promise<void> {
    try {
      await navigator.clipboard.writeText(location.href);
      note("The address of this view is copied.");
    } catch (error) {
      if (!(error instanceof DOMException || error instanceof TypeError)) throw error;
      note(`This browser does not let the page copy: ${location.href}`);
    }
  }

  private save(): void {
    if (this.loaded === null) return;
    const { detail, predictions, scores } = this.loaded;
    const shown = passingPredictions(predictions, this.filters, nameFor);
    const links = passingLinks(detail.neighbours, this.filters, nameFor);
    download(nameFor(detail.id), tableRows(detail.id, shown, links, scores, this.loaded.asked?.name));
    note(`${counted(shown.length + links.length, "line")} exported.`);
  }
}
