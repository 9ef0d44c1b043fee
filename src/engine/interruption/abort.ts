/**
 * Abort: the running step is interrupted, or waited for, and the work is given up. The request is recorded here in one
 * short transaction; the replica that has claimed a run carries it out.
 */
import type { Refusal } from "../../errors.ts";
import { abortForecast } from "../../lifecycle/forecast.ts";
import type { Forecast } from "../../lifecycle/forecast.ts";
import { goesFurther, judgeAbort } from "../../lifecycle/interrupts.ts";
import type { AbortMode, RunFacts } from "../../lifecycle/interrupts.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { lockUnfinishedRuns } from "../../store/runs/run-locks.ts";
import { updateRuns } from "../../store/runs/runs.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import { idsOf } from "../input/ids.ts";
import type { EngineContext } from "../context.ts";
import { acceptedNode, refusedNode } from "../input/answers.ts";
import { abortFlaws } from "../input/interrupt-request.ts";
import type { AbortAnswer, AbortRequest, AbortResult } from "../input/interrupt-request.ts";
import { isAbortedByCaller } from "../scheduling/abort-outcome.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { endingAlready } from "./forecast.ts";
import { interruptWork } from "./interrupt-runs.ts";
import type { Accepted, Foreseen, Target } from "./interrupt-runs.ts";
import { interruptLockedRuns, interruptWholeOperations, moveNodesOf } from "./record-interrupt.ts";
import { stepUnderWay, stepsOfRuns } from "./step-under-way.ts";

export async function abortWork(context: EngineContext, caller: Caller, request: AbortRequest): Promise<AbortResult> {
  const answer = await interruptWork(context, request, abortFlaws(request), {
    caller,
    lock: lockUnfinishedRuns,
    decide: (reader, targets) => decideAborts(reader, targets, request.mode ?? "NOW"),
    carryOut: (transaction, accepted) => recordAborts(transaction, context, { caller, request }, accepted),
    forecast: (_reader, accepted) => accepted.map((one) => forecastAbort(request, one)),
  });
  if (!request.dryRun) context.checkInterrupts();
  return answer;
}

function forecastAbort(
  { mode = "NOW", powerOff }: AbortRequest,
  { run, answer, found }: Foreseen<AbortAnswer>,
): Forecast {
  const { effect, afterStep = null } = answer;
  if (!effect || !replacesInterrupt(run, mode))
    return endingAlready(powerOff ? { ...found, run: { ...run, powerOff } } : found);
  const verdict = { accepted: true, effect, afterStep } as const;
  return abortForecast(found.facts, verdict, { mode, powerOff: powerOff ?? run.powerOff });
}

/** Whether an abort replaces the interrupt that a run has: an earlier abort by a caller only if it goes further. */
function replacesInterrupt(run: RunRow, mode: AbortMode): boolean {
  return !isAbortedByCaller(run) || goesFurther(run, mode);
}

async function decideAborts(reader: Reader, targets: readonly Target[], mode: AbortMode): Promise<AbortAnswer[]> {
  const runs = targets.map(({ run }) => run);
  const steps = await stepsOfRuns(reader, runs);
  return targets.map((target) => {
    const { step, attempt } = steps.get(target.run?.id ?? "") ?? {};
    return decideAbort(target, stepUnderWay(step, attempt), mode);
  });
}

/** Whether an abort of one node's work is accepted. `step`: the step of its run that is under way. */
export function decideAbort({ ref, nodeId, name, run }: Target, step: RunFacts["step"], mode: AbortMode): AbortAnswer {
  const refused = (refusal: Refusal) => ({ ...refusedNode(ref, nodeId, null, refusal), effect: null, afterStep: null });
  if (!run) {
    const message = `Nothing is running on node ${name} that could be aborted.`;
    return refused({ code: "NOTHING_RUNNING", message, nodeId });
  }
  const decision = judgeAbort({ id: nodeId, name: run.nodeName }, { ...run, step }, mode);
  if (!decision.accepted) return refused(decision.refusal);
  return { ...acceptedNode(ref, nodeId, run.id), effect: decision.effect, afterStep: decision.afterStep };
}

async function recordAborts(
  transaction: Transaction,
  context: EngineContext,
  { caller, request }: { readonly caller: Caller; readonly request: AbortRequest },
  accepted: readonly Accepted<AbortAnswer>[],
): Promise<void> {
  const { mode = "NOW" } = request;
  const reason = request.reason ?? null;
  const recorded = { interrupt: "ABORT", interruptBy: caller.actor, interruptReason: reason } as const;
  const runs = accepted.map(({ run }) => run);
  await interruptWholeOperations(transaction, runs, recorded);
  const pending = new Map(
    accepted.flatMap(({ run, answer: { effect, afterStep } }) =>
      effect === "PENDING" && run.interrupt !== "ABORT" ? [[run.id, afterStep] as const] : [],
    ),
  );
  const asked = runs.filter((run) => replacesInterrupt(run, mode));
  // A repeated abort is the same abort, but for the power: it was accepted, so it is obeyed.
  if (request.powerOff === true)
    await updateRuns(transaction.tx, idsOf(runs.filter((run) => !replacesInterrupt(run, mode))), { powerOff: true });
  await interruptLockedRuns(transaction, context, asked, {
    interrupt: {
      ...recorded,
      interruptMode: mode,
      ...(request.powerOff !== undefined && { powerOff: request.powerOff }),
    },
    end: "ABORTED",
    // A pending abort of a parked step waits for what the step waits for, so its run stays parked.
    wake: asked.filter(({ id, state }) => (state === "WAITING" || state === "HOLDING") && !pending.has(id)),
  });
  const waiting = runs.filter(({ id }) => pending.has(id));
  const stepOf = ({ id }: RunRow) => pending.get(id) ?? null;
  await moveNodesOf(transaction, waiting, "abort_pending", { by: caller.actor, reason, stepOf });
}
