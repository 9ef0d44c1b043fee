/** Accounts: programs, and persons of a site without an issuer. */
import { asc, eq } from "drizzle-orm";
import { isNamed } from "../names.ts";
import { rowsBy } from "../postgres/array-parameter.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { accounts, keyOfName } from "../tables.ts";

export type AccountRow = typeof accounts.$inferSelect;

/** All accounts, by name. */
export async function allAccounts(reader: Reader): Promise<AccountRow[]> {
  return reader
    .select()
    .from(accounts)
    .orderBy(asc(keyOfName(accounts.name)));
}

export const accountsByIds = rowsBy(accounts, accounts.id);

export async function accountByName(reader: Reader, name: string): Promise<AccountRow | undefined> {
  const [row] = await reader.select().from(accounts).where(isNamed(accounts.name, name));
  return row;
}

export async function insertAccount(tx: Tx, row: typeof accounts.$inferInsert): Promise<void> {
  await tx.insert(accounts).values(row);
}

export async function updateAccountRow(
  tx: Tx,
  id: string,
  change: Partial<Pick<AccountRow, "displayName" | "disabledAt">>,
): Promise<void> {
  await tx.update(accounts).set(change).where(eq(accounts.id, id));
}
