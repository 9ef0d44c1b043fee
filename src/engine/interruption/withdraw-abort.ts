/**
 * Taking a pending abort back: as long as the running step has not ended, nothing of the abort has been done, and the work can
 * go on as if it had never been asked for. A stop that was asked for before the abort is taken back with it, but for one of
 * the whole operation that the abort did not concern as a whole, and the engine's own before everything is undone.
 */
import type { Refusal } from "../../errors.ts";
import { judgeAbort } from "../../lifecycle/interrupts.ts";
import { lockOperation, updateOperation, interruptOperation } from "../../store/operations.ts";
import { attemptsUnderWay } from "../../store/attempts.ts";
import { plansByHashes } from "../../store/plans.ts";
import { countFailed, lockBegunRuns, updateRuns } from "../../store/runs.ts";
import type { AttemptRow } from "../../store/attempts.ts";
import type { RunRow } from "../../store/runs.ts";
import type { PlannedStep } from "../../store/records.ts";
import { ENGINE } from "../scheduling/start-runs.ts";
import { stepUnderWay, tellOfPending } from "./abort.ts";
import { stepLabel } from "../plans/plan.ts";
import { reasonFlaws } from "../input/size-limits.ts";
import { refusedWhole } from "../admission/admit.ts";
import type { NodeAnswer, SubmitAnswer, SubmitParts } from "../admission/admit.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { selectUnfinishedWork } from "../input/work-selector.ts";
import type { WorkSelector } from "../input/work-selector.ts";

export interface WithdrawRequest {
  readonly work: WorkSelector;
  readonly reason?: string | undefined;
}

export async function withdrawAbort(
  parts: SubmitParts,
  caller: Caller,
  request: WithdrawRequest,
): Promise<SubmitAnswer> {
  const flaws = reasonFlaws(request.reason);
  if (flaws.length > 0) return refusedWhole(flaws);
  return parts.transact(async (transaction) => {
    const found = await selectUnfinishedWork(transaction.tx, request.work);
    if ("refusals" in found) return refusedWhole(found.refusals);
    const runs = await lockBegunRuns(
      transaction.tx,
      found.nodes.map(({ nodeId }) => nodeId),
    );
    const runOf = new Map(
      runs
        .filter(({ operationId }) => found.operationId === null || operationId === found.operationId)
        .map((run) => [run.nodeId, run]),
    );
    const plans = await plansByHashes(transaction.tx, [...new Set(runs.map(({ planHash }) => planHash))]);
    const attempts = await attemptsUnderWay(
      transaction.tx,
      runs.map(({ id }) => id),
    );
    const stepOf = (run: RunRow) => plans.get(run.planHash)?.steps[run.position];
    const results = found.nodes.map(({ ref, nodeId }): NodeAnswer => {
      const run = runOf.get(nodeId);
      const refusal = run ? refusalOf(ref, run, stepOf(run), attempts.get(run.id)) : nothingPending(ref, nodeId);
      return { ref, nodeId, runId: run?.id ?? null, accepted: refusal === null, refusal, plan: null };
    });
    const accepted = new Set(results.flatMap((answer) => (answer.accepted ? [answer.runId] : [])));
    const withdrawn = runs.filter(({ id }) => accepted.has(id));
    await updateRuns(
      transaction.tx,
      withdrawn.map(({ id }) => id),
      { interrupt: null, interruptBy: null, interruptReason: null, interruptAt: null, powerOff: null },
    );
    await tellOfPending(transaction, "abort_withdrawn", withdrawn, {
      by: caller.actor,
      reason: request.reason ?? null,
      stepOf: (run) => stepLabel(stepOf(run)),
    });
    const operationIds = [...new Set(withdrawn.map(({ operationId }) => operationId))];
    for (const operationId of operationIds.toSorted()) await takeBackFromOperation(transaction, operationId);
    return {
      operationId: found.operationId ?? (operationIds.length === 1 ? (operationIds[0] ?? null) : null),
      results,
      refusals: withdrawn.length === 0 ? results.flatMap(({ refusal }) => (refusal ? [refusal] : [])) : [],
      replayed: false,
    };
  });
}

/**
 * The interrupt on the operation would reach the runs just freed; those that are still to be aborted have it themselves. Where
 * a failure had decided that everything is undone, before the abort took that interrupt's place, it is decided still.
 */
async function takeBackFromOperation(transaction: Transaction, operationId: string): Promise<void> {
  const operation = await lockOperation(transaction.tx, operationId);
  if (operation?.interrupt !== "ABORT" || operation.finishedAt) return;
  if (operation.onFailure === "CLEAN_UP_ALL" && (await countFailed(transaction.tx, operationId)) > 0) {
    return interruptOperation(transaction.tx, operationId, {
      interrupt: "STOP",
      interruptBy: ENGINE,
      interruptReason: null,
    });
  }
  await updateOperation(transaction.tx, operationId, {
    interrupt: null,
    interruptBy: null,
    interruptReason: null,
    interruptAt: null,
    state: "RUNNING",
  });
}

function nothingPending(ref: string, nodeId: string): Refusal {
  return { code: "NOTHING_RUNNING", message: `No abort is pending on node ${ref}.`, nodeId };
}

function refusalOf(
  ref: string,
  run: RunRow,
  step: PlannedStep | undefined,
  attempt: AttemptRow | undefined,
): Refusal | null {
  if (run.interrupt !== "ABORT") return nothingPending(ref, run.nodeId);
  const verdict = judgeAbort(
    { id: run.nodeId, name: run.nodeName },
    { state: run.state, interrupt: run.interrupt, step: stepUnderWay(step, attempt) },
    "AFTER_STEP",
  );
  if (verdict.accepted && verdict.effect === "PENDING" && attempt?.part !== "ABORT" && run.interruptFailure === null)
    return null;
  return {
    code: "INVALID_STATE",
    message: `The abort on node ${ref} is being carried out already; restart the work when it has ended.`,
    nodeId: run.nodeId,
    operationId: run.operationId,
  };
}
