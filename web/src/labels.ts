/** Which names of a drawing can be read: the important first, none over another or over a node. */

export interface Wish {
  text: string;
  x: number; // the middle of the label, on the screen
  ys: readonly number[]; // where its middle may stand, best first
  weight: number; // the heavier goes first
  certain: boolean; // shown whatever it covers
}

export interface Label extends Wish {
  y: number;
}

export interface Frame {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

const HEIGHT = 16;

export function overlap(a: Frame, b: Frame): boolean {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

/** The middle of a label: moved into the drawing, if what it names is in it. */
function within(x: number, half: number, width: number): number {
  return x < 0 || x > width ? x : Math.max(half, Math.min(width - half, x));
}

/** Those wishes that are granted in a drawing of some width, in the order of their weight. */
export function placedLabels(
  wishes: readonly Wish[],
  widthOf: (text: string) => number,
  width: number,
  obstacles: readonly Frame[] = [],
): Label[] {
  const taken = [...obstacles];
  const granted: Label[] = [];
  for (const wish of [...wishes].sort((a, b) => b.weight - a.weight)) {
    const half = widthOf(wish.text) / 2 + 3;
    const x = within(wish.x, half, width);
    const frames = wish.ys.map((y) => ({
      left: x - half,
      right: x + half,
      top: y - HEIGHT / 2,
      bottom: y + HEIGHT / 2,
    }));
    const free = frames.findIndex((frame) => !taken.some((other) => overlap(frame, other)));
    const choice = free < 0 && wish.certain ? 0 : free;
    const [frame, y] = [frames[choice], wish.ys[choice]];
    if (frame === undefined || y === undefined) continue;
    taken.push(frame);
    granted.push({ ...wish, x, y });
  }
  return granted;
}

export function shortened(text: string, most = 26): string {
  const letters = [...text];
  return letters.length <= most
    ? text
    : `${letters
        .slice(0, most - 1)
        .join("")
        .trimEnd()}…`;
}
