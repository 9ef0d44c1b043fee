/**
 * What the end of a run means for its operation: the next queued run begins, the failure policy acts, and with the last
 * run the operation gets its final state. Always under the operation's lock, so that of two runs that end together one
 * is the last.
 */
import { randomUUID } from "node:crypto";
import { cleanUpRoute } from "../lifecycle/verbs.ts";
import { outcome } from "../lifecycle/operation-states.ts";
import type { FinalRunState } from "../lifecycle/operation-states.ts";
import type { NodeState } from "../lifecycle/node-states.ts";
import type { Registry } from "../drivers/registry.ts";
import { lockNodes } from "../store/nodes.ts";
import type { NodeMove, NodeRow } from "../store/nodes.ts";
import { countBegunRuns, finalCounts, finishOperation, hasUnfinishedRun, lockOperation, noteFirstFailure, updateOperation } from "../store/operations.ts";
import type { OperationRow } from "../store/operations.ts";
import type { Failure, Plan } from "../store/records.ts";
import { busyNodes, finishRuns, insertRuns, lockQueuedRuns, plansByHashes, runsOfOperation, storePlans, updateRun } from "../store/runs.ts";
import type { NewRun, RunChange, RunRow } from "../store/runs.ts";
import { cleansAutomatically, readSite } from "../store/site.ts";
import { nextPosition, planSteps } from "./plan.ts";
import type { Queue } from "./queue.ts";
import { move } from "./transition.ts";
import type { Work } from "./transition.ts";

export interface SettleParts {
  readonly registry: Registry;
  readonly queue: Queue;
}

/** Who the engine says it is in transitions that no user caused. */
export const ENGINE = "engine";

/** A run that is to begin, with what its first move needs. */
export interface Beginning {
  readonly runId: string;
  readonly node: Pick<NodeRow, "id" | "state" | "stage">;
  readonly plan: Plan;
  readonly target: NodeState;
}

/**
 * Begins runs: their nodes take the first edge and each run gets a job. The nodes are locked; their runs are stored as
 * RUNNING by the caller. Nodes in the same position move in one statement.
 */
export async function beginRuns(work: Work, queue: Queue, operation: { readonly id: string; readonly reason: string | null }, actor: string, beginnings: readonly Beginning[]): Promise<void> {
  const groups = new Map<string, Beginning[]>();
  for (const beginning of beginnings) {
    const { node, plan, target } = beginning;
    const key = JSON.stringify([node.state, plan.legs[0]?.enter ?? [], target, stageOnEntering(plan, 0)]);
    groups.set(key, [...(groups.get(key) ?? []), beginning]);
  }
  for (const group of groups.values()) {
    const [first] = group;
    if (!first) continue;
    const runIds = new Map(group.map(({ node, runId }) => [node.id, runId]));
    let state = first.node.state;
    for (const event of first.plan.legs[0]?.enter ?? []) {
      const context = { actor, reason: operation.reason, target: first.target, operationId: operation.id, runIds };
      state = await move(work, group.map(({ node }) => node.id), state, event, context, stageOnEntering(first.plan, 0));
    }
  }
  await queue.enqueue(work, beginnings.map(({ runId }) => runId));
}

/** What entering a leg makes of the node's stage: work on the disks undoes it, unless the plan keeps what stands. */
export function stageOnEntering(plan: Plan, leg: number): NodeMove {
  const phase = plan.legs[leg]?.phase;
  if (phase === "clean" || phase === "undeploy") return { stage: "NONE" };
  if (phase !== "deploy") return {};
  return plan.steps.some(({ kept, reaches }) => kept && reaches === "PROVISIONED") ? {} : { stage: "NONE" };
}

/** Ends a run and draws the consequences for its operation. */
export async function endRun(work: Work, parts: SettleParts, run: RunRow, state: FinalRunState, change: RunChange & { readonly failure?: Failure }): Promise<void> {
  await finishRuns(work.tx, [run.id], state, change);
  await settleOperation(work, parts, { ...run, state }, state === "FAILED" ? (change.failure ?? null) : null);
}

async function settleOperation(work: Work, parts: SettleParts, ended: RunRow, failure: Failure | null): Promise<void> {
  const operation = await lockOperation(work.tx, ended.operationId);
  if (!operation) throw new Error(`Run ${ended.id} has no operation.`);
  if (failure && ended.purpose === "WORK") await applyFailurePolicy(work, parts, operation, ended, failure);
  else if (operation.wish === null) await beginQueued(work, parts, operation);
  await finishWhenDone(work, parts, operation.id);
}

async function applyFailurePolicy(work: Work, parts: SettleParts, operation: OperationRow, run: RunRow, failure: Failure): Promise<void> {
  await noteFirstFailure(work.tx, operation.id, failure);
  switch (operation.wish === null ? operation.onFailure : "LEAVE") {
    case "CLEAN_UP_ALL":
      await updateOperation(work.tx, operation.id, { wish: "STOP", wishBy: ENGINE, wishAt: new Date(), state: "STOPPING" });
      return stopQueued(work, operation.id);
    case "CLEAN_UP_FAILED":
      await startCleanUps(work, parts, operation, [run]);
      return beginQueued(work, parts, operation);
    case "LEAVE":
      if (operation.wish === null) await beginQueued(work, parts, operation);
  }
}

