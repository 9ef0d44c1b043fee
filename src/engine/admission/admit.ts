/**
 * Admission: a request becomes an operation with its runs, or is refused and leaves no trace. Everything is judged
 * before anything is written, in one transaction that holds the nodes locked in the order of their ids; so of two
 * overlapping requests one wins and the other is told who is in the way. Ten thousand nodes take a second or two, in which
 * others are answered: what is done for each node is done in slices.
 */
import { createHash, randomUUID } from "node:crypto";
import type { Refusal } from "../../errors.ts";
import { judge } from "../../lifecycle/admission.ts";
import type { NodeFacts } from "../../lifecycle/admission.ts";
import { defaultFailurePolicy } from "../../lifecycle/operation-states.ts";
import type { FailurePolicy } from "../../lifecycle/operation-states.ts";
import { resumeRoute } from "../../lifecycle/verbs.ts";
import type { OperationKind, Route } from "../../lifecycle/verbs.ts";
import { waveOfEach } from "../../lifecycle/waves.ts";
import type { WaveOptions } from "../../lifecycle/waves.ts";
import type { Composition, Registry } from "../../drivers/registry.ts";
import { hashOf } from "../../runtime/canonical-json.ts";
import { violatedConstraint } from "../../store/postgres/connection-errors.ts";
import type { Reader, Tx } from "../../store/postgres/database.ts";
import { clustersByIds } from "../../store/clusters.ts";
import { insertRuns } from "../../store/new-runs.ts";
import type { NewRun } from "../../store/new-runs.ts";
import { lockNodes, nodesByIds } from "../../store/nodes.ts";
import type { NodeRow } from "../../store/nodes.ts";
import { insertOperation, operationByKey } from "../../store/operations.ts";
import type { JsonObject, Plan, SitePolicy, VerbOptions } from "../../store/records.ts";
import { storePlans } from "../../store/plans.ts";
import { busyNodes, runsOfOperation } from "../../store/runs.ts";
import type { RunRow } from "../../store/runs.ts";
import { cleansAutomatically, readSite } from "../../store/site.ts";
import { createYielding } from "../../runtime/yielding.ts";
import { choiceFlaws, choicePath, withRunbookSteps } from "../plans/step-selection.ts";
import { startRuns } from "../scheduling/start-runs.ts";
import { waitOf } from "../scheduling/capacity-limits.ts";
import { hostGroupFlaw } from "../input/name-rules.ts";
import { keepSteps, nextPosition, planSteps } from "../plans/plan.ts";
import { selectNodes } from "../input/node-selector.ts";
import type { NodeSelector, Selection } from "../input/node-selector.ts";
import type { FinishParts } from "../scheduling/finish-run.ts";
import { reasonFlaws, sizeFlaws } from "../input/size-limits.ts";
import type { Caller, Transact, Transaction } from "../transaction.ts";
import { overlay, overlayKeepingNulls, variablesFlaws } from "../input/variables.ts";
import { resolveWaves, waveFlaws } from "../scheduling/waves.ts";

/** What one bad node does to the request as a whole, before any work starts. */
export const ACCEPTANCES = {
  ALL_OR_NOTHING: "Refuse the whole request if one node is refused.",
  BEST_EFFORT: "Start on the nodes that are accepted.",
} as const;
export type Acceptance = keyof typeof ACCEPTANCES;

/** On which terms work is asked for: the part of a request that every verb shares. */
export interface RequestTerms {
  readonly acceptance?: Acceptance | undefined;
  readonly idempotencyKey?: string | undefined;
  readonly maxParallel?: number | undefined;
  readonly waves?: WaveOptions | undefined;
  /** Only do what the plan with this hash says. */
  readonly planHash?: string | undefined;
  readonly onFailure?: FailurePolicy | undefined;
  readonly variables?: unknown;
  readonly reason?: string | undefined;
  readonly dryRun?: boolean | undefined;
}

export interface VerbRequest extends RequestTerms {
  readonly kind: OperationKind;
  readonly nodes: NodeSelector;
  readonly options?: VerbOptions | undefined;
}

