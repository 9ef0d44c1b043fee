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
  readonly descending?: boolean;
}

/** WHERE and ORDER BY of a page. Read one row more than `limit`, so that `cutPage` sees whether more follow. */
export interface PageClauses {
  readonly request: PageRequest<unknown>;
  readonly where: SQL | undefined;
  readonly orderBy: readonly SQL[];
}

/** The clauses of a page of a list in this order. */
export function ordered({ column, id, descending = false }: PageOrder): (request: PageRequest) => PageClauses {
  const type = sql.raw(typeOf(column).replace(/\(\d+\)/, ""));
  const beyond = ({ key, id: rowId }: PageKey, forward: boolean): SQL =>
    forward !== descending
      ? sql`(${column}, ${id}) > (${key}::${type}, ${rowId}::uuid)`
      : sql`(${column}, ${id}) < (${key}::${type}, ${rowId}::uuid)`;
  return (request) => {
    const way = descending !== (request.fromEnd ?? false) ? desc : asc;
    return {
      request,
      where: and(request.after && beyond(request.after, true), request.before && beyond(request.before, false)),
      orderBy: [way(column), way(id)],
    };
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
export function numbered(column: PgColumn): (request: NumberedRequest) => PageClauses {
  return (request) => {
    const { after, before, fromEnd } = request;
    return {
      request,
      where: and(
        after === undefined ? undefined : gt(column, after),
        before === undefined ? undefined : lt(column, before),
      ),
      orderBy: [(fromEnd ? desc : asc)(column)],
    };
  };
}

/** Pages of the matching rows of a table, and their number. */
export function listOf<Table extends PgTable, Filter, Request>(
  table: Table,
  /** `asked`: of a page; the condition may leave out rows that are not on it. */
  matching: (filter: Filter, asked?: Request) => SQL | undefined,
  clauses: (request: Request) => PageClauses,
) {
  return {
    async page(reader: Reader, filter: Filter, asked: Request): Promise<Page<InferSelectModel<Table>>> {
      const { request, where, orderBy } = clauses(asked);
      const rows = await reader
        .select()
        .from<PgTable>(table)
        .where(and(matching(filter, asked), where))
        .orderBy(...orderBy)
        .limit(request.limit + 1);
      return cutPage(rows as InferSelectModel<Table>[], request);
    },
    count: async (reader: Reader, filter: Filter): Promise<number> => reader.$count(table, matching(filter)),
  };
}

/** The column with the parent's id, or a condition on that. */
type Below<Asked> = PgColumn | ((parent: SQL, asked: Asked) => SQL | undefined);

const PARENT = sql`parent.id`;

function isBelow<Asked>(below: Below<Asked>, asked: Asked): SQL | undefined {
  return typeof below === "function" ? below(PARENT, asked) : sql`${below} = ${PARENT}`;
}

/**
 * The first rows of each of several parents, in one statement. It is a lateral join: each parent's rows are looked up
 * in an index, and at most `of.limit` of them are read. `where` is a condition on `PARENT`, which is a UUID unless
 * `idType` is given.
 */
export async function rowsBelow<Table extends PgTable>(
  reader: Reader,
  table: Table,
  parents: readonly string[],
  of: {
    readonly where: (parent: SQL) => SQL | undefined;
    readonly orderBy: readonly SQL[];
    readonly limit: number;
    readonly idType?: "text";
  },
): Promise<Map<string, InferSelectModel<Table>[]>> {
  const found = new Map(parents.map((parent): [string, InferSelectModel<Table>[]] => [parent, []]));
  if (parents.length === 0) return found;
  const page = reader
    .select({ parent: sql<string>`${PARENT}`.as("parent"), ...getColumns(table) })
    .from(table as PgTable)
    .where(of.where(PARENT))
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

/** Pages of the rows of each of several parents, as in `rowsBelow`, and their numbers; each is one statement. */
export function listsBelow<Table extends PgTable, Asked, Request>(
  table: Table,
  below: Below<Asked>,
  clauses: (request: Request) => PageClauses,
) {
  return {
    async pages(
      reader: Reader,
      parents: readonly string[],
      asked: Request & Asked,
    ): Promise<Map<string, Page<InferSelectModel<Table>>>> {
      const { request, where, orderBy } = clauses(asked);
      const matching = and(isBelow(below, asked), where);
      const rows = await rowsBelow(reader, table, parents, {
        where: () => matching,
        orderBy,
        limit: request.limit + 1,
      });
      return new Map([...rows].map(([parent, found]) => [parent, cutPage(found, request)]));
    },
    async counts(reader: Reader, parents: readonly string[], asked: Asked): Promise<Map<string, number>> {
      const rows = (await reader.execute(
        sql`select parent.id, (select count(*)::int from ${table} where ${isBelow(below, asked)}) as count
          from (select distinct value::uuid as id from jsonb_array_elements_text(${JSON.stringify(parents)}::text::jsonb)) parent`,
      )) as unknown as readonly { readonly id: string; readonly count: number }[];
      return new Map(rows.map(({ id, count }) => [id, count]));
    },
  };
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
