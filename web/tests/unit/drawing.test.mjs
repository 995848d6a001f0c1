import assert from "node:assert/strict";
import { test } from "node:test";
import { passingLinks, passingPredictions, textFilter } from "../../src/filtering";
import { Grid } from "../../src/grid";
import { overlap, placedLabels, shortened } from "../../src/labels";
import { placesOf } from "../../src/layout";
import { TypedId } from "../../src/ids";
import { chosenOf, pairOf, pairsOf, predictedOf } from "../../src/relations";
import { edgeKey, sameShape, sceneOf } from "../../src/scene";
import { DEFAULTS } from "../../src/url_state";
import { Viewport } from "../../src/viewport";
import { largest, sharesOf } from "../../src/why";

function random(seed) {
  let state = seed;
  return () => (state = (state * 1664525 + 1013904223) % 4294967296) / 4294967296;
}

test("the grid finds the nearest point, as a look at all points does", () => {
  const next = random(1);
  const x = Float64Array.from({ length: 3000 }, () => next() * 10);
  const y = Float64Array.from({ length: 3000 }, () => next() ** 3 * 4);
  const grid = new Grid(x, y);
  for (let t = 0; t < 300; t++) {
    const [px, py, radius] = [next() * 12 - 1, next() * 6 - 1, next() * 0.5];
    const away = (i) => Math.hypot(x[i] - px, y[i] - py);
    const best = [...x.keys()].reduce((a, b) => (away(b) < away(a) ? b : a));
    const found = grid.nearest(px, py, radius);
    if (away(best) > radius) assert.equal(found, -1);
    else assert.equal(away(found), away(best));
  }
  assert.equal(new Grid(new Float64Array(0), new Float64Array(0)).nearest(0, 0, 1), -1);
  assert.equal(new Grid(Float64Array.of(2, 2), Float64Array.of(3, 3)).nearest(2, 3, 0.1) >= 0, true);
});

const material = {
  centre: { id: "a", label: "A", degree: 1 },
  neighbourhood: {
    nodes: [
      { id: "a", label: "A", degree: 1, hop: 0 },
      { id: 7, label: "twin", degree: 2, hop: 1 },
      { id: "7", label: "twin", degree: 1, hop: 2 },
    ],
    links: [
      ["a", 7],
      [7, "7"],
    ],
    version: 1,
  },
  predictions: [{ target: "7", label: "twin", score: 1, probability: 0.8, rank: 1 }],
  probabilities: new Map([["integer:7", 0.6]]),
  links: true,
  directed: false,
};

test("a scene of relations: types, lanes of edges that join the same nodes, and names of two types", () => {
  const [person, product] = [new TypedId("person", "3"), new TypedId("product", "3")];
  const nodes = [
    { id: person, degree: 2, hop: 0 },
    { id: product, degree: 2, hop: 1 },
  ];
  const links = [
    [person, product],
    [person, product],
  ];
  const found = sceneOf({
    centre: nodes[0],
    neighbourhood: { nodes, links, relations: ["buys", "views"], version: 0 },
    predictions: [],
    probabilities: new Map([[edgeKey(product, "buys"), 0.4]]),
    links: true,
    directed: false,
  });
  assert.deepEqual(
    found.nodes.map(({ name, type }) => [name, type]),
    [
      ["person '3'", "person"],
      ["product '3'", "product"],
    ],
  );
  assert.deepEqual(
    found.links.map(({ relation, probability }) => [relation, probability]),
    [
      ["buys", 0.4],
      ["views", null],
    ],
  );
  assert.deepEqual(
    found.links.map(({ lane }) => Math.abs(lane)),
    [0.5, 0.5],
  );
  assert.notEqual(found.links[0].lane, found.links[1].lane);
});