/** What a node did before a restart takes it up again: the run, its plan, and what of it is kept. */
export interface EarlierWork {
  readonly run: RunRow;
  readonly plan: Plan;
  /** From which leg on the plan is done again. */
  readonly firstLeg: number;
  /** Keys (`keysOf`) of the steps that are not done again. */
  readonly done: ReadonlySet<string>;
}

/** A restart when it has been found what it takes up. */
export interface PreparedRestart extends RequestTerms {
  /** Of what the caller sent: what was found by it is another each time. */
  readonly inputHash: string;
  readonly kind: OperationKind;
  readonly restartOf: string;
  readonly selection: Selection;
  readonly options: VerbOptions;
  readonly earlierVariables: JsonObject;
  /** By node. */
  readonly earlier: ReadonlyMap<string, EarlierWork>;
}

/** The answer to one node of a request, in the order asked. */
export interface NodeAnswer {
  readonly ref: string;
  readonly nodeId: string | null;
  readonly runId: string | null;
  readonly accepted: boolean;
  readonly refusal: Refusal | null;
  /** What is wrong with the node besides. */
  readonly further?: readonly Refusal[];
  /** What would be, or will be, done; null for a refused node and for a request answered again. */
  readonly plan: Plan | null;
  /** State of the node at the end of that. */
  readonly target?: NodeRow["state"] | null;
}

export interface SubmitAnswer {
  /** Null when refused or only planned. */
  readonly operationId: string | null;
  readonly results: readonly NodeAnswer[];
  readonly refusals: readonly Refusal[];
  readonly replayed: boolean;
  /** Hash of what is, or would be, done: the same as long as nothing that matters to it has changed. */
  readonly planHash?: string | null;
}

export interface SubmitParts extends FinishParts {
  readonly transact: Transact;
}

const KEY_LENGTH_MAX = 200;

/** A verb on nodes. */
export async function submitVerb(parts: SubmitParts, caller: Caller, request: VerbRequest): Promise<SubmitAnswer> {
  const select = (transaction: Transaction) => selectNodes(transaction.tx, request.nodes);
  const options = request.options ?? {};
  return submit(parts, caller, request, {
    kind: request.kind,
    options,
    restartOf: null,
    earlierVariables: {},
    inputHash: hashOf({ ...request, options, restartOf: null }),
    select,
    earlierOf: null,
  });
}

/** A new operation for what an earlier one left undone. */
export async function submitRestart(
  parts: SubmitParts,
  caller: Caller,
  request: PreparedRestart,
): Promise<SubmitAnswer> {
  const { kind, options, restartOf, earlierVariables, inputHash, earlier } = request;
  const select = () => Promise.resolve(request.selection);
  return submit(parts, caller, request, {
    kind,
    options,
    restartOf,
    earlierVariables,
    inputHash,
    select,
    earlierOf: (node) => earlier.get(node.id) ?? null,
  });
}

/** What is submitted on some terms: a verb, or what a restart takes up. */
interface Submission {
  readonly kind: OperationKind;
  readonly options: VerbOptions;
  readonly restartOf: string | null;
  readonly earlierVariables: JsonObject;
  /** What an idempotency key is held to. */
  readonly inputHash: string;
  readonly select: (transaction: Transaction) => Promise<Selection | { readonly refusals: readonly Refusal[] }>;
  /** Of a restart; null: of a verb, whatever the node did before. */
  readonly earlierOf: ((node: NodeRow) => EarlierWork | null) | null;
}

async function submit(
  parts: SubmitParts,
  caller: Caller,
  terms: RequestTerms,
  submission: Submission,
): Promise<SubmitAnswer> {
  const flaws = [
    ...flawsOf(terms),
    ...hostGroupFlaw(submission.options.hostGroup, ["input"]),
    ...(submission.restartOf === null ? choiceFlaws(submission.options) : []),
  ];
  if (flaws.length > 0) return refusedWhole(flaws);
  const admit = () => parts.transact((transaction) => admitAll(transaction, parts, caller, terms, submission));
  try {
    return await admit();
  } catch (error) {
    // The same key at the same moment: the other one won, so this one is its repetition.
    if (violatedConstraint(error) === "operations_idempotency") return admit();
    throw error;
  }
}

