/**
 * Lists in conditions as one parameter: their length depends on callers, and a statement takes at most 65,534
 * parameters.
 */
import { Column, eq, is, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { PgColumn } from "drizzle-orm/pg-core";

/**
 * The column, of texts or UUIDs, is one of the values. PostgreSQL looks them up in an index, or its rows in a hash of
 * them. A single value becomes an equality: an index that begins with the column then returns rows in the order of its
 * next column.
 */
export function inArrayParam(column: PgColumn | SQL, values: readonly string[]): SQL {
  const unique = [...new Set(values)];
  const [only] = unique;
  return unique.length === 1 && only !== undefined
    ? eq(column as PgColumn, only)
    : sql`${column} = any(${textArray(unique)}::${sql.raw(is(column, Column) ? column.getSQLType() : "text")}[])`;
}

/** The values as an array literal. Drizzle would make each a parameter. */
export function textArray(values: readonly string[]): string {
  return `{${values.map((value) => `"${value.replace(/["\\]/g, "\\$&")}"`).join(",")}}`;
}
