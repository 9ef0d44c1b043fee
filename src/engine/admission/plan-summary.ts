/**
 * The plan of a request in few words: groups of nodes with equal plans, refusals by code, the steps that change
 * machines, and the runs of each wave for an estimate of the time. Computed from the answers of the nodes, whether the
 * request was stored, was a dry run, or is refused as a whole; the nodes that are not refused themselves count.
 */
import type { ErrorCode, Refusal } from "../../errors.ts";
import type { NodeState } from "../../lifecycle/node-states.ts";
import { touchesOf } from "../../lifecycle/touches.ts";
import type { FailurePolicy } from "../../lifecycle/operation-states.ts";
import type { Touch } from "../../lifecycle/touches.ts";
import type { OperationKind } from "../../lifecycle/verbs.ts";
import { waveOfEach } from "../../lifecycle/waves.ts";
import { hashOf } from "../../runtime/canonical-json.ts";
import { createYielding } from "../../runtime/yielding.ts";
import type { Plan, PlannedStep, SitePolicy, Waves } from "../../store/records.ts";
import type { NodeAnswer, PlannedHostGroup, PlannedPart } from "../input/answers.ts";
import { resolveWaves } from "../scheduling/waves.ts";
import { stepLabel } from "../plans/plan.ts";

/** Nodes with equal work: kind, steps, route, target, image, and power after a failure. */
export interface PlanGroup {
  readonly kind: OperationKind;
  readonly plan: Plan;
  readonly answers: readonly NodeAnswer[];
}

/** Nodes on which a cluster wants work for the same reason. */
export interface ReasonGroup {
  readonly reason: string;
  readonly answers: readonly NodeAnswer[];
}

/** Nodes that are refused with one code. A node with several reasons is in several groups. */
export interface RefusalGroup {
  readonly code: ErrorCode;
  readonly first: Refusal;
  readonly answers: readonly NodeAnswer[];
}

/** A step that changes machines, with the nodes on which it runs. */
export interface PlannedChange {
  readonly step: PlannedStep;
  readonly touches: readonly Touch[];
  readonly nodeCount: number;
  readonly groups: readonly PlanGroup[];
}

export interface PlanSummary {
  readonly answers: readonly NodeAnswer[];
  /** Largest first. */
  readonly groups: readonly PlanGroup[];
  /** Largest first. */
  readonly refusals: readonly RefusalGroup[];
}

/** The summary of the answers for the nodes of a request. */
export async function summarizePlans(answers: readonly NodeAnswer[]): Promise<PlanSummary> {
  const keyOf = createGroupKeys();
  const groups = new Map<string, PlanGroup & { readonly answers: NodeAnswer[] }>();
  const yieldWhenDue = createYielding();
  for (const answer of answers) {
    await yieldWhenDue();
    const { plan, part } = answer;
    if (!plan || !part || answer.refusal) continue;
    const key = keyOf(answer, plan, part);
    const group = groups.get(key);
    if (group) group.answers.push(answer);
    else groups.set(key, { kind: part.kind, plan, answers: [answer] });
  }
  return { answers, groups: largestFirst([...groups.values()]), refusals: refusalGroups(answers) };
}

/** Plans are shared by most nodes, so each is hashed once. */
function createGroupKeys(): (answer: NodeAnswer, plan: Plan, part: PlannedPart) => string {
  const hashes = new Map<Plan, string>();
  return ({ target, imageId, powerOnFailure }, plan, { kind }) => {
    const hash = hashes.get(plan) ?? hashOf(plan);
    hashes.set(plan, hash);
    return `${kind} ${hash} ${target ?? ""} ${imageId ?? ""} ${powerOnFailure ?? ""}`;
  };
}

/** The nodes on which a cluster wants work, refused ones included, by reason, largest group first. */
export function reasonGroups(answers: readonly NodeAnswer[]): readonly ReasonGroup[] {
  const groups = Map.groupBy(answers, ({ reason }) => reason ?? null);
  return largestFirst([...groups].flatMap(([reason, own]) => (reason === null ? [] : [{ reason, answers: own }])));
}

