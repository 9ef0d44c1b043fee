/** Lifting holds: a run that reached the reserved step `hold` continues when a user lifts the hold. */
import { nodeRefusal } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { continues } from "../../lifecycle/forecast.ts";
import { attemptsUnderWay, updateAttempt } from "../../store/runs/attempts.ts";
import { lockBegunRuns } from "../../store/runs/run-locks.ts";
import { PRIORITY, wakeRuns } from "../../store/runs/run-claims.ts";
import { updateRuns } from "../../store/runs/runs.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import { idsOf } from "../input/ids.ts";
import type { EngineContext } from "../context.ts";
import type { SubmitAnswer } from "../input/answers.ts";
import { reasonFlaws } from "../input/size-limits.ts";
import type { InterruptRequest } from "../input/interrupt-request.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { answerOf, interruptWork } from "./interrupt-runs.ts";
import type { Target } from "./interrupt-runs.ts";
import { moveNodesOf } from "./record-interrupt.ts";
import type { InterruptCause } from "./record-interrupt.ts";

/** Lifts the holds of runs. A node without a hold is refused; the others continue. */
export async function unhold(context: EngineContext, caller: Caller, request: InterruptRequest): Promise<SubmitAnswer> {
  return interruptWork(context, request, reasonFlaws(request.reason), {
    caller,
    lock: lockBegunRuns,
    decide: async (_reader, targets) => targets.map((target) => answerOf(target, refusalOfRelease(target))),
    forecast: (_reader, accepted) => accepted.map(({ found }) => continues(found.facts)),
    async carryOut(transaction, accepted) {
      const runs = accepted.map(({ run }) => run);
      await liftHolds(transaction, runs, { by: caller.actor, reason: request.reason ?? null });
      await wakeRuns(transaction.tx, idsOf(runs), PRIORITY.woken);
    },
  });
}

/** Ends the holds: their steps have succeeded, and their nodes leave the state of a hold. */
async function liftHolds(
  transaction: Transaction,
  runs: readonly RunRow[],
  { by, reason }: Pick<InterruptCause, "by" | "reason">,
): Promise<void> {
  const { tx } = transaction;
  const attempts = await attemptsUnderWay(tx, idsOf(runs));
  const stepOf = ({ id }: RunRow) => attempts.get(id)?.label ?? null;
  await moveNodesOf(transaction, runs, "unhold", { by, reason, stepOf });
  for (const run of runs) {
    const attempt = attempts.get(run.id);
    if (!attempt) throw new Error(`Run ${run.id} is on hold without a step.`);
    await updateAttempt(tx, attempt, { state: "SUCCEEDED", output: { liftedBy: by, reason }, ended: true });
  }
  await updateRuns(tx, idsOf(runs), { state: "WAITING", waitReason: null, waitingSince: null });
}

/** Why the hold of one node's run is not lifted; null if it is. */
export function refusalOfRelease({ name, nodeId, run }: Target): Refusal | null {
  if (!run)
    return nodeRefusal("NOTHING_RUNNING", nodeId, `Nothing is running on node ${name}, so there is no hold to lift.`);
  const { operationId } = run;
  const refused = (message: string) => nodeRefusal("INVALID_STATE", nodeId, message, { operationId });
  if (run.state !== "HOLDING") return refused(`The run on node ${name} is not on hold (${run.state}).`);
  if (run.interrupt !== null)
    return refused(`The run on node ${name} is being ${run.interrupt === "STOP" ? "stopped" : "aborted"}.`);
  return null;
}
