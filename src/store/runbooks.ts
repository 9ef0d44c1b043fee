/** Runbooks: named lists of steps of one phase. */
import type { Tx } from "./postgres/database.ts";
import { allRows, deleteBy, insertInto, lockRowBy, revised, rowsBy, updateBy } from "./postgres/table-queries.ts";
import { nameKey, rowByName, rowsByNames } from "./names.ts";
import { keyOfName, runbooks } from "./tables.ts";

export type RunbookRow = typeof runbooks.$inferSelect;

const KEY = keyOfName(runbooks.name);

/** All runbooks, by name. */
export const allRunbooks = allRows(runbooks, KEY);

export const runbookByName = rowByName(runbooks, runbooks.name);

export const runbooksByNames = rowsByNames(runbooks, runbooks.name);

export const runbooksByIds = rowsBy(runbooks, runbooks.id);

const lockByKey = lockRowBy(runbooks, KEY);

export async function lockRunbook(tx: Tx, name: string): Promise<RunbookRow | undefined> {
  return lockByKey(tx, nameKey(name));
}

export const insertRunbook = insertInto(runbooks);

export const updateRunbook = updateBy(runbooks, runbooks.id, revised(runbooks));

export const deleteRunbook = deleteBy(runbooks, runbooks.id);
