/** Lifting holds: a run that reached the reserved step `hold` continues when a user lifts the hold. */
import type { Refusal } from "../../errors.ts";
import { continues } from "../../lifecycle/forecast.ts";
import { kindOf } from "../../lifecycle/machine.ts";
import { attemptsUnderWay, updateAttempt } from "../../store/runs/attempts.ts";
import type { AttemptRow } from "../../store/runs/attempts.ts";
import { lockNodes } from "../../store/nodes/nodes.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import { lockBegunRuns } from "../../store/runs/run-locks.ts";
import { PRIORITY, wakeRuns } from "../../store/runs/run-claims.ts";
import { updateRun } from "../../store/runs/runs.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import { idsOf, nodeIdsOf } from "../ids.ts";
import type { EngineContext } from "../context.ts";
import { acceptedNode, refusedNode } from "../input/answers.ts";
import type { SubmitAnswer } from "../input/answers.ts";
import { reasonFlaws } from "../input/size-limits.ts";
import type { InterruptRequest } from "../input/interrupt-request.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { move } from "../transaction.ts";
import { interruptWork } from "./interrupt-runs.ts";
import type { Target } from "./interrupt-runs.ts";

/** Lifts the holds of runs. A node without a hold is refused; the others continue. */
export async function unhold(context: EngineContext, caller: Caller, request: InterruptRequest): Promise<SubmitAnswer> {
  return interruptWork(context, request, reasonFlaws(request.reason), {
    lock: lockBegunRuns,
    decide: async (_reader, targets) =>
      targets.map((target) => {
        const { ref, nodeId, run } = target;
        const refusal = refusalOfRelease(target);
        return refusal
          ? refusedNode(ref, nodeId, run?.id ?? null, refusal)
          : acceptedNode(ref, nodeId, run?.id ?? null);
      }),
    forecast: (_reader, accepted, runs) =>
      accepted.flatMap(({ run }) => {
        const found = runs.get(run.id);
        return found ? [continues(found.facts)] : [];
      }),
    async carryOut(transaction, accepted) {
      const runs = accepted.map(({ run }) => run);
      await liftHolds(transaction, runs, { liftedBy: caller.actor, reason: request.reason ?? null });
      await wakeRuns(transaction.tx, idsOf(runs), PRIORITY.woken);
    },
  });
}

interface Lifting {
  readonly liftedBy: string;
  readonly reason: string | null;
}

async function liftHolds(transaction: Transaction, runs: readonly RunRow[], lifting: Lifting): Promise<void> {
  const attempts = await attemptsUnderWay(transaction.tx, idsOf(runs));
  const nodes = await lockNodes(transaction.tx, nodeIdsOf(runs));
  const nodeOf = new Map(nodes.map((node) => [node.id, node]));
  for (const run of runs) {
    const attempt = attempts.get(run.id);
    const node = nodeOf.get(run.nodeId);
    if (!attempt || !node) throw new Error(`Run ${run.id} is on hold without a step or a node.`);
    await liftHold(transaction, { run, attempt, node }, lifting);
  }
}

async function liftHold(
  transaction: Transaction,
  { run, attempt, node }: { readonly run: RunRow; readonly attempt: AttemptRow; readonly node: NodeRow },
  { liftedBy, reason }: Lifting,
): Promise<void> {
  await updateAttempt(transaction.tx, attempt, { state: "SUCCEEDED", output: { liftedBy, reason }, ended: true });
  if (kindOf(node.state) === "hold") {
    await move(
      transaction,
      [node.id],
      { from: node.state, event: "unhold" },
      {
        actor: liftedBy,
        reason,
        target: run.target,
        operationId: run.operationId,
        step: attempt.label,
        runIds: new Map([[node.id, run.id]]),
      },
    );
  }
  await updateRun(transaction.tx, run.id, { state: "WAITING", waitReason: null, waitingSince: null });
}

/** Why the hold of one node's run is not lifted; null if it is. */
export function refusalOfRelease({ ref, nodeId, run }: Target): Refusal | null {
  if (!run)
    return {
      code: "NOTHING_RUNNING",
      message: `Nothing is running on node ${ref}, so there is no hold to lift.`,
      nodeId,
    };
  const refused = (message: string): Refusal => ({
    code: "INVALID_STATE",
    message,
    nodeId,
    operationId: run.operationId,
  });
  if (run.state !== "HOLDING") return refused(`The run on node ${ref} is not on hold (${run.state}).`);
  if (run.interrupt !== null)
    return refused(`The run on node ${ref} is being ${run.interrupt === "STOP" ? "stopped" : "aborted"}.`);
  return null;
}
