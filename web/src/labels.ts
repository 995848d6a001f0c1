/** Which names of a drawing can be read: the important first, none over another. */

export interface Wish {
  text: string;
  x: number; // the middle of the label, on the screen
  y: number;
  weight: number; // the heavier goes first
  certain: boolean; // shown whatever it covers
}

const HEIGHT = 16;

interface Taken {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

/** Those wishes that are granted, in the order of their weight. */
export function placedLabels(wishes: readonly Wish[], widthOf: (text: string) => number): Wish[] {
  const taken: Taken[] = [];
  const granted: Wish[] = [];
  for (const wish of [...wishes].sort((a, b) => b.weight - a.weight)) {
    const half = widthOf(wish.text) / 2 + 3;
    const box = { left: wish.x - half, right: wish.x + half, top: wish.y - HEIGHT / 2, bottom: wish.y + HEIGHT / 2 };
    const free = taken.every(
      (other) =>
        box.right < other.left || box.left > other.right || box.bottom < other.top || box.top > other.bottom,
    );
    if (!free && !wish.certain) continue;
    taken.push(box);
    granted.push(wish);
  }
  return granted;
}

export function shortened(text: string, most = 26): string {
  const letters = [...text];
  return letters.length <= most ? text : `${letters.slice(0, most - 1).join("").trimEnd()}…`;
}
