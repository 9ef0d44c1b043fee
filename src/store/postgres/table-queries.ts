/**
 * Reads, locks and changes that many tables have in common, each made of a table, a column, and what is particular to
 * it. A list of values is one parameter (array-parameter.ts).
 */
import { and, desc, sql } from "drizzle-orm";
import type { InferInsertModel, InferSelectModel, SQL } from "drizzle-orm";
import type { PgColumn, PgTable } from "drizzle-orm/pg-core";
import { inArrayParam } from "./array-parameter.ts";
import { slicesOf } from "./bulk.ts";
import type { Reader, Tx } from "./connect.ts";

type Key = PgColumn | SQL;

/** Which of the rows are read, and their order. */
interface Choice {
  readonly where?: SQL | undefined;
  readonly orderBy?: readonly Key[];
}

interface LockMode {
  readonly strength?: "share" | "no key update" | "update";
  /** Without the rows that another transaction has locked. */
  readonly skipLocked?: true;
}

/** All rows of a table. */
export function allRows<Table extends PgTable>(
  table: Table,
  ...orderBy: readonly Key[]
): (reader: Reader) => Promise<InferSelectModel<Table>[]> {
  return async (reader) => (await rowsWhere(reader, table, { orderBy })) as InferSelectModel<Table>[];
}

/** The rows of a table whose column has one of the values. */
export function rowsBy<Table extends PgTable>(
  table: Table,
  column: Key,
  { where, ...choice }: Choice = {},
): (reader: Reader, values: readonly string[]) => Promise<InferSelectModel<Table>[]> {
  return async (reader, values) => {
    if (values.length === 0) return [];
    const rows = await rowsWhere(reader, table, { where: and(inArrayParam(column, values), where), ...choice });
    return rows as InferSelectModel<Table>[];
  };
}

/** The row of a table whose column has the value. */
export function rowBy<Table extends PgTable>(
  table: Table,
  column: Key,
): (reader: Reader, value: string) => Promise<InferSelectModel<Table> | undefined> {
  const read = rowsBy(table, column);
  return async (reader, value) => (await read(reader, [value]))[0];
}

/**
 * Locks such rows, in the order of the column unless another one is given, so that two requests do not deadlock.
 *
 * Row locks in the store use `FOR NO KEY UPDATE`: the second update of a row in one transaction takes a KEY SHARE lock
 * on the rows that it references, so with FOR UPDATE two runs of one operation that end at the same time would
 * deadlock.
 */
export function lockRowsBy<Table extends PgTable>(
  table: Table,
  column: Key,
  { where, orderBy = [column], ...mode }: Choice & LockMode = {},
): (tx: Tx, values: readonly string[], more?: LockMode) => Promise<InferSelectModel<Table>[]> {
  return async (tx, values, more) => {
    if (values.length === 0) return [];
    const { strength = "no key update", ...config } = { ...mode, ...more };
    const rows = await rowsWhere(tx, table, { where: and(inArrayParam(column, values), where), orderBy }).for(
      strength,
      config,
    );
    return rows as InferSelectModel<Table>[];
  };
}

/** Locks such a row. */
export function lockRowBy<Table extends PgTable>(
  table: Table,
  column: Key,
): (tx: Tx, value: string) => Promise<InferSelectModel<Table> | undefined> {
  const lock = lockRowsBy(table, column);
  return async (tx, value) => (await lock(tx, [value]))[0];
}

function rowsWhere(reader: Reader, table: PgTable, { where, orderBy = [] }: Choice) {
  return reader
    .select()
    .from(table)
    .where(where)
    .orderBy(...orderBy);
}

/** The newest row of a table that matches. */
export async function newestRow<Table extends PgTable>(
  reader: Reader,
  table: Table,
  where: SQL | undefined,
  newestFirst: readonly PgColumn[],
): Promise<InferSelectModel<Table> | undefined> {
  const [row] = await rowsWhere(reader, table, { where, orderBy: newestFirst.map((column) => desc(column)) }).limit(1);
  return row as InferSelectModel<Table> | undefined;
}

/** Whether more rows than `beyond` match. */
export async function hasRow(reader: Reader, table: PgTable, where: SQL | undefined, beyond = 0): Promise<boolean> {
  const found = await reader
    .select({ one: sql`1` })
    .from(table)
    .where(where)
    .offset(beyond)
    .limit(1);
  return found.length > 0;
}

/** A row, as readers of whole lists compare it: the version differs after each change of it. */
export interface RowVersion {
  readonly id: string;
  readonly version: string;
}

/** Versions of the first rows that match. A version is the transaction that wrote the row. */
export async function rowVersions(
  reader: Reader,
  table: PgTable & { readonly id: PgColumn },
  where: SQL | undefined,
  { orderBy, limit }: { readonly orderBy: readonly Key[]; readonly limit: number },
): Promise<RowVersion[]> {
  return reader
    .select({ id: sql<string>`${table.id}`, version: sql<string>`${table}.xmin::text` })
    .from(table)
    .where(where)
    .orderBy(...orderBy)
    .limit(limit);
}

/** Inserts one row or several. `skipsExisting`: those that are there already stay as they are. */
export function insertInto<Table extends PgTable>(
  table: Table,
  { skipsExisting = false }: { readonly skipsExisting?: boolean } = {},
): (tx: Tx, rows: InferInsertModel<Table> | readonly InferInsertModel<Table>[]) => Promise<void> {
  return async (tx, rows) => {
    for (const slice of slicesOf([rows].flat() as object[])) {
      const inserted = tx.insert<PgTable>(table).values(slice);
      await (skipsExisting ? inserted.onConflictDoNothing() : inserted);
    }
  };
}

/** Deletes the rows whose column has the value, or one of them. */
export function deleteBy(
  table: PgTable,
  column: PgColumn,
): (tx: Tx, values: string | readonly string[]) => Promise<void> {
  return async (tx, values) => {
    if (values.length > 0) await tx.delete(table).where(inArrayParam(column, [values].flat()));
  };
}

/** Values of columns, or SQL for times by the database's clock. `Kept`: columns that change in another way. */
export type RowChange<Table extends PgTable, Kept extends string = never> = {
  readonly [Field in Exclude<keyof InferSelectModel<Table>, Kept>]?: InferSelectModel<Table>[Field] | SQL;
};

/** Changes the rows with one of the values. */
export type RowsUpdate<Change> = (tx: Tx, values: string | readonly string[], change: Change) => Promise<void>;

/** The change of a row with a revision that any change of it makes. */
export function revised(table: PgTable & { readonly revision: PgColumn }) {
  return { revision: sql`${table.revision} + 1`, updatedAt: sql`now()` };
}

/**
 * Changes the rows whose column has the value, or one of them, in the same way. `always`: what each such change changes
 * too.
 */
export function updateBy<Table extends PgTable>(
  table: Table,
  column: PgColumn,
  always: RowChange<PgTable> = {},
): RowsUpdate<RowChange<Table>> {
  return async (tx, values, change) => {
    if (values.length === 0) return;
    await tx
      .update<PgTable>(table)
      .set({ ...change, ...always })
      .where(inArrayParam(column, [values].flat()));
  };
}
