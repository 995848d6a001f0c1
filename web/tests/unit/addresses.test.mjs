import assert from "node:assert/strict";
import { test } from "node:test";
import { parseExact, stringifyExact } from "../../src/exact_json";
import { idFrom, keyOf, sameId, spelled, TypedId } from "../../src/ids";
import { addressOf, DEFAULTS, viewFrom } from "../../src/url_state";

const explore = (node, filters = {}) => ({ page: "explore", node, filters: { ...DEFAULTS, ...filters } });

test("a view survives its address", () => {
  const views = [
    explore(null),
    explore("7"),
    explore(7),
    explore(-3),
    explore(9007199254740993n),
    explore("a b&c=#?/%\u00e9\u{1f600}"),
    explore(""),
    explore("x", { k: 50, least: 0.35, text: "a=b&c", links: false, predictions: false }),
    explore(new TypedId("person", "7"), { relation: "buys", edges: "views & more" }),
    explore(new TypedId("a b", 7)),
    { page: "model", highlight: "", relation: "" },
    { page: "model", highlight: "two words", relation: "buys" },
  ];
  for (const view of views) assert.deepEqual(viewFrom(addressOf(view)), view);
});

test("7 and '7' have two addresses", () => {
  assert.equal(addressOf(explore(7)), "#/explore?number=7");
  assert.equal(addressOf(explore("7")), "#/explore?node=7");
  assert.equal(sameId(7, "7"), false);
  assert.notEqual(keyOf(7), keyOf("7"));
  assert.equal(keyOf(7), keyOf(7n));
});

test("an id of two types has two addresses, and goes to the service with its type", () => {
  const [person, product] = [new TypedId("person", "7"), new TypedId("product", "7")];
  assert.equal(addressOf(explore(person)), "#/explore?node=7&type=person");
  assert.equal(sameId(person, product) || sameId(person, "7"), false);
  assert.equal(keyOf(person), keyOf(new TypedId("person", "7")));
  assert.equal(stringifyExact({ nodes: [new TypedId("product", 9007199254740993n)] }), '{"nodes":[{"type":"product","id":9007199254740993}]}');
  assert.equal(spelled(person), "'7'");
  assert.equal(`${product}`, "7");
});

test("nonsense in an address is left out", () => {
  assert.deepEqual(viewFrom("#/explore?number=seven&k=0&min=2&links=x"), explore(null, { k: 1, least: 1 }));
  assert.deepEqual(viewFrom("#/explore?k=100000&min=abc"), explore(null, { k: 100 }));
  assert.deepEqual(viewFrom("#nowhere"), explore(null));
  assert.deepEqual(viewFrom(""), explore(null));
});

test("ids are read by their kind", () => {
  assert.equal(idFrom("007", "text"), "007");
  assert.equal(idFrom("7", "integer"), 7);
  assert.equal(idFrom("9007199254740993", "integer"), 9007199254740993n);
  assert.equal(idFrom("7.0", "integer"), null);
  assert.equal(idFrom("", "integer"), null);
});

test("long whole numbers pass through JSON with all their digits", () => {
  const text =
    '{"ids":[9007199254740993,-9223372036854775808,7,"9007199254740993","a\\"9007199254740993"],"x":0.12345678901234567890,"y":1e300}';
  const value = parseExact(text);
  assert.deepEqual(value.ids, [9007199254740993n, -9223372036854775808n, 7, "9007199254740993", 'a"9007199254740993']);
  assert.equal(value.x, 0.12345678901234568);
  assert.equal(value.y, 1e300);
  assert.equal(
    stringifyExact({ pairs: [[9007199254740993n, "7"]], k: 7, none: null, left: undefined }),
    '{"pairs":[[9007199254740993,"7"]],"k":7,"none":null}',
  );
});
