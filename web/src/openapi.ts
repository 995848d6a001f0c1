/** The OpenAPI document: what of it the page shows, as plain values. */

import { parseExact, stringifyExact } from "./exact_json";
import type { Id } from "./ids";

export interface Schema {
  $ref?: string;
  title?: string;
  description?: string;
  type?: string;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  examples?: unknown[];
  deprecated?: boolean;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  prefixItems?: Schema[];
  additionalProperties?: Schema | boolean;
  anyOf?: Schema[];
  allOf?: Schema[];
  minimum?: number;
  maximum?: number;
}

export interface Parameter {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema?: Schema;
  example?: unknown;
  examples?: Record<string, { value?: unknown }> | unknown[];
}

interface Content {
  content?: Record<string, { schema?: Schema }>;
}

export interface Operation {
  summary?: string;
  description?: string;
  tags?: string[];
  parameters?: Parameter[];
  requestBody?: Content;
  responses: Record<string, Content & { description?: string }>;
}

export interface Document {
  info: { title: string; version: string; summary?: string };
  paths: Record<string, Record<string, Operation>>;
  components?: { schemas?: Record<string, Schema> };
}

/** One request that the service answers. */
export interface Route {
  readonly name: string; // for the address of its place on the page
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
}

/** A member of a body or of an answer, with how deep it lies. */
export interface Member {
  readonly depth: number;
  readonly name: string;
  readonly kind: string;
  readonly required: boolean;
  readonly words: string;
}

const DEEPEST = 4;

/** The routes by their tag, in the order of the document. */
export function routesByTag(document: Document): Map<string, Route[]> {
  const found = new Map<string, Route[]>();
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const name = `${method}${path.replace(/[^\w]+/g, "-")}`.replace(/-$/, "");
      const tag = operation.tags?.[0] ?? "other";
      found.set(tag, [...(found.get(tag) ?? []), { name, method: method.toUpperCase(), path, operation }]);
    }
  }
  return found;
}

/** Whether a request changes the graph. */
export function isChange({ operation }: Route): boolean {
  return operation.tags?.includes("changes") === true;
}

/** A schema behind its reference. */
export function resolved(document: Document, schema: Schema): Schema {
  const name = schema.$ref?.split("/").at(-1);
  const found = name === undefined ? undefined : document.components?.schemas?.[name];
  return found === undefined ? schema : { ...found, ...schema };
}

/** The type of a schema in words. */
export function kindOfSchema(document: Document, given: Schema): string {
  const schema = resolved(document, given);
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.anyOf !== undefined)
    return [...new Set(schema.anyOf.map((part) => kindOfSchema(document, part)))].join(" | ");
  if (schema.prefixItems !== undefined)
    return `[${schema.prefixItems.map((part) => kindOfSchema(document, part)).join(", ")}]`;
  if (schema.type === "array") {
    const items = schema.items ? kindOfSchema(document, schema.items) : "any";
    return `list of ${items.includes(" | ") ? `(${items})` : items}`;
  }
  return schema.type ?? "any";
}

/** What a schema's members are inside: those of an object, of a list's items, of the one alternative that has any. */
function inside(document: Document, given: Schema): Schema | null {
  const schema = resolved(document, given);
  if (schema.properties !== undefined) return schema;
  if (schema.items !== undefined) return inside(document, schema.items);
  for (const part of schema.anyOf ?? []) {
    const found = inside(document, part);
    if (found !== null) return found;
  }
  return null;
}

/** All members of a schema, each before its own members. */
export function membersOf(document: Document, given: Schema, depth = 0): Member[] {
  const schema = inside(document, given);
  if (schema === null || depth >= DEEPEST) return [];
  return Object.entries(schema.properties ?? {}).flatMap(([name, part]) => {
    const full = resolved(document, part);
    const bounds = [
      full.minimum !== undefined && `at least ${full.minimum}`,
      full.maximum !== undefined && `at most ${full.maximum}`,
      full.default !== undefined && full.default !== null && `default ${JSON.stringify(full.default)}`,
      full.deprecated === true && "deprecated",
    ];
    const words = [part.description ?? full.description ?? "", ...bounds].filter((text) => text).join("; ");
    const required = schema.required?.includes(name) === true;
    return [
      { depth, name, kind: kindOfSchema(document, part), required, words },
      ...membersOf(document, part, depth + 1),
    ];
  });
}

/** The schema of a JSON body, if there is one. */
export function bodySchema(content: Content | undefined): Schema | null {
  return content?.content?.["application/json"]?.schema ?? null;
}

/** The text of an example body, with nodes of the graph in place of those that the document names. */
export function exampleBody(document: Document, schema: Schema, ids: readonly Id[]): string {
  const example = resolved(document, schema).examples?.[0] ?? {};
  return indented(withIds(stringifyExact(example), ids));
}

const NAMED = ["p1", "p9", "p2"]; // the nodes of the document's examples

/** A JSON text with other nodes than those of the document's examples. */
export function withIds(text: string, ids: readonly Id[]): string {
  return NAMED.reduce((so_far, name, place) => {
    const id = ids[place] ?? ids[0];
    return id === undefined ? so_far : so_far.replaceAll(`"${name}"`, () => stringifyExact(id));
  }, text);
}

/** JSON with a line for each member, and short lists on one line; other text as it is. */
export function indented(text: string): string {
  try {
    return laidOut(parseExact(text), "");
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return text;
  }
}

const LINE = 80; // characters

function laidOut(value: unknown, before: string): string {
  const short = stringifyExact(value).replaceAll(/("(?:[^"\\]|\\.)*")|([,:])/g, (_, text?: string, sign?: string) =>
    text === undefined ? `${sign} ` : text,
  );
  if (value === null || typeof value !== "object" || (Array.isArray(value) && short.length <= LINE)) return short;
  const deeper = `${before}  `;
  const members = Array.isArray(value)
    ? value.map((item) => laidOut(item, deeper))
    : Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${laidOut(item, deeper)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return members.length ? `${open}\n${members.map((m) => deeper + m).join(",\n")}\n${before}${close}` : open! + close!;
}

/** The address of a request, with its parameters in their places; parameters without a value are left out. */
export function addressOfRequest(route: Route, values: Readonly<Record<string, string>>): string {
  const query = new URLSearchParams();
  let path = route.path;
  for (const { name, in: place } of route.operation.parameters ?? []) {
    const value = values[name] ?? "";
    if (place === "path") path = path.replace(`{${name}}`, encodeURIComponent(value));
    else if (place === "query" && value !== "") query.set(name, value);
  }
  const asked = query.toString();
  return path.replace(/^\//, "") + (asked ? `?${asked}` : "");
}

/** The same request for a shell. */
export function asCurl(route: Route, address: string, body: string | null, hasKey: boolean): string {
  const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
  const parts = [`curl -X ${route.method} ${quoted(address)}`];
  if (hasKey) parts.push(`-H "Authorization: Bearer $YINYAN_KEY"`);
  if (body !== null) parts.push("-H 'Content-Type: application/json'", `-d ${quoted(body.replaceAll(/\n\s*/g, " "))}`);
  return parts.join(" \\\n  ");
}
