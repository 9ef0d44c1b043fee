/**
 * The consequences of a run's end for its operation: the next queued runs start, the failure policy applies, and with
 * the last run the operation gets its final state. Always under the operation's lock, so that of two runs that end
 * together exactly one is the last.
 */
import { randomUUID } from "node:crypto";
import { isImageRefusal } from "../../errors.ts";
import { outOfService } from "../../lifecycle/admission.ts";
import type { NodeState } from "../../lifecycle/node-states.ts";
import { cleanUpRoute } from "../../lifecycle/verbs.ts";
import { outcome } from "../../lifecycle/operation-states.ts";
import type { FinalRunState } from "../../lifecycle/operation-states.ts";
import { insertRuns } from "../../store/runs/new-runs.ts";
import type { NewRun } from "../../store/runs/new-runs.ts";
import { lockNodes } from "../../store/nodes/nodes.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import {
  finalCounts,
  hasUnfinishedRun,
  lockParkedRuns,
  lockQueuedRuns,
} from "../../store/operations/operation-runs.ts";
import {
  finishOperations,
  lockOperation,
  lockOperations,
  noteFirstFailure,
  interruptOperation,
  updateOperation,
} from "../../store/operations/operations.ts";
import type { OperationRow } from "../../store/operations/operations.ts";
import type { Failure, Plan, SitePolicy } from "../../store/records.ts";
import { SecretError } from "../../store/secrets/keyring.ts";
import { deleteSecrets, openVariables, SECRETS, variablesEncryption } from "../../store/secrets/secrets.ts";
import { storePlans } from "../../store/runs/plans.ts";
import { PRIORITY, wakeRuns } from "../../store/runs/run-claims.ts";
import { UNTOUCHED, busyNodes, finishRuns, newestWork, runsOfOperation } from "../../store/runs/runs.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import { cleansAutomatically, readSite } from "../../store/site.ts";
import { idsOf, nodeIdsOf } from "../input/ids.ts";
import type { EngineContext } from "../context.ts";
import { isToleranceFailure, stopLostRuns, toleranceOf } from "./group-gates.ts";
import { ENGINE, ENGINE_STOP, isRationed, startQueued } from "./start-runs.ts";
import { waitOf } from "./capacity-limits.ts";
import { endedByStop } from "./waiting-runs.ts";
import { nextPosition, planSteps } from "../plans/plan.ts";
import type { Transaction } from "../transaction.ts";
import { settleWaves } from "./waves.ts";

export type FinishParts = Pick<EngineContext, "nudge" | "registry" | "keyring" | "observer">;

/** A run that has ended, with the errors of its steps, and with its failure if it failed. */
interface RunEnd {
  readonly run: RunRow;
  readonly state: FinalRunState;
  readonly failure: Failure | null;
}

/**
 * Applies the ends of runs to their operations, in the order of the operations' ids. A run that failed because of an
 * interrupt (it ignored its abort, or its stop took too long) does not trigger the failure policy.
 */
export async function applyRunEnds(
  transaction: Transaction,
  parts: FinishParts,
  ends: readonly RunEnd[],
): Promise<void> {
  if (ends.length === 0) return;
  transaction.afterCommit(parts.nudge);
  transaction.afterCommit(() => {
    for (const { run, state } of ends)
      parts.observer.runEnded(
        {
          operationId: run.operationId,
          runId: run.id,
          node: run.nodeName,
          purpose: run.purpose,
          startedAt: run.startedAt,
        },
        state,
      );
  });
  const byOperation = Map.groupBy(ends, ({ run }) => run.operationId);
  // All are locked before any is changed, in one order.
  const locked = await lockOperations(transaction.tx, [...byOperation.keys()]);
  const settled = locked.filter((operation) => endsWith(operation, byOperation.get(operation.id)));
  await endOperations(transaction, parts, settled, { state: "SUCCEEDED", isRestartable: false });
  const finished = new Set(idsOf(settled));
  for (const operation of locked.filter(({ id }) => !finished.has(id)))
    await settleOperation(transaction, parts, operation, byOperation.get(operation.id) ?? []);
}