async function admitAll(
  transaction: Transaction,
  parts: SubmitParts,
  caller: Caller,
  terms: RequestTerms,
  given: Submission,
): Promise<SubmitAnswer> {
  const isSameInput: IsSameInput = (keptHash) => keptHash === given.inputHash;
  const replay = await replayOf(transaction.tx, caller, terms, isSameInput);
  if (replay) return replay;
  const chosen = await withRunbookSteps(transaction.tx, given.options);
  const selection = await given.select(transaction);
  if ("refusals" in chosen)
    return refusedWhole([...chosen.refusals, ...("refusals" in selection ? selection.refusals : [])]);
  if ("refusals" in selection) return refusedWhole(selection.refusals);
  const submission: Submission = { ...given, options: chosen.options };
  // A dry run may be asked for by whoever reads, so it keeps nobody from the nodes.
  const read = terms.dryRun ? nodesByIds : lockNodes;
  const nodes = new Map(
    (
      await read(
        transaction.tx,
        selection.nodes.map(({ nodeId }) => nodeId),
      )
    ).map((node) => [node.id, node]),
  );
  // Whoever held the nodes just now may have been the same request: without this look it would be told that it is BUSY.
  const replayAfterAll = await replayOf(transaction.tx, caller, terms, isSameInput);
  if (replayAfterAll) return replayAfterAll;
  const { policy } = await readSite(transaction.tx);
  const judged = await judgeAll(transaction.tx, parts.registry, policy, nodes, submission);
  const answers = selection.nodes.map(({ ref, nodeId }) =>
    answerTo(ref, nodeId, judged.get(nodeId) ?? { refusal: goneRefusal(ref) }),
  );
  const refusals = answers.flatMap(({ refusal, further = [] }) => (refusal ? [refusal, ...further] : []));
  const admitted = selection.nodes.flatMap(({ nodeId }): Admitted[] => {
    const node = nodes.get(nodeId);
    const verdict = judged.get(nodeId);
    return node && verdict && "plan" in verdict ? [{ node, ...verdict }] : [];
  });
  const refuseAll =
    admitted.length === 0 || (refusals.length > 0 && (terms.acceptance ?? "ALL_OR_NOTHING") === "ALL_OR_NOTHING");
  if (refuseAll)
    return {
      operationId: null,
      results: answers.map((answer) => ({ ...answer, accepted: false })),
      refusals,
      replayed: false,
    };
  const planHash = await planHashOf(submission.kind, admitted);
  if (terms.planHash !== undefined && terms.planHash !== planHash) {
    return refusedWhole([
      {
        code: "STALE_REVISION",
        message:
          "What would be done is not what the plan said: a node, a driver or the site's policy has changed since, or the request is another one (other nodes, or another order). Look at the new plan, and send its planHash.",
        path: ["input", "planHash"],
      },
    ]);
  }
  const variables = overlayKeepingNulls(submission.earlierVariables, terms.variables);
  const tooLarge = sizeFlaws(
    "The variables together with those of the operation that is restarted",
    variables,
    ["input", "variables"],
    submission.earlierVariables,
  );
  if (tooLarge.length > 0) return refusedWhole(tooLarge);
  if (terms.dryRun) return { operationId: null, results: answers, refusals: [], replayed: false, planHash };
  const { operationId, runIds } = await beginOperation(transaction, parts, caller, terms, submission, {
    clusterId: selection.clusterId,
    policy,
    admitted,
    variables,
  });
  const results = answers.map((answer) => ({ ...answer, runId: runIds.get(answer.nodeId ?? "") ?? null }));
  return { operationId, results, refusals: [], replayed: false, planHash };
}

function answerTo(ref: string, nodeId: string, verdict: Judged): NodeAnswer {
  if ("plan" in verdict)
    return {
      ref,
      nodeId,
      runId: null,
      accepted: true,
      refusal: null,
      further: [],
      plan: verdict.plan,
      target: verdict.target,
    };
  return {
    ref,
    nodeId,
    runId: null,
    accepted: false,
    refusal: verdict.refusal,
    further: verdict.further ?? [],
    plan: null,
    target: null,
  };
}

