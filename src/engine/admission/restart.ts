/**
 * Restart: a submission whose plans come from the runs that it continues. First the runs that ended before their target
 * are found, with the steps that each keeps; then the restart is admitted like any other work.
 */
import type { Refusal } from "../../errors.ts";
import type { WaveOptions } from "../../lifecycle/waves.ts";
import { succeededSteps } from "../../store/runs/attempts.ts";
import { hashOf } from "../../runtime/canonical-json.ts";
import { groupsOf } from "../../runtime/groups.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { nodesByIds } from "../../store/nodes/nodes.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import { SecretError, orThrow, readable } from "../../store/secrets/keyring.ts";
import { NO_VARIABLES, openVariables, SECRETS, secretsOf } from "../../store/secrets/secrets.ts";
import { operationsByIds } from "../../store/operations/operations.ts";
import type { OperationRow } from "../../store/operations/operations.ts";
import { plansByHashes } from "../../store/runs/plans.ts";
import { cleanedUpAfter, newestWork } from "../../store/runs/runs.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import { unreadableSecret } from "../input/unreadable-secret.ts";
import { idsOf, nodeIdsOf } from "../input/ids.ts";
import type { EngineContext } from "../context.ts";
import { refuseRequest, refusedNode, summaryOf } from "../input/answers.ts";
import type { Acceptance, NodeAnswer, SubmitAnswer } from "../input/answers.ts";
import { submitPrepared } from "./admit.ts";
import { earlierWorkOf, refusalOfRestart } from "./earlier-work.ts";
import type { RestartFrom } from "./earlier-work.ts";
import { inputOf, replayOf } from "./idempotency.ts";
import type { RequestTerms, Rollout } from "./request-terms.ts";
import type { EarlierWork, Submission } from "./submission.ts";
import type { Caller } from "../transaction.ts";
import { answersInOrder, selectEndedWork } from "../input/work-selector.ts";
import type { SelectedWork, WorkSelector } from "../input/work-selector.ts";

/** Null in a term that a restart carries over drops the earlier one. */
type Kept<Terms> = { readonly [Term in keyof Terms]: Terms[Term] | null };

export interface RestartRequest extends Omit<RequestTerms, keyof Rollout>, Kept<Rollout> {
  readonly work: WorkSelector;
  readonly from?: RestartFrom | undefined;
  /** False drops the variables of the earlier requests. */
  readonly keepVariables?: boolean | undefined;
  /** Include nodes that have disappeared. The `force` of the earlier request applies too. */
  readonly force?: boolean | undefined;
}

export async function restartWork(
  context: EngineContext,
  caller: Caller,
  request: RestartRequest,
): Promise<SubmitAnswer> {
  const input = await inputOf(request, { kind: "RESTART" }, context.registry.secretVariables);
  const acceptance = request.acceptance ?? "BEST_EFFORT";
  const terms: RequestTerms = { ...request, ...given(request), acceptance };
  const prepared = await context.transact(async ({ tx }) => {
    const found = await prepareRestart(tx, context, request, acceptance);
    if (!("refusals" in found)) return found;
    // Checked last: a repeated request finds the work of the first one in its way, which may have started just now.
    const replay = await replayOf(tx, caller, terms, input.isSameInput);
    return { answer: replay ?? { ...refuseRequest(found.refusals), results: found.results } };
  });
  if ("answer" in prepared) return prepared.answer;
  const { submissions, selected, passedOver, unknown } = prepared;
  const answer = await submitPrepared(context, { caller, terms, ...input, submissions });
  if (answer.replayed) return answer;
  return {
    ...answer,
    results: answersInOrder(request.work, sortedBy(selected, [...answer.results, ...passedOver]), unknown),
    // A caller that sent wrong names has to notice it, although the others are restarted.
    refusals: unknown ? [...answer.refusals, unknown] : answer.refusals,
  };
}

