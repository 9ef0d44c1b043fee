/**
 * Abort and stop. Both are interrupts: recorded here in one short transaction and carried out by whoever holds the run
 * (runner.ts), or here and now where nobody does and nothing was begun.
 */
import type { Refusal } from "../../errors.ts";
import { judgeAbort } from "../../lifecycle/interrupts.ts";
import type { AbortEffect, AbortMode, RunFacts } from "../../lifecycle/interrupts.ts";
import { edge } from "../../lifecycle/machine.ts";
import type { NodeEvent, NodeState } from "../../lifecycle/node-states.ts";
import { isFinalOperation } from "../../lifecycle/operation-states.ts";
import type { Interrupt } from "../../lifecycle/operation-states.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { lockNodes } from "../../store/nodes.ts";
import { lockOperation, unfinishedOperationsOfCluster, interruptOperation } from "../../store/operations.ts";
import type { OperationRow } from "../../store/operations.ts";
import type { Failure, PlannedStep } from "../../store/records.ts";
import { attemptsUnderWay } from "../../store/attempts.ts";
import { plansByHashes } from "../../store/plans.ts";
import {
  countUnfinished,
  finishRuns,
  lockUnfinishedRuns,
  newestWork,
  runsOfOperation,
  interruptRuns,
} from "../../store/runs.ts";
import type { AttemptRow } from "../../store/attempts.ts";
import type { RunRow } from "../../store/runs.ts";
import { interruptDiscovery, stopDiscoveryNow } from "../discovery/discover.ts";
import { endedByStop } from "../scheduling/parked.ts";
import { stepLabel } from "../plans/plan.ts";
import { isUuid, selectNodes } from "../input/node-selector.ts";
import { ENGINE } from "../scheduling/start-runs.ts";
import { finishWhenDone, settleMany } from "../scheduling/finish-run.ts";
import type { FinishParts } from "../scheduling/finish-run.ts";
import { reasonFlaws } from "../input/size-limits.ts";
import { refusedWhole } from "../admission/admit.ts";
import type { NodeAnswer, SubmitAnswer, SubmitParts } from "../admission/admit.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { move } from "../transaction.ts";
import { selectUnfinishedWork, unknownOperation } from "../input/work-selector.ts";
import type { WorkSelector } from "../input/work-selector.ts";

export interface AbortRequest {
  readonly work: WorkSelector;
  readonly mode?: AbortMode | undefined;
  /** Overrides the policy: off for clean and deploy, untouched otherwise. */
  readonly powerOff?: boolean | undefined;
  readonly reason?: string | undefined;
}

/** The answer to one node of an abort. */
export interface AbortAnswer extends NodeAnswer {
  readonly effect: AbortEffect | null;
  readonly afterStep: string | null;
}

export interface AbortResult extends SubmitAnswer {
  readonly results: readonly AbortAnswer[];
}

export interface StopRequest {
  readonly work: WorkSelector;
  /** How long running steps may go on, in seconds. */
  readonly timeoutSeconds?: number | undefined;
  readonly reason?: string | undefined;
}

export interface InterruptParts extends SubmitParts {
  /** Tells the runner of this process at once. */
  readonly checkInterrupts: () => void;
}

const STOP_TIMEOUT_SECONDS = 600;
const STOP_TIMEOUT_SECONDS_MAX = 86_400;

// ---- abort

