import assert from "node:assert/strict";
import { test } from "node:test";
import { fileStem, toCsv } from "../../src/csv";
import { TypedId } from "../../src/ids";
import { edgeKey } from "../../src/scene";
import { headerOf, tableRows } from "../../src/table_export";

const line = (cell) => toCsv([], [[cell]]).slice(2); // after the empty header's line

test("plain cells stand as they are", () => {
  assert.equal(
    toCsv(
      ["a", "b"],
      [
        ["x", 1],
        [null, true],
      ],
    ),
    "a,b\r\nx,1\r\n,true\r\n",
  );
});

test("commas, quotes and line breaks are quoted", () => {
  assert.equal(line("a,b"), '"a,b"\r\n');
  assert.equal(line('say "yes"'), '"say ""yes"""\r\n');
  assert.equal(line("two\nlines"), '"two\nlines"\r\n');
  assert.equal(line(" edge "), '" edge "\r\n');
});

test("text that a spreadsheet would run is made text", () => {
  for (const text of ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "\r=1", "\uff1d1"]) {
    assert.match(line(text), /^"'/, JSON.stringify(text));
  }
});

test("numbers keep their sign and all their digits", () => {
  assert.equal(line(-1.5), "-1.5\r\n");
  assert.equal(line(9007199254740993n), "9007199254740993\r\n");
});

test("a table has predictions first, then links", () => {
  const predictions = [{ target: 7, label: "seven", rank: 1, score: 2, probability: 0.9 }];
  const scores = new Map([["text:7", { source: "a", target: "7", score: 1, probability: 0.6, is_link: true }]]);
  assert.deepEqual(tableRows("a", predictions, [{ id: "7", label: null, degree: 2 }], scores), [
    ["a", 7, "seven", false, 1, 2, 0.9],
    ["a", "7", null, true, null, 1, 0.6],
  ]);
});

test("with relations a line has the types of both ends and the relation", () => {
  const [ann, tea] = [new TypedId("person", "7"), new TypedId("product", "7")];
  const predictions = [{ target: tea, label: "tea", rank: 1, score: 2, probability: 0.9 }];
  const scores = new Map([[edgeKey(tea, "views"), { source: ann, target: tea, score: 1, probability: 0.6, is_link: true }]]);
  const links = ["views", "buys"].map((relation) => ({ id: tea, label: "tea", degree: 2, relation }));
  const rows = tableRows(ann, predictions, links, scores, "buys");
  assert.deepEqual(rows, [
    ["7", "7", "tea", false, 1, 2, 0.9, "person", "product", "buys"],
    ["7", "7", "tea", true, null, 1, 0.6, "person", "product", "views"],
    ["7", "7", "tea", true, null, null, null, "person", "product", "buys"],
  ]);
  assert.deepEqual(headerOf(rows).slice(-3), ["source_type", "target_type", "relation"]);
  assert.equal(headerOf([]).length, 7);
});

test("file names are plain", () => {
  assert.equal(fileStem("../Étude: a/b"), "Etude-a-b");
  assert.equal(fileStem("..."), "node");
});
