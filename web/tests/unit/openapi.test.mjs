import assert from "node:assert/strict";
import { test } from "node:test";
import * as openapi from "../../src/openapi";

const document = {
  info: { title: "yinyan", version: "1" },
  paths: {
    "/v1/score": {
      post: {
        tags: ["questions"],
        requestBody: { content: { "application/json": { schema: { $ref: "#/components/schemas/Body" } } } },
        responses: { 200: { content: { "application/json": { schema: { $ref: "#/components/schemas/Scores" } } } } },
      },
    },
    "/v1/nodes/{id}": {
      get: {
        tags: ["browsing"],
        parameters: [
          { name: "id", in: "path", required: true },
          { name: "limit", in: "query" },
          { name: "kind", in: "query" },
        ],
        responses: {},
      },
      delete: { tags: ["changes"], responses: {} },
    },
    "/healthz": { get: { responses: {} } },
  },
  components: {
    schemas: {
      Id: { anyOf: [{ type: "string" }, { type: "integer" }] },
      Body: {
        properties: {
          nodes: { type: "array", items: { $ref: "#/components/schemas/Id" } },
          k: { type: "integer", minimum: 1, default: 10, description: "links per node" },
        },
        required: ["nodes"],
        examples: [{ nodes: ["p1", "p9", "p3000"], k: 10 }],
      },
      Score: { properties: { source: { $ref: "#/components/schemas/Id" }, next: { $ref: "#/components/schemas/Score" } } },
      Scores: { properties: { scores: { type: "array", items: { $ref: "#/components/schemas/Score" } } } },
    },
  },
};

const schema = { $ref: "#/components/schemas/Body" };
const routes = openapi.routesByTag(document);
const [node, removal] = routes.get("browsing").concat(routes.get("changes"));

test("routes stand under their tags, each with a name of its own", () => {
  assert.deepEqual([...routes.keys()], ["questions", "browsing", "changes", "other"]);
  assert.deepEqual(
    [...routes.values()].flat().map(({ name }) => name),
    ["post-v1-score", "get-v1-nodes-id", "delete-v1-nodes-id", "get-healthz"],
  );
  assert.equal(openapi.isChange(removal), true);
  assert.equal(openapi.isChange(node), false);
});

test("members have their types, bounds and places", () => {
  assert.deepEqual(openapi.membersOf(document, schema), [
    { depth: 0, name: "nodes", kind: "list of (string | integer)", required: true, words: "" },
    { depth: 0, name: "k", kind: "integer", required: false, words: "links per node; at least 1; default 10" },
  ]);
  const answer = openapi.membersOf(document, openapi.bodySchema(routes.get("questions")[0].operation.responses[200]));
  assert.deepEqual(
    answer.map(({ name, depth }) => [name, depth]),
    [["scores", 0], ["source", 1], ["next", 1], ["source", 2], ["next", 2], ["source", 3], ["next", 3]],
    "a schema that holds itself ends somewhere",
  );
});

test("an example names nodes of the graph, exactly", () => {
  const text = openapi.exampleBody(document, schema, ['7"', 9007199254740993n]);
  assert.equal(text, '{\n  "nodes": ["7\\"", 9007199254740993, "p3000"],\n  "k": 10\n}');
  assert.match(openapi.exampleBody(document, schema, []), /"p1", "p9"/);
});

test("JSON is laid out, and other text stays as it is", () => {
  assert.equal(openapi.indented('{"a":{},"b":[1,2],"c":"x,y"}'), '{\n  "a": {},\n  "b": [1, 2],\n  "c": "x,y"\n}');
  assert.equal(openapi.indented("# HELP x"), "# HELP x");
});

test("parameters go to their places, and empty ones nowhere", () => {
  assert.equal(openapi.addressOfRequest(node, { id: "a/b ?", limit: "5", kind: "" }), "v1/nodes/a%2Fb%20%3F?limit=5");
});

test("a command for a shell holds no key, and quotes what it must", () => {
  const command = openapi.asCurl(removal, "http://x/v1", `{\n  "a": "it's"\n}`, true);
  assert.equal(
    command.replaceAll(" \\\n ", ""),
    `curl -X DELETE 'http://x/v1' -H "Authorization: Bearer $YINYAN_KEY" -H 'Content-Type: application/json' -d '{ "a": "it'\\''s" }'`,
  );
});