/**
 * Whether an operation has ended, known without a look at its runs: its only run has succeeded without errors, and
 * nothing interrupts it. Clean-ups follow failures alone.
 */
function endsWith(operation: OperationRow, ends: readonly RunEnd[] = []): boolean {
  const { totalCount, interrupt, waves, finishedAt } = operation;
  const [end, ...others] = ends;
  return (
    totalCount === 1 &&
    interrupt === null &&
    waves === null &&
    finishedAt === null &&
    end?.state === "SUCCEEDED" &&
    end.run.purpose === "WORK" &&
    end.run.errors.length === 0 &&
    others.length === 0
  );
}

/** Gives operations their final state. The user data is a secret: it is deleted if nothing can be restarted. */
async function endOperations(
  transaction: Transaction,
  { observer }: FinishParts,
  operations: readonly OperationRow[],
  { state, isRestartable }: { readonly state: ReturnType<typeof outcome>; readonly isRestartable: boolean },
): Promise<void> {
  await finishOperations(transaction.tx, idsOf(operations), state);
  for (const { id, userDataBytes } of operations)
    if (userDataBytes !== null && !isRestartable) await deleteSecrets(transaction.tx, SECRETS.operationUserData, id);
  transaction.afterCommit(() => {
    for (const { id, kind, createdAt } of operations)
      observer.operationEnded({ operationId: id, kind, state, createdAt });
  });
}

async function settleOperation(
  transaction: Transaction,
  parts: FinishParts,
  locked: OperationRow,
  ends: readonly RunEnd[],
): Promise<void> {
  let operation: OperationRow | undefined = locked;
  for (const { run, state, failure } of ends) {
    if (!operation) throw new Error(`Run ${run.id} has no operation.`);
    const operationId = operation.id;
    if (state !== "FAILED" || !failure || run.purpose !== "WORK") continue;
    await noteFirstFailure(transaction.tx, operationId, failure);
    if (run.interrupt !== "ABORT") await applyFailure(transaction, parts, operation, { ...run, state, failure });
    operation = await lockOperation(transaction.tx, operationId);
  }
  await startNext(transaction, parts, operation);
  if (operation) await finishWhenDone(transaction, parts, operation.id);
}

/** Applies the failure of a run: the tolerance of its host group decides before the failure policy. */
async function applyFailure(
  transaction: Transaction,
  parts: FinishParts,
  operation: OperationRow,
  run: RunRow & { readonly failure: Failure },
): Promise<void> {
  const verdict = await toleranceOf(transaction.tx, operation, run);
  if (verdict === "TOLERATED" && operation.onFailure === "CLEAN_UP_ALL") return;
  const policy = operation.interrupt === null ? operation.onFailure : "LEAVE";
  if (policy === "CLEAN_UP_ALL") await stopOthers(transaction, operation.id);
  if (policy === "CLEAN_UP_FAILED") await startCleanUps(transaction, parts, operation, [run]);
  if (verdict === null || verdict === "TOLERATED" || operation.interrupt !== null) return;
  await updateOperation(transaction.tx, operation.id, { firstFailure: verdict });
  if (operation.onFailure !== "CLEAN_UP_ALL") await stopOthers(transaction, operation.id);
}

/** Stops the other runs of an operation: no further step begins. */
async function stopOthers(transaction: Transaction, operationId: string): Promise<void> {
  await interruptOperation(transaction.tx, operationId, ENGINE_STOP);
  await stopQueued(transaction, operationId);
  // The end of the operation waits for these runs, and they wait for a user, a time or a slot: without a wake-up both
  // would wait forever.
  await wakeParked(transaction, operationId);
}

/** Continues an operation after some of its runs were ended at once. */
export async function settleMany(transaction: Transaction, parts: FinishParts, operationId: string): Promise<void> {
  await startNext(transaction, parts, await lockOperation(transaction.tx, operationId));
  transaction.afterCommit(parts.nudge);
  await finishWhenDone(transaction, parts, operationId);
}

