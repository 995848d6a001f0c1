import assert from "node:assert/strict";
import { test } from "node:test";
import { api } from "../../src/api";

globalThis.sessionStorage = { getItem: () => null };

test("the page sends the largest version that it has seen, and forgets it when the log is another one", async () => {
  const sent = [];
  const answers = [
    [200, "5"],
    [200, "4"],
    [404, "9"],
    [412, "2"],
    [200, "2"],
    [200, "2"],
  ];
  globalThis.fetch = async (_, options) => {
    sent.push(options.headers["X-Yinyan-Version"]);
    const [status, version] = answers.shift();
    return new Response('{"version": 0, "detail": "why"}', { status, headers: { "X-Yinyan-Version": version } });
  };
  await api.model();
  await api.model();
  await assert.rejects(api.model());
  await api.model(); // refused, and asked again without a version
  await api.model();
  assert.deepEqual(sent, [undefined, "5", "5", "5", undefined, "2"]);
  assert.equal(answers.length, 0);
});
