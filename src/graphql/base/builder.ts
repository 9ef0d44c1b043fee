/** The schema builder, its scalars, and small helpers for all files of the schema. */
import SchemaBuilder from "@pothos/core";
import type { ArgBuilder } from "@pothos/core";
import { GraphQLError } from "graphql";
import type { Scope } from "../../lifecycle/scopes.ts";
import type { StoredJson } from "../../store/records.ts";
import type { Context } from "./context.ts";

export const builder = new SchemaBuilder<{
  Context: Context;
  DefaultFieldNullability: false;
  Scalars: {
    ID: { Input: string; Output: string };
    DateTime: { Input: Date; Output: Date };
    UUID: { Input: string; Output: string };
    JSON: { Input: unknown; Output: StoredJson };
    ByteCount: { Input: number; Output: number };
  };
}>({ defaultFieldNullability: false });

type SchemaTypes = (typeof builder)["$inferSchemaTypes"];

/** `t` in the fields of an input type, for functions that make fields which several inputs share. */
export type InputFields = PothosSchemaTypes.InputFieldBuilder<SchemaTypes, "InputObject">;

/** An input type, for functions that make fields of several of them. */
export type InputRef<Shape> = PothosSchemaTypes.InputObjectRef<SchemaTypes, Shape>;

/** An object type, for functions that make fields of several of them. */
export type ObjectRef<Shape> = PothosSchemaTypes.ObjectRef<SchemaTypes, Shape>;

/** `t` in the fields of an object or an interface, for functions that make fields which several types share. */
export type OutputFields<Shape> = Omit<
  PothosSchemaTypes.ObjectFieldBuilder<SchemaTypes, Shape>,
  "kind" | "graphqlKind"
>;

/** `t.arg` of any field, for functions that make arguments which several fields share. */
export type FieldArgs = ArgBuilder<SchemaTypes>;

/** `Query` as a type that a payload can return. */
export const QueryRef = builder.queryType({
  description: "Reads. An unknown name returns null or is skipped.",
});
builder.mutationType({
  description:
    "Writes. Each mutation takes one `input`, and returns expected refusals in `errors`. After an unexpected error `data` is null: mutations before the one in the error's `path` were executed, later ones were not. A verb returns as soon as its operation is stored, before the work is done.",
});
builder.subscriptionType({
  description:
    "Streams over WebSocket (graphql-transport-ws) or server-sent events. After a disconnect, subscribe again with `after: <last cursor>`: no item is lost. Streams of changes may repeat a state that the client has; the others repeat nothing.",
});

/** JavaScript reads other texts too, many of them as times of the server's own zone. */
const TIMESTAMP = /^\d{4}-\d\d-\d\dT([01]\d|2[0-3]):\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/i;

function timestampOf(value: unknown): Date | null {
  if (typeof value !== "string" || !TIMESTAMP.test(value)) return null;
  const date = new Date(value);
  const year = date.getUTCFullYear();
  // PostgreSQL has no year 0 and writes later years in another way.
  if (!(year >= 1 && year <= 9999)) return null;
  const day = value.slice(0, 10);
  // For JavaScript, 30 February is 2 March.
  return new Date(day).toISOString().startsWith(day) ? date : null;
}

builder.scalarType("DateTime", {
  description: "Timestamp as in RFC 3339, in UTC with milliseconds: `2026-01-31T09:30:00.000Z`.",
  specifiedByURL: "https://scalars.graphql.org/andimarek/date-time.html",
  serialize: (value) => new Date(value).toISOString(),
  parseValue: (value) => {
    const date = timestampOf(value);
    if (date) return date;
    throw new GraphQLError(`${JSON.stringify(value)} is not an RFC 3339 timestamp such as "2026-01-31T09:30:00.000Z".`);
  },
});

builder.scalarType("UUID", {
  description: "UUID as in RFC 9562, in lower case.",
  specifiedByURL: "https://www.rfc-editor.org/rfc/rfc9562",
  serialize: (value) => value,
  parseValue: (value) => {
    if (typeof value !== "string" || !/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(value))
      throw new GraphQLError(`${JSON.stringify(value)} is not a UUID.`);
    return value.toLowerCase();
  },
});

builder.scalarType("JSON", {
  description: "Any JSON value. Used only where a driver or a user defines the structure.",
  specifiedByURL: "https://www.rfc-editor.org/rfc/rfc8259",
  serialize: (value) => value,
  parseValue: (value) => value,
});

builder.scalarType("ByteCount", {
  description: "Number of bytes: a whole number from 0 to 2^53 - 1, written as a JSON number.",
  specifiedByURL: "https://www.rfc-editor.org/rfc/rfc8259#section-6",
  serialize: (value) => value,
  parseValue: (value) => {
    if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0)
      throw new GraphQLError(`${JSON.stringify(value)} is not a number of bytes: use a whole number, 0 or more.`);
    return value;
  },
});

/**
 * The scope that callers of a root field need, null for none, and further extensions of it. schema.ts requires it of
 * every one.
 */
export function needs(scope: Scope | null, more: Readonly<Record<string, unknown>> = {}) {
  return { extensions: { scope, ...more } };
}

/** The values of an enum from a table of name → description. */
export function enumValues<Name extends string>(
  meanings: Readonly<Record<Name, string | { readonly description: string }>>,
): Record<Name, { description: string }> {
  const entries = Object.entries(meanings) as [Name, string | { readonly description: string }][];
  return Object.fromEntries(
    entries.map(([name, meaning]) => [
      name,
      { description: typeof meaning === "string" ? meaning : meaning.description },
    ]),
  ) as Record<Name, { description: string }>;
}

/** A duration as an `Int`, rounded up; the largest one for a step that never times out. */
export function wholeSeconds(seconds: number): number {
  return Math.min(Math.ceil(seconds), 2_147_483_647);
}

/** Null as undefined: the engine does not distinguish an omitted input field from null. */
export function given<Value>(value: Value | null | undefined): Value | undefined {
  return value ?? undefined;
}

type Given<Input> = { readonly [Name in keyof Input]: Exclude<Input[Name], null> | undefined };

/** All members as `given`. */
export function givenMembers<Input extends object>(input: Input): Given<Input> {
  return Object.fromEntries(Object.entries(input).map(([name, value]) => [name, given(value)])) as Given<Input>;
}
