/** Searches for a text, which is taken literally. */
import { ilike, or } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { PgColumn } from "drizzle-orm/pg-core";

/** The text as part of a pattern of LIKE. */
export function escapePattern(text: string): string {
  return text.replace(/[\\%_]/g, "\\$&");
}

/** One of the columns contains the text, ignoring case. */
export function containsText(columns: readonly (PgColumn | SQL<string>)[], text: string): SQL | undefined {
  return or(...columns.map((column) => ilike(column, `%${escapePattern(text)}%`)));
}
