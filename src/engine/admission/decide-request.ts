/** Decides a request: each of its nodes, then the request as a whole. Reads only. */
import type { Refusal } from "../../errors.ts";
import type { FailurePolicy } from "../../lifecycle/operation-states.ts";
import type { ClusterRow } from "../../store/nodes/clusters.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import { createYielding } from "../../runtime/yielding.ts";
import type { Tx } from "../../store/postgres/database.ts";
import type { OperationGroups, Plan, SitePolicy, VerbOptions } from "../../store/records.ts";
import type { SiteRow } from "../../store/site.ts";
import { SecretError } from "../../store/secrets/keyring.ts";
import type { Keyring } from "../../store/secrets/keyring.ts";
import { unreadableSecret } from "../input/unreadable-secret.ts";
import { idsOf } from "../input/ids.ts";
import type { EngineContext } from "../context.ts";
import { acceptedNode, refuseRequest, refusedNode, summaryOf } from "../input/answers.ts";
import type { NodeAnswer, SubmitAnswer } from "../input/answers.ts";
import { addressRules } from "../images/image-servers.ts";
import type { Selection } from "../input/node-selector.ts";
import { sizeFlaws } from "../input/size-limits.ts";
import { missingNodes, unknownNodes } from "../input/unknown-nodes.ts";
import { chosenOf } from "../plans/deployed-steps.ts";
import { installStepOf } from "../plans/plan.ts";
import { scopeFlaws } from "../plans/step-scopes.ts";
import { overlayKeepingNulls } from "../input/variables.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { clustersOf, effectiveVariables } from "./effective-variables.ts";
import { createMemberships } from "./membership.ts";
import type { RequestInput } from "./idempotency.ts";
import { createImageCheck } from "./operation-image.ts";
import type { OperationImage } from "./operation-image.ts";
import { planHashOf, stalePlan } from "./plan-hash.ts";
import { createDecisions } from "./plan-nodes.ts";
import type { AdmittedNode, BusyNode, RefusedNode } from "./plan-nodes.ts";
import { failurePolicyOf, powerOnFailureOf } from "./request-terms.ts";
import type { RequestTerms } from "./request-terms.ts";
import type { Submission } from "./submission.ts";
import { createVariableCheck, refusalOf } from "./variable-flaws.ts";
import { wantedWorkOf } from "./wanted-work.ts";
import type { WantedBasis } from "./wanted-work.ts";

/** The submissions of a request, who makes it, and on which terms. A restart of several requests has one for each. */
export interface Admission extends RequestInput {
  readonly caller: Caller;
  readonly terms: RequestTerms;
  readonly submissions: readonly Submission[];
}

/** A submission with its nodes, and with what it installs on them. */
export interface SelectedPart {
  readonly submission: Submission;
  readonly selection: Selection;
  readonly installed: OperationImage;
}

/** A submission after each of its nodes was decided. */
export interface DecidedPart extends SelectedPart {
  readonly onFailure: FailurePolicy;
  readonly answers: readonly NodeAnswer[];
  readonly admitted: readonly AdmittedNode[];
  /** The clusters of its nodes. */
  readonly clusters: readonly ClusterRow[];
  /** Null: the host groups of its nodes have no rules. */
  readonly groups: OperationGroups | null;
}

/** The facts by which a part is decided. */
interface DecisionBasis extends Pick<DecidedRequest, "terms"> {
  readonly context: EngineContext;
  readonly site: SiteRow;
  /** The unfinished work on its nodes, if it has been read. */
  readonly busy?: ReadonlyMap<string, BusyNode>;
}

/** The answer for a node, with its work if it is admitted. */
interface DecidedNode {
  readonly answer: NodeAnswer;
  readonly admitted?: AdmittedNode;
}

/** Decides each node of a part. */
export async function decidePart(
  { tx }: Transaction,
  { nodes, ...part }: SelectedPart & { readonly nodes: NodesById },
  basis: DecisionBasis,
): Promise<DecidedPart> {
  const { submission, selection } = part;
  const own = selection.nodes.flatMap(({ nodeId }) => nodes.get(nodeId) ?? []);
  const clusters = await clustersOf(tx, own);
  const onFailure = failurePolicyOf(submission.rollout, submission.kind, basis.site.policy);
  const decide = await createNodeDecision(tx, { ...part, clusters, onFailure }, own, basis);
  const decided: DecidedNode[] = [];
  const yieldWhenDue = createYielding();
  for (const { ref, nodeId } of selection.nodes) {
    await yieldWhenDue();
    const node = nodes.get(nodeId);
    decided.push(node ? await decide(ref, node) : { answer: unknownAnswer(ref, nodeId) });
  }
  const answers = decided.map(({ answer }) => answer);
  return {
    ...part,
    onFailure,
    answers,
    admitted: decided.flatMap(({ admitted }) => admitted ?? []),
    clusters,
    groups: null,
  };
}

