/** Asking for the service's key, once at a time, when it refuses without one. */

import { apiKey, Problem } from "./api";
import { byId, h } from "./dom";

let asking: Promise<boolean> | null = null;

function prompt(detail: string): Promise<boolean> {
  return new Promise((resolve) => {
    const input = h("input", { type: "password", id: "key", name: "key", autocomplete: "off", required: true });
    const dialog = h("dialog", { class: "panel", "aria-labelledby": "key-title" });
    let given = false;
    const submit = (event: Event): void => {
      event.preventDefault();
      apiKey.keep(input.value.trim());
      given = true;
      dialog.close();
    };
    dialog.append(
      h("h2", { id: "key-title" }, "This service asks for a key"),
      h("p", { class: "small" }, detail),
      h(
        "form",
        { onsubmit: submit },
        h("label", { for: "key" }, "API key"),
        input,
        h("p", { class: "small" }, "It is kept until this tab is closed."),
        h(
          "div",
          { class: "buttons" },
          h("button", { type: "submit", class: "primary" }, "Continue"),
          h("button", { type: "button", onclick: () => dialog.close() }, "Not now"),
        ),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(given);
    });
    byId("dialogs").append(dialog);
    dialog.showModal();
    input.focus();
  });
}

/** Runs a question; where it needs a key, asks for one and runs it again. */
export async function withKey<T>(question: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await question();
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 401) throw error;
      asking ??= prompt(error.detail).finally(() => (asking = null));
      if (!(await asking)) throw error;
    }
  }
}
