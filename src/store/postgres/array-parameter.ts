/** Lists in conditions: callers say how long they are, and a statement takes 65,534 parameters. */
import { eq, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { PgColumn } from "drizzle-orm/pg-core";

/**
 * Whether a column, of texts or UUIDs, is one of the values: one parameter, however many they are. PostgreSQL looks for
 * them by an index, or for its rows in a hash of them. One value is asked for as one: an index that begins with the column
 * then has what it finds in the order of what follows.
 */
export function inArrayParam(column: PgColumn, values: readonly string[]): SQL {
  const unique = [...new Set(values)];
  const [only] = unique;
  return unique.length === 1 && only !== undefined
    ? eq(column, only)
    : sql`${column} = any(${arrayText(unique)}::${sql.raw(column.getSQLType())}[])`;
}

/** The values as PostgreSQL writes an array. Drizzle would make a parameter of each. */
function arrayText(values: readonly string[]): string {
  return `{${values.map((value) => `"${value.replace(/["\\]/g, "\\$&")}"`).join(",")}}`;
}