export async function abortWork(parts: InterruptParts, caller: Caller, request: AbortRequest): Promise<AbortResult> {
  const flaws = reasonFlaws(request.reason);
  if (flaws.length > 0) return { ...refusedWhole(flaws), results: [] };
  const answer = await parts.transact(async (transaction) => {
    const discovery = await interruptDiscovery(transaction, parts.queue, caller, request.work, {
      interrupt: "ABORT",
      reason: request.reason,
    });
    if (discovery) return { ...discovery, results: [] };
    const found = await selectUnfinishedWork(transaction.tx, request.work);
    if ("refusals" in found) return { ...refusedWhole(found.refusals), results: [] };
    const nodeIds = found.nodes.map(({ nodeId }) => nodeId);
    const runs = await lockUnfinishedRuns(transaction.tx, { nodeIds });
    const runOf = new Map(
      runs
        .filter((run) => found.operationId === null || run.operationId === found.operationId)
        .map((run) => [run.nodeId, run]),
    );
    const judged = await judgeAborts(transaction.tx, found.nodes, runOf, request.mode ?? "NOW");
    const accepted = judged.flatMap(({ run, answer: { accepted: yes } }) => (run && yes ? [run] : []));
    await interruptWholeOperations(transaction, caller, "ABORT", accepted, request.reason);
    const interrupt = {
      interrupt: "ABORT",
      interruptBy: caller.actor,
      interruptReason: request.reason ?? null,
      ...(request.powerOff !== undefined && { powerOff: request.powerOff }),
    } as const;
    const pending = new Map(
      judged.flatMap(({ run, answer: { effect, afterStep } }) =>
        run && effect === "PENDING" && run.interrupt !== "ABORT" ? [[run.id, afterStep] as const] : [],
      ),
    );
    const asked = accepted.filter((run) => run.interrupt !== "ABORT");
    // One that is pending on a parked step waits for what that step waits for.
    await carryOut(transaction, parts, asked, interrupt, {
      as: "ABORTED",
      wake: asked.filter(({ id, state }) => (state === "WAITING" || state === "HOLDING") && !pending.has(id)),
    });
    await tellOfPending(
      transaction,
      "abort_pending",
      accepted.filter(({ id }) => pending.has(id)),
      { by: caller.actor, reason: request.reason ?? null, stepOf: (run) => pending.get(run.id) ?? null },
    );
    const operationIds = [...new Set(accepted.map(({ operationId }) => operationId))];
    const results = judged.map(({ answer: one }) => one);
    return {
      operationId: found.operationId ?? (operationIds.length === 1 ? (operationIds[0] ?? null) : null),
      results,
      refusals: accepted.length === 0 ? results.flatMap(({ refusal }) => (refusal ? [refusal] : [])) : [],
      replayed: false,
    };
  });
  parts.checkInterrupts();
  return answer;
}

/**
 * An interrupt that concerns every unfinished run of an operation concerns the operation, whether it was asked for by name, by
 * cluster or by nodes: then its state says so. Where one of them refused, the others have the interrupt by themselves: what is
 * recorded on the operation holds for all of its runs.
 */
async function interruptWholeOperations(
  transaction: Transaction,
  caller: Caller,
  interrupt: Interrupt,
  concerned: readonly RunRow[],
  reason: string | undefined,
): Promise<void> {
  // In the order of their ids, as whoever locks several.
  for (const [operationId, runs] of [...Map.groupBy(concerned, (run) => run.operationId)].toSorted(([a], [b]) =>
    a < b ? -1 : 1,
  )) {
    if (runs.length < (await countUnfinished(transaction.tx, operationId))) continue;
    const operation = await lockOperation(transaction.tx, operationId);
    if (!operation || operation.finishedAt || operation.interrupt === interrupt) continue;
    await interruptOperation(transaction.tx, operationId, {
      interrupt,
      interruptBy: caller.actor,
      interruptReason: reason ?? null,
    });
  }
}

async function judgeAborts(
  reader: Reader,
  nodes: readonly { readonly ref: string; readonly nodeId: string }[],
  runOf: ReadonlyMap<string, RunRow>,
  mode: AbortMode,
): Promise<{ readonly run: RunRow | undefined; readonly answer: AbortAnswer }[]> {
  const runs = [...runOf.values()];
  const plans = await plansByHashes(reader, [...new Set(runs.map(({ planHash }) => planHash))]);
  const attempts = await attemptsUnderWay(
    reader,
    runs.map(({ id }) => id),
  );
  const refused = (ref: string, nodeId: string, refusal: Refusal): AbortAnswer => ({
    ref,
    nodeId,
    runId: null,
    accepted: false,
    refusal,
    plan: null,
    effect: null,
    afterStep: null,
  });
  return nodes.map(({ ref, nodeId }) => {
    const run = runOf.get(nodeId);
    if (!run)
      return {
        run,
        answer: refused(ref, nodeId, {
          code: "NOTHING_RUNNING",
          message: `Nothing is running on node ${ref} that could be aborted.`,
          nodeId,
        }),
      };
    const step = stepUnderWay(plans.get(run.planHash)?.steps[run.position], attempts.get(run.id));
    const verdict = judgeAbort(
      { id: nodeId, name: run.nodeName },
      { state: run.state, interrupt: run.interrupt, step },
      mode,
    );
    if (!verdict.accepted) return { run, answer: refused(ref, nodeId, verdict.refusal) };
    return {
      run,
      answer: {
        ref,
        nodeId,
        runId: run.id,
        accepted: true,
        refusal: null,
        plan: null,
        effect: verdict.effect,
        afterStep: verdict.afterStep,
      },
    };
  });
}

