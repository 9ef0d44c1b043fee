/**
 * Admission: a request becomes an operation with its runs, or is refused and leaves no trace. Everything is decided
 * before anything is written, in one transaction that locks the nodes in the order of their ids; so of two overlapping
 * requests one wins, and the other's refusal names the operation in the way. Ten thousand nodes take one or two
 * seconds; loops over nodes yield to the event loop, so that the replica answers other requests meanwhile.
 */
import { randomUUID } from "node:crypto";
import type { Refusal } from "../../errors.ts";
import { hashOf } from "../../runtime/canonical-json.ts";
import { lockNodes, nodesByIds } from "../../store/nodes.ts";
import type { NodeRow } from "../../store/nodes.ts";
import type { Plan, SitePolicy } from "../../store/records.ts";
import { readSite } from "../../store/site.ts";
import type { EngineContext } from "../context.ts";
import { acceptedNode, answeredOperations, refuseRequest, refusedNode, summaryOf } from "../input/answers.ts";
import type { NodeAnswer, SubmitAnswer } from "../input/answers.ts";
import { hostGroupFlaw } from "../input/name-rules.ts";
import { selectNodes } from "../input/node-selector.ts";
import type { Selection } from "../input/node-selector.ts";
import { sizeFlaws } from "../input/size-limits.ts";
import { unknownNodes } from "../input/unknown-nodes.ts";
import { overlayKeepingNulls } from "../input/variables.ts";
import { choiceFlaws, withRunbookSteps } from "../plans/step-selection.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { effectiveVariables } from "./effective-variables.ts";
import { admitOnce, inputHashWith, isHashOfInput, replayOf } from "./idempotency.ts";
import type { IsSameInput } from "./idempotency.ts";
import { ImageChecks, imageChoiceFlaws, installsSystem, operationImage } from "./operation-image.ts";
import type { OperationImage } from "./operation-image.ts";
import { planHashOf } from "./plan-hash.ts";
import { planNodes } from "./plan-nodes.ts";
import { VariableChecks, refusalOf } from "./variable-flaws.ts";
import type { AdmittedNode, NodeDecision } from "./plan-nodes.ts";
import { powerOnFailureOf, rolloutFlaws, termsFlaws } from "./request-terms.ts";
import type { RequestTerms, VerbRequest } from "./request-terms.ts";
import { storeOperation } from "./store-operation.ts";
import type { Submission } from "./submission.ts";

/** The submissions of a request, who makes it, and on which terms. A restart of several requests has one for each. */
interface Admission {
  readonly caller: Caller;
  readonly terms: RequestTerms;
  /** Stored with the idempotency key, to recognize a repeated request. */
  readonly inputHash: string;
  /** Compares the input with a stored hash; by default they are equal texts. */
  readonly isSameInput?: IsSameInput;
  readonly submissions: readonly Submission[];
}

/** Admits a verb on nodes. */
export async function submitVerb(context: EngineContext, caller: Caller, request: VerbRequest): Promise<SubmitAnswer> {
  const options = request.options ?? {};
  const { kind, onFailure, waves, maxParallel } = request;
  const { userData, ...open } = request;
  const secrets = userData == null ? {} : { userData };
  const hash = hashOf({ ...open, options, restartOf: null, ...(userData === null && { userData }) });
  return submit(context, {
    caller,
    terms: request,
    inputHash: await inputHashWith(hash, secrets, request),
    isSameInput: (stored) => isHashOfInput(hash, secrets, stored),
    submissions: [
      {
        kind,
        options,
        restarts: null,
        rollout: { onFailure, waves, maxParallel },
        earlierVariables: {},
        image: request.image ?? null,
        userData,
        select: ({ tx }) => selectNodes(tx, request.nodes, { lockIn: request.dryRun ? undefined : tx }),
        earlierOf: null,
      },
    ],
  });
}

/** Admits new operations for the work that earlier ones left unfinished. */
export async function submitRestart(context: EngineContext, admission: Admission): Promise<SubmitAnswer> {
  return submit(context, admission);
}

async function submit(context: EngineContext, admission: Admission): Promise<SubmitAnswer> {
  const { terms, submissions } = admission;
  const flaws = [
    ...termsFlaws(terms),
    ...(submissions.map(({ rollout }) => rolloutFlaws(rollout)).find((found) => found.length > 0) ?? []),
    ...submissions.flatMap(({ restarts, options }) => [
      ...hostGroupFlaw(options.hostGroup, ["input"]),
      ...(restarts === null ? choiceFlaws(options) : []),
    ]),
    ...submissions.flatMap(imageChoiceFlaws),
  ];
  if (flaws.length > 0) return refuseRequest(flaws);
  return admitOnce(() => context.transact((transaction) => admit(transaction, context, admission)));
}

