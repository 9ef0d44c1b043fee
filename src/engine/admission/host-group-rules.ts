/**
 * Host groups at admission: nodes whose group can never begin are refused, and so are nodes that would leave too few of
 * their group in service. The others are admitted, and held until their turn comes (scheduling/group-gates.ts).
 */
import { nodeRefusal } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { failuresMax, unmetText } from "../../lifecycle/host-groups.ts";
import type { GroupCounts } from "../../lifecycle/host-groups.ts";
import { groupKey, groupOfKey, isInService, isOtherActive, lockBudgets } from "../../store/nodes/host-groups.ts";
import type { Reader, Tx } from "../../store/postgres/database.ts";
import type { OperationGroups } from "../../store/records.ts";
import { refusedNode } from "../input/answers.ts";
import type { PlannedHostGroup } from "../input/answers.ts";
import { budgetText, readStanding, rulesIn, spareFor, unmetFor } from "../scheduling/group-gates.ts";
import type { GroupStanding } from "../scheduling/group-gates.ts";
import type { DecidedPart } from "./decide-request.ts";
import type { AdmittedNode } from "./plan-nodes.ts";
import type { RequestTerms } from "./request-terms.ts";
import type { Submission } from "./submission.ts";

/** Whether a rule of a host group may concern these parts. */
export function hasGroupRules(parts: readonly DecidedPart[]): boolean {
  return parts.some(({ clusters, admitted }) => {
    const rulesOf = rulesIn(clusters);
    return admitted.some(({ membership: { groupKey: joins, budgetKey } }) => {
      const budget = budgetKey === null ? undefined : rulesOf(budgetKey).minActive;
      return joins !== null || budget !== undefined;
    });
  });
}

/** Applies the rules of host groups to the nodes of a request. Its budgets stay locked, except in a dry run. */
export async function applyGroupRules(
  tx: Tx,
  parts: readonly DecidedPart[],
  terms: RequestTerms,
): Promise<readonly DecidedPart[]> {
  if (!hasGroupRules(parts)) return parts;
  const rulesOf = rulesIn(parts.flatMap(({ clusters }) => clusters));
  const works = parts.flatMap(({ submission, admitted }) =>
    admitted
      .filter(({ waiting }) => !waiting)
      .map((work): Work => ({ submission, work, refusal: null, isHeld: false })),
  );
  const deployed = keysOf(works.map(({ work }) => work.membership.groupKey));
  const budgeted = await bindingBudgets(tx, works, terms, rulesOf);
  if (!terms.dryRun) await lockBudgets(tx, budgeted);
  const tolerant = deployed.filter((key) => rulesOf(key).tolerates !== undefined);
  const counted = { deployed, budgeted: [...budgeted, ...tolerant] };
  const standing = plannedStanding(await readStanding(tx, rulesOf, counted));
  for (const { work } of works) standing.add(work);
  const inOrder = works.toSorted((a, b) => a.work.membership.stage - b.work.membership.stage);
  for (const [key, own] of Map.groupBy(inOrder, ({ work }) => work.membership.groupKey))
    if (key !== null) judgeStage(standing, key, own);
  for (const key of budgeted) judgeBudget(standing, key, works);
  const decided = new Map(works.map((one) => [one.work.node.id, one]));
  return parts.map((part) => decidedPart(part, decided, { deployed, budgeted }));
}

/** An admitted node while the rules are applied. */
interface Work {
  readonly submission: Submission;
  readonly work: AdmittedNode;
  refusal: Refusal | null;
  isHeld: boolean;
  hostGroup?: PlannedHostGroup;
}

function keysOf(keys: readonly (string | null)[]): string[] {
  return [...new Set(keys.flatMap((key) => key ?? []))];
}

/**
 * The groups whose budget binds the request: not if it is forced with a reason, nor if all ACTIVE nodes of the cluster
 * are undeployed or decommissioned.
 */
async function bindingBudgets(
  reader: Reader,
  works: readonly Work[],
  { reason }: RequestTerms,
  rulesOf: GroupStanding["rulesOf"],
): Promise<string[]> {
  const bound = works.filter(({ submission: { options } }) => !(options.force && (reason ?? "").trim() !== ""));
  const keys = keysOf(bound.map(({ work }) => work.membership.budgetKey));
  const limited = keys.filter((key) => rulesOf(key).minActive !== undefined);
  const binding: string[] = [];
  for (const [clusterId, own] of Map.groupBy(limited, (key) => groupOfKey(key).clusterId)) {
    const removed = works
      .filter(({ submission: { kind }, work }) => REMOVES.has(kind) && work.node.clusterId === clusterId)
      .map(({ work }) => work.node.id);
    if (removed.length === 0 || (await isOtherActive(reader, clusterId, removed))) binding.push(...own);
  }
  return binding;
}

const REMOVES: ReadonlySet<Submission["kind"]> = new Set(["UNDEPLOY", "DECOMMISSION"]);

type Planned = ReturnType<typeof plannedStanding>;

