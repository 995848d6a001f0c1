// A report from a file, without a network: every section is there, drawn, and readable, on a screen, a phone and paper.
import assert from "node:assert/strict";
import { violations } from "./looking.mjs";

const SECTIONS = [
  "Metrics",
  "Data and protocol",
  "Recommended links",
  "Map of the embeddings",
  "Probabilities of recommended links",
  "Scores of the test pairs",
  "Training",
  "Settings",
];
const FIGURES = [
  "Calibration",
  "Calibration by degree",
  "Score distributions",
  "ROC",
  "Precision-recall",
  "Training loss",
  "Validation metrics",
  "Energy per layer",
];

async function painted(visit) {
  await visit.page.goto(visit.base);
  await visit.page.locator(".map canvas").waitFor();
  const painting = () => visit.page.evaluate(() => window.painting(".map canvas"));
  await visit.until(async () => (await painting()).points === 52, "every node is painted");
  return painting();
}

async function whole(visit) {
  const { page } = visit;
  const { lines, texts } = await painted(visit);
  assert.deepEqual(await page.locator("h2").allInnerTexts(), SECTIONS);
  const figures = await page.locator("figure h3").allInnerTexts();
  assert.deepEqual(
    figures.filter((name) => name !== "Repulsion"), // there where it is learned
    FIGURES,
  );
  assert.equal(await page.title(), 'Papers </script> & "more"');
  assert.equal(await page.locator("h1").innerText(), 'Papers </script> & "more"');
  assert.equal(await page.locator(".links-table tbody tr").count(), 15);
  assert.equal(lines.filter(({ dashed }) => dashed).length, 15, "recommended links are drawn");
  assert.deepEqual(
    texts.map(({ text }) => text),
    Array.from({ length: 15 }, (_, i) => String(i + 1)),
    "and numbered",
  );
  assert.match(await page.locator("#metrics .figures").innerText(), /Adamic-Adar/);
  assert.match(await page.locator("#probabilities").innerText(), /base rate of [\d.]+% \(as many missing edges as/);
  for (const chart of await page.locator("figure:has(svg)").all()) {
    const shapes = await chart.locator("path.curve, path.area, circle.dot").count();
    assert.ok(shapes > 0, `${await chart.locator("h3").innerText()} shows something`);
    assert.ok((await chart.locator(".numbers td").count()) > 2, "its numbers are in a table");
  }
  assert.match(await page.locator(".groups").innerText(), /hidden size/);
  assert.deepEqual(await violations(visit), []);
}

export const report = {
  "report, light": {
    options: { offline: true },
    run: async (visit) => {
      const { page } = visit;
      await whole(visit);
      await page.locator("#map-search").fill("c1");
      await visit.until(async () => /^\d+ nodes found$/.test(await page.locator(".map output").innerText()), "a search");
      await page.locator(".chip").last().click();
      assert.equal(page.url(), visit.base, "there is no explorer to walk to");
      const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      assert.equal(await paper(), "rgb(255, 255, 255)");
      await page.locator("#theme").click();
      assert.equal(await paper(), "rgb(20, 24, 28)");
    },
  },
  "report, dark": { options: { offline: true, colorScheme: "dark" }, run: whole },
  "report, phone": {
    options: { offline: true, viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true },
    run: async (visit) => {
      await painted(visit);
      const [wide, screen] = await visit.page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(wide <= screen && screen === 390, `the report is ${wide} wide on ${screen}`);
    },
  },
  "report, printed": {
    options: { offline: true, colorScheme: "dark" },
    run: async (visit) => {
      const { page } = visit;
      await painted(visit);
      const ink = () => page.evaluate(() => window.painting(".map canvas").lines.at(-1).colour);
      const dark = await ink();
      await page.evaluate(() => {
        addEventListener("beforeprint", () => (window.printed = window.painting(".map canvas").lines.at(-1).colour));
      });
      assert.ok((await page.pdf()).length > 20_000);
      assert.notEqual(await page.evaluate(() => window.printed), dark, "the map is painted for paper");
      await visit.until(async () => (await ink()) === dark, "the screen is dark again");
      await page.emulateMedia({ media: "print" });
      for (const hidden of ["#tools", ".controls", ".map .field", ".numbers"])
        assert.equal(await page.locator(hidden).first().isVisible(), false, `${hidden} is not printed`);
    },
  },
};
