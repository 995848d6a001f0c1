/** Tables as CSV (RFC 4180) that a spreadsheet reads as data and never as a formula. */

export type Cell = string | number | bigint | boolean | null;

const FORMULA = /^[\s]*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/;

function cellText(cell: Cell): string {
  if (cell === null) return "";
  if (typeof cell !== "string") return String(cell);
  // a quote in front is what spreadsheets take for "this is text"; numbers proper never pass here
  const safe = FORMULA.test(cell) ? `'${cell}` : cell;
  return /[",\r\n;\t']|^\s|\s$/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** A header and its rows, lines ended by CR LF. */
export function toCsv(header: readonly string[], rows: readonly (readonly Cell[])[]): string {
  return [header, ...rows].map((row) => `${row.map(cellText).join(",")}\r\n`).join("");
}

/** A part of a file's name: letters, digits and dashes of any text. */
export function fileStem(text: string): string {
  const plain = text
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .replace(/[^\p{L}\p{N}]+/gu, "-");
  return plain.replace(/^-+|-+$/g, "").slice(0, 60) || "node";
}
