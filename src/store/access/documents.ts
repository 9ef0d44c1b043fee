/** Registered documents, which callers send by their ids. */
import type { Reader } from "../postgres/database.ts";
import { allRows, deleteBy, insertInto, rowsBy } from "../postgres/table-queries.ts";
import { documents } from "../tables.ts";

export type DocumentRow = typeof documents.$inferSelect;

/** All documents, by name. */
export const allDocuments = allRows(documents, documents.operation, documents.id);

export const documentsByIds = rowsBy(documents, documents.id);

export async function countDocuments(reader: Reader): Promise<number> {
  return reader.$count(documents);
}

/** Stores documents; those that are there already stay as they are. */
export const insertDocuments = insertInto(documents, { skipsExisting: true });

export const deleteDocumentRows = deleteBy(documents, documents.id);
