/** One request of the API: its form, an example to send, and what came back. */

import { announce } from "./announce";
import { apiKey, Problem, sendText } from "./api";
import { h } from "./dom";
import { withKey } from "./key_prompt";
import * as openapi from "./openapi";
import type { Id } from "./ids";

const MOST = 100_000; // characters of an answer that are shown

export class OperationCard {
  readonly element: HTMLDetailsElement;
  private readonly inputs = new Map<string, HTMLInputElement>();
  private readonly body: HTMLTextAreaElement | null;
  private readonly outcome = h("div", { class: "outcome" });
  private readonly command = h("pre", { class: "code", tabindex: "0" });

  constructor(
    private readonly document: openapi.Document,
    private readonly route: openapi.Route,
    ids: readonly Id[],
  ) {
    const { operation, name, method, path } = route;
    const schema = openapi.bodySchema(operation.requestBody);
    this.body =
      schema &&
      h("textarea", { id: `${name}-body`, rows: 5, spellcheck: "false", class: "code", oninput: () => this.showCommand() });
    if (this.body !== null && schema !== null) {
      this.body.value = openapi.exampleBody(document, schema, ids);
      this.body.rows = Math.min(14, this.body.value.split("\n").length + 1);
    }
    this.element = h(
      "details",
      { class: "operation", id: name },
      h(
        "summary",
        {},
        h("span", { class: `method ${method.toLowerCase()}` }, method),
        h("code", {}, path.replace(":path", "")),
        h("span", { class: "small" }, operation.description ?? operation.summary ?? ""),
      ),
      h("div", { class: "inside" }, this.request(ids), this.form(schema)),
    );
    this.showCommand();
  }

  /** The parameters and the body, to be changed and sent. */
  private request(ids: readonly Id[]): HTMLElement {
    const { operation, name } = this.route;
    const fields = (operation.parameters ?? []).filter((parameter) => parameter.in !== "header");
    const rows = fields.map((parameter) => {
      const id = `${name}-${parameter.name}`;
      const first = parameter.in === "path" ? String(ids[0] ?? "p1") : "";
      const preset = parameter.schema?.default;
      const input = h("input", {
        id,
        type: "text",
        autocomplete: "off",
        value: first,
        placeholder: preset === undefined || preset === "" ? "" : `default: ${String(preset)}`,
        oninput: () => this.showCommand(),
      });
      this.inputs.set(parameter.name, input);
      const kind = parameter.schema === undefined ? "" : openapi.kindOfSchema(this.document, parameter.schema);
      const words = [kind, parameter.description ?? parameter.schema?.description ?? ""].filter((text) => text);
      return h("div", { class: "parameter" }, h("label", { for: id }, parameter.name), input, h("span", { class: "small" }, words.join(", ")));
    });
    const words = openapi.isChange(this.route) ? "Send, and change the graph" : "Send";
    const send = h("button", { type: "submit", class: "primary" }, words);
    const submit = (event: Event): void => {
      event.preventDefault();
      void this.send(send);
    };
    return h(
      "form",
      { class: "try", onsubmit: submit },
      ...rows,
      this.body && h("label", { for: this.body.id }, "Body (JSON)"),
      this.body,
      h("div", { class: "buttons" }, send),
      this.outcome,
      h("details", { class: "shell" }, h("summary", { class: "small" }, "The same request in a shell"), this.command),
    );
  }

  /** What the body may hold, what the answer holds, and what else may be answered. */
  private form(schema: openapi.Schema | null): HTMLElement {
    const { responses } = this.route.operation;
    const answer = openapi.bodySchema(responses["200"]);
    const refusals = Object.entries(responses).filter(([status]) => status !== "200");
    const rows = refusals.map(([status, { description }]) =>
      h("div", {}, h("dt", {}, status), h("dd", {}, description ?? "")),
    );
    return h(
      "div",
      { class: "form" },
      schema && this.members("Body", schema, true),
      answer && this.members("Answer", answer, false),
      refusals.length > 0 && h("div", {}, h("h3", {}, "Refusals"), h("dl", { class: "refusals" }, ...rows)),
    );
  }

  private members(title: string, schema: openapi.Schema, isBody: boolean): HTMLElement | null {
    const members = openapi.membersOf(this.document, schema);
    if (members.length === 0) return null;
    const rows = members.map(({ depth, name, kind, required, words }) =>
      h(
        "li",
        { class: `depth-${depth}` },
        h("code", {}, name),
        h("span", { class: "kind" }, kind + (isBody && required ? ", required" : "")),
        words !== "" && h("span", { class: "small" }, words),
      ),
    );
    return h("div", {}, h("h3", {}, title), h("ul", { class: "members" }, ...rows));
  }

  private address(): string {
    const values = Object.fromEntries([...this.inputs].map(([name, input]) => [name, input.value]));
    return openapi.addressOfRequest(this.route, values);
  }

  private showCommand(): void {
    const address = new URL(this.address(), new URL(".", location.href)).href;
    this.command.textContent = openapi.asCurl(this.route, address, this.body?.value ?? null, apiKey.read() !== null);
  }

  private async send(button: HTMLButtonElement): Promise<void> {
    button.disabled = true;
    this.outcome.replaceChildren();
    const begun = performance.now();
    try {
      const response = await withKey(async () => {
        const found = await sendText(this.route.method, this.address(), this.body?.value);
        if (found.status === 401) throw new Problem(401, "Unauthorized", "This service asks for an API key.");
        return found;
      });
      const text = await response.text();
      this.show(`${response.status} ${response.statusText}`, response.ok, text, performance.now() - begun);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.show(error.title, false, error.detail, performance.now() - begun);
    } finally {
      button.disabled = false;
      this.showCommand(); // a key may have been given
    }
  }

  private show(status: string, ok: boolean, text: string, milliseconds: number): void {
    const shown = openapi.indented(text);
    const cut = shown.length > MOST ? `${shown.slice(0, MOST)}\n… ${shown.length - MOST} more characters` : shown;
    this.outcome.replaceChildren(
      h(
        "p",
        { class: "small" },
        h("strong", { class: ok ? "good" : "bad" }, status),
        ` in ${milliseconds.toFixed(0)} ms`,
      ),
      h("pre", { class: "code", tabindex: "0", "aria-label": "Answer" }, cut),
    );
    announce(`Answer: ${status}`);
  }
}