/** What has been found of an admitted request. */
interface Findings {
  /** The cluster it was for, if it was for one. */
  readonly clusterId: string | null;
  readonly policy: SitePolicy;
  readonly admitted: readonly Admitted[];
  /** Of the request. */
  readonly variables: JsonObject;
}

/** Stores the operation with its runs, and begins those that have their turn. Answers the run of each node. */
async function beginOperation(
  transaction: Transaction,
  parts: SubmitParts,
  caller: Caller,
  terms: RequestTerms,
  submission: Submission,
  { clusterId, policy, admitted, variables }: Findings,
) {
  const operationId = randomUUID();
  const waves = terms.waves ? resolveWaves(terms.waves, admitted.length) : null;
  const clusterVariables = await variablesOfClusters(
    transaction.tx,
    admitted.map(({ node }) => node),
  );
  await insertOperation(transaction.tx, {
    id: operationId,
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
    onFailure: onFailureOf(terms, submission.kind),
    waves,
    waveState: waves && "RUNNING",
    maxParallel: terms.maxParallel ?? null,
    variables,
    totalCount: admitted.length,
  });
  const hashes = await storePlans(
    transaction.tx,
    admitted.map(({ plan }) => plan),
  );
  const waveOf = waves ? waveOfEach(waves.sizes) : [];
  const taken = admitted.map(({ node, plan, ...rest }, index) => {
    const wave = waveOf[index] ?? 0;
    const isInTurn = wave === 0 && index < (terms.maxParallel ?? admitted.length);
    return { ...rest, node, plan, wave, runId: randomUUID(), turn: waitOf(policy, node, plan, { isInTurn }) };
  });
  function* runs(): Generator<NewRun> {
    for (const [index, { runId, node, plan, target, earlier, wave, turn }] of taken.entries()) {
      yield {
        id: runId,
        operationId,
        nodeId: node.id,
        nodeName: node.name,
        ordinal: index,
        purpose: "WORK",
        ...turn,
        controller: node.controller,
        wave,
        planHash: hashes[index] ?? "",
        variables: overlay(
          clusterVariables.get(node.clusterId ?? ""),
          hostGroupOf(node, submission.options),
          variables,
        ),
        position: nextPosition(plan, 0),
        target,
        movesState: plan.finish.length > 0 || plan.legs.some(({ enter }) => enter.length > 0),
        attempt: (earlier?.attempt ?? 0) + 1,
        restartOf: earlier?.id ?? null,
      };
    }
  }
  await insertRuns(transaction.tx, runs());
  const begun = taken.filter(({ turn }) => turn.state === "RUNNING");
  await startRuns(transaction, parts.queue, { id: operationId, reason: terms.reason ?? null }, caller.actor, begun);
  if (begun.length < taken.length) transaction.afterCommit(parts.nudge);
  return { operationId, runIds: new Map(taken.map(({ node, runId }) => [node.id, runId])) };
}

/** The same while the kind, the nodes, their states, plans and targets are. Each plan is hashed once: nodes of one kind share theirs. */
async function planHashOf(kind: OperationKind, admitted: readonly Admitted[]): Promise<string> {
  const hashes = new Map(admitted.map(({ plan }) => [plan, ""]));
  for (const plan of hashes.keys()) hashes.set(plan, hashOf(plan));
  const hash = createHash("sha256").update(JSON.stringify(kind));
  const mayBreak = createYielding();
  for (const { node, plan, target } of admitted) {
    hash.update(JSON.stringify([node.id, node.state, hashes.get(plan), target]));
    await mayBreak();
  }
  return hash.digest("hex");
}

/** Where some nodes may fail, a failed one does not undo the others unless that is asked for. */
function onFailureOf(terms: RequestTerms, kind: OperationKind): FailurePolicy {
  const usual = defaultFailurePolicy(kind);
  return (
    terms.onFailure ?? (terms.waves?.maxFailures !== undefined && usual === "CLEAN_UP_ALL" ? "CLEAN_UP_FAILED" : usual)
  );
}

/** Drivers are told the node's host group, the one it is to get before the one it has. */
function hostGroupOf(node: NodeRow, options: VerbOptions): JsonObject {
  const group = options.hostGroup ?? node.hostGroup;
  return group === null ? {} : { host_group: group };
}

