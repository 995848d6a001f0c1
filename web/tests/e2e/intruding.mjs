// A page of another origin in the same browser: it can read nothing of the service, and change nothing.
import assert from "node:assert/strict";
import { createServer } from "node:http";

/** What a page can try without the service's consent, and what of each attempt it could read. */
async function attempts(base) {
  const body = JSON.stringify({ edges: [["c1", "d1"]] });
  const json = { "Content-Type": "application/json" };
  const tries = {
    read: [`${base}/v1/model`, {}],
    "read without an answer": [`${base}/v1/model`, { mode: "no-cors" }],
    "change as JSON": [`${base}/v1/edges`, { method: "POST", headers: json, body }],
    "change as plain text": [`${base}/v1/edges`, { method: "POST", mode: "no-cors", body }],
    remove: [`${base}/v1/edges`, { method: "DELETE", headers: json, body }],
    reload: [`${base}/v1/reload`, { method: "POST", mode: "no-cors" }],
  };
  const seen = {};
  for (const [name, [address, options]] of Object.entries(tries)) {
    try {
      const answer = await fetch(address, { credentials: "include", ...options });
      seen[name] = `${answer.type} ${answer.status} ${(await answer.text()).length}`;
    } catch {
      seen[name] = "refused";
    }
  }
  return seen;
}

/** Sends a form, as a page can without any script of its own, and waits for what comes back. */
async function sendForm(page, base) {
  const arrived = page.waitForResponse((response) => response.url() === `${base}/v1/edges`);
  await page.evaluate((action) => {
    const form = document.createElement("form");
    Object.assign(form, { action, method: "post", enctype: "text/plain" });
    const field = document.createElement("input");
    Object.assign(field, { name: '{"edges": [["c1", "d1"]], "x": "', value: '"}' });
    form.append(field);
    document.body.append(form);
    form.submit();
  }, `${base}/v1/edges`);
  return (await arrived).status();
}

export const intruding = {
  "another origin": {
    expected: /CORS policy|Failed to load resource|net::ERR_FAILED|favicon|Cross-Origin/,
    async run(visit) {
      const { page, base } = visit;
      const version = async () => (await (await fetch(`${base}/v1/model`)).json()).version;
      const before = await version();
      const elsewhere = createServer((_, response) => {
        response.setHeader("Content-Type", "text/html");
        response.end("<!doctype html><title>elsewhere</title><body></body>");
      });
      await new Promise((done) => elsewhere.listen(0, "127.0.0.1", done));
      const address = `http://127.0.0.1:${elsewhere.address().port}/`;
      try {
        await page.goto(address);
        const seen = await page.evaluate(attempts, base);
        for (const [name, what] of Object.entries(seen))
          assert.ok(what === "refused" || what === "opaque 0 0", `${name}: ${what}`);
        assert.equal(await sendForm(page, base), 403, "a form of another site is refused");
        assert.equal(await version(), before, "nothing has changed");
        visit.strangers = visit.strangers.filter((url) => !url.startsWith(address)); // the page itself
      } finally {
        await new Promise((done) => elsewhere.close(done));
      }
    },
  },
};
