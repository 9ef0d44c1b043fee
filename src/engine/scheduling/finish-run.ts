/**
 * What the end of a run means for its operation: the next queued run begins, the failure policy acts, and with the last
 * run the operation gets its final state. Always under the operation's lock, so that of two runs that end together one
 * is the last.
 */
import { randomUUID } from "node:crypto";
import { outOfService } from "../../lifecycle/admission.ts";
import { cleanUpRoute } from "../../lifecycle/verbs.ts";
import { outcome } from "../../lifecycle/operation-states.ts";
import type { FinalRunState } from "../../lifecycle/operation-states.ts";
import type { Registry } from "../../drivers/registry.ts";
import type { Observer } from "../../observer.ts";
import { insertRuns } from "../../store/new-runs.ts";
import type { NewRun } from "../../store/new-runs.ts";
import { lockNodes } from "../../store/nodes.ts";
import type { NodeRow } from "../../store/nodes.ts";
import {
  finalCounts,
  finishOperation,
  hasUnfinishedRun,
  lockOperation,
  noteFirstFailure,
  interruptOperation,
} from "../../store/operations.ts";
import type { OperationRow } from "../../store/operations.ts";
import type { Failure } from "../../store/records.ts";
import { storePlans } from "../../store/plans.ts";
import { busyNodes, finishRuns, lockQueuedRuns, newestWork, parkedRuns, runsOfOperation } from "../../store/runs.ts";
import type { RunRow } from "../../store/runs.ts";
import { cleansAutomatically, readSite } from "../../store/site.ts";
import { ENGINE, startQueued, startRuns } from "./start-runs.ts";
import type { StartParts, Beginning } from "./start-runs.ts";
import { waitOf } from "./capacity-limits.ts";
import { endedByStop } from "./parked.ts";
import { nextPosition, planSteps } from "../plans/plan.ts";
import type { Transaction } from "../transaction.ts";
import { settleWaves } from "./waves.ts";

const CLEAN_UP_REASON = "clean-up after a failure";

export interface FinishParts extends StartParts {
  readonly registry: Registry;
  readonly observer: Observer;
}

/** A run that has ended, and its failure where it has one. */
export interface RunEnd {
  readonly run: RunRow;
  readonly state: FinalRunState;
  readonly failure: Failure | null;
}

/**
 * Draws the consequences of runs that have ended together for their operations, one after the other in the order of their
 * ids. A run that failed because somebody ended it (it was deaf to its abort, or its stop took too long) is no reason to
 * undo the others: then the failure policy is left alone.
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
  for (const operationId of [...byOperation.keys()].toSorted())
    await settleOperation(transaction, parts, operationId, byOperation.get(operationId) ?? []);
}

async function settleOperation(
  transaction: Transaction,
  parts: FinishParts,
  operationId: string,
  ends: readonly RunEnd[],
): Promise<void> {
  let operation = await lockOperation(transaction.tx, operationId);
  for (const { run, state, failure } of ends) {
    if (!operation) throw new Error(`Run ${run.id} has no operation.`);
    if (state !== "FAILED" || !failure || run.purpose !== "WORK") continue;
    await noteFirstFailure(transaction.tx, operationId, failure);
    if (run.interrupt !== "ABORT") await applyFailurePolicy(transaction, parts, operation, { ...run, state });
    operation = await lockOperation(transaction.tx, operationId);
  }
  await giveTurn(transaction, parts, operation);
  await finishWhenDone(transaction, parts, operationId);
}

async function applyFailurePolicy(
  transaction: Transaction,
  parts: FinishParts,
  operation: OperationRow,
  run: RunRow,
): Promise<void> {
  switch (operation.interrupt === null ? operation.onFailure : "LEAVE") {
    case "CLEAN_UP_ALL":
      await interruptOperation(transaction.tx, operation.id, {
        interrupt: "STOP",
        interruptBy: ENGINE,
        interruptReason: null,
      });
      await stopQueued(transaction, operation.id);
      // Nothing else would: they wait for somebody, or for a place, and the clean-up waits for them.
      await parts.queue.wakeMany(
        transaction,
        (await endedByStop(transaction.tx, await parkedRuns(transaction.tx, operation.id))).map(({ id }) => id),
        "ending",
      );
      return;
    case "CLEAN_UP_FAILED":
      await startCleanUps(transaction, parts, operation, [run]);
      return;
    case "LEAVE":
  }
}

/** Draws the consequences for an operation some of whose runs were ended together. */
export async function settleMany(transaction: Transaction, parts: FinishParts, operationId: string): Promise<void> {
  await giveTurn(transaction, parts, await lockOperation(transaction.tx, operationId));
  transaction.afterCommit(parts.nudge);
  await finishWhenDone(transaction, parts, operationId);
}

/** What the end of a run opens to others of its operation: the next wave first, then places below `maxParallel`. */
async function giveTurn(
  transaction: Transaction,
  parts: FinishParts,
  operation: OperationRow | undefined,
): Promise<void> {
  if (!operation || operation.interrupt !== null || (operation.maxParallel === null && operation.waves === null))
    return;
  await settleWaves(transaction, parts, operation);
  const settled = operation.waves === null ? operation : await lockOperation(transaction.tx, operation.id);
  if (settled) await startQueued(transaction, parts, settled);
}