/** What is to be done on a node. `earlier`: the run that a restart takes up. */
interface Planned {
  readonly plan: Plan;
  readonly target: NodeRow["state"];
  readonly earlier: RunRow | null;
}

type Admitted = Planned & { readonly node: NodeRow };

type Judged = Planned | { readonly refusal: Refusal; readonly further?: readonly Refusal[] };

/** Verbs that take a list of steps, and the phase whose automatic list it replaces. */
const CHOOSING: Partial<Record<OperationKind, "clean" | "deploy">> = { CLEAN: "clean", DEPLOY: "deploy" };

/** Judges and plans each node. Nodes with the same drivers on the same route share one plan, where a restart keeps the same of it. */
async function judgeAll(
  tx: Tx,
  registry: Registry,
  policy: SitePolicy,
  nodes: ReadonlyMap<string, NodeRow>,
  submission: Submission,
): Promise<Map<string, Judged>> {
  const busy = new Map((await busyNodes(tx, [...nodes.keys()])).map((run) => [run.nodeId, run]));
  const planned = new Map<string, Plan>();
  const keeping = new Map<string, Plan>();
  const judged = new Map<string, Judged>();
  const mayBreak = createYielding();
  for (const node of nodes.values()) {
    await mayBreak();
    const composed = registry.compose(node);
    const facts = factsOf(node, composed, busy.get(node.id) ?? null);
    const earlier = submission.earlierOf?.(node) ?? null;
    const found = routeFor(facts, submission, earlier);
    if ("refusal" in found) {
      judged.set(node.id, found);
      continue;
    }
    // Who asks for a cleaning means it, whatever happens by itself.
    const automaticCleaning = submission.kind === "CLEAN" || cleansAutomatically(policy, node);
    const key = JSON.stringify([node.driver, node.borrowed, found.route, automaticCleaning]);
    const phase = CHOOSING[submission.kind];
    const request = {
      nodeName: node.name,
      route: found.route,
      composition: "composition" in composed ? composed.composition : NO_DRIVERS,
      policy,
      automaticCleaning,
      chosen:
        phase && submission.options.steps
          ? {
              phase,
              steps: submission.options.steps,
              path: submission.restartOf === null ? choicePath(submission.options) : undefined,
            }
          : undefined,
      powerAction: submission.options.powerAction,
      softTimeoutSeconds: submission.options.softTimeoutSeconds,
    };
    // A refusal is not shared: it names the node.
    const known = planned.get(key);
    const verdict = known ? { plan: known } : await planSteps(request);
    if ("refusals" in verdict) {
      const [first = goneRefusal(node.name), ...further] = verdict.refusals.map((refusal) => ({
        ...refusal,
        nodeId: node.id,
      }));
      judged.set(node.id, { refusal: first, further });
      continue;
    }
    planned.set(key, verdict.plan);
    const keepingKey = JSON.stringify([key, ...(earlier?.done ?? [])]);
    const plan = keeping.get(keepingKey) ?? (earlier ? keepSteps(verdict.plan, earlier.done) : verdict.plan);
    keeping.set(keepingKey, plan);
    judged.set(node.id, { plan, target: found.route.target, earlier: earlier?.run ?? null });
  }
  return judged;
}

const NO_DRIVERS: Composition = { giver: () => null, inspect: null, drivers: [] };

/** What admission goes by, read from a locked node. */
export function factsOf(
  node: NodeRow,
  composed: ReturnType<Registry["compose"]>,
  busy: { readonly operationId: string; readonly kind: OperationKind } | null,
): NodeFacts {
  const composition = "composition" in composed ? composed.composition : NO_DRIVERS;
  return {
    id: node.id,
    name: node.name,
    state: node.state,
    inMaintenance: node.maintenanceSince !== null,
    isProtected: node.isProtected,
    isRetired: node.retiredReason !== null,
    hasDisappeared: node.presence === "DISAPPEARED",
    busyWith: busy,
    driverProblem: "problem" in composed ? composed.problem : null,
    can: {
      inspect: composition.inspect !== null,
      clean: composition.giver("clean") !== null,
      deploy: composition.giver("deploy") !== null,
    },
    inspectsWithoutReboot: composition.inspect?.withoutReboot ?? false,
    driver: node.driver,
  };
}

