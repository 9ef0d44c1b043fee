/**
 * Recording an abort or a stop on locked runs. The replica that has claimed a run carries the interrupt out
 * (execution/runner.ts). A run that no replica has claimed yet ends here, in the same transaction, and so does one
 * whose abort is forced.
 */
import { edge } from "../../lifecycle/machine.ts";
import { mustNotBeCut } from "../../lifecycle/touches.ts";
import { abortAttempts } from "../../store/runs/attempts.ts";
import { lockNodes } from "../../store/nodes/nodes.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import { lockOperation, interruptOperation } from "../../store/operations/operations.ts";
import { countUnfinished } from "../../store/operations/operation-runs.ts";
import { PRIORITY, wakeRuns } from "../../store/runs/run-claims.ts";
import { changeClaimedRuns, finishRuns, interruptRuns } from "../../store/runs/runs.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import type { EngineContext } from "../context.ts";
import { faultChange } from "../../store/nodes/node-faults.ts";
import { idsOf, nodeIdsOf } from "../input/ids.ts";
import { stepLabel } from "../plans/plan.ts";
import { UNKNOWN_CONDITION, abortedFailure } from "../scheduling/abort-outcome.ts";
import { settleMany } from "../scheduling/finish-run.ts";
import type { Transaction } from "../transaction.ts";
import { changeNodes, hopAlong } from "../transaction.ts";
import { stepsOfRuns } from "./step-under-way.ts";

/** How an interrupt ends the runs that it concerns. */
interface InterruptEffect {
  readonly interrupt: Parameters<typeof interruptRuns>[2];
  /** State of the runs that end at once. */
  readonly end: "ABORTED" | "STOPPED";
  /** Parked runs that the interrupt ends, so that a worker has to take them up now. */
  readonly wake: readonly RunRow[];
}

/** The actor, the reason and the step that transitions record. */
export interface InterruptCause {
  readonly by: string;
  readonly reason: string | null;
  readonly stepOf: (run: RunRow) => string | null;
}

/**
 * Records an interrupt on locked runs. QUEUED runs end at once, and their nodes stay as they are. The raised fence
 * ends their claims.
 */
export async function interruptLockedRuns(
  transaction: Transaction,
  context: EngineContext,
  runs: readonly RunRow[],
  { interrupt, end, wake }: InterruptEffect,
): Promise<void> {
  const queued = runs.filter(({ state }) => state === "QUEUED");
  const forced = runs.filter((run) => interrupt.interruptMode === "FORCE" && !queued.includes(run));
  await interruptRuns(transaction.tx, idsOf(runs), interrupt);
  await finishRuns(transaction.tx, idsOf(queued), end);
  await wakeRuns(transaction.tx, idsOf(wake.filter((run) => !forced.includes(run))), PRIORITY.ending);
  await forceEnds(transaction, forced, interrupt);
  for (const operationId of [...new Set([...queued, ...forced].map((run) => run.operationId))].toSorted())
    await settleMany(transaction, context, operationId);
}

/**
 * Records an interrupt on each operation of which it concerns every unfinished run, whether the request named the
 * operation, a cluster or nodes: the operation's state then shows it. If one run of an operation refused, only the
 * other runs have the interrupt, because an interrupt of the operation applies to all of its runs. `seconds`: the time
 * that a stop leaves to running steps.
 */
export async function interruptWholeOperations(
  transaction: Transaction,
  concerned: readonly RunRow[],
  recorded: Parameters<typeof interruptOperation>[2],
  seconds?: number,
): Promise<void> {
  // Locked in the order of their ids, like everywhere, so that two requests cannot deadlock.
  const byOperation = [...Map.groupBy(concerned, (run) => run.operationId)].toSorted(([a], [b]) => (a < b ? -1 : 1));
  for (const [operationId, runs] of byOperation) {
    if (runs.length < (await countUnfinished(transaction.tx, operationId))) continue;
    const operation = await lockOperation(transaction.tx, operationId);
    if (!operation || operation.finishedAt || operation.interrupt === recorded.interrupt) continue;
    await interruptOperation(transaction.tx, operationId, recorded, seconds);
  }
}

/**
 * Locks the nodes of runs and moves them, as far as they have this edge, so that subscribers of a node receive a
 * pending abort, its withdrawal, or the end of a hold.
 */
export async function moveNodesOf(
  transaction: Transaction,
  runs: readonly RunRow[],
  event: "abort_pending" | "abort_withdrawn" | "unhold",
  cause: InterruptCause,
): Promise<void> {
  const nodes = await lockNodesOf(transaction, runs);
  const hops = runs.flatMap((run) => {
    const from = nodes.get(run.nodeId)?.state;
    if (!from || !edge(from, event)) return [];
    const why = { event, actor: cause.by, reason: cause.reason, step: cause.stepOf(run), ...placeOf(run) };
    return [[hopAlong({ nodeId: run.nodeId, from }, why)]];
  });
  await Promise.all(changeNodes(transaction, hops));
}

/** The work that a transition records. */
function placeOf({ id: runId, target, operationId }: RunRow) {
  return { runId, target, operationId };
}

/**
 * Ends claimed runs whose machines are not waited for. The raised fence stops the replicas that hold them. Nothing is
 * known of the machines.
 */
async function forceEnds(
  transaction: Transaction,
  runs: readonly RunRow[],
  interrupt: InterruptEffect["interrupt"],
): Promise<void> {
  if (runs.length === 0) return;
  const { tx } = transaction;
  const runIds = idsOf(runs);
  const steps = await stepsOfRuns(tx, runs);
  const nodes = await lockNodesOf(transaction, runs);
  const ends = runs.map((run) => {
    const { step: planned, attempt } = steps.get(run.id) ?? {};
    const step = stepLabel(planned);
    const at = { step, moment: attempt ? "at" : "before" } as const;
    const cause = { by: interrupt.interruptBy, reason: interrupt.interruptReason };
    const isOver = !attempt || attempt.state === "SUCCEEDED" || attempt.failure?.atRest === true;
    const mayBeWorking = planned !== undefined && !isOver && mustNotBeCut(planned);
    return { run, node: nodes.get(run.nodeId), step, failure: abortedFailure(run, cause, at), mayBeWorking };
  });
  const hops = ends.flatMap(({ run, node, step, failure, mayBeWorking }) => {
    if (!node) return [];
    const fault = mayBeWorking ? faultChange(node, "MACHINE_BUSY", failure.message) : {};
    const change = { lastError: failure, powerState: "UNKNOWN" as const, ...fault };
    const place = { nodeId: node.id, from: node.state };
    if (!edge(node.state, "abort")) return [[{ ...place, why: null, change }]];
    const { interruptBy: actor, interruptReason: reason } = interrupt;
    return [[hopAlong(place, { event: "abort", actor, reason, step, ...placeOf(run) }, change)]];
  });
  await abortAttempts(tx, runIds);
  await Promise.all(changeNodes(transaction, hops));
  await finishRuns(tx, runIds, "ABORTED");
  const leftAs = { ...UNKNOWN_CONDITION, tearDownError: "The abort was forced: nothing was undone." };
  await changeClaimedRuns(
    tx,
    ends.map(({ run: { id }, failure, mayBeWorking }) => ({
      id,
      change: { failure, leftAs: { ...leftAs, mayBeWorking } },
    })),
  );
}

async function lockNodesOf(transaction: Transaction, runs: readonly RunRow[]): Promise<ReadonlyMap<string, NodeRow>> {
  const nodes = await lockNodes(transaction.tx, nodeIdsOf(runs));
  return new Map(nodes.map((node) => [node.id, node]));
}
