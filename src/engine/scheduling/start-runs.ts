/**
 * The beginning of runs: their nodes take the first edge and each run gets its job. Who may begin is asked here too: a run
 * has its turn when its wave is open and `maxParallel` leaves a place, in the order of the request; then, where the site
 * limits its first phase or its controller (limits.ts), it waits for that place as well (turns.ts gives it).
 */
import type { NodeState } from "../../lifecycle/node-states.ts";
import { lockNodes } from "../../store/nodes.ts";
import type { NodeMove, NodeRow } from "../../store/nodes.ts";
import { countRunsInTurn } from "../../store/operations.ts";
import type { OperationRow } from "../../store/operations.ts";
import type { Plan } from "../../store/records.ts";
import { plansByHashes } from "../../store/plans.ts";
import { changeHeldRuns, lockRunsInTurn } from "../../store/runs.ts";
import type { HeldRunChange, RunRow } from "../../store/runs.ts";
import { readSite } from "../../store/site.ts";
import { createYielding } from "../../runtime/yielding.ts";
import { waitOf } from "./capacity-limits.ts";
import type { Queue } from "../jobs/queue.ts";
import { move } from "../transaction.ts";
import type { Transaction } from "../transaction.ts";

/** Who the engine says it is in transitions that no user caused. */
export const ENGINE = "engine";

export interface StartParts {
  readonly queue: Queue;
  /** Looks, after the commit, whether runs that wait for a limit can have their turn. */
  readonly nudge: () => void;
}

/** A run that is to begin, with what its first move needs. */
export interface Beginning {
  readonly runId: string;
  readonly node: Pick<NodeRow, "id" | "state" | "stage">;
  readonly plan: Plan;
  readonly target: NodeState;
}

/**
 * Begins runs: their nodes take the first edge and each run gets a job. The nodes are locked; their runs are stored as
 * RUNNING by the caller. Nodes in the same position move in one statement.
 */
export async function startRuns(
  transaction: Transaction,
  queue: Queue,
  operation: { readonly id: string; readonly reason: string | null },
  actor: string,
  beginnings: readonly Beginning[],
): Promise<void> {
  const groups = new Map<string, Beginning[]>();
  const mayBreak = createYielding();
  for (const beginning of beginnings) {
    await mayBreak();
    const { node, plan, target } = beginning;
    const key = JSON.stringify([node.state, plan.legs[0]?.enter ?? [], target, stageOnEntering(plan, 0)]);
    const group = groups.get(key);
    if (group) group.push(beginning);
    else groups.set(key, [beginning]);
  }
  for (const group of groups.values()) {
    const [first] = group;
    if (!first) continue;
    const runIds = new Map(group.map(({ node, runId }) => [node.id, runId]));
    let state = first.node.state;
    for (const event of first.plan.legs[0]?.enter ?? []) {
      const context = { actor, reason: operation.reason, target: first.target, operationId: operation.id, runIds };
      state = await move(
        transaction,
        group.map(({ node }) => node.id),
        state,
        event,
        context,
        stageOnEntering(first.plan, 0),
      );
    }
  }
  await queue.enqueue(
    transaction,
    beginnings.map(({ runId }) => runId),
  );
}

/** What entering a leg makes of the node's stage: work on the disks undoes it, unless the plan keeps what stands. */
export function stageOnEntering(plan: Plan, leg: number): NodeMove {
  const phase = plan.legs[leg]?.phase;
  if (phase === "clean" || phase === "undeploy") return { stage: "NONE" };
  if (phase !== "deploy") return {};
  return plan.steps.some(({ kept, reaches }) => kept && reaches === "PROVISIONED") ? {} : { stage: "NONE" };
}

/** Pages of runs that have their turn together. */
const PAGE = 500;

/** Gives their turn to queued runs of an operation: whose wave is open, as far as `maxParallel` goes. Its lock is held. */
export async function startQueued(transaction: Transaction, parts: StartParts, operation: OperationRow): Promise<void> {
  if (operation.interrupt !== null || operation.waveState === "HALTED") return;
  if (operation.maxParallel === null && operation.waves === null) return;
  const inTurn = operation.maxParallel === null ? 0 : await countRunsInTurn(transaction.tx, operation.id);
  let room = operation.maxParallel === null ? Number.POSITIVE_INFINITY : operation.maxParallel - inTurn;
  while (room > 0) {
    const queued = await lockRunsInTurn(transaction.tx, operation.id, operation.wave, Math.min(room, PAGE));
    if (queued.length === 0) return;
    await beginThose(transaction, parts, operation, queued);
    room -= queued.length;
  }
}

async function beginThose(
  transaction: Transaction,
  parts: StartParts,
  operation: OperationRow,
  queued: readonly RunRow[],
): Promise<void> {
  const nodes = new Map(
    (
      await lockNodes(
        transaction.tx,
        queued.map(({ nodeId }) => nodeId),
      )
    ).map((node) => [node.id, node]),
  );
  const plans = await plansByHashes(transaction.tx, [...new Set(queued.map(({ planHash }) => planHash))]);
  const { policy } = await readSite(transaction.tx);
  const beginnings: Beginning[] = [];
  const changes: { readonly id: string; readonly change: HeldRunChange }[] = [];
  for (const run of queued) {
    const node = nodes.get(run.nodeId);
    const plan = plans.get(run.planHash);
    if (!node || !plan) throw new Error(`Queued run ${run.id} has lost its node or its plan.`);
    const turn = waitOf(policy, run, plan, { isInTurn: true });
    const begins = turn.state === "RUNNING";
    changes.push({ id: run.id, change: { ...turn, ...(begins && { waitingSince: null }) } });
    if (begins) beginnings.push({ runId: run.id, node, plan, target: run.target });
  }
  await changeHeldRuns(transaction.tx, changes);
  await startRuns(transaction, parts.queue, operation, operation.actor, beginnings);
  if (beginnings.length < queued.length) transaction.afterCommit(parts.nudge);
}