/** The answers in the order of the selected nodes, not of the earlier requests. */
function sortedBy(selected: SelectedWork["nodes"], answers: readonly NodeAnswer[]): readonly NodeAnswer[] {
  const placeOf = new Map<string | null, number>(selected.map(({ nodeId }, place) => [nodeId, place]));
  return answers.toSorted((a, b) => (placeOf.get(a.nodeId) ?? 0) - (placeOf.get(b.nodeId) ?? 0));
}

/** The parts of a rollout that the request itself gives. */
function given({ onFailure, waves, maxParallel }: RestartRequest) {
  return { onFailure: onFailure ?? undefined, waves: waves ?? undefined, maxParallel: maxParallel ?? undefined };
}

interface PreparedRestart {
  readonly submissions: readonly Submission[];
  readonly selected: SelectedWork["nodes"];
  /** Answers for nodes without unfinished work. */
  readonly passedOver: readonly NodeAnswer[];
  /** Refusal of the names and ids that do not exist; null if all exist. */
  readonly unknown: Refusal | null;
}

/**
 * A submission for each earlier request, and the answers for nodes without unfinished work; or why nothing is
 * restarted.
 */
async function prepareRestart(
  reader: Reader,
  context: EngineContext,
  request: RestartRequest,
  acceptance: Acceptance,
): Promise<PreparedRestart | Pick<SubmitAnswer, "refusals" | "results">> {
  const found = await selectEndedWork(reader, request.work);
  if ("refusals" in found) return { refusals: found.refusals, results: [] };
  const { unknown } = found;
  if (unknown && acceptance === "ALL_OR_NOTHING") return { refusals: [unknown], results: [] };
  const { taken, passedOver } = await unfinishedWork(reader, found);
  if (taken.length === 0) {
    const busy = summaryOf(passedOver).filter(({ code }) => code === "BUSY");
    const known = busy.length > 0 ? busy : passedOver.length > 0 ? [NOTHING_TO_RESTART] : [];
    return {
      refusals: unknown ? [...known, unknown] : known,
      results: answersInOrder(request.work, passedOver, unknown),
    };
  }
  const earlier = await earlierWork(reader, taken, request.from);
  const operations = await operationsByIds(reader, [...new Set(taken.map(({ run }) => run.operationId))]);
  const newestFirst = operations.toSorted((a, b) => b.createdAt.getTime() - a.createdAt.getTime());
  const userData = await secretsOf(reader, context.keyring, SECRETS.operationUserData, idsOf(operations));
  const variablesOf = await openVariables(reader, context, SECRETS.operationVariables, operations);
  const repeats: { readonly operation: OperationRow; readonly repeated: RepeatedRequest }[] = [];
  for (const operation of newestFirst) {
    const ownSecrets = readable(() => ({
      earlier: request.keepVariables === false ? NO_VARIABLES : orThrow(variablesOf(operation.id)),
      userData: orThrow(userData.get(operation.id) ?? null),
    }));
    if (ownSecrets instanceof SecretError)
      return { refusals: [unreadableSecret(`Operation ${operation.id}`, ownSecrets)], results: [] };
    repeats.push({ operation, repeated: { ...repeatedRequest(operation, request), ...ownSecrets } });
  }
  const keyOf = ({ repeated }: (typeof repeats)[number]) => hashOf({ ...repeated, earlier: repeated.earlier.values });
  const submissions = groupsOf(repeats, keyOf).map(({ first: newest, all }): Submission => {
    const restarts = new Set(all.map(({ operation }) => operation.id));
    const own = taken.filter(({ run }) => restarts.has(run.operationId));
    const nodes = own.map(({ ref, node }) => ({ ref, nodeId: node.id }));
    const selection = { nodes, clusterId: newest.operation.clusterId };
    return {
      ...newest.repeated,
      restarts: [...restarts],
      select: () => Promise.resolve(selection),
      earlierOf: (node) => earlier.get(node.id) ?? null,
    };
  });
  return { submissions, selected: found.nodes, passedOver, unknown };
}

const NOTHING_TO_RESTART: Refusal = {
  code: "NOTHING_TO_RESTART",
  message: "Nothing is stopped, failed or aborted there that could be restarted.",
  path: ["input", "work"],
};

