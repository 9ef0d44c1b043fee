/**
 * Names of nodes, clusters, runbooks and images. They are equal without regard to case, as those of the DNS: unique,
 * found, filtered and ordered by their keys (decision 0068). A name is shown as it was given.
 */
import { and, eq, gte, like, lte } from "drizzle-orm";
import type { InferSelectModel, SQL } from "drizzle-orm";
import type { PgColumn, PgTable } from "drizzle-orm/pg-core";
import { inArrayParam } from "./postgres/array-parameter.ts";
import type { Reader } from "./postgres/database.ts";
import { rowsBy } from "./postgres/table-queries.ts";
import { escapePattern } from "./postgres/text-pattern.ts";
import { keyOfName } from "./tables.ts";

/** The key of a name: only ASCII letters have a case, as in `lower` with the collation "C". */
export function nameKey(name: string): string {
  return name.replaceAll(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** Reads the rows of a table with these names. */
export function rowsByNames<Table extends PgTable>(
  table: Table,
  name: PgColumn,
): (reader: Reader, names: readonly string[]) => Promise<InferSelectModel<Table>[]> {
  const read = rowsBy(table, keyOfName(name));
  return (reader, names) => read(reader, names.map(nameKey));
}

/** Reads the row with this name. */
export function rowByName<Table extends PgTable>(
  table: Table,
  name: PgColumn,
): (reader: Reader, name: string) => Promise<InferSelectModel<Table> | undefined> {
  const read = rowsByNames(table, name);
  return async (reader, one) => (await read(reader, [one]))[0];
}

/** The first of those with the same key. */
export function differentNames(names: readonly string[]): string[] {
  return [...Map.groupBy(names, nameKey).values()].flatMap(([first]) => first ?? []);
}

export function isNamed(column: PgColumn, name: string): SQL {
  return eq(keyOfName(column), nameKey(name));
}

/** A test of a name; given fields are combined with AND. */
export interface StringTest {
  readonly eq?: string | undefined;
  readonly in?: readonly string[] | undefined;
  readonly startsWith?: string | undefined;
  readonly contains?: string | undefined;
}

const LAST_CHARACTER = "\u{10FFFF}";

/** The range lets PostgreSQL use the index without knowing the prefix when it plans: it is in the order of bytes. */
export function beginsWith(column: PgColumn, prefix: string): SQL | undefined {
  const [key, first] = [keyOfName(column), nameKey(prefix)];
  return and(like(key, `${escapePattern(first)}%`), gte(key, first), lte(key, `${first}${LAST_CHARACTER}`));
}

export function nameCondition(column: PgColumn, test: StringTest): SQL | undefined {
  const key = keyOfName(column);
  return and(
    test.eq === undefined ? undefined : isNamed(column, test.eq),
    test.in && inArrayParam(key, test.in.map(nameKey)),
    test.startsWith === undefined ? undefined : beginsWith(column, test.startsWith),
    test.contains === undefined ? undefined : like(key, `%${escapePattern(nameKey(test.contains))}%`),
  );
}

export function nameTest({ eq: same, in: list, startsWith, contains }: StringTest): (name: string) => boolean {
  const listed = list && new Set(list.map(nameKey));
  const [equal, first, part] = [same, startsWith, contains].map((text) => text && nameKey(text));
  return (name) => {
    const key = nameKey(name);
    return (
      (equal === undefined || key === equal) &&
      (listed === undefined || listed.has(key)) &&
      (first === undefined || key.startsWith(first)) &&
      (part === undefined || key.includes(part))
    );
  };
}
