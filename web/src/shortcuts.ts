/** Single keys of the page. */

import { keysAreOn } from "./help";

/** Calls what a key stands for, unless it is being typed, or keys are off. */
export function listenToKeys(actions: Record<string, () => void>): void {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || !keysAreOn()) return;
    const target = event.target as HTMLElement;
    const typing = target.matches("input:not([type=range]):not([type=checkbox]), textarea, select");
    if (typing || document.querySelector("dialog[open]") !== null) return;
    const action = actions[event.key];
    if (action === undefined) return;
    event.preventDefault();
    action();
  });
}
