/**
 * Withdrawing a pending abort: until the running step ends, nothing of the abort has been carried out, and the work can
 * continue as if the abort had never been requested. A stop that was requested before the abort, or while it was
 * pending, is withdrawn with it. Two stops stay: one of the whole operation, if the abort did not concern the whole
 * operation, and the engine's own stop before it cleans up all nodes.
 */
import { nodeRefusal } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { continues, stopForecast } from "../../lifecycle/forecast.ts";
import type { Forecast } from "../../lifecycle/forecast.ts";
import type { Interrupt } from "../../lifecycle/operation-states.ts";
import { judgeAbort } from "../../lifecycle/interrupts.ts";
import type { AttemptRow } from "../../store/runs/attempts.ts";
import {
  lockOperation,
  operationsByIds,
  updateOperation,
  interruptOperation,
} from "../../store/operations/operations.ts";
import type { OperationRow } from "../../store/operations/operations.ts";
import type { Reader } from "../../store/postgres/database.ts";
import type { PlannedStep } from "../../store/records.ts";
import { countFailed } from "../../store/operations/operation-runs.ts";
import { lockBegunRuns } from "../../store/runs/run-locks.ts";
import { updateRuns } from "../../store/runs/runs.ts";
import { idsOf } from "../input/ids.ts";
import type { EngineContext } from "../context.ts";
import type { NodeAnswer, SubmitAnswer } from "../input/answers.ts";
import { reasonFlaws } from "../input/size-limits.ts";
import type { InterruptRequest } from "../input/interrupt-request.ts";
import { stepLabel } from "../plans/plan.ts";
import { ENGINE_STOP } from "../scheduling/start-runs.ts";
import { interruptOf } from "../scheduling/waiting-runs.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { answerOf, interruptWork } from "./interrupt-runs.ts";
import type { Accepted, Foreseen, Target } from "./interrupt-runs.ts";
import { moveNodesOf } from "./record-interrupt.ts";
import { stepUnderWay, stepsOfRuns } from "./step-under-way.ts";

/** The answer for one node, with the step that the abort waits for. */
interface Withdrawal extends NodeAnswer {
  readonly step: string | null;
}

export async function withdrawAbort(
  context: EngineContext,
  caller: Caller,
  request: InterruptRequest,
): Promise<SubmitAnswer> {
  return interruptWork(context, request, reasonFlaws(request.reason), {
    caller,
    lock: lockBegunRuns,
    decide: decideWithdrawals,
    carryOut: (transaction, accepted) => withdraw(transaction, caller, request, accepted),
    forecast: forecastWithdrawals,
  });
}

async function decideWithdrawals(reader: Reader, targets: readonly Target[]): Promise<Withdrawal[]> {
  const runs = targets.map(({ run }) => run);
  const steps = await stepsOfRuns(reader, runs);
  return targets.map((target): Withdrawal => {
    const { step, attempt } = steps.get(target.run?.id ?? "") ?? {};
    return { ...answerOf(target, refusalOfWithdrawal(target, step, attempt)), step: stepLabel(step) };
  });
}

const NO_INTERRUPT = {
  interrupt: null,
  interruptBy: null,
  interruptReason: null,
  interruptAt: null,
  stopUntil: null,
} as const;

async function withdraw(
  transaction: Transaction,
  caller: Caller,
  request: InterruptRequest,
  accepted: readonly Accepted<Withdrawal>[],
): Promise<void> {
  const runs = accepted.map(({ run }) => run);
  await updateRuns(transaction.tx, idsOf(runs), {
    ...NO_INTERRUPT,
    interruptMode: null,
    powerOff: null,
  });
  const steps = new Map(accepted.map(({ run, answer }) => [run.id, answer.step]));
  await moveNodesOf(transaction, runs, "abort_withdrawn", {
    by: caller.actor,
    reason: request.reason ?? null,
    stepOf: ({ id }) => steps.get(id) ?? null,
  });
  for (const operationId of [...new Set(runs.map((run) => run.operationId))].toSorted())
    await withdrawFromOperation(transaction, operationId);
}

/**
 * Clears the operation's abort, which would otherwise reach the runs just freed; runs that are still to be aborted have
 * the abort themselves. If a failure had decided to clean up all nodes before the abort replaced that stop, the stop is
 * set again.
 */
async function withdrawFromOperation(transaction: Transaction, operationId: string): Promise<void> {
  const operation = await lockOperation(transaction.tx, operationId);
  if (operation?.interrupt !== "ABORT" || operation.finishedAt) return;
  if ((await interruptLeft(transaction.tx, operation)) === "STOP")
    return interruptOperation(transaction.tx, operationId, ENGINE_STOP);
  await updateOperation(transaction.tx, operationId, { ...NO_INTERRUPT, state: "RUNNING" });
}

/** The interrupt that an operation has after the withdrawal of the aborts of its runs. */
async function interruptLeft(reader: Reader, operation: OperationRow): Promise<Interrupt | null> {
  if (operation.interrupt !== "ABORT" || operation.finishedAt) return operation.interrupt;
  const cleansUp = operation.onFailure === "CLEAN_UP_ALL" && (await countFailed(reader, operation.id)) > 0;
  return cleansUp ? "STOP" : null;
}

/** The work continues, unless a stop of the operation stays. */
async function forecastWithdrawals(reader: Reader, accepted: readonly Foreseen<Withdrawal>[]): Promise<Forecast[]> {
  const operations = await operationsByIds(reader, [...new Set(accepted.map(({ run }) => run.operationId))]);
  const left = new Map<string, Interrupt | null>();
  for (const operation of operations) left.set(operation.id, await interruptLeft(reader, operation));
  return accepted.map(({ run, found }) => {
    const interrupt = interruptOf({ interrupt: null, purpose: run.purpose }, left.get(run.operationId) ?? null);
    return interrupt === "STOP" ? stopForecast(found.facts) : continues(found.facts);
  });
}

/** Why the abort of one node's run is not withdrawn; null if it is. `step`: the step that the run is at. */
export function refusalOfWithdrawal(
  { name, nodeId, run }: Target,
  step: PlannedStep | undefined,
  attempt: AttemptRow | undefined,
): Refusal | null {
  if (run?.interrupt !== "ABORT") return nodeRefusal("NOTHING_RUNNING", nodeId, `No abort is pending on node ${name}.`);
  const decision = judgeAbort(
    { id: run.nodeId, name: run.nodeName },
    { ...run, step: stepUnderWay(step, attempt) },
    "AFTER_STEP",
  );
  if (decision.accepted && decision.effect === "PENDING" && attempt?.part !== "ABORT" && run.interruptFailure === null)
    return null;
  const started = `The abort on node ${name} has started already. Wait for its end, then restart the work.`;
  return nodeRefusal("INVALID_STATE", nodeId, started, { operationId: run.operationId });
}
