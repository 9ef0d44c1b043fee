/** The site's policy for all nodes: one row. */
import { sql } from "drizzle-orm";
import type { Reader, Tx } from "./postgres/database.ts";
import type { SitePolicy } from "./records.ts";
import { site } from "./tables.ts";

export type SiteRow = typeof site.$inferSelect;

/** The key of its row, as that of a place of secrets. */
export function siteKey({ id }: SiteRow): string {
  return String(id);
}

export async function readSite(reader: Reader): Promise<SiteRow> {
  return onlyRow(await reader.select().from(site));
}

/** Locks the row, so that the second of two changes sees the first. */
export async function lockSite(tx: Tx): Promise<SiteRow> {
  return onlyRow(await tx.select().from(site).for("no key update"));
}

function onlyRow([row]: readonly SiteRow[]): SiteRow {
  if (!row) throw new Error("The table site has no row. Restore it: migrations insert it once.");
  return row;
}

export async function changeSite(
  tx: Tx,
  change: Partial<Pick<SiteRow, "policy" | "variables">>,
  by: string,
): Promise<void> {
  await tx.update(site).set({ ...change, updatedBy: by, updatedAt: sql`now()`, revision: sql`${site.revision} + 1` });
}

/** Whether automatic cleaning runs on a node: its own setting overrides the site's. */
export function cleansAutomatically(policy: SitePolicy, node: { readonly automaticCleaning: boolean | null }): boolean {
  return node.automaticCleaning ?? policy.automaticCleaning ?? true;
}
