// Bundles the page: `node build.mjs [--out DIRECTORY]`, by default into the Python package.
import { createHash } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const flag = process.argv.indexOf("--out");
const out = flag > 0 ? process.argv[flag + 1] : join(here, "..", "src", "yinyan", "service", "static");
const assets = join(out, "assets");

const result = await build({
  absWorkingDir: here, // the same bytes from any directory
  entryPoints: { explorer: "src/main.ts", "explorer-style": "src/style/index.css" },
  outdir: assets,
  entryNames: "[name]",
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022", "chrome111", "firefox115", "safari16.4"],
  charset: "utf8",
  legalComments: "none",
  write: false,
});

await rm(out, { recursive: true, force: true });
await mkdir(assets, { recursive: true });
let page = await readFile(join(here, "src", "index.html"), "utf8");
for (const file of result.outputFiles) {
  const name = file.path.split("/").at(-1).replace("explorer-style.css", "explorer.css");
  await writeFile(join(assets, name), file.contents);
  // a new build has new addresses, so that no cache can mix two of them
  const digest = createHash("sha256").update(file.contents).digest("hex").slice(0, 12);
  page = page.replace(`assets/${name}`, `assets/${name}?v=${digest}`);
}
await writeFile(join(assets, "mark.svg"), await readFile(join(here, "src", "mark.svg")));
const notices = ["d3-force", "d3-dispatch", "d3-quadtree", "d3-timer"].map(
  async (name) => `${name}\n\n${await readFile(join(here, "node_modules", name, "LICENSE"), "utf8")}`,
);
await writeFile(join(assets, "licences.txt"), (await Promise.all(notices)).join("\n\n"));
await writeFile(join(out, "index.html"), page);
