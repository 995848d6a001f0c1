// `node run.mjs ADDRESS BROWSER [NAME] [relations]`: all cases (or those whose name holds NAME) against a running service,
// or of a page's file://; those of a model with relations if the last word says so. Results as JSON.
import { documenting } from "./documenting.mjs";
import { drawing, frame } from "./drawing.mjs";
import { exploring } from "./exploring.mjs";
import { runCases } from "./harness.mjs";
import { intruding } from "./intruding.mjs";
import { judging } from "./judging.mjs";
import { looking } from "./looking.mjs";
import { relating, relatingReport } from "./relating.mjs";
import { report } from "./report.mjs";

const [base, browser, only, kind] = process.argv.slice(2);
const files = {
  "report.html": kind === "relations" ? relatingReport : report,
  "drawing.html": drawing,
  "frame.html": frame,
};
const plain = { ...exploring, ...judging, ...looking, ...documenting, ...intruding };
const served = kind === "relations" ? relating : plain;
const cases = base.startsWith("file:") ? files[base.split("/").at(-1)] : served;
if (base === "--list") console.log(JSON.stringify(Object.keys(cases)));
else console.log(JSON.stringify(await runCases(cases, { base, browser, only }), null, 1));
