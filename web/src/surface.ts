/** A canvas as sharp as the screen, painted at most once a frame. */

import { h } from "./dom";
import { onThemeChange } from "./theme";

export class Surface {
  readonly canvas = h("canvas");
  width = 0; // in CSS pixels
  height = 0;
  private readonly context: CanvasRenderingContext2D;
  private frame = 0;

  constructor(
    private readonly paint: (context: CanvasRenderingContext2D) => void,
    private readonly resized: () => void,
  ) {
    const context = this.canvas.getContext("2d");
    if (context === null) throw new Error("this browser gives no canvas to draw on");
    this.context = context;
    new ResizeObserver(() => this.measure()).observe(this.canvas);
    onThemeChange(() => this.draw()); // at once: a printer waits for no frame
  }

  /** Paints at the next frame. */
  ask(): void {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  private draw(): void {
    if (this.width === 0) return;
    const ratio = this.canvas.width / this.width;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, this.width, this.height);
    this.paint(this.context);
  }

  private measure(): void {
    const { clientWidth, clientHeight } = this.canvas;
    const ratio = Math.min(3, devicePixelRatio || 1);
    const [width, height] = [Math.round(clientWidth * ratio), Math.round(clientHeight * ratio)];
    if (clientWidth === 0 || (this.canvas.width === width && this.canvas.height === height)) return;
    Object.assign(this.canvas, { width, height });
    this.width = clientWidth;
    this.height = clientHeight;
    this.resized();
    this.ask();
  }
}