test("relations of a node, and which way round its pairs go", () => {
  const relation = (name, source, target, more = {}) => ({ name, source, target, predicted: true, directed: false, ...more });
  const relations = [relation("buys", "person", "product"), relation("follows", "person", "person", { directed: true })];
  const unpredicted = relation("sells", "shop", "product", { predicted: false });
  const [ann, bob, tea] = [new TypedId("person", "a"), new TypedId("person", "b"), new TypedId("product", "t")];
  assert.deepEqual(predictedOf([...relations, unpredicted], tea), [relations[0]]);
  assert.equal(chosenOf(relations, ann, "follows"), relations[1]);
  assert.equal(chosenOf(relations, tea, "follows"), relations[0]);
  assert.equal(chosenOf([unpredicted], tea, ""), null);
  assert.deepEqual(pairsOf(relations[0], tea, ann), [[ann, tea]]);
  assert.equal(pairsOf(relations[1], ann, bob).length, 2);
  assert.deepEqual(pairOf(null, "x", "y"), ["x", "y"]);
});

test("a scene tells links from predictions and 7 from '7'", () => {
  const { nodes, links, centre } = sceneOf(material);
  assert.equal(centre, "text:a");
  assert.deepEqual(
    nodes.map(({ key, role, name }) => [key, role, name]),
    [
      ["text:a", "centre", "A"],
      ["integer:7", "link", "twin (7)"],
      ["text:7", "predicted", "twin ('7')"],
    ],
  );
  assert.deepEqual(
    links.map(({ known, central, probability }) => [known, central, probability]),
    [
      [true, true, 0.6],
      [true, false, null],
      [false, true, 0.8],
    ],
  );
});

test("scenes that differ in probabilities alone have one shape", () => {
  const scene = sceneOf(material);
  assert.ok(sameShape(scene, sceneOf({ ...material, probabilities: new Map() })));
  assert.ok(!sameShape(scene, sceneOf({ ...material, predictions: [] })));
});

test("without links a scene has the centre and its predictions alone", () => {
  const { nodes, links } = sceneOf({ ...material, links: false });
  assert.deepEqual(
    nodes.map(({ key }) => key),
    ["text:a", "text:7"],
  );
  assert.ok(links.every(({ known }) => !known));
});

test("a layout has its centre in the middle, room for all, and is the same again", () => {
  const scene = sceneOf(material);
  const places = placesOf(scene, new Map(), 1);
  assert.deepEqual(places.get("text:a"), { x: 0, y: 0 });
  const points = [...places.values()];
  points.forEach((p, i) => points.slice(i + 1).forEach((q) => assert.ok(Math.hypot(p.x - q.x, p.y - q.y) > 20)));
  assert.deepEqual(placesOf(scene, new Map(), 1), places);
});

test("the centre's links point in directions of their own", () => {
  const ends = Array.from({ length: 12 }, (_, i) => ({ id: `n${i}`, degree: 3, hop: 1 }));
  const links = ends.map(({ id }) => ["a", id]);
  const among = ends.slice(1).map(({ id }, i) => [id, `n${i}`]); // a chain that would draw them together
  const nodes = [{ id: "a", degree: 12, hop: 0 }, ...ends];
  const scene = sceneOf({
    ...material,
    neighbourhood: { nodes, links: [...links, ...among], version: 1 },
    predictions: [],
  });
  const places = placesOf(scene, new Map(), 1);
  const angles = ends
    .map(({ id }) => places.get(`text:${id}`))
    .map(({ x, y }) => Math.atan2(y, x))
    .sort((a, b) => a - b);
  const gaps = angles.map((angle, i) => (i === 0 ? angle + 2 * Math.PI - angles.at(-1) : angle - angles[i - 1]));
  assert.ok(Math.min(...gaps) > 0.15, `${gaps}`);
});

test("labels never cover each other or a node, unless they must be read", () => {
  const next = random(2);
  const wishes = Array.from({ length: 80 }, (_, i) => {
    const y = next() * 300;
    return { text: `label ${i}`, x: next() * 400, ys: [y, y - 30], weight: i, certain: false };
  });
  const disc = { left: 100, right: 140, top: 100, bottom: 140 };
  const frame = ({ x, y }) => ({ left: x - 23, right: x + 23, top: y - 8, bottom: y + 8 });
  const granted = placedLabels(wishes, () => 40, 400, [disc]);
  granted.forEach((a, i) => granted.slice(i + 1).forEach((b) => assert.ok(!overlap(frame(a), frame(b)))));
  assert.ok(granted.every((label) => !overlap(frame(label), disc)));
  assert.equal(granted[0].text, "label 79");
  const forced = { text: "x", x: 120, ys: [120], weight: 0, certain: true };
  assert.equal(placedLabels([forced], () => 40, 400, [disc]).length, 1);
  assert.equal(shortened("abcdef", 4), "abc…");
});

