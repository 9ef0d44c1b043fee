/**
 * Stop: running steps end, then the work pauses and can be restarted. The request is recorded here in one short
 * transaction; the replica that has claimed a run carries it out between two steps. How long the steps may continue is
 * limited.
 */
import { nodeRefusal } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { stopForecast } from "../../lifecycle/forecast.ts";
import { isFinalOperation } from "../../lifecycle/operation-states.ts";
import {
  interruptOperation,
  lockOperation,
  noteFirstFailure,
  operationsByIds,
} from "../../store/operations/operations.ts";
import { unfinishedOperationsOfCluster } from "../../store/operations/operation-lists.ts";
import type { OperationRow } from "../../store/operations/operations.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { keepReadOnly } from "../../store/postgres/transactions.ts";
import { plansByHashes } from "../../store/runs/plans.ts";
import type { Failure, PlannedStep } from "../../store/records.ts";
import { limitStop, takeStopsOver } from "../../store/operations/due-operations.ts";
import { PRIORITY, wakeRuns } from "../../store/runs/run-claims.ts";
import { lockUnfinishedRuns, lockUnfinishedRunsOf } from "../../store/runs/run-locks.ts";
import { runsOfOperation, interruptRuns, unfinishedRuns } from "../../store/runs/runs.ts";
import type { RequestedInterrupt, RunRow } from "../../store/runs/runs.ts";
import type { EngineContext } from "../context.ts";
import { acceptedNode, refuseRequest, refusedNode } from "../input/answers.ts";
import type { ForecastEntry, NodeAnswer, SubmitAnswer } from "../input/answers.ts";
import { stopFlaws, timeoutOf } from "../input/interrupt-request.ts";
import type { StopRequest } from "../input/interrupt-request.ts";
import { selectKnownNodes } from "../input/node-selector.ts";
import type { SelectedWork, WorkSelector } from "../input/work-selector.ts";
import { operationEnded, unknownOperation } from "../input/work-selector.ts";
import { isUuid } from "../../runtime/uuid.ts";
import { idsOf, nodeIdsOf } from "../input/ids.ts";
import { stepLabel } from "../plans/plan.ts";
import { finishWhenDone } from "../scheduling/finish-run.ts";
import { ENGINE } from "../scheduling/start-runs.ts";
import { endedByStop } from "../scheduling/waiting-runs.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { endedEntry, endingAlready, entryOf, readForecastRuns } from "./forecast.ts";
import { interruptSelected } from "./interrupt-runs.ts";
import type { Interruption, Target } from "./interrupt-runs.ts";
import { interruptLockedRuns, interruptWholeOperations } from "./record-interrupt.ts";
import { newFailure } from "../input/failures.ts";

/** A stop as it is recorded. */
interface Stop {
  readonly recorded: RequestedInterrupt;
  readonly seconds: number;
  readonly dryRun: boolean;
  readonly caller: Caller;
}

/** Stops an operation as a whole, or the work on some nodes. */
export async function stopWork(context: EngineContext, caller: Caller, request: StopRequest): Promise<SubmitAnswer> {
  const flaws = stopFlaws(request);
  if (flaws.length > 0) return refuseRequest(flaws);
  const stop: Stop = {
    recorded: { interrupt: "STOP", interruptBy: caller.actor, interruptReason: request.reason ?? null },
    seconds: timeoutOf(request),
    dryRun: request.dryRun === true,
    caller,
  };
  return context.transact(async (transaction) => {
    if (request.dryRun) await keepReadOnly(transaction.tx);
    const selected = await selectWork(transaction.tx, request.work);
    if ("refusals" in selected) return refuseRequest(selected.refusals);
    return "wholeOperation" in selected
      ? stopOperation(transaction, context, selected.wholeOperation, stop)
      : interruptSelected(transaction, request, selected, nodesStop(context, stop));
  });
}

/**
 * The operation to stop as a whole, or nodes. A cluster stands for the operation that was requested for it, and beside
 * further ones on its nodes for all nodes that have work.
 */
async function selectWork(
  reader: Reader,
  selector: WorkSelector,
): Promise<{ readonly wholeOperation: string } | SelectedWork | { readonly refusals: readonly Refusal[] }> {
  if ("operationId" in selector) return { wholeOperation: selector.operationId };
  const found = await selectKnownNodes(reader, selector, ["input", "work"]);
  if ("refusals" in found) return found;
  const { nodes, clusterId, unknown } = found;
  const unfinished = clusterId === null ? [] : await unfinishedOperationsOfCluster(reader, clusterId);
  const whole = unfinished.find((operation) => operation.clusterId === clusterId);
  if (whole && unfinished.length === 1) return { wholeOperation: whole.id };
  const busy = whole && new Set(nodeIdsOf(await unfinishedRuns(reader, nodeIdsOf(nodes))));
  return { nodes: nodes.filter(({ nodeId }) => busy?.has(nodeId) ?? true), unknown, operationId: null };
}

