import assert from "node:assert/strict";
import { test } from "node:test";
import { outline } from "../../src/histogram_chart";
import { discPlaces } from "../../src/link_painter";
import { bestOf, metricMeaning, metricName, ordinal } from "../../src/metrics";
import { reach, withinInterval } from "../../src/reliability_chart";

test("the outline of a histogram goes up, along every bar, and down", () => {
  assert.deepEqual(outline([0, 1, 3], [0.25, 0.75]), [
    [0, 0],
    [0, 0.25],
    [1, 0.25],
    [1, 0.75],
    [3, 0.75],
    [3, 0],
  ]);
});

test("ranks stand in the frame, apart from each other and from the ends of links", () => {
  const links = Array.from({ length: 15 }, (_, i) => [
    [100 + 3 * i, 60],
    [110 + 2 * i, 75 + i],
  ]);
  const places = discPlaces(links, 400, 300);
  assert.equal(places.length, 15);
  const apart = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);
  for (const [i, place] of places.entries()) {
    assert.ok(place[0] > 9 && place[0] < 391 && place[1] > 9 && place[1] < 291);
    for (const other of places.slice(i + 1)) assert.ok(apart(place, other) > 18);
    for (const end of links.flat()) assert.ok(apart(place, end) > 12);
  }
});

test("a rank stands at the middle of its link where there is room, and also where there is none", () => {
  const long = [
    [20, 50],
    [180, 50],
  ];
  assert.deepEqual(discPlaces([long], 200, 100), [[100, 50]]);
  const tiny = [
    [2, 2],
    [4, 4],
  ];
  assert.deepEqual(discPlaces([tiny], 6, 6), [[3, 3]]);
});

test("metrics have names and meanings", () => {
  assert.deepEqual(["mrr", "hits@100", "mean_rank"].map(metricName), ["MRR", "Hits@100", "Mean rank"]);
  assert.deepEqual([1, 2, 3, 4, 11, 12, 21, 100, 112].map(ordinal).join(" "), "1st 2nd 3rd 4th 11th 12th 21st 100th 112th");
  assert.equal(metricMeaning("hits@1"), "share of positives above the best negative");
  assert.equal(metricMeaning("hits@100"), "share of positives above the 100th best negative");
  assert.equal(metricMeaning("hits@10%"), "share of positives above the best 10 % of the negatives");
  assert.equal(metricName("filtered mrr"), "Filtered MRR");
  assert.match(metricMeaning("filtered mrr"), /among all nodes/);
  assert.equal(metricMeaning("filtered hits@10"), "share of true ends among the best 10 of all nodes");
  assert.equal(metricMeaning("unheard of"), "");
});

test("the best of a column: the highest, or the lowest of errors; values spelled alike are best together", () => {
  assert.equal(bestOf("auc", [{ auc: 0.9 }, { auc: 0.95001 }, {}]), "0.950");
  assert.equal(bestOf("brier", [{ brier: 0.2 }, { brier: 0.1 }, { brier: null }]), "0.100");
  assert.equal(bestOf("auc", [{}, { auc: null }]), "");
});

test("bins whose interval holds the stated probability are counted", () => {
  const bin = (predicted, low, high) => ({ predicted, observed: 0.5, low, high, count: 1 });
  assert.equal(withinInterval([bin(0.1, 0.0, 0.1), bin(0.5, 0.6, 0.7), bin(0.9, 0.8, 1.0)]), 2);
});

test("the axes of the calibration end just above what is drawn", () => {
  assert.ok(Math.abs(reach([{ predicted: 0.01, high: 0.034 }]) - 0.04) < 1e-9);
  assert.equal(reach([{ predicted: 0.5, high: 0.97 }]), 1);
});
