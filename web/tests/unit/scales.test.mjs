import assert from "node:assert/strict";
import { test } from "node:test";
import { rampColour } from "../../src/ramp";
import {
  counted,
  crowding,
  drawAt,
  extent,
  figure,
  scoreText,
  linear,
  linkWidth,
  nodeRadius,
  percent,
  signed,
  sureness,
  ticks,
} from "../../src/scales";
import { stopOf } from "../../src/filters_bar";
import { countInWords, howSure } from "../../src/sure";

test("a linear scale meets both ends, and the middle where there is no span", () => {
  const scale = linear([10, 20], [0, 100]);
  assert.deepEqual([scale(10), scale(15), scale(20)], [0, 50, 100]);
  assert.equal(linear([3, 3], [0, 10])(3), 5);
});

test("an extent skips what is not finite", () => {
  assert.deepEqual(extent([3, NaN, -1, Infinity]), [-1, 3]);
  assert.deepEqual(extent([]), [0, 1]);
});

test("ticks are round and within the range", () => {
  assert.deepEqual(ticks([0, 1], 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(ticks([-5000, 10000], 4), [-5000, 0, 5000, 10000]);
  assert.deepEqual(ticks([2, 2]), [2]);
  for (const tick of ticks([0.013, 0.0271], 5)) assert.ok(tick >= 0.013 && tick <= 0.0271);
});

test("no probability short of certainty is shown as certain", () => {
  assert.equal(percent(1), "100.0%");
  assert.equal(percent(0.99999), ">99.9%");
  assert.equal(percent(0.00001), "<0.1%");
  assert.equal(percent(0.5), "50%");
  assert.equal(percent(0.973), "97.3%");
  assert.equal(percent(null), "–");
});

test("links widen with probability, nodes with degree, and crowds narrow links", () => {
  assert.ok(linkWidth(0.1) < linkWidth(0.9) && linkWidth(2) === linkWidth(1));
  assert.ok(nodeRadius(0) < nodeRadius(5) && nodeRadius(1e6) < 30);
  assert.equal(crowding(3), 1);
  assert.ok(crowding(60) < 1 && crowding(1e6) >= 0.45);
});

test("sureness is log-odds from the base rate to even odds", () => {
  assert.deepEqual([sureness(0.001, 0.001), sureness(0.5, 0.001), sureness(0.9, 0.001)], [0, 1, 1]);
  assert.ok(sureness(0.1, 0.001) - sureness(0.01, 0.001) > 0.3, "small probabilities are told apart");
  assert.ok(sureness(0.1, 0.00001) > sureness(0.1, 0.01), "a tenth is much where new links are rare");
  assert.deepEqual([sureness(0, 0.5), sureness(1, 0.5)], [0, 1]);
  const before = sureness(0.01);
  drawAt(0.01);
  assert.ok(before > 0 && sureness(0.01) === 0, "a page draws at the base rate of its model");
  drawAt(0.001);
});

test("a list states its base rate, and how many of ten links are missing edges", () => {
  const rate = { base_rate: 0.000144, missing_share: 0.1 };
  const links = [{ probability: 0.4 }, { probability: 0.2 }];
  assert.equal(
    howSure(rate, links),
    "Of ten such links, about three are missing edges. " +
      "Probabilities hold at a base rate of 0.014% (as many missing edges as 10% of the known).",
  );
  assert.equal(howSure(rate, [{ probability: null }]), "");
  assert.match(countInWords(0.1), /^Of ten such links, about one is/);
  assert.match(countInWords(0.012), /^Of a hundred such links, about one is/);
  assert.match(countInWords(0.0021), /^Of a thousand such links, about two are/);
  assert.match(countInWords(0.00001), /fewer than one/);
});

test("the slider stops at small probabilities", () => {
  assert.deepEqual([0, 0.0005, 0.01, 0.35, 1].map(stopOf), [0, 0, 4, 12, 20]);
});

test("a ramp meets its three colours", () => {
  const ramp = (p) => rampColour(p, "#ff0000", "#808080", "#0000ff");
  assert.deepEqual([ramp(0), ramp(0.5), ramp(1), ramp(7)], ["#ff0000", "#808080", "#0000ff", "#0000ff"]);
  assert.equal(ramp(0.75), "#4040c0");
});

test("numbers are spelled for people", () => {
  assert.equal(figure(-1.5), "\u22121.500");
  assert.equal(figure(0.00001), "1.00e\u22125");
  assert.equal(figure(-0.00213, 2), "\u22122.13e\u22123");
  assert.equal(figure(null), "–");
  assert.equal(signed(0.25), "+0.250");
  assert.equal(counted(1, "link"), "1 link");
  assert.equal(counted(2708, "node"), "2,708 nodes");
});

test("scores of one list have the same form, however small one is", () => {
  assert.deepEqual([0.15, 0.0098, -0.00737, -0.00001, 12.34567].map(scoreText), [
    "0.150",
    "0.010",
    "\u22120.007",
    "0.000",
    "12.346",
  ]);
  assert.deepEqual([0.0004, -1.5].map(signed), ["+0.000", "\u22121.500"]);
});
