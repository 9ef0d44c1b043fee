/** Attempts at the steps of runs, with progress and result. */
import { and, asc, desc, eq, getColumns, isNull, sql } from "drizzle-orm";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { bulkUpdate, bulkInsert } from "../postgres/bulk.ts";
import { rowsBy } from "../postgres/table-queries.ts";
import type { StoredJson } from "../records.ts";
import { attempts, runs } from "../tables.ts";

export type AttemptRow = typeof attempts.$inferSelect;

const NEW_FIELDS = [
  "runId",
  "step",
  "number",
  "label",
  "driver",
  "model",
  "operationId",
  "nodeId",
  "clusterId",
  "hostGroup",
  "actor",
] as const;

/**
 * A new attempt. step-durations.ts looks for it by label (`interface.name`), driver and the node's model, and
 * attempt-history.ts by the fields after these.
 */
type NewAttempt = Pick<AttemptRow, (typeof NEW_FIELDS)[number]> & { readonly timeoutSeconds: number };

/** The row of a new attempt. `now`: by the database's clock. */
export function newAttempt({ timeoutSeconds, ...attempt }: NewAttempt, now: Date): AttemptRow {
  return {
    ...attempt,
    state: "RUNNING",
    entries: 1,
    startedAt: now,
    deadlineAt: new Date(now.getTime() + timeoutSeconds * 1000),
    finishedAt: null,
    memo: null,
    callback: null,
    output: null,
    failure: null,
    progressPercent: null,
    progressMessage: null,
    part: "RUN",
    driverTries: null,
    recoveries: 0,
    aborted: null,
  };
}

export const beginAttempts = bulkInsert(attempts, [...NEW_FIELDS, "state", "startedAt", "deadlineAt"]);

const CHANGEABLE_FIELDS = [
  "state",
  "entries",
  "deadlineAt",
  "finishedAt",
  "memo",
  "callback",
  "output",
  "failure",
  "part",
  "driverTries",
  "progressPercent",
  "progressMessage",
  "recoveries",
] as const;

/** A change by the worker that claimed the run. */
export type ClaimedAttemptChange = { readonly [Field in (typeof CHANGEABLE_FIELDS)[number]]?: AttemptRow[Field] };

const changeEach = bulkUpdate(attempts, {
  key: ["runId", "step", "number"],
  fields: [...CHANGEABLE_FIELDS, "aborted"],
});

/** Changes attempts of locked runs, each in its own way. */
export async function changeClaimedAttempts(
  tx: Tx,
  changes: readonly (Pick<AttemptRow, "runId" | "step" | "number"> & { readonly change: ClaimedAttemptChange })[],
): Promise<void> {
  const rows = changes.map((one) =>
    one.change.state === "ABORTED" ? { ...one, change: { ...one.change, aborted: true } } : one,
  );
  await changeEach(tx, rows);
}

/** Ends or parks an attempt. */
export async function updateAttempt(
  tx: Tx,
  { runId, step, number }: AttemptRow,
  change: ClaimedAttemptChange & { readonly ended?: true },
): Promise<void> {
  const { ended, ...fields } = change;
  await tx
    .update(attempts)
    .set({ ...fields, ...(ended && { finishedAt: sql`now()` }) })
    .where(and(eq(attempts.runId, runId), eq(attempts.step, step), eq(attempts.number, number)));
}

/** Ends the unfinished attempts of runs. */
export async function abortAttempts(tx: Tx, runIds: readonly string[]): Promise<void> {
  if (runIds.length === 0) return;
  await tx
    .update(attempts)
    .set({ state: "ABORTED", aborted: true, finishedAt: sql`now()` })
    .where(and(inArrayParam(attempts.runId, runIds), isNull(attempts.finishedAt)));
}

/** An attempt, and whether its deadline has passed by the database's clock. */
export type TimedAttempt = AttemptRow & { readonly expired: boolean };

const TIMED = { ...getColumns(attempts), expired: sql<boolean>`${attempts.deadlineAt} <= now()` };

/** The newest attempt at one step of a run. */
export async function latestAttempt(reader: Reader, runId: string, step: number): Promise<TimedAttempt | undefined> {
  const [row] = await reader
    .select(TIMED)
    .from(attempts)
    .where(and(eq(attempts.runId, runId), eq(attempts.step, step)))
    .orderBy(desc(attempts.number))
    .limit(1);
  return row;
}

/** The newest attempt at the step that each run is at. */
export async function attemptsUnderWay(reader: Reader, runIds: readonly string[]): Promise<Map<string, TimedAttempt>> {
  if (runIds.length === 0) return new Map();
  const rows = await reader
    .select(TIMED)
    .from(attempts)
    .innerJoin(runs, and(eq(runs.id, attempts.runId), eq(runs.position, attempts.step)))
    .where(inArrayParam(runs.id, runIds))
    .orderBy(asc(attempts.number));
  return new Map(rows.map((attempt) => [attempt.runId, attempt]));
}

/** All attempts of some runs, in the order they were made. */
export const attemptsOf = rowsBy(attempts, attempts.runId, {
  orderBy: [attempts.runId, attempts.step, attempts.number],
});

/** Results of steps, each from its last success: in the run, or in the runs that it restarts. */
export async function latestOutputs(
  reader: Reader,
  runId: string,
  labels: readonly string[],
): Promise<{ readonly label: string; readonly driver: string; readonly output: StoredJson }[]> {
  return reader.execute<{ label: string; driver: string; output: StoredJson }>(sql`
    with recursive chain as (
      select id, restart_of, 0 as age from runs where id = ${runId}
      union all
      select r.id, r.restart_of, age + 1 from runs r join chain on r.id = chain.restart_of
    )
    select distinct on (label, driver) label, driver, output from ${attempts} join chain on chain.id = ${attempts.runId}
    where ${inArrayParam(attempts.label, labels)} and state = 'SUCCEEDED'
    order by label, driver, age, number desc`);
}

/** Succeeded steps by run, which a restart skips. */
export async function succeededSteps(reader: Reader, runIds: readonly string[]): Promise<Map<string, Set<number>>> {
  if (runIds.length === 0) return new Map();
  const rows = await reader
    .select({ runId: attempts.runId, step: attempts.step })
    .from(attempts)
    .where(and(inArrayParam(attempts.runId, runIds), eq(attempts.state, "SUCCEEDED")));
  const found = Map.groupBy(rows, ({ runId }) => runId);
  return new Map([...found].map(([runId, steps]) => [runId, new Set(steps.map(({ step }) => step))]));
}
