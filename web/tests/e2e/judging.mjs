// Accepting and rejecting predicted links, with the mouse and by keys alone.
import assert from "node:assert/strict";

async function settled(visit, gone) {
  await visit.until(async () => !(await visit.names("predictions")).includes(gone), `${gone} leaves the list`);
  await visit.page.locator("#note .undo").waitFor();
}

export const judging = {
  "accept and undo": {
    run: async (visit) => {
      const { page } = visit;
      await visit.open("#/explore?node=c12&text=Paper");
      await visit.at("Paper c12");
      const [name] = await visit.names("predictions");
      assert.equal((await visit.line(name)).dashed, true);
      await page.locator(".verdict.accept").first().click();
      await settled(visit, name);
      await page.reload();
      await visit.at("Paper c12");
      assert.ok((await visit.names("links")).includes(name));
      assert.ok(!(await visit.names("predictions")).includes(name));
      assert.equal((await visit.line(name)).dashed, false, "an accepted link is solid after a reload");

      const [next] = await visit.names("predictions");
      await page.locator(".verdict.accept").first().click();
      await settled(visit, next);
      await page.locator("#note .undo").click();
      await visit.until(async () => (await visit.names("predictions")).includes(next), `${next} is predicted again`);
      assert.ok(!(await visit.names("links")).includes(next));
      assert.equal((await visit.line(next)).dashed, true);
    },
  },
  "reject and undo": {
    run: async (visit) => {
      const { page } = visit;
      await visit.open("#/explore?node=c14&text=Paper");
      await visit.at("Paper c14");
      const [name] = await visit.names("predictions");
      await page.locator(".verdict.reject").first().click();
      await settled(visit, name);
      assert.ok(!(await visit.names("links")).includes(name));
      await page.reload();
      await visit.at("Paper c14");
      assert.ok(!(await visit.names("predictions")).includes(name));
      const [next] = await visit.names("predictions");
      await page.locator(".verdict.reject").first().click();
      await settled(visit, next);
      await page.locator("#note .undo").click();
      await visit.until(async () => (await visit.names("predictions")).includes(next), `${next} is predicted again`);
    },
  },
  "keys alone": {
    run: async (visit) => {
      const { page } = visit;
      await visit.open("", ".starts");
      await page.keyboard.press("Tab");
      assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
      await page.keyboard.press("?");
      await page.locator("#help-title").waitFor();
      await page.keyboard.press("Escape");
      await page.locator("#help-title").waitFor({ state: "detached" });
      await page.keyboard.press("/");
      await page.keyboard.type("Paper d3");
      await page.keyboard.press("Enter");
      await visit.at("Paper d3");
      const names = await visit.names("predictions");
      const current = () =>
        page.evaluate(() => document.activeElement.closest(".row")?.querySelector(".name")?.innerText);
      await page.keyboard.press("j");
      assert.equal(await current(), names[0]);
      await page.keyboard.press("j");
      await page.keyboard.press("j");
      await page.keyboard.press("k");
      assert.equal(await current(), names[1]);
      const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
      assert.notEqual(outline, "none", "the focus is seen");
      await page.keyboard.press("w");
      await page.locator(".why table").waitFor();
      await page.keyboard.press("w");
      await page.keyboard.press("a");
      await settled(visit, names[1]);
      assert.ok((await visit.names("links")).includes(names[1]));
      assert.equal(await current(), (await visit.names("predictions"))[1], "the next row is current");
      await page.keyboard.press("u");
      await visit.until(async () => !(await visit.names("links")).includes(names[1]), "the link is taken back");
      await page.keyboard.press("r");
      await page.locator("#note", { hasText: "not be predicted again" }).waitFor();
      await page.keyboard.press("u");
      await page.locator("#note", { hasText: "may be predicted again" }).waitFor();
      await page.keyboard.press("k");
      const first = await current();
      await page.keyboard.press("Enter");
      await visit.at(first);
      await visit.until(
        () => page.evaluate(() => document.activeElement.tagName === "H1"),
        "the new node has the focus",
      );
      await page.keyboard.press("m");
      await page.locator("#metrics-title").waitFor();
      await page.keyboard.press("e");
      await visit.at(first);
      await page.keyboard.press("?");
      await page.locator("#keys-on").uncheck();
      await page.keyboard.press("Escape");
      await page.keyboard.press("m");
      assert.match(page.url(), /explore/, "keys that are turned off do nothing");
    },
  },
};
