// `node run.mjs ADDRESS BROWSER [NAME]`: all cases (or those whose name holds NAME) against a running service, or of a page's file://; results as JSON.
import { documenting } from "./documenting.mjs";
import { drawing, frame } from "./drawing.mjs";
import { exploring } from "./exploring.mjs";
import { runCases } from "./harness.mjs";
import { intruding } from "./intruding.mjs";
import { judging } from "./judging.mjs";
import { looking } from "./looking.mjs";
import { report } from "./report.mjs";

const [base, browser, only] = process.argv.slice(2);
const files = { "report.html": report, "drawing.html": drawing, "frame.html": frame };
const cases = base.startsWith("file:")
  ? files[base.split("/").at(-1)]
  : { ...exploring, ...judging, ...looking, ...documenting, ...intruding };
if (base === "--list") console.log(JSON.stringify(Object.keys(cases)));
else console.log(JSON.stringify(await runCases(cases, { base, browser, only }), null, 1));
