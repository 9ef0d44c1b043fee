/** Lifting holds: a run that reached the reserved step `hold` goes on when somebody says so. */
import type { Refusal } from "../../errors.ts";
import { kindOf } from "../../lifecycle/machine.ts";
import { lockNodes } from "../../store/nodes.ts";
import { attemptsUnderWay, updateAttempt } from "../../store/attempts.ts";
import { lockBegunRuns, updateRun } from "../../store/runs.ts";
import type { RunRow } from "../../store/runs.ts";
import { reasonFlaws } from "../input/size-limits.ts";
import { refusedWhole } from "../admission/admit.ts";
import type { NodeAnswer, SubmitAnswer, SubmitParts } from "../admission/admit.ts";
import type { Caller } from "../transaction.ts";
import { move } from "../transaction.ts";
import { selectUnfinishedWork } from "../input/work-selector.ts";
import type { WorkSelector } from "../input/work-selector.ts";

export interface UnholdRequest {
  readonly work: WorkSelector;
  readonly reason?: string | undefined;
}

/** Lifts the holds of runs. Each node is answered; those that hold nothing are refused and the others go on. */
export async function unhold(parts: SubmitParts, caller: Caller, request: UnholdRequest): Promise<SubmitAnswer> {
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
    const results = found.nodes.map(({ ref, nodeId }): NodeAnswer => {
      const run = runOf.get(nodeId);
      const refusal = refusalOf(ref, nodeId, run);
      return { ref, nodeId, runId: run?.id ?? null, accepted: refusal === null, refusal, plan: null };
    });
    const lifted = [...runOf.values()].filter(({ state, interrupt }) => state === "HOLDING" && interrupt === null);
    const attempts = await attemptsUnderWay(
      transaction.tx,
      lifted.map(({ id }) => id),
    );
    const nodes = new Map(
      (
        await lockNodes(
          transaction.tx,
          lifted.map(({ nodeId }) => nodeId),
        )
      ).map((node) => [node.id, node]),
    );
    for (const run of lifted) {
      const attempt = attempts.get(run.id);
      const node = nodes.get(run.nodeId);
      if (!attempt || !node) throw new Error(`Run ${run.id} holds without its step or its node.`);
      await updateAttempt(transaction.tx, attempt, {
        state: "SUCCEEDED",
        output: { liftedBy: caller.actor, reason: request.reason ?? null },
        ended: true,
      });
      if (kindOf(node.state) === "hold") {
        await move(transaction, [node.id], node.state, "unhold", {
          actor: caller.actor,
          reason: request.reason ?? null,
          target: run.target,
          operationId: run.operationId,
          step: attempt.label,
          runIds: new Map([[node.id, run.id]]),
        });
      }
      await updateRun(transaction.tx, run.id, { state: "WAITING", waitReason: null, waitingSince: null });
    }
    await parts.queue.wakeMany(
      transaction,
      lifted.map(({ id }) => id),
      "woken",
    );
    const operationIds = [...new Set(lifted.map(({ operationId }) => operationId))];
    return {
      operationId: found.operationId ?? (operationIds.length === 1 ? (operationIds[0] ?? null) : null),
      results,
      refusals: lifted.length === 0 ? results.flatMap(({ refusal }) => (refusal ? [refusal] : [])) : [],
      replayed: false,
    };
  });
}

function refusalOf(ref: string, nodeId: string, run: RunRow | undefined): Refusal | null {
  if (!run)
    return { code: "NOTHING_RUNNING", message: `Nothing is running on node ${ref}, so it holds nothing.`, nodeId };
  if (run.state !== "HOLDING")
    return {
      code: "INVALID_STATE",
      message: `The run on node ${ref} does not hold (${run.state}).`,
      nodeId,
      operationId: run.operationId,
    };
  if (run.interrupt !== null)
    return {
      code: "INVALID_STATE",
      message: `The run on node ${ref} is being ${run.interrupt === "STOP" ? "stopped" : "aborted"}.`,
      nodeId,
      operationId: run.operationId,
    };
  return null;
}
