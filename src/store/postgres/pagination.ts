/** Pagination by key, not by offset, of all lists in the store. */
import { Column, and, asc, desc, getColumns, gt, is, lt, sql } from "drizzle-orm";
import type { InferSelectModel, SQL } from "drizzle-orm";
import type { PgColumn, PgTable } from "drizzle-orm/pg-core";
import type { Reader } from "./database.ts";

/** `after` and `before` hold the sort key and the id of the row next to the page. */
export interface PageRequest {
  readonly limit: number;
  readonly after?: PageKey | undefined;
  readonly before?: PageKey | undefined;
  /** True for the last `limit` rows. */
  readonly fromEnd?: boolean;
}

export interface PageKey {
  readonly key: string;
  readonly id: string;
}

export interface Page<Row> {
  readonly rows: readonly Row[];
  readonly hasNext: boolean;
  readonly hasPrevious: boolean;
}

/** A column, or an expression whose value is a text. */
export type SortKey = PgColumn | SQL;

/** The order of a list: by one key, ties by id. */
export interface PageOrder {
  readonly column: SortKey;
  readonly id: PgColumn | SQL;
  readonly descending: boolean;
}

/** WHERE and ORDER BY of a page. Read one row more than `limit`, so that `cutPage` sees whether more follow. */
export function pageClauses(request: PageRequest, order: PageOrder): { where: SQL | undefined; orderBy: SQL[] } {
  const { column, id, descending } = order;
  const type = sql.raw(typeOf(column).replace(/\(\d+\)/, ""));
  const beyond = ({ key, id: rowId }: PageKey, forward: boolean): SQL =>
    forward !== descending
      ? sql`(${column}, ${id}) > (${key}::${type}, ${rowId}::uuid)`
      : sql`(${column}, ${id}) < (${key}::${type}, ${rowId}::uuid)`;
  const way = descending !== (request.fromEnd ?? false) ? desc : asc;
  return {
    where: and(request.after && beyond(request.after, true), request.before && beyond(request.before, false)),
    orderBy: [way(column), way(id)],
  };
}

function typeOf(key: SortKey): string {
  return is(key, Column) ? key.getSQLType() : "text";
}

/** Removes the surplus row, and restores the order of a page that was read from the end. */
export function cutPage<Row>(rows: readonly Row[], request: PageRequest): Page<Row> {
  const surplus = rows.length > request.limit;
  const kept = rows.slice(0, request.limit);
  return request.fromEnd
    ? { rows: kept.toReversed(), hasNext: request.before !== undefined, hasPrevious: surplus }
    : { rows: kept, hasNext: surplus, hasPrevious: request.after !== undefined };
}

/** A page of a list that is ordered by a number: positions in the log, indexes in a request. */
export interface NumberedRequest {
  readonly limit: number;
  readonly after?: number | undefined;
  readonly before?: number | undefined;
  readonly fromEnd?: boolean | undefined;
}

/** WHERE and ORDER BY of a page by number, as in `pageClauses`. */
export function numberedClauses(
  { after, before, fromEnd }: NumberedRequest,
  column: PgColumn,
): { where: SQL | undefined; orderBy: SQL[] } {
  return {
    where: and(
      after === undefined ? undefined : gt(column, after),
      before === undefined ? undefined : lt(column, before),
    ),
    orderBy: [(fromEnd ? desc : asc)(column)],
  };
}

/** Like `cutPage`, for a page by number. */
export function cutNumbered<Row>(
  rows: readonly Row[],
  { limit, after, before, fromEnd = false }: NumberedRequest,
): Page<Row> {
  const beside = { key: "", id: "" };
  return cutPage(rows, {
    limit,
    fromEnd,
    after: after === undefined ? undefined : beside,
    before: before === undefined ? undefined : beside,
  });
}

/**
 * The first rows of each of several parents, in one statement. It is a lateral join: each parent's rows are looked up
 * in an index, and at most `of.limit` of them are read. `of.below` is the condition on the parent's id, a UUID unless
 * `of.idType` is given.
 */
export async function rowsBelow<Table extends PgTable>(
  reader: Reader,
  table: Table,
  parents: readonly string[],
  of: {
    readonly below: (parent: SQL) => SQL | undefined;
    readonly orderBy: readonly SQL[];
    readonly limit: number;
    readonly idType?: "text";
  },
): Promise<Map<string, InferSelectModel<Table>[]>> {
  const found = new Map(parents.map((parent): [string, InferSelectModel<Table>[]] => [parent, []]));
  if (parents.length === 0) return found;
  const page = reader
    .select({ parent: sql<string>`parent.id`.as("parent"), ...getColumns(table) })
    .from(table as PgTable)
    .where(of.below(sql`parent.id`))
    .orderBy(...of.orderBy)
    .limit(of.limit)
    .as("page");
  const rows = (await reader
    .select(getColumns(page) as never)
    .from(
      sql`(select value::${sql.raw(of.idType ?? "uuid")} as id from jsonb_array_elements_text(${JSON.stringify([...found.keys()])}::text::jsonb)) parent`,
    )
    .crossJoinLateral(page)) as unknown as ({ readonly parent: string } & InferSelectModel<Table>)[];
  for (const { parent, ...row } of rows) found.get(parent)?.push(row as unknown as InferSelectModel<Table>);
  return found;
}

/** The number of matching rows of each of several parents, in one statement. `below` is as in `rowsBelow`. */
export async function countsBelow(
  reader: Reader,
  table: PgTable,
  parents: readonly string[],
  below: (parent: SQL) => SQL | undefined,
): Promise<Map<string, number>> {
  const parent = sql`parent.id`;
  const rows = (await reader.execute(
    sql`select parent.id, (select count(*)::int from ${table} where ${below(parent)}) as count
      from (select distinct value::uuid as id from jsonb_array_elements_text(${JSON.stringify(parents)}::text::jsonb)) parent`,
  )) as unknown as readonly { readonly id: string; readonly count: number }[];
  return new Map(rows.map(({ id, count }) => [id, count]));
}

/** The page of each parent, from the rows of `rowsBelow`. */
export function pagesOf<Row>(
  rows: ReadonlyMap<string, readonly Row[]>,
  cut: (rows: readonly Row[]) => Page<Row>,
): Map<string, Page<Row>> {
  return new Map([...rows].map(([parent, found]) => [parent, cut(found)]));
}

// ---- cursors: opaque to clients, the key and the id of a row, made here or by the database

export function cursorOf({ key, id }: PageKey): string {
  return toCursor(JSON.stringify([key, id]));
}

/** The content of a cursor. It may be any value: clients send it. */
export function readCursor(cursor: string): unknown {
  return JSON.parse(Buffer.from(cursor, "base64url").toString("utf8"));
}

export function toCursor(content: string): string {
  return Buffer.from(content).toString("base64url");
}

/** SQL of the content of a row's cursor. */
export function cursorText(column: SortKey, id: PgColumn): SQL {
  const key = typeOf(column).startsWith("timestamp")
    ? sql`'"' || ${instantText(column)} || '"'`
    : sql`to_json(${column})::text`;
  return sql`'[' || ${key} || ',"' || ${id} || '"]'`;
}

/** SQL of a cursor with this content. PostgreSQL breaks the lines of its base64. */
export function cursorOfText(content: SQL): SQL {
  return sql`translate(encode(convert_to(${content}, 'UTF8'), 'base64'), E'+/=\\n', '-_')`;
}

/** SQL of an instant as `Date.toISOString` writes it. */
export function instantText(column: PgColumn | SQL): SQL {
  return sql`to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
}
