/** The plan of a verb as sentences. The numbers are those of the service (`summary` of a dry run). */
import { durationText, numberText, plural } from "./numbers.ts";
import { sentenceCase } from "./states.ts";

export interface PlannedGroup {
  readonly nodeCount: number;
  readonly target: string | null;
  readonly phases: readonly string[];
  readonly steps: readonly { readonly state: string }[];
  readonly pointOfNoReturn: { readonly name: string; readonly changes: readonly string[] } | null;
}

export interface VerbPlan {
  readonly nodeCount: number;
  readonly plannedCount: number;
  /** Nodes of a cluster that are as it wants them. */
  readonly unchangedCount: number;
  readonly reasons: readonly { readonly reason: string; readonly nodeCount: number }[];
  readonly erasesDataCount: number;
  readonly changedParts: readonly { readonly part: string; readonly nodeCount: number }[];
  readonly duration: { readonly expectedSeconds: number | null } | null;
  readonly refusals: readonly { readonly code: string; readonly nodeCount: number }[];
  /** Of a deployment, in the order in which they begin. */
  readonly hostGroups: readonly PlannedHostGroup[];
  readonly groups: readonly PlannedGroup[];
}

interface PlannedHostGroup {
  readonly name: string;
  readonly nodeCount: number;
  readonly cluster: { readonly name: string } | null;
  readonly waitsFor: readonly GroupWait[];
}

export interface GroupWait {
  readonly group: string;
  readonly needed: number;
  readonly present: number;
}

const firmwareCount = ({ changedParts }: VerbPlan) =>
  changedParts.find(({ part }) => part === "FIRMWARE")?.nodeCount ?? 0;

/** `300 of 312 nodes accept it, in about 40 min. Deploy erases the data of 300 nodes.` `name`: of the verb. */
export function planSentence(name: string, plan: VerbPlan): string {
  const { plannedCount, unchangedCount, erasesDataCount, duration } = plan;
  const nodeCount = plan.nodeCount - unchangedCount;
  if (nodeCount === 0) return "Every node is as the cluster wants it.";
  if (plannedCount === 0) return nodeCount === 1 ? "The node refuses it." : "No node accepts it.";
  const accepted =
    plannedCount === nodeCount
      ? plural(plannedCount, "node")
      : `${numberText(plannedCount)} of ${plural(nodeCount, "node")}`;
  const took = duration?.expectedSeconds == null ? "" : `, in about ${durationText(duration.expectedSeconds)}`;
  const firmware = firmwareCount(plan);
  return [
    `${accepted} accept${plannedCount === 1 && nodeCount === 1 ? "s" : ""} it${took}.`,
    erasesDataCount === 0 ? "No data is lost." : `${name} erases the data of ${plural(erasesDataCount, "node")}.`,
    firmware > 0 && `It changes the firmware of ${plural(firmware, "node")}.`,
  ]
    .filter((part) => part !== false)
    .join(" ");
}

/** `280 nodes: clean and deploy, 6 steps, to Active; from write_image on disks change`. */
export function planGroupText({ nodeCount, target, phases, steps, pointOfNoReturn }: PlannedGroup): string {
  const kept = steps.filter(({ state }) => state === "KEPT").length;
  const how = phases.map((phase) => sentenceCase(phase).toLowerCase()).join(", ");
  return [
    `${plural(nodeCount, "node")}: ${[
      how,
      plural(steps.length - kept, "step"),
      kept > 0 && `${numberText(kept)} kept`,
      target !== null && `to ${sentenceCase(target)}`,
    ]
      .filter((part) => part !== false && part !== "")
      .join(", ")}`,
    pointOfNoReturn &&
      `from ${pointOfNoReturn.name} on ${pointOfNoReturn.changes.map((part) => part.toLowerCase()).join(" and ")} change`,
  ]
    .filter((part) => part !== null)
    .join("; ");
}

/** `2 nodes: stopped in write_image`, for each reason of a cluster; and the nodes that stay. */
export function reasonTexts({ reasons, unchangedCount }: VerbPlan): readonly string[] {
  return [
    ...reasons.map(({ reason, nodeCount }) => `${plural(nodeCount, "node")}: ${reason}`),
    ...(unchangedCount > 0
      ? [`${plural(unchangedCount, "node")} stay${unchangedCount === 1 ? "s" : ""} as the cluster wants it.`]
      : []),
  ];
}

/** `workers: 12 nodes begin when masters has 3 active nodes (now 0)`; empty if each group begins at once. */
export function hostGroupTexts({ hostGroups }: Pick<VerbPlan, "hostGroups">): readonly string[] {
  if (hostGroups.every(({ waitsFor }) => waitsFor.length === 0)) return [];
  const isOne = new Set(hostGroups.map(({ cluster }) => cluster?.name)).size === 1;
  return hostGroups.map(({ name, nodeCount, cluster, waitsFor }) => {
    const group = isOne || cluster === null ? name : `${cluster.name}, ${name}`;
    const begin = `${group}: ${plural(nodeCount, "node")} begin${nodeCount === 1 ? "s" : ""}`;
    return `${begin} ${waitsFor.length === 0 ? "at once" : `when ${waitsFor.map(waitText).join(" and ")}`}.`;
  });
}

function waitText({ group, needed, present }: GroupWait): string {
  return `${group} has ${plural(needed, "active node")} (now ${numberText(present)})`;
}

/** Number of nodes whose loss is confirmed by typing it: data, or firmware. */
export function losingCount(plan: VerbPlan): number {
  return Math.max(plan.erasesDataCount, firmwareCount(plan));
}

/** The differences between two plans of the same request; empty if the numbers are the same. */
export function planDifferences(before: VerbPlan, after: VerbPlan): readonly string[] {
  const codes = [...new Set([...before.refusals, ...after.refusals].map(({ code }) => code))];
  const refused = ({ refusals }: VerbPlan, code: string) =>
    refusals.find((group) => group.code === code)?.nodeCount ?? 0;
  const pairs: readonly (readonly [string, number, number])[] = [
    ["accepted", before.plannedCount, after.plannedCount],
    ...codes.map(
      (code) => [`refused, ${sentenceCase(code).toLowerCase()}`, refused(before, code), refused(after, code)] as const,
    ),
    ["losing data", before.erasesDataCount, after.erasesDataCount],
    ["with other firmware", firmwareCount(before), firmwareCount(after)],
  ];
  return pairs
    .filter(([, was, is]) => was !== is)
    .map(([what, was, is]) => `${plural(is, "node")} ${what}, before ${numberText(was)}`);
}