test("a label at the edge of a narrow drawing is not cut off", () => {
  const at = (x) => placedLabels([{ text: "x", x, ys: [20], weight: 0, certain: false }], () => 94, 390)[0].x;
  assert.deepEqual([2, 200, 380].map(at), [50, 200, 340]);
  assert.equal(at(-60), -60, "what is outside stays there");
});

test("zooming keeps the point under the pointer, and a fit shows the whole box", () => {
  const viewport = new Viewport();
  viewport.fit({ left: -10, top: -5, right: 30, bottom: 5 }, 800, 400, 20, 100);
  const before = viewport.toPlane(123, 45);
  viewport.zoom(1.7, 123, 45);
  viewport.toPlane(123, 45).forEach((value, i) => assert.ok(Math.abs(value - before[i]) < 1e-9));
  viewport.fit({ left: -10, top: -5, right: 30, bottom: 5 }, 800, 400, 20, 100);
  const [left, top] = viewport.toScreen(-10, -5);
  const [right, bottom] = viewport.toScreen(30, 5);
  assert.ok(left >= 19.999 && top >= 19.999 && right <= 780.001 && bottom <= 380.001);
});

test("filters look at names and ids, whatever their case and accents", () => {
  assert.ok(textFilter("ETUDE")("Étude", "x") && textFilter("12")("name", 3123) && !textFilter("z")("name", 1));
  const predictions = [
    { target: "a", score: 1, probability: 0.9, rank: 1 },
    { target: "b", score: 1, probability: 0.2, rank: 2 },
    { target: "c", score: 1, probability: null, rank: 3 },
  ];
  const passing = (filters) =>
    passingPredictions(predictions, { ...DEFAULTS, ...filters }, String).map(({ target }) => target);
  assert.deepEqual(passing({}), ["a", "b", "c"]);
  assert.deepEqual(passing({ least: 0.5 }), ["a", "c"]);
  assert.deepEqual(passing({ text: "b" }), ["b"]);
  assert.deepEqual(passing({ predictions: false }), []);
  assert.deepEqual(passingLinks([{ id: 1, degree: 1 }], { ...DEFAULTS, links: false }, String), []);
});

test("an explanation shows the largest shares and sums the rest", () => {
  const shares = [1, -5, 2, 3, -0.5].map((amount) => ({ neighbour: "b", of: "both", attracts: true, amount }));
  const [shown, rest, count] = largest(shares, 2);
  assert.deepEqual(
    shown.map(({ amount }) => amount),
    [-5, 3],
  );
  assert.deepEqual([rest, count], [2.5, 3]);
});

test("a common neighbour is one share, and 7 is not '7'", () => {
  const of = (end, neighbour, amount, kind = "attracts") => ({ end, neighbour, kind, amount });
  const given = [
    of("a", 7, 1),
    of("b", 7, 2),
    of("a", "7", 4),
    of("b", null, -1, "repels"),
    of("a", null, -2, "repels"),
  ];
  assert.deepEqual(sharesOf(given, "a"), [
    { neighbour: 7, of: "both", attracts: true, amount: 3, relation: null },
    { neighbour: "7", of: "this node", attracts: true, amount: 4, relation: null },
    { neighbour: null, of: "both", attracts: false, amount: -3, relation: null },
  ]);
  const twice = [of("a", 7, 1), of("a", 7, 2)].map((one, i) => ({ ...one, relation: ["buys", "views"][i] }));
  assert.deepEqual(
    sharesOf(twice, "a").map(({ relation, amount }) => [relation, amount]),
    [
      ["buys", 1],
      ["views", 2],
    ],
  );
});
