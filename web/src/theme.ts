/** Light or dark: as the system has it, or as the reader chose. */

import { h } from "./dom";
import { icon } from "./icons";

export interface Palette {
  ink: string;
  muted: string;
  faint: string;
  paper: string;
  likely: string;
  middle: string;
  unlikely: string;
  accent: string;
  point: string;
  types: string[]; // of the types of nodes, in their order
}

export const TYPES = 6; // colours of types

const KEY = "yinyan.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();
let palette: Palette | null = null;

function isDark(): boolean {
  const chosen = document.documentElement.dataset["theme"];
  return chosen === undefined ? system.matches : chosen === "dark";
}

function changed(): void {
  palette = null;
  for (const listener of listeners) listener();
}

/** The style sheet's colours, for what is drawn on canvas. */
export function colours(): Palette {
  if (palette !== null) return palette;
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "muted", "faint", "paper", "likely", "middle", "unlikely", "accent", "point"] as const;
  const valueOf = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  const named = Object.fromEntries(names.map((name) => [name, valueOf(name)]));
  palette = { ...named, types: Array.from({ length: TYPES }, (_, i) => valueOf(`type-${i}`)) } as Palette;
  return palette;
}

export function onThemeChange(listener: () => void): void {
  listeners.add(listener);
}

/** Paper is light. */
function printInLight(): void {
  const root = document.documentElement;
  let screen: string | undefined;
  addEventListener("beforeprint", () => {
    screen = root.dataset["theme"];
    root.dataset["theme"] = "light";
    changed();
  });
  addEventListener("afterprint", () => {
    if (screen === undefined) delete root.dataset["theme"];
    else root.dataset["theme"] = screen;
    changed();
  });
}

/** The browser's memory of choices; null where a page has none, as a file in a sandboxed frame. */
function memory(): Storage | null {
  try {
    return localStorage;
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
    return null;
  }
}

/** Takes up the reader's choice and gives the button that changes it. */
export function themeButton(): HTMLButtonElement {
  const chosen = memory()?.getItem(KEY);
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset["theme"] = chosen;
  const button = h("button", { type: "button", class: "quiet", id: "theme" });
  const show = (): void => {
    const other = isDark() ? "light" : "dark";
    button.replaceChildren(icon(other));
    button.setAttribute("aria-label", `Use the ${other} theme`);
    button.title = `Use the ${other} theme`;
  };
  button.addEventListener("click", () => {
    const other = isDark() ? "light" : "dark";
    document.documentElement.dataset["theme"] = other;
    memory()?.setItem(KEY, other);
    changed();
  });
  system.addEventListener("change", changed);
  printInLight();
  onThemeChange(show);
  show();
  return button;
}

export function wantsStillness(): boolean {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}
