/** A search box with suggestions: an ARIA combobox over the service's search. */

import { api, Problem } from "./api";
import { nameOf, type NodeInfo } from "./contract";
import { h } from "./dom";
import { icon } from "./icons";
import { kindOf, typeOf, type Id } from "./ids";
import { withKey } from "./key_prompt";
import { counted } from "./scales";
import { typeMark } from "./shapes";
import { isWithdrawn } from "./states";

const LIMIT = 12;
const PAUSE = 120; // ms without a key before the service is asked

export class SearchBox {
  readonly element: HTMLElement;
  private readonly input: HTMLInputElement;
  private readonly list: HTMLUListElement;
  private found: NodeInfo[] = [];
  private active = -1;
  private timer = 0;
  private stale = false; // the suggestions are of an earlier text
  private question: AbortController | null = null;

  constructor(private readonly choose: (id: Id) => void) {
    this.input = h("input", {
      type: "text",
      id: "search",
      role: "combobox",
      placeholder: "Search a node",
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
      "aria-label": "Search a node by its name or id",
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": "suggestions",
      "aria-keyshortcuts": "/",
    });
    this.list = h("ul", { id: "suggestions", role: "listbox", "aria-label": "Suggestions", hidden: true });
    const hint = h("kbd", { "aria-hidden": "true" }, "/");
    this.element = h("div", { class: "search", role: "search" }, icon("search"), this.input, hint, this.list);
    this.input.addEventListener("input", () => {
      this.stale = this.input.value.trim() !== "";
      this.later();
    });
    this.input.addEventListener("focus", () => this.later(0));
    this.input.addEventListener("keydown", (event) => this.pressed(event));
    this.input.addEventListener("blur", () => this.close());
  }

  focus(): void {
    this.input.focus();
    this.input.select();
  }

  private later(pause = PAUSE): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.ask(), pause);
  }

  private async ask(): Promise<void> {
    clearTimeout(this.timer);
    this.question?.abort();
    const question = (this.question = new AbortController());
    const text = this.input.value.trim();
    try {
      const { nodes } = await withKey(() => api.search(text, LIMIT, question.signal));
      if (question.signal.aborted || document.activeElement !== this.input) return;
      this.found = nodes;
      this.stale = false;
      this.show(nodes.length === 0 ? `Nothing is named like “${text}”.` : null);
    } catch (error) {
      if (isWithdrawn(error)) return;
      this.found = [];
      this.show(error instanceof Problem ? error.detail : String(error));
    }
  }

  private show(message: string | null): void {
    this.list.replaceChildren(
      ...this.found.map((node, i) => this.option(node, i)),
      ...(message === null ? [] : [h("li", { class: "message", role: "option", "aria-disabled": "true" }, message)]),
    );
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.mark(this.found.length > 0 && this.input.value.trim() !== "" ? 0 : -1);
  }

  private option(node: NodeInfo, place: number): HTMLLIElement {
    const name = nameOf(node);
    const id = name === String(node.id) ? null : h("span", { class: "id" }, String(node.id));
    const kind = kindOf(node.id) === "integer" && this.isTwin(node) ? h("span", { class: "tag" }, "number") : null;
    const option = h(
      "li",
      { role: "option", id: `suggestion-${place}`, "aria-selected": "false" },
      typeMark(typeOf(node.id)),
      h("span", { class: "name" }, name),
      id,
      kind,
      typeOf(node.id) !== null && h("span", { class: "tag" }, typeOf(node.id)),
      h("span", { class: "small" }, counted(node.degree, "edge")),
    );
    option.addEventListener("pointerdown", (event) => {
      event.preventDefault(); // keeps the focus, so that blur does not close the list before the click
    });
    option.addEventListener("click", () => this.take(place));
    return option;
  }

  /** Whether another suggestion looks the same: 7 beside "7". */
  private isTwin(node: NodeInfo): boolean {
    return this.found.some(
      (other) => other !== node && String(other.id) === String(node.id) && typeOf(other.id) === typeOf(node.id),
    );
  }

  private mark(place: number): void {
    this.active = place;
    [...this.list.children].forEach((option, i) => option.setAttribute("aria-selected", String(i === place)));
    if (place < 0) this.input.removeAttribute("aria-activedescendant");
    else {
      this.input.setAttribute("aria-activedescendant", `suggestion-${place}`);
      this.list.children[place]?.scrollIntoView({ block: "nearest" });
    }
  }

  private pressed(event: KeyboardEvent): void {
    const count = this.found.length;
    const open = !this.list.hidden;
    if (event.key === "ArrowDown" && !open) this.later(0);
    else if (event.key === "ArrowDown" && count > 0) this.mark((this.active + 1) % count);
    else if (event.key === "ArrowUp" && count > 0) this.mark(this.active <= 0 ? count - 1 : this.active - 1);
    else if (event.key === "Enter" && this.stale) void this.ask().then(() => this.take(0));
    else if (event.key === "Enter" && open && this.active >= 0) this.take(this.active);
    else if (event.key === "Escape" && open) this.close();
    else if (event.key === "Escape") {
      this.input.value = "";
      this.input.blur();
    } else return;
    event.preventDefault();
  }

  private take(place: number): void {
    const node = this.found[place];
    if (node === undefined) return;
    this.input.value = "";
    this.input.blur();
    this.choose(node.id);
  }

  private close(): void {
    clearTimeout(this.timer);
    this.question?.abort();
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }
}