/** Runs that have not had their turn end where they are: their nodes were never touched. */
async function stopQueued(transaction: Transaction, operationId: string): Promise<void> {
  const queued = await lockQueuedRuns(transaction.tx, operationId);
  await finishRuns(
    transaction.tx,
    queued.map(({ id }) => id),
    "STOPPED",
  );
}

/** Gives the operation its final state when no run is unfinished; first, where the policy says so, cleans up. */
export async function finishWhenDone(transaction: Transaction, parts: FinishParts, operationId: string): Promise<void> {
  if (await hasUnfinishedRun(transaction.tx, operationId)) return;
  const operation = await lockOperation(transaction.tx, operationId);
  if (!operation || operation.finishedAt) return;
  const counts = await finalCounts(transaction.tx, operationId);
  // Once clean-ups have begun it has failed, whatever is asked of them.
  const cleanedUpAll =
    operation.onFailure === "CLEAN_UP_ALL" && (operation.interruptBy === ENGINE || counts.cleanUps > 0);
  if (cleanedUpAll && counts.cleanUps === 0) {
    const begun = await startCleanUps(
      transaction,
      parts,
      operation,
      await runsOfOperation(transaction.tx, operationId, "WORK"),
    );
    if (begun > 0) return;
  }
  const state = outcome(counts, { interrupt: operation.interrupt, cleanedUpAll });
  await finishOperation(transaction.tx, operationId, state);
  transaction.afterCommit(() =>
    parts.observer.operationEnded({ operationId, kind: operation.kind, state, createdAt: operation.createdAt }),
  );
}

function isDeaf(run: RunRow | undefined): boolean {
  return run?.state === "FAILED" && run.interrupt === "ABORT";
}

/**
 * Begins clean-up runs for nodes of an operation. Left out are nodes that are gone, busy again, protected since, or need
 * none, those that other work has had in hand after this operation (what is on them is no longer of its making), and those
 * that were deaf to their abort: a step may still be at work there.
 */
async function startCleanUps(
  transaction: Transaction,
  parts: FinishParts,
  operation: OperationRow,
  of: readonly RunRow[],
): Promise<number> {
  const nodes = await lockNodes(
    transaction.tx,
    of.map(({ nodeId }) => nodeId),
  );
  const busy = new Set(
    (
      await busyNodes(
        transaction.tx,
        nodes.map(({ id }) => id),
      )
    ).map(({ nodeId }) => nodeId),
  );
  const newest = new Map(
    (
      await newestWork(
        transaction.tx,
        nodes.map(({ id }) => id),
        null,
      )
    ).map((run) => [run.nodeId, run.operationId]),
  );
  const isLeftOut = ({ id, isProtected }: NodeRow) =>
    isProtected || busy.has(id) || newest.get(id) !== operation.id || isDeaf(byNode.get(id));
  const byNode = new Map(of.map((run) => [run.nodeId, run]));
  const { policy } = await readSite(transaction.tx);
  const beginnings: (Beginning & { readonly node: NodeRow })[] = [];
  for (const node of nodes) {
    const way = isLeftOut(node) ? null : cleanUpRoute(node.state);
    const route = way && node.retiredReason !== null ? outOfService(way, node.state) : way;
    const composed = parts.registry.compose(node);
    if (!route || "problem" in composed) continue;
    const planned = await planSteps({
      nodeName: node.name,
      route,
      composition: composed.composition,
      policy,
      automaticCleaning: cleansAutomatically(policy, node),
    });
    if ("plan" in planned) beginnings.push({ runId: randomUUID(), node, plan: planned.plan, target: route.target });
  }
  const hashes = await storePlans(
    transaction.tx,
    beginnings.map(({ plan }) => plan),
  );
  const rows = beginnings.map(({ runId, node, plan, target }, index): NewRun => {
    const run = byNode.get(node.id);
    return {
      id: runId,
      operationId: operation.id,
      nodeId: node.id,
      nodeName: run?.nodeName ?? "",
      ordinal: operation.totalCount + (run?.ordinal ?? 0),
      purpose: "CLEAN_UP",
      ...waitOf(policy, node, plan, { isInTurn: true }),
      controller: node.controller,
      wave: run?.wave ?? 0,
      planHash: hashes[index] ?? "",
      variables: run?.variables ?? {},
      position: nextPosition(plan, 0),
      target,
      movesState: true,
      attempt: 1,
      restartOf: null,
    };
  });
  await insertRuns(transaction.tx, rows);
  await startRuns(
    transaction,
    parts.queue,
    { id: operation.id, reason: CLEAN_UP_REASON },
    ENGINE,
    beginnings.filter((_, index) => rows[index]?.state === "RUNNING"),
  );
  transaction.afterCommit(parts.nudge);
  return beginnings.length;
}