/**
 * Starts the runs that the end of others allows: those of the next wave first, then those below `maxParallel`. Before,
 * stops the runs that it has made impossible.
 */
async function startNext(
  transaction: Transaction,
  parts: FinishParts,
  operation: OperationRow | undefined,
): Promise<void> {
  if (!operation || operation.interrupt !== null || !isRationed(operation)) return;
  await stopLostRuns(transaction, operation);
  await settleWaves(transaction, parts, operation);
  const settled = operation.waves === null ? operation : await lockOperation(transaction.tx, operation.id);
  if (settled) await startQueued(transaction, parts, settled);
}

/** Wakes the parked runs of an operation that its stop ends. */
export async function wakeParked({ tx }: Transaction, operationId: string): Promise<void> {
  const stopped = await endedByStop(tx, await lockParkedRuns(tx, operationId));
  await wakeRuns(tx, idsOf(stopped), PRIORITY.ending);
}

/** Ends queued runs, whose nodes were never touched. */
async function stopQueued(transaction: Transaction, operationId: string): Promise<void> {
  const queued = await lockQueuedRuns(transaction.tx, operationId);
  await finishRuns(transaction.tx, idsOf(queued), "STOPPED");
}

/** Gives the operation its final state if all of its runs have ended; first cleans up if the failure policy says so. */
export async function finishWhenDone(transaction: Transaction, parts: FinishParts, operationId: string): Promise<void> {
  if (await hasUnfinishedRun(transaction.tx, operationId)) return;
  const operation = await lockOperation(transaction.tx, operationId);
  if (!operation || operation.finishedAt) return;
  const counts = await finalCounts(transaction.tx, operationId);
  // Once clean-ups have started the operation has failed, even if they are interrupted.
  const cleanedUpAll =
    operation.onFailure === "CLEAN_UP_ALL" && (operation.interruptBy === ENGINE || counts.cleanUps > 0);
  if (cleanedUpAll && counts.cleanUps === 0) {
    const started = await startCleanUps(
      transaction,
      parts,
      operation,
      await runsOfOperation(transaction.tx, operationId, "WORK"),
    );
    if (started > 0) return;
  }
  const hasFailed = cleanedUpAll || (operation.interruptBy === ENGINE && isToleranceFailure(operation.firstFailure));
  const state = outcome(counts, { interrupt: operation.interrupt, hasFailed });
  // An operation whose runs all succeeded cannot be restarted.
  const isRestartable = counts.failed + counts.aborted + counts.stopped + counts.cleanUps > 0;
  await endOperations(transaction, parts, [operation], { state, isRestartable });
}

/**
 * Whether a run failed because it ignored its abort, or was forced to end. Its step may still be running on the
 * machine.
 */
function ignoredAbort(run: RunRow | undefined): boolean {
  return (run?.state === "FAILED" && run.interrupt === "ABORT") || run?.interruptMode === "FORCE";
}

/** Starts clean-up runs for nodes of an operation, and returns their number. `failed`: the runs to clean up after. */
async function startCleanUps(
  transaction: Transaction,
  parts: FinishParts,
  operation: OperationRow,
  failed: readonly RunRow[],
): Promise<number> {
  const nodes = await nodesToCleanUp(transaction, operation, failed);
  const { policy } = await readSite(transaction.tx);
  const planned = await Promise.all(nodes.map((node) => planCleanUp(parts, policy, node)));
  const starting = planned.flatMap((one) => (one ? [{ ...one, runId: randomUUID() }] : []));
  const hashes = await storePlans(
    transaction.tx,
    starting.map(({ plan }) => plan),
  );
  const runOf = new Map(failed.map((run) => [run.nodeId, run]));
  const copiedVariables = await variablesCopier(transaction, parts, failed);
  const rows = starting.map((run, index): NewRun => ({
    ...cleanUpRun(operation, run, runOf.get(run.node.id)),
    variables: copiedVariables(runOf.get(run.node.id), run.runId),
    ...waitOf(policy, run.node, run.plan, { mayStart: true }),
    planHash: hashes[index] ?? "",
  }));
  await insertRuns(transaction.tx, rows);
  transaction.afterCommit(parts.nudge);
  return starting.length;
}