/** Draws the consequences for an operation some of whose runs were ended together. */
export async function settleMany(work: Work, parts: SettleParts, operationId: string): Promise<void> {
  const operation = await lockOperation(work.tx, operationId);
  if (operation?.wish === null) await beginQueued(work, parts, operation);
  await finishWhenDone(work, parts, operationId);
}

/** Runs that have not had their turn end where they are: their nodes were never touched. */
async function stopQueued(work: Work, operationId: string): Promise<void> {
  const queued = await lockQueuedRuns(work.tx, operationId);
  await finishRuns(work.tx, queued.map(({ id }) => id), "STOPPED");
}

/** Gives free places of `maxParallel` to queued runs, in the order of the request. */
async function beginQueued(work: Work, parts: SettleParts, operation: OperationRow): Promise<void> {
  if (operation.maxParallel === null) return;
  const room = operation.maxParallel - (await countBegunRuns(work.tx, operation.id));
  if (room <= 0) return;
  const queued = await lockQueuedRuns(work.tx, operation.id, room);
  if (queued.length === 0) return;
  const nodes = new Map((await lockNodes(work.tx, queued.map(({ nodeId }) => nodeId))).map((node) => [node.id, node]));
  const plans = await plansByHashes(work.tx, [...new Set(queued.map(({ planHash }) => planHash))]);
  const beginnings: Beginning[] = [];
  for (const run of queued) {
    const node = nodes.get(run.nodeId);
    const plan = plans.get(run.planHash);
    if (!node || !plan) throw new Error(`Queued run ${run.id} has lost its node or its plan.`);
    await updateRun(work.tx, run.id, { state: "RUNNING" });
    beginnings.push({ runId: run.id, node, plan, target: run.target });
  }
  await beginRuns(work, parts.queue, operation, operation.actor, beginnings);
}

/** Gives the operation its final state when no run is unfinished; first, where the policy says so, cleans up. */
export async function finishWhenDone(work: Work, parts: SettleParts, operationId: string): Promise<void> {
  if (await hasUnfinishedRun(work.tx, operationId)) return;
  const operation = await lockOperation(work.tx, operationId);
  if (!operation || operation.finishedAt) return;
  const counts = await finalCounts(work.tx, operationId);
  const cleanedUpAll = operation.onFailure === "CLEAN_UP_ALL" && operation.wishBy === ENGINE;
  if (cleanedUpAll && counts.cleanUps === 0) {
    const begun = await startCleanUps(work, parts, operation, await runsOfOperation(work.tx, operationId, "WORK"));
    if (begun > 0) return;
  }
  await finishOperation(work.tx, operationId, outcome(counts, { wish: operation.wish, cleanedUpAll }));
}

/** Begins clean-up runs for nodes of an operation. Nodes that are gone, busy again, or need none are left out. */
async function startCleanUps(work: Work, parts: SettleParts, operation: OperationRow, of: readonly RunRow[]): Promise<number> {
  const nodes = await lockNodes(work.tx, of.map(({ nodeId }) => nodeId));
  const busy = new Set((await busyNodes(work.tx, nodes.map(({ id }) => id))).map(({ nodeId }) => nodeId));
  const byNode = new Map(of.map((run) => [run.nodeId, run]));
  const { policy } = await readSite(work.tx);
  const beginnings: Beginning[] = [];
  for (const node of nodes) {
    const route = busy.has(node.id) ? null : cleanUpRoute(node.state);
    const composed = parts.registry.compose(node);
    if (!route || "problem" in composed) continue;
    const planned = await planSteps({ nodeName: node.name, route, composition: composed.composition, policy, automaticCleaning: cleansAutomatically(policy, node) });
    if ("plan" in planned) beginnings.push({ runId: randomUUID(), node, plan: planned.plan, target: route.target });
  }
  const hashes = await storePlans(work.tx, beginnings.map(({ plan }) => plan));
  const rows = beginnings.map(({ runId, node, plan, target }, index): NewRun => {
    const run = byNode.get(node.id);
    return {
      id: runId,
      operationId: operation.id,
      nodeId: node.id,
      nodeName: run?.nodeName ?? "",
      ordinal: operation.totalCount + (run?.ordinal ?? 0),
      purpose: "CLEAN_UP",
      state: "RUNNING",
      planHash: hashes[index] ?? "",
      variables: run?.variables ?? {},
      position: nextPosition(plan, 0),
      target,
      movesState: true,
    };
  });
  await insertRuns(work.tx, rows);
  await beginRuns(work, parts.queue, { id: operation.id, reason: "clean-up after a failure" }, ENGINE, beginnings);
  return beginnings.length;
}
