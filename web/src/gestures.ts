/** Pointers and wheel on a drawing: pan, pinch, click and hover. */

import type { Viewport } from "./viewport";

export interface Gestures {
  moved: () => void; // the viewport changed
  hovered: (x: number, y: number) => void;
  left: () => void;
  clicked: (x: number, y: number) => void;
}

const SLIP = 5; // pixels that a click may move

interface Touch {
  x: number;
  y: number;
}

/** Lets pointers move a viewport. `plainWheel`: the wheel zooms by itself, not only with ctrl (or a pinch). */
export function followPointers(
  surface: HTMLElement,
  viewport: Viewport,
  gestures: Gestures,
  { plainWheel }: { plainWheel: boolean },
): void {
  const down = new Map<number, Touch>();
  let travelled = 0;

  const place = (event: PointerEvent | WheelEvent): Touch => {
    const frame = surface.getBoundingClientRect();
    return { x: event.clientX - frame.left, y: event.clientY - frame.top };
  };

  const dragged = (event: PointerEvent, before: Touch, now: Touch): void => {
    const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
    if (other === undefined) viewport.pan(now.x - before.x, now.y - before.y);
    else {
      const apart = (a: Touch): number => Math.max(1, Math.hypot(a.x - other.x, a.y - other.y));
      viewport.pan((now.x - before.x) / 2, (now.y - before.y) / 2);
      viewport.zoom(apart(now) / apart(before), (now.x + other.x) / 2, (now.y + other.y) / 2);
    }
    gestures.moved();
  };

  surface.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    if (down.size === 0) travelled = 0;
    down.set(event.pointerId, place(event));
    surface.setPointerCapture(event.pointerId);
  });
  surface.addEventListener("pointermove", (event) => {
    const now = place(event);
    const before = down.get(event.pointerId);
    if (before === undefined) return gestures.hovered(now.x, now.y);
    travelled += Math.hypot(now.x - before.x, now.y - before.y);
    if (travelled > SLIP) dragged(event, before, now);
    down.set(event.pointerId, now);
  });
  const released = (event: PointerEvent): void => {
    const last = down.get(event.pointerId);
    down.delete(event.pointerId);
    if (last !== undefined && event.type === "pointerup" && travelled <= SLIP) gestures.clicked(last.x, last.y);
  };
  surface.addEventListener("pointerup", released);
  surface.addEventListener("pointercancel", released);
  surface.addEventListener("pointerleave", gestures.left);
  surface.addEventListener(
    "wheel",
    (event) => {
      if (!plainWheel && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const { x, y } = place(event);
      const lines = event.deltaMode === 1 ? 16 : 1;
      viewport.zoom(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.002)), x, y);
      gestures.moved();
    },
    { passive: false },
  );
}