/** Returns the decision for each of these nodes. */
async function createNodeDecision(
  tx: Tx,
  {
    submission,
    installed,
    clusters,
    onFailure,
  }: Pick<DecidedPart, "submission" | "installed" | "clusters" | "onFailure">,
  own: readonly NodeRow[],
  { context, site, terms, busy }: DecisionBasis,
): Promise<(ref: string, node: NodeRow) => Promise<DecidedNode>> {
  const { registry, provisioning } = context;
  const { policy } = site;
  const rules = addressRules(tx, registry);
  const { kind, earlier, options, rollout } = submission;
  const membershipOf = createMemberships(clusters, submission);
  const variablesOf = await effectiveVariables(tx, context, own, {
    site,
    clusters,
    request: { earlier, given: terms.variables, hostGroup: options.hostGroup },
  });
  const compared = { ...context, policy, rules, variablesOf };
  const wantedOf = submission.applied && (await wantedWorkOf(tx, own, wantedBasis(submission, installed, compared)));
  const found = { ...(busy && { busy }), ...(wantedOf && { wantedOf }) };
  const basis = { registry, provisioning, policy, rules, submission, ...found, lockIn: terms.dryRun ? null : tx };
  const plan = await createDecisions(tx, own, basis);
  const powerOnFailure = powerOnFailureOf(terms, options, policy);
  const checkVariables = createVariableCheck(registry, terms.unknownVariables ?? "REFUSE_SIMILAR", rules);
  const { image } = installed;
  const part = { kind, onFailure, waves: rollout.waves, maxParallel: rollout.maxParallel };
  const checkImage = await createImageCheck(tx, registry, { image, nodeIds: idsOf(own) });
  return async (ref, node) => {
    const wanted = wantedOf?.(node);
    const reason = wanted && "reason" in wanted ? wanted.reason : null;
    const refuse = (refused: RefusedNode) => ({ answer: { ...refusedAnswer(ref, node, refused), reason } });
    const decision = strangerTo(submission, node) ?? (await plan(node));
    if ("unchanged" in decision) return { answer: { ...acceptedNode(ref, node.id, null), accepted: false, node } };
    if ("refusal" in decision) return refuse(decision);
    const variables = variablesOf(node);
    if (variables instanceof SecretError)
      return refuse({ refusal: unreadableSecret(`Node ${node.name}`, variables, node.id) });
    const one = {
      ...decision,
      node,
      variables,
      membership: membershipOf(node, decision.plan, decision.target),
      powerOnFailure: mayPowerOff(decision.plan) ? powerOnFailure : null,
    };
    const { flaws, warnings } = await checkVariables(one);
    const { flaws: unfit, rootDisk } = await checkImage(node, decision.plan, variables.values);
    const refused = refusalOf(node, flaws) ?? decisionOf(unfit);
    if (refused) return refuse(refused);
    const imageId = installStepOf(one.plan) ? (image?.id ?? null) : null;
    const answer = { ...acceptedAnswer(ref, one), warnings, imageId, rootDisk, part, reason };
    return { answer, admitted: { ...one, rootDisk } };
  };
}

/** The refusal of a node that has left the cluster since it was selected; null if it is in it. */
function strangerTo({ applied }: Submission, { name, clusterId }: NodeRow): RefusedNode | null {
  if (!applied || clusterId === applied.clusterId) return null;
  return { refusal: missingNodes([name], `${name} is not in cluster ${applied.clusterName}.`) };
}

function wantedBasis(
  { applied, options, userData }: Submission,
  installed: OperationImage,
  basis: Pick<WantedBasis, "registry" | "keyring" | "policy" | "rules" | "variablesOf">,
): WantedBasis {
  const namesImage = applied?.namesImage === true;
  const install = {
    image: namesImage ? installed.image : null,
    userData: namesImage || userData !== undefined ? installed.userData : undefined,
    hasOwnUserData: userData !== undefined,
  };
  return { ...basis, installOf: () => install, reinstall: options.reinstall === true };
}

