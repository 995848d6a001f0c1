// The page of the API: every request, sent from its form.
import assert from "node:assert/strict";
import { violations } from "./looking.mjs";

const open = (visit, name) => visit.page.locator(`#${name} > summary`).click();

async function sent(visit, name) {
  const { page } = visit;
  await page.locator(`#${name} button[type=submit]`).click();
  await page.locator(`#${name} .outcome pre`).waitFor();
  return [await page.locator(`#${name} .outcome strong`).innerText(), await page.locator(`#${name} .outcome pre`).innerText()];
}

export const documenting = {
  "api page": {
    expected: /status of 404/,
    run: async (visit) => {
      const { page, base } = visit;
      await visit.open("", ".starts");
      await page.getByRole("link", { name: "API" }).click();
      await page.locator(".operation").first().waitFor();
      const { paths } = await (await fetch(`${base}/openapi.json`)).json();
      const count = Object.values(paths).reduce((sum, methods) => sum + Object.keys(methods).length, 0);
      assert.equal(await page.locator(".operation").count(), count);
      await open(visit, "post-v1-recommend");
      const [status, text] = await sent(visit, "post-v1-recommend"); // as it stands, with a node of this graph
      assert.equal(status, "200 OK");
      assert.equal(JSON.parse(text).results[0].recommendations.length, 10);
      await page.locator("#post-v1-recommend-body").fill('{"nodes": ["nobody"]}');
      const [refused, why] = await sent(visit, "post-v1-recommend");
      assert.equal(refused, "404 Not Found");
      assert.match(JSON.parse(why).detail, /nobody.*is not in the graph/);
      await page.locator("#post-v1-recommend .shell summary").click();
      assert.match(await page.locator("#post-v1-recommend .shell pre").innerText(), /^curl -X POST .*nobody/s);
      await open(visit, "get-v1-nodes-id");
      await page.locator("#get-v1-nodes-id-limit").fill("1");
      assert.equal(JSON.parse((await sent(visit, "get-v1-nodes-id"))[1]).neighbours.length, 1);
      await open(visit, "post-v1-edges");
      assert.match(await page.locator("#post-v1-edges button[type=submit]").innerText(), /change the graph/);
      assert.deepEqual(await violations(visit), []);
      await page.goto(`${base}/docs#get-metrics`);
      await page.reload();
      await page.locator("#get-metrics[open]").waitFor();
      assert.match((await sent(visit, "get-metrics"))[1], /^# HELP yinyan_requests_total/);
    },
  },
  "api page, dark": {
    options: { colorScheme: "dark" },
    run: async (visit) => {
      await visit.open("docs", ".operation");
      await open(visit, "delete-v1-edges");
      await open(visit, "get-v1-nodes");
      await sent(visit, "get-v1-nodes");
      assert.deepEqual(await violations(visit), []);
    },
  },
  "api page, phone": {
    options: { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true },
    run: async (visit) => {
      await visit.open("docs", ".operation");
      await visit.page.locator("#post-v1-explain > summary").tap();
      await sent(visit, "post-v1-explain");
      const wide = await visit.page.evaluate(() => document.documentElement.scrollWidth);
      assert.equal(wide, 390);
    },
  },
  "api page, with a key": {
    expected: /status of 401/,
    run: async (visit) => {
      const { page } = visit;
      const body = JSON.stringify({ title: "Unauthorized", status: 401, detail: "a key is needed" });
      await page.route(/openapi\.json|\/v1\//, (route) => {
        const known = route.request().headers()["authorization"] === "Bearer open sesame";
        return known ? route.continue() : route.fulfill({ status: 401, contentType: "application/problem+json", body });
      });
      await visit.open("docs", "dialog[open]");
      await page.locator("#key").fill("open sesame");
      await page.keyboard.press("Enter");
      await page.locator(".operation").first().waitFor();
      await open(visit, "post-v1-embed");
      assert.equal((await sent(visit, "post-v1-embed"))[0], "200 OK");
      await page.locator("#post-v1-embed .shell summary").click();
      const command = await page.locator("#post-v1-embed .shell pre").innerText();
      assert.ok(command.includes("$YINYAN_KEY") && !command.includes("open sesame"));
    },
  },
};
