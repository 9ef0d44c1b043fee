/**
 * Receives the callback of a machine to a step that waits for it. The token in the path names the run and is valid for
 * one entry of one step: it is the MAC of the generation, which rises with every entry, under the run's key. So a
 * late callback, a repeated one and a forged one can be distinguished. Each is recorded, and none is applied.
 */
import { createHmac, randomUUID, timingSafeEqual } from "node:crypto";
import type { Log } from "../../../log.ts";
import type { StoredJson } from "../../../store/records.ts";
import { countRejectedCallbacks, recordRejectedCallback } from "../../../store/runs/rejected-callbacks.ts";
import { attemptsUnderWay, updateAttempt } from "../../../store/runs/attempts.ts";
import { plansByHashes } from "../../../store/runs/plans.ts";
import { PRIORITY, wakeRuns } from "../../../store/runs/run-claims.ts";
import { lockRun } from "../../../store/runs/run-locks.ts";
import { runsByIds, updateRuns } from "../../../store/runs/runs.ts";
import type { RejectedCallbackKind } from "../../../store/runs/rejected-callbacks.ts";
import type { RunRow } from "../../../store/runs/runs.ts";
import { stepLabel } from "../../plans/plan.ts";
import { isUuid } from "../../../runtime/uuid.ts";
import type { CallbackKey } from "../../../store/secrets/keyring.ts";
import type { EngineContext } from "../../context.ts";
import type { Reader } from "../../../store/postgres/database.ts";
import type { Transaction } from "../../transaction.ts";

/** Why a callback is rejected. */
type Rejection = Exclude<RejectedCallbackKind, "STRANGER">;

/** `UNKNOWN`: there is no such run. Only `TAKEN` changes the run. */
export type CallbackAnswer = "TAKEN" | Rejection | "UNKNOWN";

type CallbackParts = Pick<EngineContext, "transact" | "log" | "keyring"> & { readonly reader: Reader };

/** Limit per run, so that forged callbacks fill neither the database nor the log. */
export const REJECTED_MAX = 100;
/** Number of earlier generations whose tokens are compared, to distinguish a late callback from a forged one. */
const GENERATIONS_MAX = 10_000;

/** The path that a machine calls during one entry of a step; opaque, and relative to the address of the service. */
export function callbackPath(runId: string, key: CallbackKey, generation: number): string {
  return `/callback/${runId}.${macOf(key, generation)}`;
}

/** Whether a text has the form of a token: the id of a run and a MAC. */
export function isCallbackToken(text: string): boolean {
  const [runId = "", mac = "", ...rest] = text.split(".");
  return isUuid(runId) && /^[\w-]{43}$/.test(mac) && rest.length === 0;
}

function macOf(key: CallbackKey, generation: number): string {
  return createHmac("sha256", key).update(String(generation)).digest("base64url");
}

export async function receiveCallback(
  { reader, transact, log, keyring }: CallbackParts,
  token: string,
  body: StoredJson,
): Promise<CallbackAnswer> {
  if (!isCallbackToken(token)) return "UNKNOWN";
  const [runId = "", given = ""] = token.split(".");
  // Without a lock first: an invented token must not take a connection for a transaction.
  const [seen] = await runsByIds(reader, [runId]);
  if (!seen) return "UNKNOWN";
  // Salt and data key of a run never change.
  await keyring.load(reader, [seen.callbackKey]);
  const key = keyring.callbackKey(seen);
  if (!isForOpenStep(seen, key, given) && (await countRejectedCallbacks(reader, runId)) >= REJECTED_MAX)
    return rejectionOf(seen, key, given);
  return transact(async (transaction) => {
    const run = await lockRun(transaction.tx, runId);
    if (!run) return "UNKNOWN";
    if (isForOpenStep(run, key, given) && (await deliverCallback(transaction, run, body))) return "TAKEN";
    const kind = rejectionOf(run, key, given);
    await recordRejected(transaction, log, run, kind);
    return kind;
  });
}

/**
 * Gives a callback to the present entry of the step that a locked run is at, and wakes it if it waits for one. False:
 * no step is under way, or this entry has got a callback.
 */
export async function deliverCallback({ tx }: Transaction, run: RunRow, body: StoredJson): Promise<boolean> {
  if (run.finishedAt !== null || run.openGeneration === null) return false;
  const attempt = (await attemptsUnderWay(tx, [run.id])).get(run.id);
  if (!attempt || (attempt.state !== "RUNNING" && attempt.state !== "WAITING")) return false;
  // Null in the database means that there was no callback.
  await updateAttempt(tx, attempt, { callback: body ?? {} });
  await updateRuns(tx, run.id, { openGeneration: null });
  if (run.state === "WAITING" && run.waitReason === "CALLBACK") await wakeRuns(tx, [run.id], PRIORITY.woken);
  return true;
}

/** Whether a token was issued for the present entry of a step, and no callback has been received for it. */
function isForOpenStep({ finishedAt, openGeneration }: RunRow, key: CallbackKey, given: string): boolean {
  return finishedAt === null && openGeneration !== null && isEqual(given, macOf(key, openGeneration));
}

const MEANING: Readonly<Record<Rejection, string>> = {
  LATE: "it is late, the step has continued or ended",
  DUPLICATE: "it is a duplicate",
  FORGED: "its token was never issued",
};

/** Does nothing if the run has `REJECTED_MAX` records already. */
async function recordRejected(transaction: Transaction, log: Log, run: RunRow, kind: Rejection): Promise<void> {
  const { tx } = transaction;
  const { id: runId, operationId, nodeName: node, planHash, position } = run;
  const step = stepLabel((await plansByHashes(tx, [planHash])).get(planHash)?.steps[position]);
  const count = await recordRejectedCallback(tx, { id: randomUUID(), runId, kind, step }, REJECTED_MAX);
  if (count === null) return;
  const rest = count < REJECTED_MAX ? "" : `; the run has ${REJECTED_MAX} of them, and further ones are not recorded`;
  const message = `a callback to node ${node} was rejected: ${MEANING[kind]}${rest}`;
  transaction.afterCommit(() => log.warn({ node, runId, operationId, step, kind }, message));
}

function rejectionOf(run: RunRow, key: CallbackKey, given: string): Rejection {
  const isCurrent = run.generation > 0 && isEqual(given, macOf(key, run.generation));
  // An open generation was not taken: the step has failed meanwhile, and is retried later under another token.
  if (isCurrent) return run.finishedAt === null && run.openGeneration === null ? "DUPLICATE" : "LATE";
  const oldest = Math.max(1, run.generation - GENERATIONS_MAX);
  for (let generation = run.generation - 1; generation >= oldest; generation -= 1) {
    if (isEqual(given, macOf(key, generation))) return "LATE";
  }
  return "FORGED";
}

function isEqual(given: string, token: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(token)];
  return one.length === other.length && timingSafeEqual(one, other);
}
