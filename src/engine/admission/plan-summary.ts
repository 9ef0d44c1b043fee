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
import { groupsOf } from "../../runtime/groups.ts";
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
  // Plans are shared by most nodes, so each is hashed once.
  const hashes = new Map<Plan, string>();
  const groups = new Map<string, PlanGroup & { readonly answers: NodeAnswer[] }>();
  const yieldWhenDue = createYielding();
  for (const { answer, plan, part } of plannedNodes(answers)) {
    await yieldWhenDue();
    const hash = hashes.get(plan) ?? hashOf(plan);
    hashes.set(plan, hash);
    const key = [part.kind, hash, answer.target, answer.imageId, answer.powerOnFailure].join(" ");
    const group = groups.get(key);
    if (group) group.answers.push(answer);
    else groups.set(key, { kind: part.kind, plan, answers: [answer] });
  }
  return { answers, groups: largestFirst([...groups.values()]), refusals: refusalGroups(answers) };
}

/** The answer of a node that is not refused. */
interface PlannedNode {
  readonly answer: NodeAnswer;
  readonly plan: Plan;
  readonly part: PlannedPart;
}

function plannedNodes(answers: readonly NodeAnswer[]): PlannedNode[] {
  return answers.flatMap((answer) =>
    answer.plan && answer.part && !answer.refusal ? [{ answer, plan: answer.plan, part: answer.part }] : [],
  );
}

/** The nodes on which a cluster wants work, refused ones included, by reason, largest group first. */
export function reasonGroups(answers: readonly NodeAnswer[]): readonly ReasonGroup[] {
  return largestFirst(groupsOf(answers, ({ reason }) => reason).map(({ key, all }) => ({ reason: key, answers: all })));
}

/** The host groups in which nodes are deployed, in the order in which they begin. */
export function plannedHostGroups({
  groups,
}: PlanSummary): readonly (PlannedHostGroup & { readonly nodeCount: number })[] {
  const planned = groups.flatMap(({ answers }) => answers);
  return groupsOf(planned, ({ hostGroup }) => hostGroup)
    .map(({ key, all }) => ({ ...key, nodeCount: all.length }))
    .toSorted((a, b) => a.stage - b.stage || (a.group < b.group ? -1 : 1));
}

/** The refusals of nodes by code, largest group first. */
export function refusalGroups(answers: readonly NodeAnswer[]): readonly RefusalGroup[] {
  const reasons = answers.flatMap((answer) => {
    const all = answer.refusal ? [answer.refusal, ...(answer.further ?? [])] : [];
    return groupsOf(all, ({ code }) => code).map(({ first: reason }) => ({ reason, answer }));
  });
  const groups = groupsOf(reasons, ({ reason: { code } }) => code).map(({ key: code, first, all }) => ({
    code,
    first: first.reason,
    answers: all.map(({ answer }) => answer),
  }));
  return largestFirst(groups);
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
  const planned = summary.groups.flatMap(({ answers }) => answers);
  const parts = groupsOf(planned, ({ part }) => part);
  const [onFailure = null, ...others] = new Set(parts.map(({ key }) => key.onFailure));
  if (onFailure === null) return null;
  const sentences = parts.map(({ key: part, all: { length: count } }) => {
    const sentence = consequenceOf(part, count);
    return parts.length === 1 ? sentence : `Operation of ${count} ${count === 1 ? "node" : "nodes"}: ${sentence}`;
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
  return groupsOf(answers, ({ node }) => node?.state)
    .map(({ key: state, all }) => ({ state, count: all.length }))
    .toSorted((a, b) => b.count - a.count);
}

/** The steps that run and change machines, most nodes first. Equal steps of a plan count a node once. */
export function plannedChanges(groups: readonly PlanGroup[]): readonly PlannedChange[] {
  const keyOf = (step: PlannedStep) => JSON.stringify([step.phase, step.driver, stepLabel(step), touchesOf(step)]);
  const changing = groups.flatMap((group) => {
    const steps = group.plan.steps.filter((step) => !step.kept && touchesOf(step).length > 0);
    return groupsOf(steps, keyOf).map(({ key, first: step }) => ({ key, step, group }));
  });
  return groupsOf(changing, ({ key }) => key)
    .map(({ first: { step }, all }) => ({
      step,
      touches: touchesOf(step),
      nodeCount: all.reduce((sum, { group: { answers } }) => sum + answers.length, 0),
      groups: all.map(({ group }) => group),
    }))
    .toSorted((a, b) => b.nodeCount - a.nodeCount);
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
  return groupsOf(plannedNodes(answers), ({ part }) => part).map(({ key: part, all }) => {
    const waves = part.waves ? resolveWaves(part.waves, all.length) : null;
    const sizes = waves?.sizes ?? [all.length];
    const waveOf = waveOfEach(sizes);
    const members = sizes.map((): PlannedNode[] => []);
    all.forEach((one, index) => members[waveOf[index] ?? 0]?.push(one));
    return { waves, maxParallel: part.maxParallel ?? null, lots: members.map((one) => lotsOf(one, controllerLimit)) };
  });
}

/** Runs with equal plans on nodes of one model, in the order of the request. */
function lotsOf(nodes: readonly PlannedNode[], controllerLimit = Number.POSITIVE_INFINITY): readonly WaveLot[] {
  const onController = groupsOf(nodes, ({ answer }) => answer.node?.controller);
  const limited = new Set(onController.filter(({ all }) => all.length > controllerLimit).map(({ key }) => key));
  const lots = nodes.map(({ plan, answer: { node } }) => {
    const controller = node?.controller ?? null;
    return {
      plan,
      model: node?.model ?? null,
      controller: controller !== null && limited.has(controller) ? controller : null,
    };
  });
  return groupsOf(lots, ({ plan }) => plan).flatMap(({ all }) =>
    groupsOf(all, ({ model, controller }) => JSON.stringify([model, controller])).map(({ first, all: { length } }) => ({
      ...first,
      count: length,
    })),
  );
}
