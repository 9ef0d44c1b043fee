/**
 * A machine reports back to a step that waits for it. The token in the path names the run and is good for one entry of
 * one step: it is made of the run's secret and the generation, which rises with every entry. So a report that comes too
 * late is told from one that was made before and from one that was made up; each is recorded and none is applied.
 */
import { createHmac, randomUUID } from "node:crypto";
import type { StoredJson } from "../store/records.ts";
import { attemptsUnderWay, lockRun, noteAnomaly, plansByHashes, updateAttempt, updateRun } from "../store/runs.ts";
import type { Anomaly, RunRow } from "../store/runs.ts";
import { stepLabel } from "./plan.ts";
import { isUuid } from "./select.ts";
import type { SubmitParts } from "./submit.ts";
import type { Work } from "./transition.ts";

/** `UNKNOWN`: there is no such run. All but `TAKEN` changed nothing. */
export type CallBackAnswer = "TAKEN" | Anomaly | "UNKNOWN";

type Secret = Pick<RunRow, "id" | "callbackSecret">;

/** Whoever makes up reports shall not fill the database with them. */
const ANOMALIES_MAX = 100;
/** Earlier tokens that are looked through to tell a late report from a forged one. */
const GENERATIONS_MAX = 10_000;

/** Where a machine may call back during one entry of a step: an opaque path below the service's address. */
export function callbackPath(run: Secret, generation: number): string {
  return `/callback/${run.id}.${mac(run, generation)}`;
}

function mac({ callbackSecret }: Secret, generation: number): string {
  return createHmac("sha256", callbackSecret).update(String(generation)).digest("base64url");
}

export async function callBack(parts: SubmitParts, token: string, body: StoredJson): Promise<CallBackAnswer> {
  const [runId = "", given = ""] = token.split(".");
  if (!isUuid(runId)) return "UNKNOWN";
  return parts.transact(async (work): Promise<CallBackAnswer> => {
    const run = await lockRun(work.tx, runId);
    if (!run) return "UNKNOWN";
    const attempt = run.finishedAt === null && run.openGeneration !== null && given === mac(run, run.openGeneration) ? (await attemptsUnderWay(work.tx, [run.id])).get(run.id) : undefined;
    if (!attempt || (attempt.state !== "RUNNING" && attempt.state !== "WAITING")) return refuse(work, run, given);
    // A body of null would look like no call-back at all.
    await updateAttempt(work.tx, attempt, { callback: body ?? {} });
    await updateRun(work.tx, run.id, { openGeneration: null });
    if (run.state === "WAITING" && run.waitReason === "CALLBACK") await parts.queue.wake(work, run.id);
    return "TAKEN";
  });
}

async function refuse(work: Work, run: RunRow, given: string): Promise<Anomaly> {
  const anomaly = kindOf(run, given);
  const step = (await plansByHashes(work.tx, [run.planHash])).get(run.planHash)?.steps[run.position];
  await noteAnomaly(work.tx, { id: randomUUID(), runId: run.id, kind: anomaly, step: stepLabel(step) }, ANOMALIES_MAX);
  return anomaly;
}

function kindOf(run: RunRow, given: string): Anomaly {
  const isCurrent = given === mac(run, run.generation) && run.generation > 0;
  if (isCurrent) return run.finishedAt === null ? "DUPLICATE" : "LATE";
  for (let generation = run.generation - 1; generation > 0 && run.generation - generation <= GENERATIONS_MAX; generation -= 1) {
    if (given === mac(run, generation)) return "LATE";
  }
  return "FORGED";
}
