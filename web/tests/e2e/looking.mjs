// The model page, themes, narrow screens, what goes wrong, and accessibility.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const refused = /status of 4\d\d|status of 503|ERR_FAILED/;

/** What axe finds in a part of the page; in the dark theme only colours are different, and looked at. */
export async function violations(visit, part = "body") {
  await visit.page.evaluate(`window.axe ?? (() => { ${axe} })()`);
  const { violations: found } = await visit.page.evaluate((selector) => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    return window.axe.run(selector, { resultTypes: ["violations"], ...(dark && { runOnly: ["color-contrast"] }) });
  }, part);
  return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target.join(" ")).join(", ")}`);
}

async function accessible(visit) {
  const { page } = visit;
  await visit.open("", ".starts");
  assert.deepEqual(await violations(visit), [], "the start");
  await visit.open("#/explore?node=c12&k=5");
  await page.locator(".prediction .textual").first().click();
  await page.locator(".why table").waitFor();
  assert.deepEqual(await violations(visit), [], "the explorer");
  await page.keyboard.press("/");
  await page.locator("#suggestions [role=option]").first().waitFor();
  assert.deepEqual(await violations(visit, ".search"), [], "suggestions");
  await page.keyboard.press("Escape");
  await page.locator("#help").click();
  assert.deepEqual(await violations(visit, "dialog"), [], "the keys");
  await page.keyboard.press("Escape");
  await visit.open("#/model?highlight=c1", ".map canvas");
  await page.locator(".numbers summary").last().click();
  assert.deepEqual(await violations(visit), [], "the model page");
}

function bigMap(count) {
  const places = Array.from({ length: count }, (_, i) => i);
  const wave = (i, a, b) => Math.sin(i * a) * 3 + Math.cos(i * b);
  return {
    ids: places,
    labels: places.map((i) => `node ${i}`),
    x: places.map((i) => wave(i, 0.7, 1.3)),
    y: places.map((i) => wave(i, 1.1, 0.3)),
    version: -1,
  };
}

export const looking = {
  "model page": {
    run: async (visit) => {
      const { page } = visit;
      await visit.open("#/model", ".map canvas");
      assert.ok((await page.locator(".tiles dd").count()) > 1);
      assert.match(await page.locator(".lines").innerText(), /holdout/);
      assert.deepEqual(await page.locator("figure h3").allInnerTexts(), [
        "Calibration",
        "Calibration by degree",
        "Score distributions",
        "ROC",
        "Precision-recall",
        "Training loss",
        "Validation metrics",
        ...(await page.locator("figure h3", { hasText: "Repulsion" }).allInnerTexts()), // where it is learned
        "Energy per layer",
      ]);
      assert.ok((await page.locator(".numbers td").count()) > 20, "the charts' numbers are there in tables");
      assert.match(await page.locator(".groups").innerText(), /torch/);
      const nodes = () => page.evaluate(() => window.painting(".map canvas").points);
      await visit.until(async () => (await nodes()) === 52, "every node is painted");
      await page.locator("#map-search").fill("Paper c1");
      await visit.until(async () => /highlight=Paper/.test(page.url()), "the address holds the search");
      const found = page.locator(".map output");
      await visit.until(async () => /^\d+ nodes found$/.test(await found.innerText()), "the search says what it found");
      const chip = page.locator(".chip").last();
      const name = await chip.innerText();
      const written = () => page.evaluate(() => window.painting(".map canvas").texts.map(({ text }) => text));
      await visit.until(async () => (await written()).some((text) => text.startsWith("Paper c1")), "names are painted");
      await chip.click();
      await visit.at(name);
      await page.goBack();
      await page.locator(".chip").first().waitFor();
    },
  },
  "a map of 20,000": {
    run: async (visit) => {
      const { page } = visit;
      await visit.answer("**/v1/map*", 200, bigMap(20_000));
      await visit.open("#/model", ".map canvas");
      await page.locator(".surface").scrollIntoViewIfNeeded();
      await visit.until(() => page.evaluate(() => window.painting(".map canvas").points === 20_000), "all points");
      const frame = await page.locator(".map canvas").boundingBox();
      await page.mouse.move(frame.x + 300, frame.y + 200);
      await page.mouse.down();
      const frames = page.evaluate(
        () =>
          new Promise((done) => {
            const times = [];
            const step = (now) => (times.push(now), times.length < 25 ? requestAnimationFrame(step) : done(times));
            requestAnimationFrame(step);
          }),
      );
      for (let i = 0; i < 25; i++) await page.mouse.move(frame.x + 300 + 4 * i, frame.y + 200 + i);
      const times = await frames;
      await page.mouse.up();
      const gaps = times
        .slice(1)
        .map((time, i) => time - times[i])
        .sort((a, b) => a - b);
      assert.ok(gaps[12] < 100, `a frame took ${gaps[12].toFixed(0)} ms`);
      await page.locator("#map-search").fill("node 1999");
      await page.locator(".map output", { hasText: "11 nodes found" }).waitFor();
      return { frameMilliseconds: gaps[12] };
    },
  },
  phone: {
    options: { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 },
    run: async (visit) => {
      const { page } = visit;
      const fits = async (where) => {
        const [wide, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
        assert.ok(wide <= screen && screen === 390, `${where} is ${wide} wide on ${screen}`);
      };
      await visit.open("", ".starts");
      await fits("the start");
      await visit.open("#/explore?node=c12");
      await page.locator(".prediction .textual").first().tap();
      await page.locator(".why table").waitFor();
      await fits("the explorer");
      const cut = await page.evaluate(() =>
        [...document.querySelectorAll(".prediction .under > .small")].filter((e) => e.scrollWidth > e.clientWidth).length,
      );
      assert.equal(cut, 0, "scores are cut off");
      const [drawing, list] = [await page.locator(".drawing").boundingBox(), await page.locator(".side").boundingBox()];
      assert.ok(list.y >= drawing.y + drawing.height - 1, "the lists are below the drawing");
      const sharp = await page.evaluate(() => document.querySelector(".graph canvas").width);
      assert.equal(sharp, 780, "the canvas has the screen's pixels");
      const button = await page.locator(".verdict").first().boundingBox();
      assert.ok(button.width >= 40 && button.height >= 40, "a finger hits the buttons");
      await page.locator("#search").tap();
      await page.locator("#suggestions [role=option]").first().waitFor();
      await fits("the suggestions");
      await visit.open("#/model", ".map canvas");
      await fits("the model page");
    },
  },
  themes: {
    options: { colorScheme: "dark" },
    run: async (visit) => {
      const { page } = visit;
      const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      await visit.open("#/explore?node=c12");
      await visit.at("Paper c12");
      await page.locator(".links .chance").first().waitFor(); // the last colours
      assert.equal(await paper(), "rgb(20, 24, 28)");
      const dark = await visit.drawn();
      await page.locator("#theme").click();
      assert.equal(await paper(), "rgb(255, 255, 255)");
      const light = await visit.drawn();
      for (const [name, { colour }] of light) assert.notEqual(colour, dark.get(name)?.colour, `${name} follows`);
      await page.reload();
      await page.locator("#predictions-title").waitFor();
      assert.equal(await paper(), "rgb(255, 255, 255)");
    },
  },
  "what goes wrong": {
    expected: refused,
    run: async (visit) => {
      const { page } = visit;
      await visit.open("#/explore?node=c999", ".wrong");
      assert.match(await page.locator(".wrong").innerText(), /c999.*is not in the graph/);
      await page.route("**/v1/**", (route) => route.abort());
      await visit.open("#/explore?node=c13", ".wrong");
      assert.match(await page.locator(".wrong").innerText(), /does not answer/);
      await page.unroute("**/v1/**");
      await page.getByRole("button", { name: "Try again" }).click();
      await visit.at("Paper c13");
      const busy = { title: "Service Unavailable", status: 503, detail: "64 questions wait already: ask again later" };
      await visit.answer("**/v1/rejections", 503, busy);
      const names = await visit.names("predictions");
      await page.locator(".verdict.reject").first().click();
      await page.locator("#note", { hasText: busy.detail }).waitFor();
      assert.deepEqual(await visit.names("predictions"), names);
      assert.ok(await page.locator(".verdict.reject").first().isEnabled(), "it can be tried again");
      await visit.answer("**/v1/explain", 503, busy);
      await page.locator(".prediction .textual").first().click();
      await page.locator(".why-place", { hasText: busy.detail }).waitFor();
    },
  },
  "a key is asked for": {
    expected: refused,
    run: async (visit) => {
      const { page } = visit;
      const body = JSON.stringify({ title: "Unauthorized", status: 401, detail: "a key is needed" });
      await page.route("**/v1/**", (route) => {
        const known = route.request().headers()["authorization"] === "Bearer open sesame";
        return known ? route.continue() : route.fulfill({ status: 401, contentType: "application/problem+json", body });
      });
      await visit.open("#/explore?node=c12", "dialog[open]");
      assert.equal(await page.locator("dialog[open]").count(), 1);
      await page.locator("#key").fill("wrong");
      await page.keyboard.press("Enter");
      await page.locator("#key").waitFor();
      await visit.until(async () => (await page.locator("#key").inputValue()) === "", "it asks again");
      await page.locator("#key").fill("open sesame");
      await page.getByRole("button", { name: "Continue" }).click();
      await visit.at("Paper c12");
      assert.equal(await page.evaluate(() => sessionStorage.getItem("yinyan.key")), "open sesame");
      await page.reload();
      await visit.at("Paper c12");
      await page.evaluate(() => sessionStorage.clear());
      await page.reload();
      await page.getByRole("button", { name: "Not now" }).click();
      assert.match(await page.locator(".wrong").innerText(), /a key is needed/);
    },
  },
  "read only": {
    run: async (visit) => {
      const { page } = visit;
      await page.route("**/v1/model", async (route) => {
        const response = await route.fetch();
        await route.fulfill({ response, json: { ...(await response.json()), read_only: true } });
      });
      await visit.open("#/explore?node=c12");
      await page.locator(".prediction").first().waitFor();
      assert.equal(await page.locator(".verdict").count(), 0);
      await page.keyboard.press("j");
      await page.keyboard.press("a");
      assert.equal((await visit.names("predictions")).length, 10);
      await visit.open("#/model", ".banner");
    },
  },
  "accessible, light": { run: accessible },
  "accessible, dark": {
    options: { colorScheme: "dark" },
    run: async (visit) => {
      await visit.open("#/explore?node=c12&k=5");
      await visit.page.locator(".prediction .textual").first().click();
      await visit.page.locator(".why table").waitFor();
      assert.deepEqual(await violations(visit), [], "the explorer");
      await visit.open("#/model?highlight=c1", ".map canvas");
      assert.deepEqual(await violations(visit), [], "the model page");
    },
  },
};
