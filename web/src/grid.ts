/** Which point is nearest: points sorted into the cells of a grid. */

export class Grid {
  private readonly starts: Uint32Array; // cell c holds members[starts[c] .. starts[c + 1]]
  private readonly members: Uint32Array;
  private readonly side: number;
  private readonly columns: number;
  private readonly rows: number;
  private readonly left: number;
  private readonly top: number;

  /** About two points a cell. */
  constructor(
    private readonly x: Float64Array,
    private readonly y: Float64Array,
  ) {
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let i = 0; i < x.length; i++) {
      left = Math.min(left, x[i]!);
      right = Math.max(right, x[i]!);
      top = Math.min(top, y[i]!);
      bottom = Math.max(bottom, y[i]!);
    }
    const [width, height] = x.length === 0 ? [1, 1] : [right - left || 1, bottom - top || 1];
    this.left = x.length === 0 ? 0 : left;
    this.top = x.length === 0 ? 0 : top;
    this.side = Math.max(Math.sqrt((2 * width * height) / Math.max(1, x.length)), Math.max(width, height) / 1000);
    this.columns = Math.floor(width / this.side) + 1;
    this.rows = Math.floor(height / this.side) + 1;
    this.starts = new Uint32Array(this.columns * this.rows + 1);
    const cells = Uint32Array.from(x, (_, i) => this.cell(this.column(x[i]!), this.row(y[i]!)));
    for (const cell of cells) this.starts[cell + 1]!++;
    for (let c = 1; c < this.starts.length; c++) this.starts[c]! += this.starts[c - 1]!;
    const next = this.starts.slice();
    this.members = new Uint32Array(x.length);
    cells.forEach((cell, i) => (this.members[next[cell]!++] = i));
  }

  /** The nearest point within a radius, or -1. */
  nearest(x: number, y: number, radius: number): number {
    let best = -1;
    let least = radius * radius;
    for (let row = this.row(y - radius); row <= this.row(y + radius); row++) {
      for (let column = this.column(x - radius); column <= this.column(x + radius); column++) {
        const cell = this.cell(column, row);
        for (let m = this.starts[cell]!; m < this.starts[cell + 1]!; m++) {
          const i = this.members[m]!;
          const away = (this.x[i]! - x) ** 2 + (this.y[i]! - y) ** 2;
          if (away <= least) [best, least] = [i, away];
        }
      }
    }
    return best;
  }

  private column(x: number): number {
    return Math.min(this.columns - 1, Math.max(0, Math.floor((x - this.left) / this.side)));
  }

  private row(y: number): number {
    return Math.min(this.rows - 1, Math.max(0, Math.floor((y - this.top) / this.side)));
  }

  private cell(column: number, row: number): number {
    return row * this.columns + column;
  }
}
