/** Accounts: programs, and persons of a site without an issuer. */
import { rowByName } from "../names.ts";
import { allRows, insertInto, rowsBy, updateBy } from "../postgres/table-queries.ts";
import { accounts, keyOfName } from "../tables.ts";

export type AccountRow = typeof accounts.$inferSelect;

/** All accounts, by name. */
export const allAccounts = allRows(accounts, keyOfName(accounts.name));

export const accountsByIds = rowsBy(accounts, accounts.id);

export const accountByName = rowByName(accounts, accounts.name);

export const insertAccount = insertInto(accounts);

export const updateAccountRow = updateBy(accounts, accounts.id);