type RepeatedRequest = Omit<Submission, "restarts" | "select" | "earlierOf">;

/** The request that an operation makes when it is restarted. Operations with the same one are restarted as one. */
function repeatedRequest(
  operation: OperationRow,
  request: RestartRequest,
): Omit<RepeatedRequest, "earlier" | "userData"> {
  const { kind, options, imageId } = operation;
  return {
    kind,
    options: { ...options, ...(request.force && { force: true }) },
    rollout: rolloutOf(operation, request),
    image: imageId === null ? null : { id: imageId },
  };
}

/** The rollout of the earlier request, except for the parts that the restart gives or drops. */
function rolloutOf(operation: OperationRow, request: RestartRequest): Rollout {
  const { onFailure, waves, maxParallel } = request;
  const next = {
    waves: waves === undefined ? carriedWaves(operation) : (waves ?? undefined),
    maxParallel: maxParallel === undefined ? (operation.maxParallel ?? undefined) : (maxParallel ?? undefined),
  };
  // The default of a request without maxFailures does not fit new waves that have it.
  const fits = waves?.maxFailures === undefined || operation.onFailure !== "CLEAN_UP_ALL";
  return { ...next, onFailure: onFailure === undefined && fits ? operation.onFailure : (onFailure ?? undefined) };
}

function carriedWaves({ waves }: OperationRow): WaveOptions | undefined {
  if (!waves) return undefined;
  const { sizes, pauseSeconds, manual, maxFailures } = waves;
  return {
    sizes: sizes.map((count) => ({ count })),
    pauseSeconds,
    manual,
    maxFailures: maxFailures === null ? undefined : { count: maxFailures },
  };
}

/** By node id. Of work whose node was cleaned up afterwards, nothing is kept. */
export async function earlierWork(
  reader: Reader,
  taken: readonly TakenNode[],
  wantedFrom: RestartFrom = "STAGE",
): Promise<Map<string, EarlierWork>> {
  const plans = await plansByHashes(reader, [...new Set(taken.map(({ run }) => run.planHash))]);
  const runIds = taken.map(({ run }) => run.id);
  const succeeded = await succeededSteps(reader, runIds);
  const cleanedUp = await cleanedUpAfter(reader, runIds);
  return new Map(
    taken.flatMap(({ node, run }): [string, EarlierWork][] => {
      const plan = plans.get(run.planHash);
      if (!plan) return [];
      const from = cleanedUp.has(run.id) ? "BEGINNING" : wantedFrom;
      return [[node.id, earlierWorkOf(node, { run, plan, succeeded: succeeded.get(run.id) ?? new Set(), from })]];
    }),
  );
}

/** A node that is restarted, with its unfinished run. */
export interface TakenNode {
  readonly ref: string;
  readonly node: NodeRow;
  readonly run: RunRow;
}

/**
 * The newest work of each node if it is unfinished or was undone by a failure policy, and the answers for the other
 * nodes.
 */
async function unfinishedWork(reader: Reader, { nodes: asked, operationId }: SelectedWork) {
  const nodeIds = nodeIdsOf(asked);
  const newest = new Map((await newestWork(reader, nodeIds, operationId)).map((run) => [run.nodeId, run]));
  // Nodes of a named operation may have been deleted meanwhile.
  const nodes = new Map((await nodesByIds(reader, nodeIds)).map((node) => [node.id, node]));
  const taken: TakenNode[] = [];
  const passedOver: NodeAnswer[] = [];
  for (const { ref, nodeId, name } of asked) {
    const run = newest.get(nodeId);
    const node = nodes.get(nodeId);
    const isAnother = operationId !== null && run?.operationId !== operationId;
    const refusal = refusalOfRestart({ nodeId, name }, node, run, isAnother);
    if (refusal) passedOver.push(refusedNode(ref, nodeId, null, refusal));
    else if (run && node) taken.push({ ref, node, run });
  }
  return { taken, passedOver };
}
