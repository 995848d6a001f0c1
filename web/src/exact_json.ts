/** JSON in which whole numbers keep all their digits, as bigint where a double would round them. */

const STRING_OR_LONG_WHOLE = /"(?:[^"\\]|\\.)*"|-?\d{16,}(?![\d.eE])/g;

export function parseExact(text: string): unknown {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  const mark = `whole-${Math.random()}:`; // unforeseeable, so that no text of an answer can pass for a number
  const marked = text.replace(STRING_OR_LONG_WHOLE, (token, at: number) => {
    if (token.startsWith('"') || text[at - 1] === ".") return token;
    return Number.isSafeInteger(Number(token)) ? token : JSON.stringify(mark + token);
  });
  return JSON.parse(marked, (_, value: unknown) =>
    typeof value === "string" && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value,
  );
}

export function stringifyExact(value: unknown): string {
  if (typeof value === "bigint") return value.toString();
  if (Array.isArray(value)) return `[${value.map(stringifyExact).join(",")}]`;
  if (value !== null && typeof value === "object") {
    const members = Object.entries(value).filter(([, member]) => member !== undefined);
    return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${stringifyExact(member)}`).join(",")}}`;
  }
  return JSON.stringify(value ?? null);
}