/** Copies the variables of runs to others. A secret that cannot be read is copied as it is, and fails the other run. */
async function variablesCopier({ tx }: Transaction, parts: FinishParts, from: readonly RunRow[]) {
  const openedOf = await openVariables(tx, parts, SECRETS.runVariables, from);
  const readable = from.map(({ id }) => openedOf(id)).filter((one) => "values" in one);
  const encrypt = await variablesEncryption(tx, parts.keyring, SECRETS.runVariables, readable);
  return (run: RunRow | undefined, to: string) => {
    const variables = openedOf(run?.id ?? null);
    return variables instanceof SecretError ? (run?.variables ?? {}) : encrypt(to, variables);
  };
}

/**
 * The nodes of an operation that may be cleaned up, locked. Left out are nodes that the operation has not touched, that
 * were deleted, are busy again, were protected meanwhile, seem to be the same machine as another node, or have had
 * other work after this operation (their contents are no longer its result), those on which its image could not be
 * installed, so that nothing was erased, those whose run ignored its abort, as a step may still be running there, and
 * those whose machine may still be at a step that must not be cut.
 */
async function nodesToCleanUp(
  transaction: Transaction,
  operation: OperationRow,
  failed: readonly RunRow[],
): Promise<readonly NodeRow[]> {
  const runOf = new Map(failed.flatMap((run) => (run.leg === UNTOUCHED ? [] : [[run.nodeId, run]])));
  const nodes = await lockNodes(transaction.tx, [...runOf.keys()]);
  const ids = idsOf(nodes);
  const busy = new Set(nodeIdsOf(await busyNodes(transaction.tx, ids)));
  const newest = new Map((await newestWork(transaction.tx, ids, null)).map((run) => [run.nodeId, run.operationId]));
  return nodes.filter(
    ({ id, isProtected, faultKind, identityConflict }) =>
      !isProtected &&
      faultKind !== "MACHINE_BUSY" &&
      identityConflict === null &&
      !busy.has(id) &&
      !isImageRefusal(runOf.get(id)?.failure?.code) &&
      newest.get(id) === operation.id &&
      !ignoredAbort(runOf.get(id)),
  );
}

interface CleanUp {
  readonly node: NodeRow;
  readonly plan: Plan;
  readonly target: NodeState;
}

/** The plan of a node's clean-up; null if the node needs none or its drivers cannot be used. */
async function planCleanUp(parts: FinishParts, policy: SitePolicy, node: NodeRow): Promise<CleanUp | null> {
  const way = cleanUpRoute(node.state);
  const route = way && node.retiredReason !== null ? outOfService(way, node.state) : way;
  const composed = parts.registry.compose(node);
  if (!route || "problem" in composed) return null;
  const planned = await planSteps({
    nodeName: node.name,
    route,
    composition: composed.composition,
    policy,
    automaticCleaning: cleansAutomatically(policy, node),
  });
  return "plan" in planned ? { node, plan: planned.plan, target: route.target } : null;
}

function cleanUpRun(
  operation: OperationRow,
  { runId, node, plan, target }: CleanUp & { readonly runId: string },
  failed: RunRow | undefined,
): Omit<NewRun, keyof ReturnType<typeof waitOf> | "planHash" | "variables"> {
  return {
    id: runId,
    operationId: operation.id,
    nodeId: node.id,
    nodeName: failed?.nodeName ?? "",
    ordinal: operation.totalCount + (failed?.ordinal ?? 0),
    purpose: "CLEAN_UP",
    controller: node.controller,
    clusterId: failed?.clusterId ?? null,
    hostGroup: null,
    groupKey: null,
    budgetKey: null,
    takesOut: null,
    wave: failed?.wave ?? 0,
    position: nextPosition(plan, 0),
    target,
    movesState: true,
    attempt: 1,
    restartOf: null,
  };
}
