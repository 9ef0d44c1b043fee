/** Stores admitted operations with their runs, and starts the runs that can start now. */
import { randomUUID } from "node:crypto";
import { waveOfEach } from "../../lifecycle/waves.ts";
import { insertRuns } from "../../store/runs/new-runs.ts";
import type { NewRun } from "../../store/runs/new-runs.ts";
import { finishOperations, insertOperations, listWithClusters } from "../../store/operations/operations.ts";
import type { NewOperation } from "../../store/operations/operations.ts";
import { storePlans } from "../../store/runs/plans.ts";
import type { Waves } from "../../store/records.ts";
import type { Keyring } from "../../store/secrets/keyring.ts";
import {
  NO_VARIABLES,
  putSecrets,
  SECRETS,
  variablesEncryption,
  withSecretNames,
} from "../../store/secrets/secrets.ts";
import type { EncryptVariables, OpenVariables } from "../../store/secrets/secrets.ts";
import type { EngineContext } from "../context.ts";
import { userDataBytes } from "../images/image-rules.ts";
import type { StoredOperation } from "../input/answers.ts";
import { overlayKeepingNulls } from "../input/variables.ts";
import { nextPosition } from "../plans/plan.ts";
import { waitOf } from "../scheduling/capacity-limits.ts";
import { resolveWaves } from "../scheduling/waves.ts";
import type { Transaction } from "../transaction.ts";
import type { DecidedPart, DecidedRequest } from "./decide-request.ts";
import { handOverPower } from "./forced-power.ts";
import { movesState } from "./membership.ts";
import type { AdmittedNode } from "./plan-nodes.ts";

/** An operation to store: a part of an admitted request. */
interface AdmittedPart extends DecidedPart, Pick<DecidedRequest, "caller" | "terms" | "inputHash" | "policy"> {
  /** Null if the request has one operation. */
  readonly batch: string | null;
}

/** The parts of a request with admitted nodes. The first one has the idempotency key. */
export function admittedParts({ parts, terms, ...request }: DecidedRequest): AdmittedPart[] {
  const stored = parts.filter(({ admitted }) => admitted.length > 0);
  const batch = stored.length > 1 ? randomUUID() : null;
  return stored.map((part, index) => ({
    ...request,
    ...part,
    terms: index === 0 ? terms : { ...terms, idempotencyKey: undefined },
    batch,
  }));
}

type NewRunOfNode = AdmittedNode & {
  readonly runId: string;
  readonly wave: number;
  readonly start: ReturnType<typeof waitOf>;
};

/** Stores operations, one statement a table, and returns them in their order. */
export async function storeOperations(
  transaction: Transaction,
  context: EngineContext,
  requests: readonly AdmittedPart[],
): Promise<StoredOperation[]> {
  const { tx } = transaction;
  const { knownPlans, keyring } = context;
  const made = requests.map((request) => {
    const { rollout } = request.submission;
    const work = request.admitted.filter(({ waiting }) => !waiting);
    const waves = rollout.waves && work.length > 0 ? resolveWaves(rollout.waves, work.length) : null;
    return { request, operationId: randomUUID(), waves, runs: newRunsOf({ ...request, admitted: work }, waves) };
  });
  const given = made.map(({ request }) => variablesOf(request, context.registry.secretVariables));
  const encryptGiven = await variablesEncryption(tx, keyring, SECRETS.operationVariables, given);
  await insertOperations(
    tx,
    made.map(({ request, operationId, waves, runs }, index) => ({
      ...operationRow(request, operationId, { waves, runs }),
      variables: encryptGiven(operationId, given[index] ?? NO_VARIABLES),
    })),
  );
  for (const { request, operationId } of made) {
    await storeBeside(transaction, keyring, request, operationId);
    transaction.audit(request.caller, { operationId, targets: request.admitted.map(({ node }) => node.name) });
  }
  // The work that waits carries out the change of power.
  const handedOver = made.filter(({ runs }) => runs.length === 0).map(({ operationId }) => operationId);
  await finishOperations(tx, handedOver, "SUCCEEDED");
  const hashes = await storePlans(
    tx,
    made.flatMap(({ runs }) => runs.map(({ plan }) => plan)),
    (hash) => knownPlans.has(hash),
  );
  transaction.afterCommit(() => knownPlans.add([...new Set(hashes)]));
  const runs = made.flatMap((one) => one.runs);
  const effective = new Set(runs.map(({ variables }) => variables));
  const encryptEffective = await variablesEncryption(tx, keyring, SECRETS.runVariables, effective);
  await insertRuns(tx, rowsOf(made, hashes, encryptEffective));
  if (runs.some(({ start }) => start.waitReason !== "CONCURRENCY")) transaction.afterCommit(context.nudge);
  return made.map(({ operationId, request, runs: own }) => ({
    operationId,
    runIds: new Map([
      ...own.map(({ node, runId }) => [node.id, runId] as const),
      ...request.admitted.flatMap(({ node, waiting }) => (waiting ? [[node.id, waiting.run.id] as const] : [])),
    ]),
  }));
}

