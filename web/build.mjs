// Bundles the pages: `node build.mjs [--out DIRECTORY]`, by default into the Python package.
import { createHash } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const flag = process.argv.indexOf("--out");
const out = flag > 0 ? process.argv[flag + 1] : join(here, "..", "src", "yinyan");
const explorer = join(out, "service", "static");

/** The bundle of one source, as text. */
async function bundled(source, format) {
  const result = await build({
    absWorkingDir: here, // the same bytes from any directory
    entryPoints: [source],
    bundle: true,
    minify: true,
    format,
    target: ["es2022", "chrome111", "firefox115", "safari16.4"],
    charset: "utf8",
    legalComments: "none",
    write: false,
  });
  return result.outputFiles[0].text;
}

const read = (name) => readFile(join(here, "src", name), "utf8");
const style = await bundled("src/style/index.css");
const notices = ["d3-force", "d3-dispatch", "d3-quadtree", "d3-timer"].map(
  async (name) => `${name}\n\n${await readFile(join(here, "node_modules", name, "LICENSE"), "utf8")}`,
);
const assets = {
  "explorer.js": await bundled("src/main.ts", "esm"),
  "explorer.css": style,
  "docs.js": await bundled("src/docs.ts", "esm"),
  "docs.css": await bundled("src/style/docs.css"),
  "mark.svg": await read("mark.svg"),
  "licences.txt": (await Promise.all(notices)).join("\n\n"),
};

await rm(explorer, { recursive: true, force: true });
await mkdir(join(explorer, "assets"), { recursive: true });
const pages = { "index.html": await read("index.html"), "docs.html": await read("docs.html") };
for (const [name, text] of Object.entries(assets)) {
  await writeFile(join(explorer, "assets", name), text);
  // a new build has new addresses, so that no cache can mix two of them
  const digest = createHash("sha256").update(text).digest("hex").slice(0, 12);
  if (!/\.(js|css)$/.test(name)) continue;
  for (const page of Object.keys(pages)) pages[page] = pages[page].replace(`assets/${name}`, `assets/${name}?v=${digest}`);
}
for (const [name, text] of Object.entries(pages)) await writeFile(join(explorer, name), text);

/** A page of one file. Its policy names the digests of its only script and its only style. */
async function single(page, source, css) {
  const script = (await bundled(source, "iife")).trim();
  const digest = (text) => `sha256-${createHash("sha256").update(text).digest("base64")}`;
  const parts = { style: css, script, "style-hash": digest(css), "script-hash": digest(script) };
  let text = await read(page);
  for (const [name, part] of Object.entries(parts)) text = text.replace(`{{${name}}}`, () => part);
  return text;
}

const singles = {
  reporting: await single("report.html", "src/report.ts", style),
  drawing: await single("neighbourhood.html", "src/neighbourhood.ts", await bundled("src/style/neighbourhood.css")),
};
for (const [folder, text] of Object.entries(singles)) {
  await mkdir(join(out, folder), { recursive: true });
  await writeFile(join(out, folder, "template.html"), text);
}
