/**
 * Changes of power that are forced while a step of other work waits. A run that is parked is handed the change; the
 * worker that claims it carries the change out, so that it never meets a call of the step, and parks the run again. A
 * run that is locked is about to continue: its step does not wait any more.
 */
import { nodeRefusal } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { mustNotBeCut } from "../../lifecycle/touches.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { Reader, Tx } from "../../store/postgres/database.ts";
import type { Plan } from "../../store/records.ts";
import { plansByHashes } from "../../store/runs/plans.ts";
import { PRIORITY, wakeRuns } from "../../store/runs/run-claims.ts";
import { lockUnfinishedRuns } from "../../store/runs/run-locks.ts";
import { stepWaits, unfinishedRuns, updateRuns } from "../../store/runs/runs.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import { stepLabel } from "../plans/plan.ts";
import { powerChangeOf } from "../plans/reserved-steps.ts";
import { changeNodes, hopAlong } from "../transaction.ts";
import type { Caller, Transaction } from "../transaction.ts";

/** A run whose step waits, with its plan. */
export interface WaitingRun {
  readonly run: RunRow;
  readonly plan: Plan;
}

/** An admitted node, whose change of power may be handed to a run. */
interface WorkBeside {
  readonly node: Pick<NodeRow, "id" | "state">;
  readonly plan: Plan;
  readonly waiting?: WaitingRun;
}

/** The runs of nodes whose step waits, by node; locked, except in a dry run. */
export async function waitingRuns(
  tx: Tx | Reader,
  nodeIds: readonly string[],
  { lockIn }: { readonly lockIn: Tx | null },
): Promise<Map<string, WaitingRun>> {
  const found = lockIn
    ? await lockUnfinishedRuns(lockIn, nodeIds, { skipLocked: true })
    : await unfinishedRuns(tx, nodeIds);
  const waiting = found.filter((run) => stepWaits(run) && run.forcedPower === null);
  const plans = await plansByHashes(tx, [...new Set(waiting.map(({ planHash }) => planHash))]);
  return new Map(
    waiting.flatMap((run) => {
      const plan = plans.get(run.planHash);
      return plan ? [[run.nodeId, { run, plan }]] : [];
    }),
  );
}

/** Why the power of a node is not changed beside its run, which `power` would do; null if it is. */
export function refusalOfForcedPower(
  node: { readonly id: string; readonly name: string },
  waiting: WaitingRun | undefined,
  power: Plan,
): Refusal | null {
  const late = `The step on node ${node.name} does not wait just now, so its power is not changed. Send the request again while it waits.`;
  if (!waiting) return nodeRefusal("BUSY", node.id, late);
  const step = waiting.plan.steps[waiting.run.position];
  const change = power.steps[0] && powerChangeOf(power.steps[0]);
  if (!step || !mustNotBeCut(step) || change === "ON") return null;
  const label = stepLabel(step) ?? "";
  const message = `The machine of node ${node.name} may be writing its firmware or erasing its disks in ${label}, so its power is not cut. Wait for the end of the step, or abort the operation.`;
  return nodeRefusal("NOT_INTERRUPTIBLE", node.id, message, { operationId: waiting.run.operationId, step: label });
}

/** Hands the changes to the runs that wait, and wakes them. Each is recorded as an event of its node. */
export async function handOverPower(
  transaction: Transaction,
  { actor }: Pick<Caller, "actor">,
  { reason, admitted }: { readonly reason: string | null; readonly admitted: readonly WorkBeside[] },
): Promise<void> {
  const { tx } = transaction;
  for (const { node, waiting, plan } of admitted) {
    const [step] = plan.steps;
    if (!waiting || !step) continue;
    const { id: runId, target, operationId, position } = waiting.run;
    await updateRuns(tx, runId, { forcedPower: { step, position, by: actor } });
    const why = { event: "power_forced", actor, reason, target, operationId, step: stepLabel(step), runId } as const;
    await Promise.all(changeNodes(transaction, [[hopAlong({ nodeId: node.id, from: node.state }, why)]]));
    await wakeRuns(tx, [runId], PRIORITY.woken);
  }
}
