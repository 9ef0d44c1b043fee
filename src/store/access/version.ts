/**
 * The version of accounts, tokens, grants, roles and documents. Every change raises it, so changes happen one after
 * another, and a replica that knows it knows whether its rules are old.
 */
import { sql } from "drizzle-orm";
import type { Reader, Tx } from "../postgres/database.ts";
import { accessVersion } from "../tables.ts";

export async function readAccessVersion(reader: Reader): Promise<number> {
  const [row] = await reader.select().from(accessVersion);
  return onlyVersion(row);
}

/** The version of the change that this transaction makes. The next change waits for its end. */
export async function raiseAccessVersion(tx: Tx): Promise<number> {
  const [row] = await tx
    .update(accessVersion)
    .set({ version: sql`${accessVersion.version} + 1` })
    .returning();
  return onlyVersion(row);
}

function onlyVersion(row: { readonly version: number } | undefined): number {
  if (!row) throw new Error("The table access_version has no row. Restore it: migrations insert it once.");
  return row.version;
}
