/** Stores an admitted operation with its runs, and starts the runs that can start now. */
import { randomUUID } from "node:crypto";
import { waveOfEach } from "../../lifecycle/waves.ts";
import { clustersByIds } from "../../store/clusters.ts";
import { insertRuns } from "../../store/new-runs.ts";
import type { NewRun } from "../../store/new-runs.ts";
import type { NodeRow } from "../../store/nodes.ts";
import { insertOperation } from "../../store/operations.ts";
import { storePlans } from "../../store/plans.ts";
import type { Reader } from "../../store/postgres/database.ts";
import type { JsonObject, SitePolicy, VerbOptions, Waves } from "../../store/records.ts";
import type { EngineContext } from "../context.ts";
import { overlay } from "../input/variables.ts";
import { nextPosition } from "../plans/plan.ts";
import { waitOf } from "../scheduling/capacity-limits.ts";
import { startRuns } from "../scheduling/start-runs.ts";
import { resolveWaves } from "../scheduling/waves.ts";
import type { Caller, Transaction } from "../transaction.ts";
import type { AdmittedNode } from "./plan-nodes.ts";
import { failurePolicyOf } from "./request-terms.ts";
import type { RequestTerms } from "./request-terms.ts";
import type { Submission } from "./submission.ts";

/** An admitted request. */
export interface AdmittedRequest {
  readonly caller: Caller;
  readonly terms: RequestTerms;
  readonly submission: Submission;
  /** The cluster that the request selected; null if it selected nodes. */
  readonly clusterId: string | null;
  readonly policy: SitePolicy;
  readonly admitted: readonly AdmittedNode[];
  readonly variables: JsonObject;
}

type NewRunOfNode = AdmittedNode & {
  readonly runId: string;
  readonly wave: number;
  readonly start: ReturnType<typeof waitOf>;
};

/** Returns the id of the operation, and the run of each node by node id. */
export async function storeOperation(
  transaction: Transaction,
  context: EngineContext,
  request: AdmittedRequest,
): Promise<{ readonly operationId: string; readonly runIds: ReadonlyMap<string, string> }> {
  const { caller, terms, admitted } = request;
  const operationId = randomUUID();
  const waves = terms.waves ? resolveWaves(terms.waves, admitted.length) : null;
  const clusterVariables = await variablesOfClusters(transaction.tx, admitted);
  await insertOperationRow(transaction, request, operationId, waves);
  const hashes = await storePlans(
    transaction.tx,
    admitted.map(({ plan }) => plan),
  );
  const runs = newRunsOf(request, waves);
  await insertRuns(transaction.tx, rowsOf(request, { operationId, runs, hashes, clusterVariables }));
  const started = runs.filter(({ start }) => start.state === "RUNNING");
  const cause = { operationId, reason: terms.reason ?? null, actor: caller.actor };
  await startRuns(transaction, context.queue, cause, started);
  if (started.length < runs.length) transaction.afterCommit(context.nudge);
  return { operationId, runIds: new Map(runs.map(({ node, runId }) => [node.id, runId])) };
}

async function insertOperationRow(
  transaction: Transaction,
  { caller, terms, submission, clusterId, variables, admitted }: AdmittedRequest,
  id: string,
  waves: Waves | null,
): Promise<void> {
  await insertOperation(transaction.tx, {
    id,
    kind: submission.kind,
    state: "QUEUED",
    project: caller.project,
    actor: caller.actor,
    reason: terms.reason ?? null,
    clusterId,
    restartOf: submission.restartOf,
    idempotencyKey: terms.idempotencyKey ?? null,
    inputHash: submission.inputHash,
    options: submission.options,
    onFailure: failurePolicyOf(terms, submission.kind),
    waves,
    waveState: waves && "RUNNING",
    maxParallel: terms.maxParallel ?? null,
    variables,
    totalCount: admitted.length,
  });
}

function newRunsOf({ admitted, policy, terms }: AdmittedRequest, waves: Waves | null): NewRunOfNode[] {
  const waveOf = waves ? waveOfEach(waves.sizes) : [];
  return admitted.map((work, index) => {
    const wave = waveOf[index] ?? 0;
    const mayStart = wave === 0 && index < (terms.maxParallel ?? admitted.length);
    return { ...work, wave, runId: randomUUID(), start: waitOf(policy, work.node, work.plan, { mayStart }) };
  });
}

interface RunRowsBasis {
  readonly operationId: string;
  readonly runs: readonly NewRunOfNode[];
  /** Of the plan of each run, in the order of the runs. */
  readonly hashes: readonly string[];
  readonly clusterVariables: ReadonlyMap<string, JsonObject>;
}

/** A generator, so that the rows of a large request are not all in memory at the same time. */
function* rowsOf(
  { submission, variables }: AdmittedRequest,
  { operationId, runs, hashes, clusterVariables }: RunRowsBasis,
): Generator<NewRun> {
  for (const [index, { runId, node, plan, target, earlier, wave, start }] of runs.entries()) {
    yield {
      id: runId,
      operationId,
      nodeId: node.id,
      nodeName: node.name,
      ordinal: index,
      purpose: "WORK",
      ...start,
      controller: node.controller,
      wave,
      planHash: hashes[index] ?? "",
      variables: overlay(clusterVariables.get(node.clusterId ?? ""), hostGroupOf(node, submission.options), variables),
      position: nextPosition(plan, 0),
      target,
      movesState: plan.finish.length > 0 || plan.legs.some(({ enter }) => enter.length > 0),
      attempt: (earlier?.attempt ?? 0) + 1,
      restartOf: earlier?.id ?? null,
    };
  }
}

/** Drivers get the node's host group as a variable: the one that the request sets, or else the node's own. */
function hostGroupOf(node: NodeRow, options: VerbOptions): JsonObject {
  const group = options.hostGroup ?? node.hostGroup;
  return group === null ? {} : { host_group: group };
}

async function variablesOfClusters(
  reader: Reader,
  admitted: readonly AdmittedNode[],
): Promise<Map<string, JsonObject>> {
  const ids = [...new Set(admitted.flatMap(({ node: { clusterId } }) => (clusterId === null ? [] : [clusterId])))];
  return new Map((await clustersByIds(reader, ids)).map(({ id, variables }) => [id, variables]));
}