/** The host groups in which nodes are deployed, in the order in which they begin. */
export function plannedHostGroups({
  groups,
}: PlanSummary): readonly (PlannedHostGroup & { readonly nodeCount: number })[] {
  const counts = new Map<PlannedHostGroup, number>();
  for (const { answers } of groups)
    for (const { hostGroup } of answers) if (hostGroup) counts.set(hostGroup, (counts.get(hostGroup) ?? 0) + 1);
  return [...counts]
    .map(([hostGroup, nodeCount]) => ({ ...hostGroup, nodeCount }))
    .toSorted((a, b) => a.stage - b.stage || (a.group < b.group ? -1 : 1));
}

/** The refusals of nodes by code, largest group first. */
export function refusalGroups(answers: readonly NodeAnswer[]): readonly RefusalGroup[] {
  const groups = new Map<ErrorCode, RefusalGroup & { readonly answers: NodeAnswer[] }>();
  for (const answer of answers) {
    const reasons = answer.refusal ? [answer.refusal, ...(answer.further ?? [])] : [];
    for (const reason of new Map(reasons.toReversed().map((one) => [one.code, one])).values()) {
      const group = groups.get(reason.code);
      if (group) group.answers.push(answer);
      else groups.set(reason.code, { code: reason.code, first: reason, answers: [answer] });
    }
  }
  return largestFirst([...groups.values()]);
}

function largestFirst<Group extends { readonly answers: readonly unknown[] }>(groups: readonly Group[]): Group[] {
  return groups.toSorted((a, b) => b.answers.length - a.answers.length);
}

/**
 * The meaning of one failure for the other nodes, as a sentence for each operation; null if every node is refused.
 * The policy is null if a restart has several operations with different ones.
 */
export function plannedFailure(
  summary: PlanSummary,
): { readonly onFailure: FailurePolicy | null; readonly consequence: string } | null {
  const counts = new Map<PlannedPart, number>();
  for (const { answers } of summary.groups)
    for (const { part } of answers) if (part) counts.set(part, (counts.get(part) ?? 0) + 1);
  const [onFailure = null, ...others] = new Set([...counts.keys()].map((part) => part.onFailure));
  if (onFailure === null) return null;
  const sentences = [...counts].map(([part, count]) => {
    const sentence = consequenceOf(part, count);
    return counts.size === 1 ? sentence : `Operation of ${count} nodes: ${sentence}`;
  });
  sentences.push(...toleranceText(plannedHostGroups(summary)));
  return { onFailure: others.length === 0 ? onFailure : null, consequence: sentences.join(" ") };
}

function toleranceText(hostGroups: readonly PlannedHostGroup[]): string[] {
  const limited = hostGroups.filter(({ tolerated }) => Number.isFinite(tolerated));
  if (limited.length === 0) return [];
  const parts = limited.map(
    ({ group, tolerated }) => `${group} tolerates ${tolerated === 0 ? "no failure" : tolerated}`,
  );
  return [`But host group ${parts.join(", ")}: one more stops the rest.`];
}

function consequenceOf({ onFailure, waves }: PlannedPart, count: number): string {
  const back = "back to AVAILABLE";
  if (count === 1)
    return onFailure === "LEAVE" ? "A failure leaves the node as it is." : `A failure takes the node ${back}.`;
  if (onFailure === "CLEAN_UP_ALL")
    return `One failure takes all ${count} nodes ${back}, also those that are ACTIVE by then.`;
  const others = count === 2 ? "the other continues" : `the other ${count - 1} continue`;
  const asFar = waves?.maxFailures === undefined ? "" : " until the waves halt";
  return `One failure ${onFailure === "LEAVE" ? "leaves its node as it is" : `takes its node ${back}`}; ${others}${asFar}.`;
}

