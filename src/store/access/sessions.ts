/** Sessions of browsers, and the subjects of issuers. */
import { and, desc, eq, gt, isNull, lt, notInArray, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { rowBy } from "../postgres/table-queries.ts";
import { sessions, subjects } from "../tables.ts";

export type SessionRow = typeof sessions.$inferSelect;
export type SubjectRow = typeof subjects.$inferSelect;

/** The sessions that have not ended. */
export async function liveSessions(reader: Reader): Promise<SessionRow[]> {
  return reader
    .select()
    .from(sessions)
    .where(and(isNull(sessions.endedAt), gt(sessions.expiresAt, sql`now()`)));
}

/** The sessions that were changed after a version. */
export async function sessionsSince(reader: Reader, version: number): Promise<SessionRow[]> {
  return reader.select().from(sessions).where(gt(sessions.version, version));
}

export const sessionById = rowBy(sessions, sessions.id);

/** Open sessions of one subject: every process keeps them in memory. */
const SESSIONS_OF_SUBJECT = 20;

/** Stores a session, ends the oldest ones of its subject, and deletes those that expired a day ago. */
export async function insertSession(tx: Tx, row: typeof sessions.$inferInsert): Promise<void> {
  await tx.delete(sessions).where(lt(sessions.expiresAt, sql`now() - interval '1 day'`));
  const open = and(eq(sessions.subject, row.subject), isNull(sessions.endedAt));
  const newest = tx.select({ id: sessions.id }).from(sessions).where(open);
  const kept = newest.orderBy(desc(sessions.createdAt)).limit(SESSIONS_OF_SUBJECT - 1);
  await tx
    .update(sessions)
    .set({ endedAt: sql`now()`, version: row.version })
    .where(and(open, notInArray(sessions.id, kept)));
  await tx.insert(sessions).values(row);
}

/** Ends those of the sessions that have not ended; returns their ids. */
export async function endSessionRows(
  tx: Tx,
  which: { readonly id: string } | { readonly subject: string },
  version: number,
): Promise<string[]> {
  const chosen: SQL = "id" in which ? eq(sessions.id, which.id) : eq(sessions.subject, which.subject);
  const rows = await tx
    .update(sessions)
    .set({ endedAt: sql`now()`, version })
    .where(and(chosen, isNull(sessions.endedAt), gt(sessions.expiresAt, sql`now()`)))
    .returning({ id: sessions.id });
  return rows.map(({ id }) => id);
}

/** Notes that sessions were used just now. */
export async function noteSessionUse(tx: Tx, ids: readonly string[]): Promise<void> {
  await tx
    .update(sessions)
    .set({ lastUsedAt: sql`now()` })
    .where(and(inArrayParam(sessions.id, ids), lt(sessions.lastUsedAt, sql`now() - interval '1 minute'`)));
}

/** The subjects that were changed after a version. */
export async function subjectsSince(reader: Reader, version: number): Promise<SubjectRow[]> {
  return reader.select().from(subjects).where(gt(subjects.version, version));
}

export async function putSubjectName(tx: Tx, row: Pick<SubjectRow, "subject" | "name" | "version">): Promise<void> {
  await tx.insert(subjects).values(row).onConflictDoUpdate({ target: subjects.subject, set: row });
}

/** Refuses the JWTs of a subject that were issued before now. */
export async function refuseOlderTokens(tx: Tx, row: Pick<SubjectRow, "subject" | "version">): Promise<void> {
  const refused = { ...row, tokensFrom: sql`now()` };
  await tx.insert(subjects).values(refused).onConflictDoUpdate({ target: subjects.subject, set: refused });
}
