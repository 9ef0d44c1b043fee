/** A filter of names: its SQL beside its test in memory. */
import { and, eq, ilike, like } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { PgColumn } from "drizzle-orm/pg-core";
import { inArrayParam } from "../postgres/array-parameter.ts";
import { escapePattern } from "../postgres/text-pattern.ts";

/** A test of a text; given fields are combined with AND. */
export interface StringTest {
  readonly eq?: string | undefined;
  readonly in?: readonly string[] | undefined;
  readonly startsWith?: string | undefined;
  readonly contains?: string | undefined;
}

export function nameCondition(column: PgColumn, test: StringTest): SQL | undefined {
  return and(
    test.eq === undefined ? undefined : eq(column, test.eq),
    test.in && inArrayParam(column, test.in),
    test.startsWith === undefined ? undefined : like(column, `${escapePattern(test.startsWith)}%`),
    test.contains === undefined ? undefined : ilike(column, `%${escapePattern(test.contains)}%`),
  );
}

export function nameTest({ eq: same, in: list, startsWith, contains }: StringTest): (name: string) => boolean {
  const listed = list && new Set(list);
  const part = contains?.toLowerCase();
  return (name) =>
    (same === undefined || name === same) &&
    (listed === undefined || listed.has(name)) &&
    (startsWith === undefined || name.startsWith(startsWith)) &&
    (part === undefined || name.toLowerCase().includes(part));
}