function decisionOf([first, ...further]: readonly Refusal[]): RefusedNode | null {
  return first ? { refusal: first, further } : null;
}

/**
 * Whether a failure of the plan may power the node off: a best-effort plan leaves the power to its steps, a system in
 * service keeps it, and without a driver of power nothing can change it.
 */
function mayPowerOff({ bestEffort, inService, keepsPower, legs }: Plan): boolean {
  const mayChange = !bestEffort && !inService && !keepsPower;
  return mayChange && legs.some(({ phase }) => phase === "clean" || phase === "deploy");
}

type NodesById = ReadonlyMap<string, NodeRow>;

export type DecidedRequest = Admission & { readonly policy: SitePolicy; readonly parts: readonly DecidedPart[] };

/** A request as a whole: to be stored, with its plan hash and the answers of its nodes, or answered as it is. */
export type Judgement =
  | { readonly answer: SubmitAnswer }
  | { readonly planHash: string; readonly answers: readonly NodeAnswer[] };

/** Decides the request as a whole. */
export async function judgeRequest(
  keyring: Keyring,
  { caller, policy, terms, parts }: DecidedRequest,
): Promise<Judgement> {
  const forbidden = parts.flatMap((part) => [
    ...scopeFlaws(caller, part.submission.options, policy),
    ...chosenAgain(part).flatMap((choice) => scopeFlaws(caller, choice, policy)),
  ]);
  if (forbidden.length > 0) return { answer: refuseRequest(forbidden) };
  const answers = parts.flatMap((part) => part.answers);
  const isRefused = answers.some(({ refusal }) => refusal !== null);
  const acceptance = terms.acceptance ?? "ALL_OR_NOTHING";
  const isEmpty = parts.every(({ admitted }) => admitted.length === 0);
  if (isEmpty || (isRefused && acceptance === "ALL_OR_NOTHING")) {
    const results = answers.map((answer) => ({ ...answer, accepted: terms.dryRun === true && answer.accepted }));
    return { answer: { operationId: null, results, refusals: summaryOf(answers), replayed: false } };
  }
  const planHash = await planHashOf(keyring, parts);
  const stale = terms.planHash === undefined ? null : stalePlan(parts, terms.planHash, planHash);
  if (stale) return { answer: refuseRequest([stale]) };
  const tooLarge = parts.flatMap(({ submission: { earlier } }) =>
    sizeFlaws(
      "The variables together with those of the restarted operation",
      overlayKeepingNulls(earlier.values, terms.variables),
      ["input", "variables"],
      earlier.values,
    ),
  );
  if (tooLarge.length > 0) return { answer: refuseRequest(tooLarge) };
  if (terms.dryRun) return { answer: { operationId: null, results: answers, refusals: [], replayed: false, planHash } };
  return { planHash, answers };
}

/** The steps by which nodes of a cluster were deployed, if they were chosen: they demand the same rights again. */
function chosenAgain({ submission, admitted }: DecidedPart): Pick<VerbOptions, "steps" | "runbook">[] {
  if (submission.kind !== "APPLY") return [];
  const plans = new Set(admitted.map(({ plan }) => plan));
  return [...plans].flatMap((plan) => {
    const chosen = chosenOf(plan);
    return chosen ? [{ steps: chosen.steps, ...(chosen.runbook != null && { runbook: chosen.runbook }) }] : [];
  });
}

function unknownAnswer(ref: string, nodeId: string): NodeAnswer {
  return { ...refusedNode(ref, nodeId, null, unknownNodes([ref])), further: [], target: null, reason: null };
}

function refusedAnswer(ref: string, node: NodeRow, { refusal, further = [] }: RefusedNode): NodeAnswer {
  return { ...refusedNode(ref, node.id, null, refusal), further, target: null, node };
}

function acceptedAnswer(ref: string, admitted: Omit<AdmittedNode, "rootDisk">): NodeAnswer {
  const { node, plan, target, erasesData, variables, powerOnFailure } = admitted;
  const accepted = { ...acceptedNode(ref, node.id, null), plan, target, erasesData, powerOnFailure };
  return { ...accepted, further: [], variables: variables.list, node };
}
