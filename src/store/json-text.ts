/** SQL that makes JSON text, to the letter what `JSON.stringify` makes of the same value. */
import { randomBytes } from "node:crypto";
import { sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { PgColumn } from "drizzle-orm/pg-core";
import { instantText } from "./postgres/pagination.ts";

/**
 * Where a member of an object comes from: the SQL of its JSON text, which is never null; or, for an object or a list of
 * objects, its own members and what puts the text of one object in its place. `value`: the same of a row, for
 * resolvers.
 */
type JsonField = { readonly value?: (row: never) => unknown } & (
  | { readonly text: SQL }
  | { readonly fields: JsonFields; readonly wrap: (object: SQL) => SQL }
);
export type JsonFields = Readonly<Record<string, JsonField>>;

/** Fields of the items of a list. */
interface ListedFields {
  readonly [name: string]:
    | JsonField
    | ComposedField
    | { readonly fields: ListedFields; readonly wrap: (object: SQL) => SQL };
}

/**
 * A list of objects that the service makes of a few facts about a node. The database writes the facts in its place, and
 * the name of the node apart from them, so that nodes with equal facts share what is made of them.
 */
export interface ComposedField {
  /** The facts as a text. It does not contain `COMPOSED_MARK`, which separates it from the texts around it. */
  readonly facts: SQL;
  readonly nodeName: SQL;
  /** Members of its objects, by name. */
  readonly fields: Readonly<Record<string, object>>;
}

/**
 * Stands before, between and after the parts of a composed field in a text: its number in the selection, the facts, and
 * the JSON text of the node's name. It is random, so it occurs in no stored text.
 */
export const COMPOSED_MARK = randomBytes(16).toString("hex");

/** A selected member of an object: under `key` a text that is known already, or a field. */
export type SelectedField = { readonly key: string } & (
  | { readonly text: string }
  /** `composed`: the number of a composed field among those of a page. */
  | { readonly field: string; readonly selection?: readonly SelectedField[]; readonly composed?: number }
);

export const NULL_TEXT = sql.raw("'null'");

/** Any text, escaped. */
export function stringText(value: PgColumn | SQL): SQL {
  return sql`coalesce(to_json(${value})::text, ${NULL_TEXT})`;
}

/** A text that needs no escapes: a UUID, the name of a state. */
export function plainStringText(value: PgColumn): SQL {
  return sql`coalesce('"' || ${value} || '"', ${NULL_TEXT})`;
}

/** A number or a boolean. */
export function scalarText(value: PgColumn | SQL): SQL {
  return sql`coalesce((${value})::text, ${NULL_TEXT})`;
}

/** An instant as `Date.toJSON` writes it. */
export function dateText(value: PgColumn | SQL): SQL {
  return sql`coalesce('"' || ${instantText(value)} || '"', ${NULL_TEXT})`;
}

/** The JSON text of an object with the selected members. */
export function objectText(selection: readonly SelectedField[], fields: ListedFields): SQL {
  const parts: SQL[] = [];
  let literal = "{";
  selection.forEach((member, index) => {
    literal += `${index === 0 ? "" : ","}${JSON.stringify(member.key)}:`;
    if ("text" in member) {
      literal += member.text;
      return;
    }
    const field = fields[member.field];
    if (!field) throw new Error(`No SQL is known for the JSON text of the field ${member.field}.`);
    parts.push(quoted(literal), fieldText(field, member));
    literal = "";
  });
  return concatenated([...parts, quoted(`${literal}}`)]);
}

function fieldText(
  field: ListedFields[string],
  { selection = [], composed = 0 }: Exclude<SelectedField, { readonly text: string }>,
): SQL {
  if ("text" in field) return field.text;
  if ("wrap" in field) return field.wrap(objectText(selection, field.fields));
  const mark = quoted(COMPOSED_MARK);
  return sql`concat(${quoted(`${COMPOSED_MARK}${composed}${COMPOSED_MARK}`)}, ${field.facts}, ${mark}, ${field.nodeName}, ${mark})`;
}

/** The JSON text of a list of texts that are JSON. */
export function listText(members: readonly SQL[]): SQL {
  return sql`concat('[', ${sql.join([...members], sql`, ',', `)}, ']')`;
}

/** PostgreSQL's limit on the arguments of a function. */
const ARGUMENTS_MAX = 100;

function concatenated(parts: readonly SQL[]): SQL {
  if (parts.length <= ARGUMENTS_MAX) return sql`concat(${sql.join([...parts], sql`, `)})`;
  return concatenated(
    Array.from({ length: Math.ceil(parts.length / ARGUMENTS_MAX) }, (_, index) =>
      concatenated(parts.slice(index * ARGUMENTS_MAX, (index + 1) * ARGUMENTS_MAX)),
    ),
  );
}

/** A literal rather than a parameter: it consists of names in the schema and punctuation only. */
function quoted(literal: string): SQL {
  return sql.raw(`'${literal.replaceAll("'", "''")}'`);
}
