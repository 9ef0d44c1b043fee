/** SQL that makes JSON text, to the letter what `JSON.stringify` makes of the same value. */
import { sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { PgColumn } from "drizzle-orm/pg-core";
import { instantText } from "./postgres/pagination.ts";

/**
 * Where a member of an object comes from: the SQL of its JSON text, which is never null; or, for an object or a list of
 * objects, its own members and what puts the text of one object in its place. `value`: the same of a row, for
 * resolvers.
 */
export type JsonField = { readonly value?: (row: never) => unknown } & (
  | { readonly text: SQL }
  | { readonly fields: JsonFields; readonly wrap: (object: SQL) => SQL }
);
export type JsonFields = Readonly<Record<string, JsonField>>;

/** A selected member of an object: under `key` a text that is known already, or a field. */
export type SelectedField = { readonly key: string } & (
  | { readonly text: string }
  | { readonly field: string; readonly selection?: readonly SelectedField[] }
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
export function objectText(selection: readonly SelectedField[], fields: JsonFields): SQL {
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
    parts.push(
      quoted(literal),
      "text" in field ? field.text : field.wrap(objectText(member.selection ?? [], field.fields)),
    );
    literal = "";
  });
  return concatenated([...parts, quoted(`${literal}}`)]);
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
