/**
 * Starting runs: a queued run becomes due when its wave is open and `maxParallel` allows one more, in the order of the
 * request. If the site limits its first phase or its controller (capacity-limits.ts), it waits for a slot before that,
 * which slot-scheduler.ts grants. Once due it counts as started, but it stays QUEUED, and its node untouched, until a
 * replica claims it and begins the first step (execution/claim.ts).
 */
import { countStartedRuns, lockRunsToStart } from "../../store/operations/operation-runs.ts";
import type { OperationRow } from "../../store/operations/operations.ts";
import { plansByHashes } from "../../store/runs/plans.ts";
import { PRIORITY, wakeRuns } from "../../store/runs/run-claims.ts";
import { changeClaimedRuns } from "../../store/runs/runs.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import { readSite } from "../../store/site.ts";
import { idsOf } from "../input/ids.ts";
import type { EngineContext } from "../context.ts";
import type { Transaction } from "../transaction.ts";
import { waitOf } from "./capacity-limits.ts";

/** The actor in transitions that no user caused. */
export const ENGINE = "engine";

/** The stop of an operation before all of its nodes are cleaned up. */
export const ENGINE_STOP = { interrupt: "STOP", interruptBy: ENGINE, interruptReason: null } as const;

export type StartParts = Pick<EngineContext, "nudge">;

/** Runs that are started together. */
const PAGE = 500;

/** Starts queued runs of an operation as far as its open waves and `maxParallel` allow. The operation is locked. */
export async function startQueued(transaction: Transaction, parts: StartParts, operation: OperationRow): Promise<void> {
  const { id, wave, maxParallel } = operation;
  if (operation.interrupt !== null || operation.waveState === "HALTED") return;
  if (maxParallel === null && operation.waves === null) return;
  let left = Number.POSITIVE_INFINITY;
  if (maxParallel !== null) left = maxParallel - (await countStartedRuns(transaction.tx, id));
  while (left > 0) {
    const queued = await lockRunsToStart(transaction.tx, id, wave, Math.min(left, PAGE));
    if (queued.length === 0) return;
    await startPage(transaction, parts, queued);
    left -= queued.length;
  }
}

async function startPage(transaction: Transaction, parts: StartParts, queued: readonly RunRow[]): Promise<void> {
  const plans = await plansByHashes(transaction.tx, [...new Set(queued.map(({ planHash }) => planHash))]);
  const { policy } = await readSite(transaction.tx);
  const changes = queued.map((run) => {
    const plan = plans.get(run.planHash);
    if (!plan) throw new Error(`Queued run ${run.id} has no plan.`);
    return { id: run.id, change: waitOf(policy, run, plan, { mayStart: true }) };
  });
  await changeClaimedRuns(transaction.tx, changes);
  const started = changes.filter(({ change }) => change.waitReason === "CONCURRENCY");
  await wakeRuns(transaction.tx, idsOf(started), PRIORITY.new);
  if (started.length < queued.length) transaction.afterCommit(parts.nudge);
}