async function stopOperation(
  transaction: Transaction,
  context: EngineContext,
  id: string,
  stop: Stop,
): Promise<SubmitAnswer> {
  const { tx } = transaction;
  const [seen] = isUuid(id) ? await operationsByIds(tx, [id]) : [];
  // A repeated stop waits for no lock: the ends of the runs take the operation's lock one after the other.
  const locks = seen !== undefined && !stop.dryRun && !isStopOfUser(seen);
  // Runs that are being written are left out: their workers read the operation's stop at the next boundary.
  const runs = locks ? await lockUnfinishedRunsOf(tx, [id], { skipLocked: true }) : [];
  const operation = locks ? await lockOperation(tx, id) : seen;
  if (!operation) return refuseRequest(unknownOperation(id));
  if (isFinalOperation(operation.state) && !wasStopped(operation)) return refuseEnded(tx, operation);
  const isTaken = await takesStop(tx, operation);
  if (isTaken && !stop.dryRun) {
    await interruptOperation(tx, id, stop.recorded, stop.seconds);
    await stopRuns(transaction, context, runs.filter(takesStopOfOperation), stop);
    await finishWhenDone(transaction, context, id);
  }
  const all = await runsOfOperation(tx, id, "WORK");
  if (!stop.dryRun) transaction.audit(stop.caller, { operationId: id, targets: all.map(({ nodeName }) => nodeName) });
  const answer = { operationId: id, results: all.map(stoppedNode), refusals: [], replayed: false };
  if (!stop.dryRun) return answer;
  const entries = await forecastRuns(tx, all, isTaken);
  return { ...answer, operationId: null, forecast: { entries, timeoutSeconds: stop.seconds } };
}

async function stopRuns(
  transaction: Transaction,
  context: EngineContext,
  runs: readonly RunRow[],
  { recorded }: Stop,
): Promise<void> {
  const wake = await endedByStop(transaction.tx, runs);
  await interruptLockedRuns(transaction, context, runs, { interrupt: recorded, end: "STOPPED", wake });
}

function stoppedNode({ id, nodeId, nodeName }: RunRow): NodeAnswer {
  return acceptedNode(nodeName, nodeId, id);
}

/** The effects that a stop would have on the runs of an operation. `isTaken`: whether it would be recorded. */
async function forecastRuns(reader: Reader, all: readonly RunRow[], isTaken: boolean): Promise<ForecastEntry[]> {
  const unfinished = all.filter(({ finishedAt }) => finishedAt === null);
  const open = await readForecastRuns(reader, unfinished);
  return all.map((run) => {
    const found = open.get(run.id);
    if (!found) return endedEntry(stoppedNode(run), run);
    const stops = isTaken && takesStopOfOperation(run);
    return entryOf(stoppedNode(run), found, stops ? stopForecast(found.facts) : endingAlready(found));
  });
}

/** Whether a stop of the whole operation is recorded: not if one was before, or if the policy cleans up by now. */
async function takesStop(reader: Reader, operation: OperationRow): Promise<boolean> {
  if (isFinalOperation(operation.state) || isStopOfUser(operation)) return false;
  if (operation.interrupt === null) return true;
  // The failure policy stops the other runs before it cleans up. A stop that a user requests before the clean-up begins
  // replaces that one, so that everything stays as it is.
  return operation.interrupt === "STOP" && (await runsOfOperation(reader, operation.id, "CLEAN_UP")).length === 0;
}

function takesStopOfOperation({ interrupt, purpose }: RunRow): boolean {
  return interrupt === null && purpose === "WORK";
}

function isStopOfUser({ interrupt, interruptBy }: OperationRow): boolean {
  return interrupt === "STOP" && interruptBy !== ENGINE;
}

/** Whether a user's stop has stopped the operation: repeated, it returns the operation once more. */
function wasStopped(operation: OperationRow): boolean {
  return operation.state === "STOPPED" || isStopOfUser(operation);
}

async function refuseEnded(reader: Reader, { id, state }: OperationRow): Promise<SubmitAnswer> {
  const runs = await runsOfOperation(reader, id, "WORK");
  const results = runs.map((run) =>
    refusedNode(run.nodeName, run.nodeId, null, nothingToStop(run.nodeName, run.nodeId, run)),
  );
  return { ...refuseRequest(operationEnded(id, state)), results };
}