/** The step that has begun and not ended, as lifecycle/interrupts.ts judges by it. */
export function stepUnderWay(
  step: PlannedStep | undefined,
  attempt: Pick<AttemptRow, "state"> | undefined,
): RunFacts["step"] {
  if (!step || !attempt || (attempt.state !== "RUNNING" && attempt.state !== "WAITING")) return null;
  return {
    name: stepLabel(step) ?? "",
    interruptible: step.interruptible,
    running: attempt.state === "RUNNING",
    supportsAbort: step.supportsAbort,
  };
}

/** Puts a pending abort, or its withdrawal, into the log: it concerns whoever watches the node. */
export async function tellOfPending(
  transaction: Transaction,
  event: "abort_pending" | "abort_withdrawn",
  runs: readonly RunRow[],
  why: { readonly by: string; readonly reason: string | null; readonly stepOf: (run: RunRow) => string | null },
): Promise<void> {
  const nodes = new Map(
    (
      await lockNodes(
        transaction.tx,
        runs.map(({ nodeId }) => nodeId),
      )
    ).map((node) => [node.id, node]),
  );
  await moveAlike(transaction, runs, nodes, event, why);
}

/**
 * Records an interrupt on locked runs. Those of which nothing was begun end here and now: queued ones, whose nodes were never
 * touched, and those that have their first state but that nobody has claimed. The raised fence keeps their jobs, once
 * they are taken, from doing anything. Those that are parked in what the interrupt ends now are woken.
 */
async function carryOut(
  transaction: Transaction,
  parts: FinishParts,
  runs: readonly RunRow[],
  interrupt: Parameters<typeof interruptRuns>[2],
  { as: end, wake }: { readonly as: "ABORTED" | "STOPPED"; readonly wake: readonly RunRow[] },
): Promise<void> {
  const unbegun = runs.filter(({ state, fence }) => state === "QUEUED" || fence === 0);
  await interruptRuns(
    transaction.tx,
    runs.map(({ id }) => id),
    interrupt,
  );
  await leaveFirstState(
    transaction,
    unbegun.filter(({ state }) => state !== "QUEUED"),
    end,
    interrupt,
  );
  await finishRuns(
    transaction.tx,
    unbegun.map(({ id }) => id),
    end,
  );
  await parts.queue.wakeMany(
    transaction,
    wake.map(({ id }) => id),
    "ending",
  );
  for (const operationId of [...new Set(unbegun.map((run) => run.operationId))].toSorted())
    await settleMany(transaction, parts, operationId);
}

async function leaveFirstState(
  transaction: Transaction,
  runs: readonly RunRow[],
  end: "ABORTED" | "STOPPED",
  interrupt: { readonly interruptBy: string; readonly interruptReason: string | null },
): Promise<void> {
  const event = end === "ABORTED" ? "abort" : "stop";
  const nodes = new Map(
    (
      await lockNodes(
        transaction.tx,
        runs.map(({ nodeId }) => nodeId),
      )
    ).map((node) => [node.id, node]),
  );
  const leaving = runs.filter(({ nodeId }) => {
    const state = nodes.get(nodeId)?.state;
    return state && edge(state, event);
  });
  await moveAlike(transaction, leaving, nodes, event, {
    by: interrupt.interruptBy,
    reason: interrupt.interruptReason,
    stepOf: () => null,
  });
}

/** Moves the locked nodes of runs, in one statement all those whose transitions tell the same. */
async function moveAlike(
  transaction: Transaction,
  runs: readonly RunRow[],
  nodes: ReadonlyMap<string, { readonly state: NodeState }>,
  event: NodeEvent,
  why: { readonly by: string; readonly reason: string | null; readonly stepOf: (run: RunRow) => string | null },
): Promise<void> {
  const groups = Map.groupBy(runs, (run) =>
    JSON.stringify([nodes.get(run.nodeId)?.state, run.target, run.operationId, why.stepOf(run)]),
  );
  for (const group of groups.values()) {
    const [first] = group;
    const state = first && nodes.get(first.nodeId)?.state;
    if (!first || !state) continue;
    const context = {
      actor: why.by,
      reason: why.reason,
      target: first.target,
      operationId: first.operationId,
      step: why.stepOf(first),
      runIds: new Map(group.map(({ nodeId, id }) => [nodeId, id])),
    };
    await move(
      transaction,
      group.map(({ nodeId }) => nodeId),
      state,
      event,
      context,
    );
  }
}

// ---- stop

