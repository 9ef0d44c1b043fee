/** Registered documents, which callers send by their ids. */
import { asc, count } from "drizzle-orm";
import { inArrayParam, rowsBy } from "../postgres/array-parameter.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { documents } from "../tables.ts";

export type DocumentRow = typeof documents.$inferSelect;

/** All documents, by name. */
export async function allDocuments(reader: Reader): Promise<DocumentRow[]> {
  return reader.select().from(documents).orderBy(asc(documents.operation), asc(documents.id));
}

export const documentsByIds = rowsBy(documents, documents.id);

export async function countDocuments(reader: Reader): Promise<number> {
  const [row] = await reader.select({ documents: count() }).from(documents);
  return row?.documents ?? 0;
}

/** Stores documents; those that are there already stay as they are. */
export async function insertDocuments(tx: Tx, rows: readonly (typeof documents.$inferInsert)[]): Promise<void> {
  if (rows.length > 0)
    await tx
      .insert(documents)
      .values([...rows])
      .onConflictDoNothing();
}

export async function deleteDocumentRows(tx: Tx, ids: readonly string[]): Promise<void> {
  await tx.delete(documents).where(inArrayParam(documents.id, ids));
}
