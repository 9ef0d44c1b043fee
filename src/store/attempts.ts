/** Attempts at the steps of runs: each try, its progress, and what came of it. */
import { and, asc, desc, eq, lte, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import { isAmong } from "./among.ts";
import type { Reader, Tx } from "./database.ts";
import type { Failure, StoredJson } from "./records.ts";
import { updateRun } from "./runs.ts";
import { attempts, runs } from "./tables.ts";

export type AttemptRow = typeof attempts.$inferSelect;

/** A try that is about to be made. Label, driver and the node's model are what history.ts finds it by. */
export interface NewAttempt {
  readonly runId: string;
  readonly step: number;
  readonly number: number;
  readonly timeoutSeconds: number;
  /** `interface.name`. */
  readonly label: string;
  readonly driver: string;
  readonly model: string | null;
}

/** A new attempt at a step, running. */
export async function beginAttempt(tx: Tx, attempt: NewAttempt): Promise<AttemptRow> {
  const { runId, step, number, timeoutSeconds, label, driver, model } = attempt;
  const [row] = await tx
    .insert(attempts)
    .values({ runId, step, number, label, driver, model, state: "RUNNING", deadlineAt: sql`now() + make_interval(secs => ${timeoutSeconds})` })
    .returning();
  if (!row) throw new Error(`Attempt ${number} of step ${step} of run ${runId} was not stored.`);
  return row;
}

/**
 * The parked or crashed attempt is entered again, with its time anew where `seconds` says so. Its call-back stays until the
 * entry has come to something: a process that dies in it leaves the report to the next. Answers its deadline.
 */
export async function reenterAttempt(tx: Tx, { runId, step, number, deadlineAt }: AttemptRow, seconds: number | null): Promise<Date> {
  const [row] = await tx
    .update(attempts)
    .set({ state: "RUNNING", entries: sql`${attempts.entries} + 1`, ...(seconds !== null && { deadlineAt: sql`now() + make_interval(secs => ${seconds})` }) })
    .where(attemptIs(runId, step, number))
    .returning({ deadlineAt: attempts.deadlineAt });
  return row?.deadlineAt ?? deadlineAt;
}

/** Ends or parks an attempt. */
export async function updateAttempt(
  tx: Tx,
  { runId, step, number }: AttemptRow,
  change: { readonly state?: AttemptRow["state"]; readonly memo?: StoredJson; readonly output?: StoredJson; readonly failure?: Failure; readonly callback?: StoredJson; readonly part?: AttemptRow["part"]; readonly ended?: true },
): Promise<void> {
  const { ended, ...fields } = change;
  await tx
    .update(attempts)
    .set({ ...fields, ...(ended && { finishedAt: sql`now()` }) })
    .where(attemptIs(runId, step, number));
}

/** Progress is for people: written only while the attempt runs. The run is locked first, as by every other writer. */
export async function noteProgress(tx: Tx, { runId, step, number }: AttemptRow, percent: number, message: string | null): Promise<void> {
  await updateRun(tx, runId, {});
  await tx
    .update(attempts)
    .set({ progressPercent: percent, progressMessage: message })
    .where(and(attemptIs(runId, step, number), eq(attempts.state, "RUNNING")));
}

function attemptIs(runId: string, step: number, number: number): SQL | undefined {
  return and(eq(attempts.runId, runId), eq(attempts.step, step), eq(attempts.number, number));
}

/** The newest attempt at one step of a run. */
export async function latestAttempt(reader: Reader, runId: string, step: number): Promise<(AttemptRow & { readonly expired: boolean }) | undefined> {
  const [row] = await reader
    .select({ attempt: attempts, expired: sql<boolean>`${lte(attempts.deadlineAt, sql`now()`)}` })
    .from(attempts)
    .where(and(eq(attempts.runId, runId), eq(attempts.step, step)))
    .orderBy(desc(attempts.number))
    .limit(1);
  return row && { ...row.attempt, expired: row.expired };
}

/** The newest attempt at the step that each run is at. */
export async function attemptsUnderWay(reader: Reader, runIds: readonly string[]): Promise<Map<string, AttemptRow>> {
  if (runIds.length === 0) return new Map();
  const rows = await reader
    .select({ attempt: attempts })
    .from(attempts)
    .innerJoin(runs, and(eq(runs.id, attempts.runId), eq(runs.position, attempts.step)))
    .where(isAmong(runs.id, runIds))
    .orderBy(asc(attempts.number));
  return new Map(rows.map(({ attempt }) => [attempt.runId, attempt]));
}

/** All attempts of some runs, in the order they were made. */
export async function attemptsOf(reader: Reader, runIds: readonly string[]): Promise<AttemptRow[]> {
  if (runIds.length === 0) return [];
  return reader.select().from(attempts).where(isAmong(attempts.runId, runIds)).orderBy(asc(attempts.runId), asc(attempts.step), asc(attempts.number));
}

/** Steps of some runs that succeeded, by run: what a restart need not do again. */
export async function succeededSteps(reader: Reader, runIds: readonly string[]): Promise<Map<string, Set<number>>> {
  if (runIds.length === 0) return new Map();
  const rows = await reader
    .select({ runId: attempts.runId, step: attempts.step })
    .from(attempts)
    .where(and(isAmong(attempts.runId, runIds), eq(attempts.state, "SUCCEEDED")));
  const found = new Map<string, Set<number>>();
  for (const { runId, step } of rows) {
    const steps = found.get(runId) ?? new Set<number>();
    found.set(runId, steps.add(step));
  }
  return found;
}