function operationRow(
  { caller, terms, inputHash, submission, installed, onFailure, selection, admitted, groups, batch }: AdmittedPart,
  id: string,
  { waves, runs }: Pick<NewWork, "waves" | "runs">,
): Omit<NewOperation, "variables"> {
  const givenTo = admitted.flatMap(({ node, waiting }) =>
    waiting ? [{ nodeId: node.id, nodeName: node.name, id: waiting.run.id }] : [],
  );
  return {
    id,
    kind: submission.kind,
    state: "QUEUED",
    project: caller.project,
    actor: caller.actor,
    reason: terms.reason ?? null,
    clusterId: selection.clusterId,
    restarts: submission.restarts,
    batch,
    idempotencyKey: terms.idempotencyKey ?? null,
    inputHash,
    options: {
      ...submission.options,
      ...(terms.powerOnFailure && { powerOnFailure: terms.powerOnFailure }),
      ...(submission.restarts === null && submission.userData !== undefined && { ownUserData: true as const }),
      // Not those of an earlier request that this one restarts.
      givenTo: givenTo.length > 0 ? givenTo : undefined,
    },
    onFailure,
    waves,
    waveState: waves && "RUNNING",
    groups,
    maxParallel: submission.rollout.maxParallel ?? null,
    imageId: installed.image?.id ?? null,
    userDataBytes: installed.userData === null ? null : userDataBytes(installed.userData),
    totalCount: runs.length,
  };
}

/** The variables of a request, which a restart lays over those of the operations that it continues. */
function variablesOf({ submission: { earlier }, terms }: AdmittedPart, declared: ReadonlySet<string>): OpenVariables {
  return withSecretNames(overlayKeepingNulls(earlier.values, terms.variables), [...declared, ...earlier.secretNames]);
}

/** Stores what only some operations have. */
async function storeBeside(
  transaction: Transaction,
  keyring: Keyring,
  { caller, terms, installed, admitted, selection: { clusterId } }: AdmittedPart,
  id: string,
): Promise<void> {
  const { tx } = transaction;
  await handOverPower(transaction, caller, { reason: terms.reason ?? null, admitted });
  if (installed.userData !== null) await putSecrets(tx, keyring, SECRETS.operationUserData, [[id, installed.userData]]);
  const others = new Set(admitted.flatMap(({ node }) => node.clusterId ?? []));
  if (clusterId !== null) others.delete(clusterId);
  await listWithClusters(tx, id, [...others]);
}

function newRunsOf({ admitted, policy, submission: { rollout } }: AdmittedPart, waves: Waves | null): NewRunOfNode[] {
  const waveOf = waves ? wavesByStage(waves, admitted) : [];
  let left = rollout.maxParallel ?? admitted.length;
  return admitted.map((work, index) => {
    const wave = waveOf[index] ?? 0;
    const mayStart = wave === 0 && !work.isHeld && left > 0;
    if (mayStart) left -= 1;
    return { ...work, wave, runId: randomUUID(), start: waitOf(policy, work.node, work.plan, { mayStart }) };
  });
}

/** The wave of each node. They are formed host group by host group, so that none waits for a later one. */
function wavesByStage({ sizes }: Waves, admitted: readonly AdmittedNode[]): readonly number[] {
  const inOrder = admitted
    .map(({ membership: { stage } }, index) => ({ stage, index }))
    .toSorted((a, b) => a.stage - b.stage);
  const waves = waveOfEach(sizes);
  const waveOf: number[] = [];
  for (const [place, { index }] of inOrder.entries()) waveOf[index] = waves[place] ?? 0;
  return waveOf;
}

interface NewWork {
  readonly request: AdmittedPart;
  readonly operationId: string;
  readonly waves: Waves | null;
  readonly runs: readonly NewRunOfNode[];
}

/**
 * A generator, so that the rows of a large request are not all in memory at the same time. `hashes`: of the plan of
 * each run, in the order of the runs.
 */
function* rowsOf(works: readonly NewWork[], hashes: readonly string[], encrypt: EncryptVariables): Generator<NewRun> {
  let place = 0;
  for (const { request, operationId, runs } of works) {
    for (const [index, { runId, node, plan, target, earlier, variables, wave, start, membership }] of runs.entries()) {
      const { groupKey, budgetKey, takesOut } = membership;
      yield {
        id: runId,
        operationId,
        nodeId: node.id,
        nodeName: node.name,
        ordinal: index,
        purpose: "WORK",
        ...start,
        controller: node.controller,
        clusterId: node.clusterId,
        hostGroup: request.submission.options.hostGroup ?? null,
        groupKey,
        budgetKey,
        takesOut,
        wave,
        planHash: hashes[place] ?? "",
        variables: encrypt(runId, variables),
        position: nextPosition(plan, 0),
        target,
        movesState: movesState(plan),
        attempt: (earlier?.attempt ?? 0) + 1,
        restartOf: earlier?.id ?? null,
      };
      place += 1;
    }
  }
}