/** Asks work to stop gracefully: an operation as a whole, or its share on some nodes. */
export async function stopWork(parts: InterruptParts, caller: Caller, request: StopRequest): Promise<SubmitAnswer> {
  const seconds = request.timeoutSeconds ?? STOP_TIMEOUT_SECONDS;
  const isTime = seconds >= 1 && seconds <= STOP_TIMEOUT_SECONDS_MAX;
  const timeFlaw: Refusal = {
    code: "INVALID_INPUT",
    message: `A stop's timeout is 1 to ${STOP_TIMEOUT_SECONDS_MAX} seconds.`,
    path: ["input", "timeoutSeconds"],
  };
  const flaws = [...reasonFlaws(request.reason), ...(isTime ? [] : [timeFlaw])];
  if (flaws.length > 0) return refusedWhole(flaws);
  return parts.transact(async (transaction) => {
    const { work: selector } = request;
    if ("operationId" in selector)
      return stopOperation(transaction, parts, caller, request, selector.operationId, seconds);
    const found = await selectNodes(transaction.tx, selector, ["input", "work"]);
    if ("refusals" in found) return refusedWhole(found.refusals);
    const whole =
      found.clusterId === null
        ? undefined
        : (await unfinishedOperationsOfCluster(transaction.tx, found.clusterId)).find(
            ({ clusterId }) => clusterId === found.clusterId,
          );
    return whole
      ? stopOperation(transaction, parts, caller, request, whole.id, seconds)
      : stopNodes(transaction, parts, caller, request, found.nodes, seconds);
  });
}

async function stopOperation(
  transaction: Transaction,
  parts: InterruptParts,
  caller: Caller,
  request: StopRequest,
  id: string,
  seconds: number,
): Promise<SubmitAnswer> {
  if (!isUuid(id)) return unknownOperation(id);
  const discovery = await interruptDiscovery(
    transaction,
    parts.queue,
    caller,
    { operationId: id },
    { interrupt: "STOP", reason: request.reason, seconds },
  );
  if (discovery) return discovery;
  const runs = await lockUnfinishedRuns(transaction.tx, { operationId: id });
  const operation = await lockOperation(transaction.tx, id);
  if (!operation) return unknownOperation(id);
  if (!isFinalOperation(operation.state) && (operation.interrupt === null || isPolicysStop(operation, runs))) {
    await interruptOperation(transaction.tx, id, stopInterrupt(caller, request));
    const asked = runs.filter(({ interrupt, purpose }) => interrupt === null && purpose === "WORK");
    await carryOut(transaction, parts, asked, stopInterrupt(caller, request), {
      as: "STOPPED",
      wake: await endedByStop(transaction.tx, asked),
    });
    await parts.queue.timer(transaction, { operationId: id, what: "STOP" }, seconds);
    await finishWhenDone(transaction, parts, id);
  }
  const all = await runsOfOperation(transaction.tx, id, "WORK");
  return {
    operationId: id,
    results: all.map(({ id: runId, nodeId, nodeName }) => ({
      ref: nodeName,
      nodeId,
      runId,
      accepted: true,
      refusal: null,
      plan: null,
    })),
    refusals: [],
    replayed: false,
  };
}

/** The failure policy stops the others in order to clean up. A stop that somebody asks for before it does keeps everything as it is. */
function isPolicysStop({ interrupt, interruptBy }: OperationRow, unfinished: readonly RunRow[]): boolean {
  return interrupt === "STOP" && interruptBy === ENGINE && unfinished.every(({ purpose }) => purpose === "WORK");
}

function stopInterrupt(caller: Caller, request: StopRequest) {
  return { interrupt: "STOP", interruptBy: caller.actor, interruptReason: request.reason ?? null } as const;
}

