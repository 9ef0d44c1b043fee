/**
 * Starting runs: their nodes take the first edge, and each run gets its job. A queued run may start when its wave is open
 * and `maxParallel` allows one more, in the order of the request. If the site limits its first phase or its controller
 * (capacity-limits.ts), it then waits for a slot, which slot-scheduler.ts grants.
 */
import type { NodeState } from "../../lifecycle/node-states.ts";
import { createYielding } from "../../runtime/yielding.ts";
import { lockNodes } from "../../store/nodes.ts";
import type { NodeMove, NodeRow } from "../../store/nodes.ts";
import { countStartedRuns } from "../../store/operations.ts";
import type { OperationRow } from "../../store/operations.ts";
import { plansByHashes } from "../../store/plans.ts";
import type { Plan } from "../../store/records.ts";
import { changeClaimedRuns, lockRunsToStart } from "../../store/runs.ts";
import type { ClaimedRunChange, RunRow } from "../../store/runs.ts";
import { readSite } from "../../store/site.ts";
import type { EngineContext } from "../context.ts";
import type { Queue } from "../jobs/queue.ts";
import { move } from "../transaction.ts";
import type { Transaction } from "../transaction.ts";
import { waitOf } from "./capacity-limits.ts";

/** The actor in transitions that no user caused. */
export const ENGINE = "engine";

export type StartParts = Pick<EngineContext, "queue" | "nudge">;

/** A run that starts, with the parts of it that its first transitions need. */
export interface StartingRun {
  readonly runId: string;
  readonly node: Pick<NodeRow, "id" | "state" | "stage">;
  readonly plan: Plan;
  readonly target: NodeState;
}

/** Recorded in the transitions of starting runs. */
export interface StartCause {
  readonly operationId: string;
  readonly reason: string | null;
  readonly actor: string;
}

/**
 * Starts runs whose nodes are locked and whose rows the caller stores as RUNNING. Nodes that take the same edges from the
 * same state move in one statement.
 */
export async function startRuns(
  transaction: Transaction,
  queue: Queue,
  { operationId, reason, actor }: StartCause,
  starting: readonly StartingRun[],
): Promise<void> {
  const groups = new Map<string, StartingRun[]>();
  const yieldWhenDue = createYielding();
  for (const run of starting) {
    await yieldWhenDue();
    const { node, plan, target } = run;
    const key = JSON.stringify([node.state, plan.legs[0]?.enter ?? [], target, stageOnEntering(plan, 0)]);
    const group = groups.get(key);
    if (group) group.push(run);
    else groups.set(key, [run]);
  }
  for (const group of groups.values()) {
    const [first] = group;
    if (!first) continue;
    const runIds = new Map(group.map(({ node, runId }) => [node.id, runId]));
    const nodeIds = group.map(({ node }) => node.id);
    const context = { actor, reason, target: first.target, operationId, runIds };
    const change = stageOnEntering(first.plan, 0);
    let from = first.node.state;
    for (const event of first.plan.legs[0]?.enter ?? [])
      from = await move(transaction, nodeIds, { from, event, change }, context);
  }
  await queue.enqueue(
    transaction,
    starting.map(({ runId }) => runId),
  );
}

/** The change of a node's stage when a run enters a leg: work on the disks resets it, unless the plan keeps the system. */
export function stageOnEntering(plan: Plan, leg: number): NodeMove {
  const phase = plan.legs[leg]?.phase;
  if (phase === "clean" || phase === "undeploy") return { stage: "NONE" };
  if (phase !== "deploy") return {};
  return plan.steps.some(({ kept, reaches }) => kept && reaches === "PROVISIONED") ? {} : { stage: "NONE" };
}

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
    await startPage(transaction, parts, operation, queued);
    left -= queued.length;
  }
}

async function startPage(
  transaction: Transaction,
  parts: StartParts,
  operation: OperationRow,
  queued: readonly RunRow[],
): Promise<void> {
  const locked = await lockNodes(
    transaction.tx,
    queued.map(({ nodeId }) => nodeId),
  );
  const nodes = new Map(locked.map((node) => [node.id, node]));
  const plans = await plansByHashes(transaction.tx, [...new Set(queued.map(({ planHash }) => planHash))]);
  const { policy } = await readSite(transaction.tx);
  const starting: StartingRun[] = [];
  const changes: { readonly id: string; readonly change: ClaimedRunChange }[] = [];
  for (const run of queued) {
    const node = nodes.get(run.nodeId);
    const plan = plans.get(run.planHash);
    if (!node || !plan) throw new Error(`Queued run ${run.id} has no node or no plan.`);
    const start = waitOf(policy, run, plan, { mayStart: true });
    const starts = start.state === "RUNNING";
    changes.push({ id: run.id, change: { ...start, ...(starts && { waitingSince: null }) } });
    if (starts) starting.push({ runId: run.id, node, plan, target: run.target });
  }
  await changeClaimedRuns(transaction.tx, changes);
  await startRuns(transaction, parts.queue, causeOf(operation), starting);
  if (starting.length < queued.length) transaction.afterCommit(parts.nudge);
}

/** The cause of runs that start because the operation was requested. */
export function causeOf({ id, reason, actor }: Pick<OperationRow, "id" | "reason" | "actor">): StartCause {
  return { operationId: id, reason, actor };
}
