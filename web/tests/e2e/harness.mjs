// A browser, pages that tell what they painted and asked for, and cases that run one after another.
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

/** Runs in the page before it loads: keeps the lines and texts of the last painting of each canvas. */
function recordPainting() {
  const painted = new WeakMap();
  const blank = () => ({ lines: [], texts: [], points: 0, heads: 0 });
  const proto = CanvasRenderingContext2D.prototype;
  const of = (context) => painted.get(context.canvas) ?? { ...blank(), path: [] };
  const wrap = (name, note) => {
    const original = proto[name];
    proto[name] = function (...args) {
      if (name === "clearRect") painted.set(this.canvas, { ...blank(), path: [] });
      else note?.(of(this), args, this);
      return original.apply(this, args);
    };
  };
  wrap("clearRect");
  wrap("beginPath", (record) => (record.path = []));
  wrap("moveTo", (record, place) => record.path.push(place));
  wrap("lineTo", (record, place) => record.path.push(place));
  wrap("stroke", (record, _, context) => {
    if (record.path.length !== 2) return;
    const { lineWidth: width, strokeStyle: colour, globalAlpha: alpha } = context;
    record.lines.push({
      from: record.path[0],
      to: record.path[1],
      dashed: context.getLineDash().length > 0,
      width,
      colour,
      alpha,
    });
  });
  wrap("fill", (record) => record.path.length === 3 && record.heads++);
  wrap("fillText", (record, [text, x, y]) => record.texts.push({ text, x, y }));
  wrap("fillRect", (record) => record.points++);
  window.painting = (selector) => of(document.querySelector(selector).getContext("2d"));
  document.addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective}`));
}

export class Visit {
  constructor(page, base) {
    Object.assign(this, { page, base, errors: [], strangers: [] });
    page.on("console", (message) => message.type() === "error" && this.errors.push(message.text()));
    page.on("pageerror", (error) => this.errors.push(String(error)));
    page.on("request", (request) => {
      const url = request.url();
      if (!url.startsWith(base) && !url.startsWith("blob:")) this.strangers.push(url);
    });
  }

  /** Opens a view and waits until it stands. */
  async open(hash, ready = "#predictions-title") {
    await this.page.goto(`${this.base}/${hash}`);
    await this.page.locator(ready).first().waitFor();
  }

  heading() {
    return this.page.locator("h1").innerText();
  }

  async at(name) {
    await this.page.locator("h1", { hasText: new RegExp(`^${name}$`) }).waitFor();
    await this.page.locator(".place:not([aria-busy])").waitFor();
  }

  /** The names of a list's rows, top to bottom. */
  names(list) {
    return this.page.locator(`.${list} .walk`).allInnerTexts();
  }

  /** What the drawing shows: by the name at a line's far end, how the line is drawn. */
  async drawn() {
    await this.page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    const { lines, texts } = await this.page.evaluate(() => window.painting(".graph canvas"));
    const found = new Map();
    const centre = await this.heading();
    for (const { text, x, y } of texts) {
      const meets = ([a, b]) => Math.abs(a - x) < 0.01 && Math.abs(b - y) < 40;
      const line = lines.filter(({ to, from }) => meets(to) || meets(from)).at(-1); // the centre's own are painted last
      if (text !== centre && line) found.set(text, { ...line, place: meets(line.to) ? line.to : line.from });
    }
    return found;
  }

  /** How the line to one node is drawn; pointed at in the list, its name is written for certain. */
  async line(name) {
    await this.page.locator(".row", { has: this.page.getByRole("button", { name, exact: true }) }).hover();
    const line = (await this.drawn()).get(name);
    assert.ok(line, `${name} is drawn`);
    return line;
  }

  /** Waits until a check of the page holds. */
  async until(check, what) {
    for (let turn = 0; turn < 400; turn++) {
      if (await check()) return;
      await this.page.waitForTimeout(50);
    }
    assert.fail(`it never came to this: ${what}`);
  }

  answer(pattern, status, body) {
    const type = status < 400 ? "application/json" : "application/problem+json";
    return this.page.route(pattern, (route) =>
      route.fulfill({ status, contentType: type, body: JSON.stringify(body) }),
    );
  }
}

/** Runs all cases in one browser; gives of each by its name how long it took, what it measured, and why it failed. */
export async function runCases(cases, { base, browser: executablePath, only }) {
  const args = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--disable-gpu",
  ];
  const browser = await chromium.launch({ executablePath, args });
  const results = {};
  try {
    for (const [name, { run, options = {}, expected = null }] of Object.entries(cases)) {
      if (only && !name.includes(only)) continue;
      const viewport = { width: 1100, height: 720 };
      const context = await browser.newContext({
        viewport,
        reducedMotion: "reduce",
        acceptDownloads: true,
        ...options,
      });
      context.setDefaultTimeout(8000);
      await context.addInitScript(recordPainting);
      const visit = new Visit(await context.newPage(), base);
      const begun = Date.now();
      try {
        const measured = await run(visit);
        const unforeseen = visit.errors.filter((text) => expected === null || !expected.test(text));
        assert.deepEqual(unforeseen, [], "the browser complained");
        assert.deepEqual(visit.strangers, [], "other hosts were asked");
        results[name] = { seconds: (Date.now() - begun) / 1000, ...measured };
      } catch (error) {
        results[name] = { failed: error.stack ?? String(error), seconds: (Date.now() - begun) / 1000 };
      }
      await context.close();
    }
  } finally {
    await browser.close();
  }
  return results;
}
