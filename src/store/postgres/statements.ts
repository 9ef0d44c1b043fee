/** Statements that recur: sent with a constant text and prepared, so that they are parsed and described once. */
import { sql as sqlText } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { Sql } from "postgres";
import type { Reader } from "./connect.ts";
import { createPreparedPolicy } from "./workarounds/prepared-statements.ts";

/** Members that Drizzle's types do not show. */
interface DrizzleInternals {
  readonly session: { readonly client: Sql };
  readonly dialect: { sqlToQuery(statement: SQL): { readonly sql: string; readonly params: readonly unknown[] } };
}

function internalsOf(handle: Reader): DrizzleInternals {
  return handle as unknown as DrizzleInternals;
}

/**
 * Runs a statement with a constant text. Values are bound, arrays included. It is prepared if the pool prepares: then
 * it takes one round trip and is not planned again.
 */
export async function runStatement<Row extends object>(
  reader: Reader,
  text: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const { client } = internalsOf(reader).session;
  return [...(await client.unsafe<Row[]>(text, values as Parameters<Sql["unsafe"]>[1], { prepare: true }))];
}

/** SQL without values as raw text, for SQL that is used often: Drizzle otherwise makes the text again each time. */
export function constantSql(reader: Reader, piece: SQL): SQL {
  const { sql: text, params } = internalsOf(reader).dialect.sqlToQuery(piece);
  if (params.length > 0) throw new Error(`SQL with values has no constant text: ${text}`);
  return sqlText.raw(text);
}

/**
 * Statements with longer values are planned for their values. With a plan for all values, PostgreSQL would scan a long
 * list again for each row. In characters.
 */
const PREPARED_VALUE_MAX = 1_000;
const isPrepared = createPreparedPolicy();

/** Runs a statement and prepares it if it recurs: later runs on a connection take one round trip rather than two. */
export async function runPrepared(reader: Reader, statement: SQL): Promise<Record<string, unknown>[]> {
  const { session, dialect } = internalsOf(reader);
  const { sql: text, params } = dialect.sqlToQuery(statement);
  const isLong = params.some((value) => typeof value === "string" && value.length > PREPARED_VALUE_MAX);
  return [
    ...(await session.client.unsafe(text, params as Parameters<Sql["unsafe"]>[1], {
      prepare: !isLong && isPrepared(text),
    })),
  ];
}