function nodesStop(context: EngineContext, stop: Stop): Interruption<NodeAnswer> {
  const { caller, recorded, seconds } = stop;
  return {
    caller,
    lock: lockUnfinishedRuns,
    reportsEnds: true,
    decide: async (_reader, targets) => targets.map(decideStop),
    forecast: (_reader, accepted) =>
      accepted.map(({ run, found }) => (run.interrupt === null ? stopForecast(found.facts) : endingAlready(found))),
    timeoutSeconds: seconds,
    async carryOut(transaction, accepted) {
      const stopped = accepted.flatMap(({ run }) => (run.finishedAt === null ? [run] : []));
      const notAborted = stopped.filter(({ interrupt }) => interrupt !== "ABORT");
      await interruptWholeOperations(transaction, notAborted, recorded, seconds);
      await limitStop(transaction.tx, idsOf(notAborted), seconds);
      const asked = stopped.filter(({ interrupt }) => interrupt === null);
      await stopRuns(transaction, context, asked, stop);
    },
    answeredRuns(accepted) {
      const stopped = accepted.filter(({ finishedAt }) => finishedAt === null);
      return stopped.length > 0 ? stopped : accepted;
    },
  };
}

/** Whether a stop of one node's work is accepted. `run`: its unfinished run, or else the newest one. */
export function decideStop({ ref, nodeId, name, run }: Target): NodeAnswer {
  // A repeated stop of a run that is stopped already succeeds.
  if (!run || (run.finishedAt !== null && run.state !== "STOPPED"))
    return refusedNode(ref, nodeId, null, nothingToStop(name, nodeId, run));
  const cleanUp = `Node ${name} is being cleaned up after a failure. Wait for the end of the clean-up, or abort it.`;
  const { operationId } = run;
  if (run.finishedAt === null && run.purpose !== "WORK")
    return refusedNode(ref, nodeId, run.id, nodeRefusal("NOTHING_RUNNING", nodeId, cleanUp, { operationId }));
  return acceptedNode(ref, nodeId, run.id);
}

/** The refusal of a node without unfinished work. `ended`: the newest run on it, if there is one. */
function nothingToStop(name: string, nodeId: string, ended: RunRow | undefined): Refusal {
  const why = ended
    ? `: its work in operation ${ended.operationId} has ended (${ended.state}).`
    : " that could be stopped.";
  const message = `Nothing is running on node ${name}${why}`;
  return { code: "NOTHING_RUNNING", message, nodeId, ...(ended && { operationId: ended.operationId }) };
}

/**
 * Runs that still run although the time for their graceful stop is over fail with STOP_TIMEOUT. Each stop of nodes has
 * a time of its own.
 */
export async function stopTimeout(context: EngineContext, operationId: string): Promise<void> {
  await context.transact(async (transaction) => {
    const runs = (await lockUnfinishedRunsOf(transaction.tx, [operationId])).filter(
      ({ purpose, interruptFailure }) => purpose === "WORK" && interruptFailure === null,
    );
    const operation = await lockOperation(transaction.tx, operationId);
    // A stop of the whole operation also ends runs that were aborted meanwhile and whose step has not ended.
    const over = await takeStopsOver(transaction.tx, operationId);
    const isWhole = over.isWhole && operation !== undefined && isStopOfUser(operation);
    const late = runs.filter(({ id, interrupt }) => isWhole || (interrupt === "STOP" && over.runIds.has(id)));
    const plans = await plansByHashes(transaction.tx, [...new Set(late.map(({ planHash }) => planHash))]);
    for (const run of late) {
      const failure = await failLate(transaction, run, plans.get(run.planHash)?.steps[run.position]);
      // Reported now: the run ends when its step is undone.
      await noteFirstFailure(transaction.tx, operationId, failure);
    }
    const parked = late.filter(({ state }) => state === "WAITING" || state === "HOLDING");
    await wakeRuns(transaction.tx, idsOf(parked), PRIORITY.ending);
  });
  context.checkInterrupts();
}

async function failLate(
  transaction: Transaction,
  { id, nodeId, nodeName }: RunRow,
  planned: PlannedStep | undefined,
): Promise<Failure> {
  const step = stepLabel(planned);
  const cause = "still running when the time for the stop was over";
  const message = `Node ${nodeName}: ${step ?? "its step"} was ${cause}. Check the machine, then restart the work.`;
  const failure = newFailure({ code: "STOP_TIMEOUT", message, cause, step, nodeId, nodeName });
  await interruptRuns(transaction.tx, [id], {
    interrupt: "ABORT",
    interruptBy: ENGINE,
    interruptReason: message,
    interruptFailure: failure,
    powerOff: false,
  });
  return failure;
}