function routeFor(
  facts: NodeFacts,
  submission: Submission,
  earlier: EarlierWork | null,
): { readonly route: Route } | { readonly refusal: Refusal } {
  const options = {
    ...(submission.options.until && { until: submission.options.until }),
    manualCleaning: submission.options.steps !== undefined,
    ...(submission.options.powerAction && { powerAction: submission.options.powerAction }),
  };
  const request = { verb: submission.kind, options, force: submission.options.force ?? false };
  const verdict = judge(
    facts,
    earlier
      ? { ...request, resumed: resumeRoute(earlier.plan, facts.state, earlier.firstLeg)?.route ?? null }
      : request,
  );
  return verdict.admitted ? { route: verdict.route } : { refusal: verdict.refusal };
}

function goneRefusal(ref: string): Refusal {
  return { code: "NOT_FOUND", message: `There is no node ${ref}.`, missing: [ref] };
}

/** Whether what is asked is what was asked with the same key, of which this hash was kept. */
export type IsSameInput = (keptHash: string | null) => boolean | Promise<boolean>;

/** The earlier answer to the same key: replayed for the same input, refused for another. */
export async function replayOf(
  reader: Reader,
  caller: Caller,
  terms: RequestTerms,
  isSameInput: IsSameInput,
): Promise<SubmitAnswer | null> {
  if (terms.idempotencyKey === undefined || terms.dryRun) return null;
  const operation = await operationByKey(reader, caller.actor, terms.idempotencyKey);
  if (!operation) return null;
  if (await isSameInput(operation.inputHash)) {
    const runs = await runsOfOperation(reader, operation.id, "WORK");
    const results = runs.map(({ nodeName, nodeId, id }): NodeAnswer => ({
      ref: nodeName,
      nodeId,
      runId: id,
      accepted: true,
      refusal: null,
      plan: null,
    }));
    return { operationId: operation.id, results, refusals: [], replayed: true };
  }
  return refusedWhole([
    {
      code: "IDEMPOTENCY_MISMATCH",
      message: `The idempotency key "${terms.idempotencyKey}" was used for operation ${operation.id} with another input; take a new key for a new request.`,
      path: ["input", "idempotencyKey"],
      operationId: operation.id,
    },
  ]);
}

export function flawsOf(terms: RequestTerms): Refusal[] {
  const flaws: Refusal[] = [];
  const invalid = (field: string, message: string) =>
    flaws.push({ code: "INVALID_INPUT", message, path: ["input", field] });
  if (terms.maxParallel !== undefined && !(Number.isInteger(terms.maxParallel) && terms.maxParallel >= 1))
    invalid("maxParallel", "maxParallel is a whole number of nodes, 1 or more; leave it out for no limit.");
  if (
    terms.idempotencyKey !== undefined &&
    (terms.idempotencyKey.length === 0 || terms.idempotencyKey.length > KEY_LENGTH_MAX)
  )
    invalid("idempotencyKey", `An idempotency key has 1 to ${KEY_LENGTH_MAX} characters.`);
  flaws.push(...reasonFlaws(terms.reason));
  if (terms.waves) flaws.push(...waveFlaws(terms.waves));
  if (terms.waves?.maxFailures !== undefined && terms.onFailure === "CLEAN_UP_ALL")
    invalid(
      "onFailure",
      "CLEAN_UP_ALL ends everything with the first failure, so waves with maxFailures take CLEAN_UP_FAILED or LEAVE.",
    );
  return [...flaws, ...variablesFlaws(terms.variables, ["input", "variables"])];
}

async function variablesOfClusters(reader: Reader, nodes: readonly NodeRow[]): Promise<Map<string, JsonObject>> {
  const ids = [...new Set(nodes.flatMap(({ clusterId }) => (clusterId === null ? [] : [clusterId])))];
  return new Map((await clustersByIds(reader, ids)).map(({ id, variables }) => [id, variables]));
}

export function refusedWhole(refusals: readonly Refusal[]): SubmitAnswer {
  return { operationId: null, results: [], refusals, replayed: false };
}
