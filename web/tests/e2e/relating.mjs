// A model with relations: types, relations, their choice and their charts. Nodes: people, products and shops.
import assert from "node:assert/strict";
import { violations } from "./looking.mjs";

const PERSON = "#/explore?node=u3&type=person";

async function options(visit, id) {
  return visit.page.locator(`#${id} option`).allInnerTexts();
}

export const relating = {
  "types and their legend": {
    run: async (visit) => {
      const { page } = visit;
      await visit.open("", ".starts");
      assert.ok((await page.locator(".start .shape").count()) > 3);
      await visit.open(PERSON);
      await visit.at("Person 3");
      assert.match(await page.locator(".head").innerText(), /person · \d+ edges · id u3/);
      assert.deepEqual(await page.locator(".legend .type").allInnerTexts(), ["person", "product", "shop"]);
      const tags = new Set(await page.locator(".links .tag").allInnerTexts());
      assert.ok(["buys", "views", "follows"].every((name) => tags.has(name)), [...tags].join());
      assert.equal(await page.locator(".verdict").count(), 0, "the graph cannot be changed");
      assert.deepEqual(await options(visit, "filter-relation"), ["buys", "follows"]);
      assert.ok((await visit.names("predictions")).every((name) => name.startsWith("Thing ")));
      await page.keyboard.press("/");
      await page.locator("#search").fill("shop 2");
      await page.locator("#suggestions [role=option] .tag", { hasText: "shop" }).first().waitFor();
    },
  },
  "the relation that is predicted": {
    run: async (visit) => {
      const { page } = visit;
      await visit.open(PERSON);
      await page.locator("#filter-relation").selectOption("follows");
      await visit.until(async () => (await visit.names("predictions")).every((name) => name.startsWith("Person ")), "people");
      assert.match(page.url(), /relation=follows/);
      await page.locator(".prediction .textual").first().click();
      await page.locator(".why table").waitFor();
      assert.match(await page.locator(".why").innerText(), /edge '(buys|views|follows)' of (this node|the other|both)/);
      await page.locator(".links .walk", { hasText: /^Thing/ }).first().click();
      await page.locator("h1", { hasText: /^Thing/ }).waitFor();
      await page.locator(".place:not([aria-busy])").waitFor();
      assert.deepEqual(await options(visit, "filter-relation"), ["buys"]); // what products have
      assert.ok((await visit.names("predictions")).every((name) => name.startsWith("Person ")));
      await visit.open("#/explore?node=s1&type=shop", ".side");
      await visit.at("Shop 1");
      assert.deepEqual(await options(visit, "filter-relation"), ["none for this type"]);
      assert.match(await page.locator(".predictions").innerText(), /No predicted relation joins nodes of this type/);
    },
  },
  "edges of one relation": {
    run: async (visit) => {
      const { page } = visit;
      await visit.open(PERSON);
      const all = await page.locator(".links .row").count();
      await page.locator("#filter-edges").selectOption("views");
      await visit.until(async () => (await page.locator(".links .row").count()) < all, "fewer edges");
      assert.deepEqual(new Set(await page.locator(".links .tag").allInnerTexts()), new Set(["views"]));
      await visit.open(`${PERSON}&edges=buys`);
      const only = async (name) => {
        const tags = await page.locator(".links .tag").allInnerTexts();
        return tags.length > 0 && tags.every((tag) => tag === name);
      };
      await visit.until(() => only("buys"), "an address that names a relation");
      const scores = page.locator(".links .chance");
      await visit.until(async () => (await scores.count()) > 0, "a predicted relation has scores");
    },
  },
  "figures of a relation": {
    run: async (visit) => {
      const { page } = visit;
      await visit.open("#/model", ".map canvas");
      assert.match(await page.locator("#relations").innerText(), /sells messages only/);
      const before = await page.locator("#metrics").innerText();
      await page.locator("#model-relation").selectOption("follows");
      await page.locator("#metrics h2", { hasText: "follows" }).waitFor();
      assert.notEqual(await page.locator("#metrics").innerText(), before);
      assert.match(page.url(), /relation=follows/);
      assert.deepEqual(await page.locator(".map .type").allInnerTexts(), ["person", "product", "shop"]);
      const { points } = await page.evaluate(() => window.painting(".map canvas"));
      assert.ok(points >= 45, "every node is a point");
    },
  },
  "relations on a phone": {
    options: { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 },
    run: async (visit) => {
      const { page } = visit;
      for (const [hash, ready] of [
        ["", ".starts"],
        [PERSON, "#predictions-title"],
        ["#/model", ".map canvas"],
      ]) {
        await visit.open(hash, ready);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= 390, `${hash} is ${wide} wide`);
      }
    },
  },
  "relations, accessible": {
    run: async (visit) => {
      for (const colorScheme of ["light", "dark"]) {
        await visit.page.emulateMedia({ colorScheme });
        await visit.open(PERSON);
        assert.deepEqual(await violations(visit), [], `the explorer, ${colorScheme}`);
        await visit.open("#/model", ".map canvas");
        assert.deepEqual(await violations(visit), [], `the model page, ${colorScheme}`);
      }
    },
  },
};

/** A report of such a model, from a file. */
export const relatingReport = {
  "report of relations": {
    run: async (visit) => {
      const { page } = visit;
      await page.goto(visit.base);
      await page.locator(".map canvas").waitFor();
      assert.match(await page.locator("#overall").innerText(), /Filtered MRR/);
      const links = await page.locator(".links-table").innerText();
      await page.locator("#model-relation").selectOption("follows");
      await page.locator("#metrics h2", { hasText: "follows" }).waitFor();
      assert.notEqual(await page.locator(".links-table").innerText(), links);
      assert.match(await page.locator("#recommended").innerText(), /of relation 'follows'/);
      assert.ok((await page.locator("figure:has(svg)").count()) > 4);
      assert.deepEqual(await violations(visit), []);
    },
  },
};