/** The counts of groups as if the work of the request were stored. */
function plannedStanding({ rulesOf, countsOf: storedCountsOf }: GroupStanding) {
  const changed = new Map<string, GroupCounts>();
  const countsOf = (key: string): GroupCounts => changed.get(key) ?? storedCountsOf(key);
  const change = (key: string, by: Partial<GroupCounts>) => {
    const { total, active, coming, ...counts } = countsOf(key);
    changed.set(key, {
      ...counts,
      total: total + (by.total ?? 0),
      active: active + (by.active ?? 0),
      coming: coming + (by.coming ?? 0),
    });
  };
  /** A node that is deployed counts as coming to the group that it joins. */
  const add = ({ node, membership: { groupKey: joins } }: AdmittedNode) => {
    if (joins === null) return;
    const leaves = node.clusterId !== null && node.hostGroup !== null ? groupKey(node.clusterId, node.hostGroup) : null;
    const wasActive = node.state === "ACTIVE" ? 1 : 0;
    if (leaves !== null && leaves !== joins) {
      change(leaves, { total: -1, active: -wasActive });
      change(joins, { total: 1, coming: 1 });
    } else change(joins, { total: leaves === null ? 1 : 0, active: -wasActive, coming: 1 });
  };
  /** A node that was refused does not come. */
  const drop = ({ node, membership: { groupKey: joins } }: AdmittedNode) => {
    if (joins !== null) change(joins, { coming: -1, active: node.state === "ACTIVE" ? 1 : 0 });
  };
  return { rulesOf, countsOf, add, drop };
}

/** Refuses the nodes of a group that can never begin, and holds them if they cannot begin now. */
function judgeStage(standing: Planned, key: string, works: readonly Work[]): void {
  const unmet = unmetFor(standing, key);
  const lost = unmet.filter(({ mayHold }) => !mayHold);
  const hostGroup = {
    ...groupOfKey(key),
    stage: works[0]?.work.membership.stage ?? 0,
    unmet,
    tolerated: failuresMax(standing.rulesOf(key), standing.countsOf(key)),
  };
  for (const one of works) {
    one.hostGroup = hostGroup;
    one.isHeld = unmet.length > 0;
    if (lost.length === 0) continue;
    const { name, id } = one.work.node;
    const groups = lost.map(({ group }) => group).join(", ");
    const message = `Node ${name} of host group ${groupOfKey(key).group} needs ${unmetText(lost)} ACTIVE, and neither the cluster nor this request can bring them there. Deploy more nodes of ${groups} first, or include them.`;
    one.refusal = nodeRefusal("GROUP_REQUIRED", id, message);
    standing.drop(one.work);
  }
}

/**
 * Refuses the nodes of a group that would leave too few in service for good, and holds those that can go once others of
 * the request have returned.
 */
function judgeBudget(standing: Planned, key: string, works: readonly Work[]): void {
  const own = works.filter(({ refusal }) => refusal === null);
  const leaving = own.filter(({ work }) => work.membership.budgetKey === key && isInService(work.node));
  const isComing = own.some(
    ({ work }) => work.membership.groupKey === key && work.membership.takesOut === null && work.target === "ACTIVE",
  );
  const spare = spareFor(standing, key);
  const returns = isComing || leaving.slice(0, spare).some(({ work }) => work.membership.takesOut === "RETURNS");
  for (const one of leaving.slice(Math.min(spare, leaving.length))) {
    one.isHeld = true;
    if (returns) continue;
    const message = `Node ${one.work.node.name} cannot be taken out of service: ${budgetText(standing, key)}. Bring others into service first, or send force: true with a reason.`;
    one.refusal = nodeRefusal("LAST_OF_GROUP", one.work.node.id, message);
  }
}

/** A part after the rules were applied. */
function decidedPart(part: DecidedPart, decided: ReadonlyMap<string, Work>, groups: OperationGroups): DecidedPart {
  const kept = part.admitted.flatMap((work): AdmittedNode[] => {
    const { refusal, isHeld } = decided.get(work.node.id) ?? {};
    return refusal ? [] : [isHeld ? { ...work, isHeld: true } : work];
  });
  const answers = part.answers.map((answer) => {
    const { refusal, hostGroup } = decided.get(answer.nodeId ?? "") ?? {};
    if (!refusal) return hostGroup ? { ...answer, hostGroup } : answer;
    const refused = { ...refusedNode(answer.ref, answer.nodeId, null, refusal), further: [], target: null };
    const { node, reason } = answer;
    return { ...refused, ...(node && { node }), ...(reason !== undefined && { reason }) };
  });
  const own = {
    deployed: keysOf(kept.map(({ membership }) => membership.groupKey)),
    budgeted: keysOf(kept.map(({ membership }) => membership.budgetKey)).filter((key) => groups.budgeted.includes(key)),
  };
  const isFree = own.deployed.length === 0 && own.budgeted.length === 0;
  return { ...part, answers, admitted: kept, groups: isFree ? null : own };
}
