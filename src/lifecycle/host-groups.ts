/**
 * Host groups of a cluster: the order in which their nodes begin, the failures that are tolerated, and the number of
 * nodes that stay in service. Pure: the flaws of a definition, and the decisions for nodes from the counts of groups.
 */
import { countOf } from "./waves.ts";
import type { Share } from "./waves.ts";

/** Nodes of another group that have to be ACTIVE; no share: all of them. */
export interface Requirement {
  readonly group: string;
  readonly share?: Share | undefined;
}

/** The rules of a group. An absent one does not apply. */
export interface GroupRules {
  /** A node begins a deployment when all of them hold. */
  readonly after?: readonly Requirement[] | undefined;
  /** Failed nodes; one more ends the operation. */
  readonly tolerates?: Share | undefined;
  /** Nodes that stay in service. */
  readonly minActive?: Share | undefined;
}

export type RulesByGroup = { readonly [group: string]: GroupRules };

/** Why the groups of a list, by name, cannot be put in an order: each flaw with the index of its group. */
export function orderFlaws(
  groups: readonly ({ readonly name: string } & GroupRules)[],
): { readonly index: number; readonly requirement: number; readonly message: string }[] {
  const rules = new Map(groups.map((group) => [group.name, group]));
  return groups.flatMap(({ name, after = [] }, index) =>
    after.flatMap(({ group }, requirement) => {
      const flaw = (message: string) => [{ index, requirement, message }];
      if (group === name) return flaw(`Host group ${name} cannot come after itself.`);
      if (!rules.has(group))
        return flaw(
          `Host group ${name} comes after ${group}, which the cluster does not have. Add it, or correct the name.`,
        );
      const cycle = wayBack(rules, [name, group]);
      // Each cycle is a flaw of its first group alone.
      if (cycle === null || cycle.some((one) => indexOf(groups, one) < index)) return [];
      return flaw(`The host groups ${cycle.join(" → ")} wait for each other. Remove one \`after\` of them.`);
    }),
  );
}

function indexOf(groups: readonly { readonly name: string }[], name: string): number {
  return groups.findIndex((group) => group.name === name);
}

/** The shortest way from the last group of a path back to the first, with the path; null if there is none. */
function wayBack(rules: ReadonlyMap<string, GroupRules>, path: readonly [string, string]): readonly string[] | null {
  const [first, second] = path;
  const seen = new Set([second]);
  const ways: string[][] = [[first, second]];
  for (const way of ways)
    for (const { group } of rules.get(way.at(-1) ?? "")?.after ?? []) {
      if (group === first) return [...way, first];
      if (seen.has(group)) continue;
      seen.add(group);
      ways.push([...way, group]);
    }
  return null;
}

/** The place of each group in the order: 0 if it waits for none, else one more than the last one that it waits for. */
export function stagesOf(rules: RulesByGroup): ReadonlyMap<string, number> {
  const stages = new Map<string, number>();
  const stageOf = (group: string): number => {
    const known = stages.get(group);
    if (known !== undefined) return known;
    const stage = Math.max(-1, ...(rules[group]?.after ?? []).map((one) => stageOf(one.group))) + 1;
    stages.set(group, stage);
    return stage;
  };
  for (const group of Object.keys(rules)) stageOf(group);
  return stages;
}

/** Whether a group begins after another one, directly or not. Each group is read once, also in a cycle. */
export function comesAfter(rules: RulesByGroup, group: string, earlier: string): boolean {
  const earlierOf = (one: string) => (rules[one]?.after ?? []).map((requirement) => requirement.group);
  const found = new Set(earlierOf(group));
  for (const one of found) for (const next of earlierOf(one)) found.add(next);
  return found.has(earlier);
}

/** Nodes of a group. */
export interface GroupCounts {
  readonly total: number;
  /** ACTIVE, and not in a deployment. */
  readonly active: number;
  /** With an unfinished deployment, which may make them ACTIVE. */
  readonly coming: number;
  /** ACTIVE and present without a fault, and not being taken out. */
  readonly inService: number;
  /** Taken out by work that has begun and that brings them back. */
  readonly returning: number;
}

export const NO_NODES: GroupCounts = { total: 0, active: 0, coming: 0, inService: 0, returning: 0 };

/** A requirement that does not hold, with its numbers. */
export interface Unmet {
  readonly group: string;
  readonly active: number;
  readonly needed: number;
  readonly total: number;
  /** The nodes that are ACTIVE or may become so suffice. */
  readonly mayHold: boolean;
}

/** The requirements of a group that do not hold now. */
export function unmetOf({ after = [] }: GroupRules, countsOf: (group: string) => GroupCounts): readonly Unmet[] {
  return after.flatMap(({ group, share }) => {
    const { total, active, coming } = countsOf(group);
    const needed = Math.max(1, share ? countOf(share, total, "UP") : total);
    return active >= needed ? [] : [{ group, active, needed, total, mayHold: active + coming >= needed }];
  });
}

/** Requirements as a part of a sentence. */
export function unmetText(unmet: readonly Unmet[]): string {
  return unmet
    .map(
      ({ group, active, needed, total }) =>
        `${needed} of ${total} ${total === 1 ? "node" : "nodes"} of host group ${group} (${active} are)`,
    )
    .join(", and ");
}

/** The failures of a group that end the operation; infinite if it tolerates any number. */
export function failuresMax({ tolerates }: GroupRules, { total }: Pick<GroupCounts, "total">): number {
  return tolerates === undefined ? Number.POSITIVE_INFINITY : countOf(tolerates, total, "DOWN");
}

/** How many more nodes of a group may be taken out now; infinite without `minActive`, never negative. */
export function spareOf(rules: GroupRules, counts: Pick<GroupCounts, "total" | "inService">): number {
  return rules.minActive === undefined
    ? Number.POSITIVE_INFINITY
    : Math.max(0, counts.inService - minimumOf(rules.minActive, counts));
}

/** The nodes of a group that have to stay in service. */
export function minimumOf(minActive: Share, { total }: Pick<GroupCounts, "total">): number {
  return countOf(minActive, total, "UP");
}