async function stopNodes(
  transaction: Transaction,
  parts: InterruptParts,
  caller: Caller,
  request: StopRequest,
  nodes: readonly { readonly ref: string; readonly nodeId: string }[],
  seconds: number,
): Promise<SubmitAnswer> {
  const runs = await lockUnfinishedRuns(transaction.tx, { nodeIds: nodes.map(({ nodeId }) => nodeId) });
  const runOf = new Map(runs.map((run) => [run.nodeId, run]));
  // A stop that comes after the end is told how it ended; one that repeats an earlier one is told the same again.
  const ended = new Map(
    (
      await newestWork(
        transaction.tx,
        nodes.flatMap(({ nodeId }) => (runOf.has(nodeId) ? [] : [nodeId])),
        null,
      )
    ).map((run) => [run.nodeId, run]),
  );
  const results = nodes.map(({ ref, nodeId }): NodeAnswer => {
    const run = runOf.get(nodeId) ?? ended.get(nodeId);
    const refusal = refusalOfStop(ref, nodeId, run);
    return { ref, nodeId, runId: run?.id ?? null, accepted: refusal === null, refusal, plan: null };
  });
  const stopped = runs.filter(({ purpose }) => purpose === "WORK");
  await interruptWholeOperations(
    transaction,
    caller,
    "STOP",
    stopped.filter(({ interrupt }) => interrupt !== "ABORT"),
    request.reason,
  );
  const asked = stopped.filter(({ interrupt }) => interrupt === null);
  await carryOut(transaction, parts, asked, stopInterrupt(caller, request), {
    as: "STOPPED",
    wake: await endedByStop(transaction.tx, asked),
  });
  for (const operationId of new Set(stopped.map((run) => run.operationId)))
    await parts.queue.timer(transaction, { operationId, what: "STOP" }, seconds);
  const concerned = stopped.length > 0 ? stopped : [...ended.values()];
  const operationIds = [...new Set(concerned.map(({ operationId }) => operationId))];
  const refusals = results.some(({ accepted }) => accepted)
    ? []
    : results.flatMap(({ refusal }) => (refusal ? [refusal] : []));
  return {
    operationId: operationIds.length === 1 ? (operationIds[0] ?? null) : null,
    results,
    refusals,
    replayed: false,
  };
}

function refusalOfStop(ref: string, nodeId: string, run: RunRow | undefined): Refusal | null {
  if (!run)
    return { code: "NOTHING_RUNNING", message: `Nothing is running on node ${ref} that could be stopped.`, nodeId };
  if (run.finishedAt) {
    return run.state === "STOPPED"
      ? null
      : {
          code: "NOTHING_RUNNING",
          message: `Nothing is running on node ${ref}: its work in operation ${run.operationId} has ended (${run.state}).`,
          nodeId,
          operationId: run.operationId,
        };
  }
  if (run.purpose === "WORK") return null;
  return {
    code: "NOTHING_RUNNING",
    message: `Node ${ref} is only being cleaned up after a failure; wait for the end of it, or abort it.`,
    nodeId,
    operationId: run.operationId,
  };
}

/**
 * The time for a graceful stop is over: what still runs fails with STOP_TIMEOUT, whatever it is doing. What was stopped
 * after this timer was set, by a later stop of other nodes, has a timer of its own.
 */
export async function stopTimeout(parts: InterruptParts, operationId: string, setAt: number): Promise<void> {
  await parts.transact(async (transaction) => {
    if (await stopDiscoveryNow(transaction, operationId)) return;
    const runs = (await lockUnfinishedRuns(transaction.tx, { operationId })).filter(
      ({ purpose, interruptFailure }) => purpose === "WORK" && interruptFailure === null,
    );
    const operation = await lockOperation(transaction.tx, operationId);
    // A stop of the whole is for those as well that somebody wanted to abort in the meantime, and whose step has not ended.
    const isWhole =
      operation?.interrupt === "STOP" &&
      operation.interruptBy !== ENGINE &&
      (operation.interruptAt?.getTime() ?? 0) <= setAt;
    const late = runs.filter(({ interrupt, interruptAt }) =>
      interrupt === "STOP" ? (interruptAt?.getTime() ?? 0) <= setAt : isWhole,
    );
    const plans = await plansByHashes(transaction.tx, [...new Set(late.map(({ planHash }) => planHash))]);
    for (const run of late) {
      const failure: Failure = {
        code: "STOP_TIMEOUT",
        message: `Node ${run.nodeName}: ${stepLabel(plans.get(run.planHash)?.steps[run.position]) ?? "its step"} was still running when the time for the stop was over; restart it when you have looked at it.`,
        step: stepLabel(plans.get(run.planHash)?.steps[run.position]),
        nodeId: run.nodeId,
        nodeName: run.nodeName,
        at: new Date().toISOString(),
        retryable: true,
      };
      await interruptRuns(transaction.tx, [run.id], {
        interrupt: "ABORT",
        interruptBy: ENGINE,
        interruptReason: failure.message,
        interruptFailure: failure,
        powerOff: false,
      });
    }
    const parked = late.filter(({ state }) => state === "WAITING" || state === "HOLDING");
    await parts.queue.wakeMany(
      transaction,
      parked.map(({ id }) => id),
      "ending",
    );
  });
  parts.checkInterrupts();
}
