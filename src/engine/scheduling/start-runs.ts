/**
 * Starting runs: a queued run becomes due when its wave is open, its host group may begin nodes (group-gates.ts) and
 * `maxParallel` allows one more, in the order of the request. If the site limits its first phase or its controller
 * (capacity-limits.ts), it waits for a slot before that, which slot-scheduler.ts grants. Once due it counts as started,
 * but it stays QUEUED, and its node untouched, until a replica claims it and begins the first step
 * (execution/claim.ts).
 */
import { countStartedRuns, hasQueued, lockRunsToStart } from "../../store/operations/operation-runs.ts";
import type { ClosedGroups } from "../../store/operations/operation-runs.ts";
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
import { readGates } from "./group-gates.ts";
import type { Gates } from "./group-gates.ts";

/** The actor in transitions that no user caused. */
export const ENGINE = "engine";

/** The stop of an operation before all of its nodes are cleaned up. */
export const ENGINE_STOP = { interrupt: "STOP", interruptBy: ENGINE, interruptReason: null } as const;

export type StartParts = Pick<EngineContext, "nudge">;

/** Runs that are started together. */
const PAGE = 500;

/** Starts queued runs of a locked operation as far as its open waves, its host groups and `maxParallel` allow. */
export async function startQueued(transaction: Transaction, parts: StartParts, operation: OperationRow): Promise<void> {
  const { id, wave, maxParallel } = operation;
  if (operation.interrupt !== null || operation.waveState === "HALTED") return;
  if (!isRationed(operation)) return;
  let left = Number.POSITIVE_INFINITY;
  if (maxParallel !== null) left = maxParallel - (await countStartedRuns(transaction.tx, id));
  if (left <= 0 || (operation.groups !== null && !(await hasQueued(transaction.tx, id)))) return;
  const budgets = new Budgets(await readGates(transaction, operation));
  while (left > 0) {
    const closed = budgets.close();
    const queued = await lockRunsToStart(transaction.tx, id, { wave, closed, limit: Math.min(left, PAGE) });
    if (queued.length === 0) return;
    const starting = queued.filter((run) => budgets.take(run));
    await startPage(transaction, parts, starting);
    left -= starting.length;
  }
}

/** Whether the end of a run of the operation may let others start. */
export function isRationed({ maxParallel, waves, groups }: OperationRow): boolean {
  return maxParallel !== null || waves !== null || groups !== null;
}

/** The host groups that hold runs, while runs are started one after another. */
class Budgets {
  readonly #gates: Gates | null;
  readonly #spare: Map<string, number>;
  /** Groups that were closed when the page was read: its runs of them have nodes that are out of service already. */
  #closed: ReadonlySet<string> = new Set();

  constructor(gates: Gates | null) {
    this.#gates = gates;
    this.#spare = new Map(gates?.spare);
  }

  /** The groups that hold their runs, for the next page; null if none does. */
  close(): ClosedGroups | null {
    if (!this.#gates) return null;
    const budgeted = [...this.#spare].flatMap(([key, left]) => (left > 0 ? [] : [key]));
    this.#closed = new Set(budgeted);
    return { ...this.#gates.closed, budgeted };
  }

  /** Whether the run may start; it then takes a node out of service. */
  take({ budgetKey }: Pick<RunRow, "budgetKey">): boolean {
    const left = budgetKey === null ? undefined : this.#spare.get(budgetKey);
    if (budgetKey === null || left === undefined || this.#closed.has(budgetKey)) return true;
    if (left <= 0) return false;
    this.#spare.set(budgetKey, left - 1);
    return true;
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
