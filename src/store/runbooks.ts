/** Runbooks: named lists of steps of one phase. */
import { asc, eq, sql } from "drizzle-orm";
import { rowsBy } from "./postgres/array-parameter.ts";
import type { Reader, Tx } from "./postgres/database.ts";
import { isNamed, rowsByNames } from "./names.ts";
import { keyOfName, runbooks } from "./tables.ts";

export type RunbookRow = typeof runbooks.$inferSelect;

/** All runbooks, by name. */
export async function allRunbooks(reader: Reader): Promise<RunbookRow[]> {
  return reader
    .select()
    .from(runbooks)
    .orderBy(asc(keyOfName(runbooks.name)));
}

export async function runbookByName(reader: Reader, name: string): Promise<RunbookRow | undefined> {
  const [row] = await reader.select().from(runbooks).where(isNamed(runbooks.name, name));
  return row;
}

export const runbooksByNames = rowsByNames(runbooks, runbooks.name);

export const runbooksByIds = rowsBy(runbooks, runbooks.id);

export async function lockRunbook(tx: Tx, name: string): Promise<RunbookRow | undefined> {
  const [row] = await tx.select().from(runbooks).where(isNamed(runbooks.name, name)).for("no key update");
  return row;
}

export async function insertRunbook(tx: Tx, row: typeof runbooks.$inferInsert): Promise<void> {
  await tx.insert(runbooks).values(row);
}

export async function updateRunbook(
  tx: Tx,
  id: string,
  change: Partial<Pick<RunbookRow, "name" | "description" | "steps">>,
): Promise<void> {
  await tx
    .update(runbooks)
    .set({ ...change, revision: sql`${runbooks.revision} + 1`, updatedAt: sql`now()` })
    .where(eq(runbooks.id, id));
}

export async function deleteRunbook(tx: Tx, id: string): Promise<void> {
  await tx.delete(runbooks).where(eq(runbooks.id, id));
}
