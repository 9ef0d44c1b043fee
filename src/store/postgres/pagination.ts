/** Pagination by key, not by offset, of all lists in the store. */
import { Column, and, asc, desc, getColumns, gt, is, lt, sql } from "drizzle-orm";
import type { InferSelectModel, SQL } from "drizzle-orm";
import type { PgColumn, PgTable } from "drizzle-orm/pg-core";
import type { Reader } from "./database.ts";

/** `after` and `before`: what the list is ordered by, of the row next to the page. By default, its key and its id. */
export interface PageRequest<Key = PageKey> {
  readonly limit: number;
  readonly after?: Key | undefined;
  readonly before?: Key | undefined;
  /** True for the last `limit` rows. */
  readonly fromEnd?: boolean | undefined;
}

/** A page of a list that is ordered by a number: positions in the log, indexes in a request. */
export type NumberedRequest = PageRequest<number>;

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
type SortKey = PgColumn | SQL;

/** The order of a list: by one key, ties by id. */
interface PageOrder {
  readonly column: SortKey;
  readonly id: PgColumn | SQL;
  readonly descending: boolean;
}

/** WHERE and ORDER BY of a page. Read one row more than `limit`, so that `cutPage` sees whether more follow. */
export interface PageClauses {
  readonly request: PageRequest<unknown>;
  readonly where: SQL | undefined;
  readonly orderBy: readonly SQL[];
}

export function pageClauses(request: PageRequest, order: PageOrder): PageClauses {
  const { column, id, descending } = order;
  const type = sql.raw(typeOf(column).replace(/\(\d+\)/, ""));
  const beyond = ({ key, id: rowId }: PageKey, forward: boolean): SQL =>
    forward !== descending
      ? sql`(${column}, ${id}) > (${key}::${type}, ${rowId}::uuid)`
      : sql`(${column}, ${id}) < (${key}::${type}, ${rowId}::uuid)`;
  const way = descending !== (request.fromEnd ?? false) ? desc : asc;
  return {
    request,
    where: and(request.after && beyond(request.after, true), request.before && beyond(request.before, false)),
    orderBy: [way(column), way(id)],
  };
}

function typeOf(key: SortKey): string {
  return is(key, Column) ? key.getSQLType() : "text";
}

/** Removes the surplus row, and restores the order of a page that was read from the end. */
export function cutPage<Row>(rows: readonly Row[], request: PageRequest<unknown>): Page<Row> {
  const surplus = rows.length > request.limit;
  const kept = rows.slice(0, request.limit);
  return request.fromEnd
    ? { rows: kept.toReversed(), hasNext: request.before !== undefined, hasPrevious: surplus }
    : { rows: kept, hasNext: surplus, hasPrevious: request.after !== undefined };
}

/** The clauses of a page by number. */
export function numberedClauses(request: NumberedRequest, column: PgColumn): PageClauses {
  const { after, before, fromEnd } = request;
  return {
    request,
    where: and(
      after === undefined ? undefined : gt(column, after),
      before === undefined ? undefined : lt(column, before),
    ),
    orderBy: [(fromEnd ? desc : asc)(column)],
  };
}

/** A page of the matching rows of a table. */
export async function pageOf<Table extends PgTable>(
  reader: Reader,
  table: Table,
  matching: SQL | undefined,
  { request, where, orderBy }: PageClauses,
): Promise<Page<InferSelectModel<Table>>> {
  const rows = await reader
    .select()
    .from<PgTable>(table)
    .where(and(matching, where))
    .orderBy(...orderBy)
    .limit(request.limit + 1);
  return cutPage(rows as InferSelectModel<Table>[], request);
}

/** The column with the parent's id, or a condition on that. */
type Below = PgColumn | ((parent: SQL) => SQL | undefined);

function isBelow(below: Below, parent: SQL): SQL | undefined {
  return typeof below === "function" ? below(parent) : sql`${below} = ${parent}`;
}

/**
 * The first rows of each of several parents, in one statement. It is a lateral join: each parent's rows are looked up
 * in an index, and at most `of.limit` of them are read. The parent's id is a UUID unless `of.idType` is given.
 */
export async function rowsBelow<Table extends PgTable>(
  reader: Reader,
  table: Table,
  parents: readonly string[],
  of: {
    readonly below: Below;
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
    .where(isBelow(of.below, sql`parent.id`))
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

/** The number of matching rows of each of several parents, in one statement. */
export async function countsBelow(
  reader: Reader,
  table: PgTable,
  parents: readonly string[],
  below: Below,
): Promise<Map<string, number>> {
  const rows = (await reader.execute(
    sql`select parent.id, (select count(*)::int from ${table} where ${isBelow(below, sql`parent.id`)}) as count
      from (select distinct value::uuid as id from jsonb_array_elements_text(${JSON.stringify(parents)}::text::jsonb)) parent`,
  )) as unknown as readonly { readonly id: string; readonly count: number }[];
  return new Map(rows.map(({ id, count }) => [id, count]));
}

/** Counts the rows of a table for each of several parents. */
export function countsBy(table: PgTable, below: Below) {
  return async (reader: Reader, parents: readonly string[]): Promise<Map<string, number>> =>
    countsBelow(reader, table, parents, below);
}

/** A page of the matching rows of each of several parents, as in `rowsBelow`. */
export async function pagesBelow<Table extends PgTable>(
  reader: Reader,
  table: Table,
  parents: readonly string[],
  { below, page }: { readonly below: Below; readonly page: PageClauses },
): Promise<Map<string, Page<InferSelectModel<Table>>>> {
  const { request, where, orderBy } = page;
  const rows = await rowsBelow(reader, table, parents, {
    below: (parent) => and(isBelow(below, parent), where),
    orderBy,
    limit: request.limit + 1,
  });
  return new Map([...rows].map(([parent, found]) => [parent, cutPage(found, request)]));
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
