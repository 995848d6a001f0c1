// A drawing without a network: as a page of its own, and in the frame that a notebook shows.
import assert from "node:assert/strict";
import { violations } from "./looking.mjs";

const painting = (frame) => frame.evaluate(() => window.painting(".graph canvas"));

async function drawn(visit, frame) {
  await frame.locator(".graph canvas").waitFor();
  await visit.until(async () => (await painting(frame)).texts.length > 0, "names are painted");
  const { lines, texts } = await painting(frame);
  const [, edges, predicted] = /^(\d+) edges, (\d+) predicted links$/.exec(await frame.locator(".head p").innerText());
  assert.equal(lines.filter(({ dashed }) => dashed).length, Number(predicted), "predicted links are dashed");
  assert.ok(lines.filter(({ dashed }) => !dashed).length >= Number(edges), "edges are drawn");
  assert.ok(texts.some(({ text }) => text === "c3"), "the node in the middle has its name");
  assert.equal(await frame.locator("h1").innerText(), "c3");
  const legend = await frame.locator(".legend").boundingBox();
  const canvas = await frame.locator(".graph canvas").boundingBox();
  assert.ok(canvas.height > 200 && legend.y + legend.height <= canvas.y + canvas.height, "the legend is on the drawing");
}

async function alone(visit) {
  await visit.page.goto(visit.base);
  await drawn(visit, visit.page.mainFrame());
  assert.deepEqual(await violations(visit), []);
  const before = (await painting(visit.page)).texts[0];
  await visit.page.locator(".controls button").first().click();
  await visit.until(async () => (await painting(visit.page)).texts[0].x !== before.x, "it zooms");
}

export const drawing = {
  "drawing, light": { options: { offline: true }, run: alone },
  "drawing, dark": { options: { offline: true, colorScheme: "dark" }, run: alone },
  "drawing, phone": { options: { offline: true, viewport: { width: 390, height: 700 }, hasTouch: true }, run: alone },
};

export const frame = {
  "drawing, in a notebook": {
    options: { offline: true },
    run: async (visit) => {
      await visit.page.goto(visit.base);
      await visit.page.locator("iframe").waitFor();
      const [, inner] = visit.page.frames();
      await drawn(visit, inner);
      const reached = await inner.evaluate(() => {
        try {
          return parent.document.title;
        } catch (error) {
          return error.name;
        }
      });
      assert.equal(reached, "SecurityError", "the frame reaches nothing of the notebook");
    },
  },
};