async function admit(transaction: Transaction, context: EngineContext, admission: Admission): Promise<SubmitAnswer> {
  const { tx } = transaction;
  const { caller, terms } = admission;
  const { isSameInput = (stored: string | null) => stored === admission.inputHash } = admission;
  const replay = () => replayOf(tx, caller, terms, isSameInput);
  const replayed = await replay();
  if (replayed) return replayed;
  const selected: SelectedPart[] = [];
  for (const given of admission.submissions) {
    const chosen = await withRunbookSteps(tx, given);
    const installed = await operationImage(tx, given, { keep: !terms.dryRun });
    const selection = await given.select(transaction);
    const flaws = [chosen, installed].flatMap((one) => ("refusals" in one ? one.refusals : []));
    if ("refusals" in chosen || "refusals" in installed)
      return refuseRequest([...flaws, ...("refusals" in selection ? selection.refusals : [])]);
    if ("refusals" in selection) return (await replay()) ?? refuseRequest(selection.refusals);
    selected.push({ submission: { ...given, options: chosen.options }, selection, installed });
  }
  // A dry run needs only the right to read, so it must not block other requests by locking the nodes.
  const read = terms.dryRun ? nodesByIds : lockNodes;
  const rows = await read(
    tx,
    selected.flatMap(({ selection }) => selection.nodes.map(({ nodeId }) => nodeId)),
  );
  const nodes = new Map(rows.map((node) => [node.id, node]));
  // The request that held the locks may have been this one, sent twice. Without a second look it would be refused as
  // BUSY.
  const replayedMeanwhile = await replay();
  if (replayedMeanwhile) return replayedMeanwhile;
  const { policy } = await readSite(tx);
  const parts: DecidedPart[] = [];
  for (const part of selected)
    parts.push(await decidePart(transaction, { ...part, nodes }, { context, policy, terms }));
  return decideRequest(transaction, context, { ...admission, policy, parts });
}

/** A submission with its nodes, and with what it installs on them. */
interface SelectedPart {
  readonly submission: Submission;
  readonly selection: Selection;
  readonly installed: OperationImage;
}

/** A submission after each of its nodes was decided. */
interface DecidedPart extends SelectedPart {
  readonly answers: readonly NodeAnswer[];
  readonly admitted: readonly AdmittedNode[];
}

async function decidePart(
  { tx }: Transaction,
  { submission, selection, installed, nodes }: SelectedPart & { readonly nodes: NodesById },
  {
    context,
    policy,
    terms,
  }: { readonly context: EngineContext; readonly policy: SitePolicy; readonly terms: RequestTerms },
): Promise<DecidedPart> {
  const own = selection.nodes.flatMap(({ nodeId }) => nodes.get(nodeId) ?? []);
  const { registry, provisioning } = context;
  const basis = { registry, provisioning, policy, submission };
  const decisions = await planNodes(tx, new Map(own.map((node) => [node.id, node])), basis);
  const variablesOf = await effectiveVariables(tx, own, submission, terms.variables);
  const powerOnFailure = powerOnFailureOf(terms, submission.options, policy);
  const admitted: AdmittedNode[] = [];
  const answers: NodeAnswer[] = [];
  const checks = new VariableChecks(registry, terms.unknownVariables ?? "REFUSE_SIMILAR");
  const { image } = installed;
  const { kind, rollout } = submission;
  const part = { kind, waves: rollout.waves, maxParallel: rollout.maxParallel };
  const imageChecks = await ImageChecks.of(tx, registry, { image, nodeIds: own.map(({ id }) => id) });
  for (const { ref, nodeId } of selection.nodes) {
    const node = nodes.get(nodeId);
    const decision = decisions.get(nodeId);
    if (!node || !decision || "refusal" in decision) {
      answers.push(refusedAnswer(ref, nodeId, node, decision));
      continue;
    }
    const one = {
      ...decision,
      node,
      variables: variablesOf(node),
      powerOnFailure: mayPowerOff(decision.plan) ? powerOnFailure : null,
    };
    const { flaws, warnings } = await checks.of(one);
    const unfit = await imageChecks.refusalsOf(node, decision.plan, one.variables.values);
    const refused = refusalOf(node, flaws) ?? decisionOf(unfit);
    if (refused) answers.push(refusedAnswer(ref, nodeId, node, refused));
    else {
      admitted.push(one);
      const imageId = installsSystem(one.plan) ? (image?.id ?? null) : null;
      answers.push({ ...acceptedAnswer(ref, one), warnings, imageId, part });
    }
  }
  return { submission, selection, installed, answers, admitted };
}

