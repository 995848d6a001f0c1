// Searching, walking, explaining, filtering, sharing, exporting.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";

export const exploring = {
  search: {
    run: async (visit) => {
      const { page } = visit;
      await visit.open("", ".starts");
      assert.ok((await page.locator(".start").count()) > 3);
      await page.keyboard.press("/");
      const box = page.locator("#search");
      assert.ok(await box.evaluate((input) => input === document.activeElement));
      await box.fill("paper c1");
      await page.locator("#search[aria-activedescendant=suggestion-0]").waitFor();
      assert.equal(await box.getAttribute("aria-expanded"), "true");
      assert.match(await page.locator("#suggestion-0").innerText(), /^Paper c1/);
      await page.keyboard.press("ArrowDown");
      assert.equal(await box.getAttribute("aria-activedescendant"), "suggestion-1");
      await page.keyboard.press("ArrowUp");
      await page.keyboard.press("ArrowUp");
      const count = await page.locator("#suggestions [role=option]").count();
      assert.equal(await box.getAttribute("aria-activedescendant"), `suggestion-${count - 1}`);
      await page.keyboard.press("Escape");
      assert.equal(await box.getAttribute("aria-expanded"), "false");
      await box.fill("Paper c12");
      await page.keyboard.press("Enter"); // before any suggestion came
      await visit.at("Paper c12");
      assert.match(page.url(), /#\/explore\?node=c12$/);
      await visit.until(
        async () => /Paper c12: \d+ edges?, 10 predicted/.test(await page.locator("#announcements").innerText()),
        "an announcement",
      );
      await box.fill("no such node at all");
      await page.locator("#suggestions .message").waitFor();
    },
  },
  walk: {
    options: { reducedMotion: "no-preference" },
    run: async (visit) => {
      const { page } = visit;
      await visit.open("#/explore?node=c12");
      await visit.at("Paper c12");
      const drawn = await visit.drawn();
      const links = new Set(await visit.names("links"));
      const predictions = new Set(await visit.names("predictions"));
      assert.ok(
        [...drawn.keys()].some((name) => links.has(name)) && [...drawn.keys()].some((name) => predictions.has(name)),
      );
      for (const [name, { dashed }] of drawn) {
        if (links.has(name)) assert.equal(dashed, false, `${name} is a link`);
        if (predictions.has(name)) assert.equal(dashed, true, `${name} is a prediction`);
      }
      const [name, { place }] = [...drawn].find(([text]) => links.has(text));
      await page.locator(".graph canvas").hover({ position: { x: place[0], y: place[1] } });
      assert.match(await page.locator(".tip").innerText(), new RegExp(`${name}\\s+linked`));
      assert.equal(await page.locator(".row.lit .name").innerText(), name);
      await page.locator(".graph canvas").click({ position: { x: place[0], y: place[1] } });
      await visit.at(name);
      await page.locator(".predictions .walk").first().click();
      await visit.until(async () => (await visit.heading()) !== name, "a second walk");
      await page.goBack();
      await visit.at(name);
      await page.goBack();
      await visit.at("Paper c12");
      await page.goForward();
      await visit.at(name);
    },
  },
  "while a node loads": {
    run: async (visit) => {
      const { page } = visit;
      await visit.open("#/explore?node=c12");
      await visit.at("Paper c12");
      let go;
      const gate = new Promise((open) => (go = open));
      await page.route("**/v1/nodes/c13*", (route) => gate.then(() => route.continue()));
      await visit.answer("**/v1/rejections", 200, { rejected: 1, version: 0 });
      await page.evaluate(() => (location.hash = "#/explore?node=c13"));
      await page.locator(".place[aria-busy]").waitFor();
      const rejecting = page.waitForRequest("**/v1/rejections");
      await page.locator(".verdict.reject").first().click();
      const [[source]] = (await rejecting).postDataJSON().pairs;
      assert.equal(source, "c12", "a judgement is about the rows that are shown");
      await page.locator("#filter-text").fill("paper");
      go();
      await visit.at("Paper c13");
      assert.match(page.url(), /node=c13&text=paper/);
    },
  },
  "pan and zoom": {
    run: async (visit) => {
      const { page } = visit;
      await visit.open("#/explore?node=c12");
      await visit.at("Paper c12");
      const spread = async () => {
        const places = [...(await visit.drawn()).values()].map(({ place }) => place[0]);
        return [Math.max(...places) - Math.min(...places), Math.min(...places)];
      };
      const [width, left] = await spread();
      await page.getByRole("button", { name: "Zoom out" }).click();
      assert.ok((await spread())[0] < width * 0.9);
      await page.getByRole("button", { name: "Fit" }).click();
      assert.ok(Math.abs((await spread())[0] - width) < 1);
      await page.mouse.move(60, 640);
      await page.mouse.down();
      await page.mouse.move(100, 620);
      await page.mouse.move(130, 600);
      await page.mouse.up();
      assert.ok(Math.abs((await spread())[1] - left - 70) < 12);
      await page.mouse.wheel(0, 200);
      assert.ok((await spread())[0] < width * 0.8);
    },
  },
  explain: {
    run: async (visit) => {
      const { page } = visit;
      await visit.open("#/explore?node=c12");
      const why = page.locator(".prediction .textual").first();
      await why.click();
      await page.locator(".why table").waitFor();
      assert.equal(await why.getAttribute("aria-expanded"), "true");
      const score = await page.locator(".prediction .under .number").nth(1).innerText();
      const [told, alone] = await page.locator(".why strong").allInnerTexts();
      assert.ok(score.endsWith(told), `${score} is explained as ${told}`);
      const number = (text) => Number(text.replace("\u2212", "-"));
      const moved = (await page.locator(".why td.number").allInnerTexts()).map(number);
      assert.ok(moved.length > 1);
      const sum = moved.reduce((a, b) => a + b, number(alone));
      assert.ok(Math.abs(sum - number(told)) < 0.02, `${sum} is not ${told}`);
      await why.click();
      assert.equal(await page.locator(".why").isVisible(), false);
    },
  },
  filters: {
    run: async (visit) => {
      const { page } = visit;
      await visit.open("#/explore?node=c12");
      await page.locator("#filter-k").selectOption("20");
      await visit.until(async () => (await page.locator(".prediction").count()) === 20, "twenty predictions");
      assert.match(page.url(), /k=20/);
      const chances = (await page.locator(".prediction .chance .number").allInnerTexts()).map((text) =>
        Number.parseFloat(text.replace(/^[<>]/, "")),
      );
      assert.ok(chances.every(Number.isFinite), `${chances}`);
      assert.match(await page.locator(".predictions .sure").innerText(), /^Of .* at a base rate of [\d.]+%/);
      let shown = 20;
      for (let stop = 1; stop <= 20 && shown === 20; stop++) {
        await page.locator("#filter-least").fill(String(stop));
        shown = await page.locator(".prediction").count();
      }
      assert.ok(shown > 0 && shown < 20, `${shown} of ${chances}`);
      assert.match(await page.locator(".predictions > p").last().innerText(), new RegExp(`^${20 - shown} predictions?`));
      await page.locator("#filter-least").fill("0");
      await page.locator("#filter-text").fill("paper C1");
      for (const name of await visit.names("predictions")) assert.match(name, /^Paper c1/);
      const faint = [...(await visit.drawn())].filter(([name]) => !/^Paper c1/.test(name));
      assert.deepEqual(faint, [], "names that the filter leaves out are not written");
      await page.locator("#filter-text").fill("");
      await page.locator("#filter-links").click();
      assert.equal(await page.locator(".links").isVisible(), false);
      assert.ok([...(await visit.drawn()).values()].every(({ dashed }) => dashed));
      await page.locator("#filter-links").click();
      await page.locator("#filter-predictions").click();
      assert.equal(await page.locator(".predictions").isVisible(), false);
      assert.ok([...(await visit.drawn()).values()].every(({ dashed }) => !dashed));
    },
  },
  "shared address": {
    run: async (visit) => {
      const { page } = visit;
      await visit.open("#/explore?number=7&k=5&min=0.01&text=c");
      await visit.at("7");
      assert.match(await page.locator(".head .small").innerText(), /a number/);
      assert.equal(await page.locator("#filter-k").inputValue(), "5");
      assert.equal(await page.locator("#filter-least").inputValue(), "4");
      assert.equal(await page.locator("#filter-text").inputValue(), "c");
      const number = await page.locator(".head .small").innerText();
      await visit.open("#/explore?node=7");
      await visit.until(async () => (await page.locator(".head .small").innerText()) !== number, "the other node");
      assert.match(await page.locator(".head .small").innerText(), /text/);
      await page.locator("#filter-k").selectOption("50");
      await visit.until(async () => (await page.locator(".prediction").count()) > 10, "more predictions");
      const [names, url] = [await visit.names("predictions"), page.url()];
      const other = await page.context().newPage();
      await other.goto(url);
      await other.locator(".prediction").first().waitFor();
      assert.deepEqual(await other.locator(".predictions .walk").allInnerTexts(), names);
    },
  },
  directed: {
    run: async (visit) => {
      const { page } = visit;
      const altered = (pattern, change) =>
        page.route(pattern, async (route) => {
          const response = await route.fetch();
          await route.fulfill({ response, json: change(await response.json()) });
        });
      await visit.open("#/explore?node=c12");
      await visit.at("Paper c12");
      const keys = (rows) => rows.evaluateAll((elements) => elements.map(({ dataset }) => dataset.key));
      const inward = (await keys(page.locator(".links .row"))).find((key) => key.startsWith("text:c"));
      await altered("**/v1/model", (told) => ({ ...told, model: { ...told.model, directed: true } }));
      await altered("**/v1/score", ({ scores, version }) => {
        const against = ({ source, target }) => source === "c12" && `text:${target}` === inward;
        return { scores: scores.map((one) => (against(one) ? { ...one, is_link: false } : one)), version };
      });
      await page.reload();
      await page.locator(".links .chance").first().waitFor();
      assert.deepEqual(await keys(page.locator(".links .row:has(.tag)")), [inward]);
      const drawn = await visit.drawn();
      const { heads, lines } = await page.evaluate(() => window.painting(".graph canvas"));
      assert.ok(drawn.size > 5 && heads > 10 && heads < lines.length, `${heads} arrows`);
    },
  },
  export: {
    run: async (visit) => {
      const { page } = visit;
      await visit.open("#/explore?node=c12&k=100");
      await page.locator(".links .chance").first().waitFor(); // the links' own scores
      const [names, links] = [await visit.names("predictions"), await visit.names("links")];
      const downloading = page.waitForEvent("download");
      await page.locator("#export").click();
      const download = await downloading;
      assert.equal(download.suggestedFilename(), "Paper-c12-links.csv");
      const text = await readFile(await download.path(), "utf8");
      assert.ok(text.startsWith("\ufeffsource,target,label,known,rank,score,probability\r\n"));
      const lines = text.slice(1).trimEnd().split("\r\n").slice(1);
      assert.equal(lines.length, names.length + links.length);
      assert.equal(lines.filter((line) => line.includes(",false,")).length, names.length);
      assert.ok(lines.every((line) => line.startsWith("c12,")));
      assert.match(text, /,"'=HYPERLINK\(""x""\)",/);
      assert.match(text, /,"Commas, and ""quotes""",/);
      assert.match(text, /\r\nc12,7,,(true|false),/);
    },
  },
};
