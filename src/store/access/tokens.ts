/** Tokens of accounts. */
import { and, desc, eq, gt, isNotNull, isNull, lt, or, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { insertInto, rowsBy } from "../postgres/table-queries.ts";
import { accounts, tokens } from "../tables.ts";

export type TokenRow = typeof tokens.$inferSelect;

/** A token with the name of its account. */
export type KnownToken = TokenRow & { readonly account: string };

async function knownTokens(reader: Reader, where: SQL | undefined): Promise<KnownToken[]> {
  const rows = await reader.select().from(tokens).innerJoin(accounts, eq(accounts.id, tokens.accountId)).where(where);
  return rows.map((row) => ({ ...row.tokens, account: row.accounts.name }));
}

const isLive = and(isNull(tokens.revokedAt), gt(tokens.expiresAt, sql`now()`));

/** The tokens that can be used. */
export async function liveTokens(reader: Reader): Promise<KnownToken[]> {
  return knownTokens(reader, isLive);
}

/** The tokens that can be used and are bound to documents. */
export async function boundTokens(reader: Reader): Promise<KnownToken[]> {
  return knownTokens(reader, and(isLive, isNotNull(tokens.documents)));
}

/** The tokens that were changed after a version. */
export async function tokensSince(reader: Reader, version: number): Promise<KnownToken[]> {
  return knownTokens(reader, gt(tokens.version, version));
}

export async function tokenById(reader: Reader, id: string): Promise<KnownToken | undefined> {
  return (await knownTokens(reader, eq(tokens.id, id)))[0];
}

export const tokensByIds = rowsBy(tokens, tokens.id);

const tokensBy = rowsBy(tokens, tokens.accountId, { orderBy: [desc(tokens.createdAt), tokens.id] });

/** The tokens of accounts, newest first; those that cannot be used too. */
export async function tokensOfAccounts(
  reader: Reader,
  accountIds: readonly string[],
): Promise<Map<string, TokenRow[]>> {
  return Map.groupBy(await tokensBy(reader, accountIds), ({ accountId }) => accountId);
}

export const insertToken = insertInto(tokens);

/** The ids of the tokens that a role limits; those that have ended too, because they refer to it. */
export async function tokensOfRole(reader: Reader, role: string): Promise<string[]> {
  const rows = await reader.select({ id: tokens.id }).from(tokens).where(eq(tokens.role, role));
  return rows.map(({ id }) => `token ${id}`);
}

/** Revokes those of the tokens that are not revoked; returns them. */
export async function revokeTokenRows(
  tx: Tx,
  which: { readonly ids: readonly string[] } | { readonly accountId: string },
  by: Pick<TokenRow, "version"> & { readonly revokedBy: string },
): Promise<TokenRow[]> {
  const chosen =
    "ids" in which ? inArrayParam(tokens.id, which.ids) : inArrayParam(tokens.accountId, [which.accountId]);
  return tx
    .update(tokens)
    .set({ ...by, revokedAt: sql`now()` })
    .where(and(chosen, isNull(tokens.revokedAt)))
    .returning();
}

/** Notes that tokens were used just now. */
export async function noteTokenUse(tx: Tx, ids: readonly string[]): Promise<void> {
  const isDue = or(isNull(tokens.lastUsedAt), lt(tokens.lastUsedAt, sql`now() - interval '1 minute'`));
  await tx
    .update(tokens)
    .set({ lastUsedAt: sql`now()` })
    .where(and(inArrayParam(tokens.id, ids), isDue));
}