function decisionOf([first, ...further]: readonly Refusal[]): NodeDecision | null {
  return first ? { refusal: first, further } : null;
}

/** Whether a failure of the plan may power the node off: a best-effort plan leaves the power to its steps. */
function mayPowerOff({ bestEffort, legs }: Plan): boolean {
  return !bestEffort && legs.some(({ phase }) => phase === "clean" || phase === "deploy");
}

type NodesById = ReadonlyMap<string, NodeRow>;

type DecidedRequest = Admission & { readonly policy: SitePolicy; readonly parts: readonly DecidedPart[] };

/** Decides the request as a whole, and stores it if it is admitted and not a dry run. */
async function decideRequest(
  transaction: Transaction,
  context: EngineContext,
  request: DecidedRequest,
): Promise<SubmitAnswer> {
  const { terms, parts } = request;
  const answers = parts.flatMap((part) => part.answers);
  const isRefused = answers.some(({ refusal }) => refusal !== null);
  const acceptance = terms.acceptance ?? "ALL_OR_NOTHING";
  const isEmpty = parts.every(({ admitted }) => admitted.length === 0);
  if (isEmpty || (isRefused && acceptance === "ALL_OR_NOTHING"))
    return {
      operationId: null,
      results: answers.map((answer) => ({ ...answer, accepted: false })),
      refusals: summaryOf(answers),
      replayed: false,
    };
  const planHash = await planHashOf(parts);
  if (terms.planHash !== undefined && terms.planHash !== planHash) return refuseRequest([STALE_PLAN]);
  const tooLarge = parts.flatMap(({ submission: { earlierVariables } }) =>
    sizeFlaws(
      "The variables together with those of the restarted operation",
      overlayKeepingNulls(earlierVariables, terms.variables),
      ["input", "variables"],
      earlierVariables,
    ),
  );
  if (tooLarge.length > 0) return refuseRequest(tooLarge);
  if (terms.dryRun) return { operationId: null, results: answers, refusals: [], replayed: false, planHash };
  const { operationIds, runIds } = await storeAll(transaction, context, request);
  const results = answers.map((answer) => ({ ...answer, runId: runIds.get(answer.nodeId ?? "") ?? null }));
  return { ...answeredOperations(operationIds), results, refusals: [], replayed: false, planHash };
}

/** Stores an operation for each part with admitted nodes. The first one has the idempotency key. */
async function storeAll(
  transaction: Transaction,
  context: EngineContext,
  { caller, terms, inputHash, policy, parts }: DecidedRequest,
): Promise<{ readonly operationIds: readonly string[]; readonly runIds: ReadonlyMap<string, string> }> {
  const stored = parts.filter(({ admitted }) => admitted.length > 0);
  const batch = stored.length > 1 ? randomUUID() : null;
  const operationIds: string[] = [];
  const runIds = new Map<string, string>();
  for (const [index, { submission, selection, installed, admitted }] of stored.entries()) {
    const made = await storeOperation(transaction, context, {
      caller,
      terms: index === 0 ? terms : { ...terms, idempotencyKey: undefined },
      inputHash,
      submission,
      installed,
      clusterId: selection.clusterId,
      policy,
      admitted,
      variables: overlayKeepingNulls(submission.earlierVariables, terms.variables),
      batch,
    });
    operationIds.push(made.operationId);
    for (const [nodeId, runId] of made.runIds) runIds.set(nodeId, runId);
  }
  return { operationIds, runIds };
}

const STALE_PLAN: Refusal = {
  code: "STALE_REVISION",
  message:
    "The plan has changed: a node, its cluster's settings, a driver or the site's policy was changed, or the request differs (other nodes, another order, another image, other variables, another failure policy or another power after a failure). Read the new plan and send its planHash.",
  path: ["input", "planHash"],
};

function refusedAnswer(
  ref: string,
  nodeId: string,
  node: NodeRow | undefined,
  decision: NodeDecision | undefined,
): NodeAnswer {
  const { refusal, further = [] } = decision && "refusal" in decision ? decision : { refusal: unknownNodes([ref]) };
  return { ...refusedNode(ref, nodeId, null, refusal), further, target: null, ...(node && { node }) };
}

function acceptedAnswer(ref: string, admitted: AdmittedNode): NodeAnswer {
  const { node, plan, target, erasesData, variables, powerOnFailure } = admitted;
  const accepted = { ...acceptedNode(ref, node.id, null), plan, target, erasesData, powerOnFailure };
  return { ...accepted, further: [], variables: variables.list, node };
}