/** The present states of nodes, most frequent first. */
export function stateCounts(
  answers: readonly NodeAnswer[],
): readonly { readonly state: NodeState; readonly count: number }[] {
  const counts = new Map<NodeState, number>();
  for (const { node } of answers) if (node) counts.set(node.state, (counts.get(node.state) ?? 0) + 1);
  return [...counts].map(([state, count]) => ({ state, count })).toSorted((a, b) => b.count - a.count);
}

/** The steps that run and change machines, most nodes first. Equal steps of a plan count a node once. */
export function plannedChanges(groups: readonly PlanGroup[]): readonly PlannedChange[] {
  const changes = new Map<string, PlannedChange & { nodeCount: number; readonly groups: PlanGroup[] }>();
  for (const group of groups) {
    const seen = new Set<string>();
    for (const step of group.plan.steps) {
      const touches = touchesOf(step);
      const key = JSON.stringify([step.phase, step.driver, stepLabel(step), touches]);
      if (step.kept || touches.length === 0 || seen.has(key)) continue;
      seen.add(key);
      const change = changes.get(key) ?? { step, touches, nodeCount: 0, groups: [] };
      change.nodeCount += group.answers.length;
      change.groups.push(group);
      changes.set(key, change);
    }
  }
  return [...changes.values()].toSorted((a, b) => b.nodeCount - a.nodeCount);
}

/** Nodes of one wave whose runs take equally long. */
export interface WaveLot {
  readonly plan: Plan;
  readonly model: string | null;
  /** Null if no limit of controllers makes it wait. */
  readonly controller: string | null;
  readonly count: number;
}

/** An operation of the request: its waves in order, one if it has none. */
export interface PlannedRollout {
  readonly waves: Waves | null;
  readonly maxParallel: number | null;
  readonly lots: readonly (readonly WaveLot[])[];
}

/** The operations that the request starts, with the runs of each wave. */
export function plannedRollouts(
  { answers }: PlanSummary,
  { controllerLimit }: Pick<SitePolicy, "controllerLimit">,
): readonly PlannedRollout[] {
  const byPart = new Map<PlannedPart, NodeAnswer[]>();
  for (const answer of answers) {
    const { part, plan, refusal } = answer;
    if (!part || !plan || refusal) continue;
    const own = byPart.get(part);
    if (own) own.push(answer);
    else byPart.set(part, [answer]);
  }
  return [...byPart].map(([part, own]) => {
    const waves = part.waves ? resolveWaves(part.waves, own.length) : null;
    const sizes = waves?.sizes ?? [own.length];
    const waveOf = waveOfEach(sizes);
    const members = sizes.map((): NodeAnswer[] => []);
    own.forEach((answer, index) => members[waveOf[index] ?? 0]?.push(answer));
    return { waves, maxParallel: part.maxParallel ?? null, lots: members.map((one) => lotsOf(one, controllerLimit)) };
  });
}

/** Runs with equal plans on nodes of one model, in the order of the request. */
function lotsOf(answers: readonly NodeAnswer[], controllerLimit: number | undefined): readonly WaveLot[] {
  const onController = new Map<string, number>();
  if (controllerLimit !== undefined)
    for (const { node } of answers)
      if (node?.controller != null) onController.set(node.controller, (onController.get(node.controller) ?? 0) + 1);
  const lots = new Map<Plan, Map<string, WaveLot & { count: number }>>();
  for (const { plan, node } of answers) {
    if (!plan) continue;
    const isLimited = (onController.get(node?.controller ?? "") ?? 0) > (controllerLimit ?? Number.POSITIVE_INFINITY);
    const [model, controller] = [node?.model ?? null, isLimited ? (node?.controller ?? null) : null];
    const ofPlan = lots.get(plan) ?? new Map<string, WaveLot & { count: number }>();
    lots.set(plan, ofPlan);
    const key = JSON.stringify([model, controller]);
    const lot = ofPlan.get(key) ?? { plan, model, controller, count: 0 };
    lot.count += 1;
    ofPlan.set(key, lot);
  }
  return [...lots.values()].flatMap((ofPlan) => [...ofPlan.values()]);
}
