/** Host groups of a cluster: the check of those that a request gives, and what is stored of them. */
import { flawIf, invalidInput } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { orderFlaws } from "../../lifecycle/host-groups.ts";
import type { GroupRules } from "../../lifecycle/host-groups.ts";
import { isShare } from "../../lifecycle/waves.ts";
import type { Share } from "../../lifecycle/waves.ts";
import type { ClusterRow } from "../../store/nodes/clusters.ts";
import type { Tx } from "../../store/postgres/database.ts";
import type { HostGroups } from "../../store/records.ts";
import type { VariablesParts } from "../../store/secrets/secrets.ts";
import { groupNameFlaw } from "../input/name-rules.ts";
import { referenceFlaws } from "../input/output-references.ts";
import { isJsonObject, overlay, variablesFlaws } from "../input/variables.ts";
import { encryptGroups } from "./stored-variables.ts";

export interface GivenHostGroup extends GroupRules {
  readonly name: string;
  /** Laid over those of the present group of this name; null removes a key. */
  readonly variables?: unknown;
}

const GROUPS_MAX = 100;

/** The flaws of given host groups, all of them. */
export function hostGroupFlaws(groups: readonly GivenHostGroup[], path: readonly string[]): Refusal[] {
  if (groups.length > GROUPS_MAX) return [invalidInput(`At most ${GROUPS_MAX} host groups are stored.`, path)];
  const names = groups.map(({ name }) => name);
  const inOrder = orderFlaws(groups);
  const rules = Object.fromEntries(groups.map((group) => [group.name, group]));
  return groups.flatMap((group, index) => {
    const { name, variables } = group;
    const at = [...path, String(index)];
    return [
      ...groupNameFlaw(name, [...at, "name"]),
      ...flawIf(names.indexOf(name) < index, `The host group ${name} is given twice.`, [...at, "name"]),
      ...shareFlaws(group, at),
      ...inOrder
        .filter((flaw) => flaw.index === index)
        .map(({ requirement, message }) => invalidInput(message, [...at, "after", String(requirement)])),
      ...variablesFlaws(variables, [...at, "variables"]),
      ...referenceFlaws(variables, [...at, "variables"], { name, rules }),
    ];
  });
}

/** The flaws of references that stay from the present groups, whose order the given ones replace. */
export function keptReferenceFlaws(
  groups: readonly GivenHostGroup[],
  stored: HostGroups,
  path: readonly string[],
): Refusal[] {
  return groups.flatMap(({ name, variables: given }, index) => {
    const isGiven = (variable: string) => isJsonObject(given) && Object.hasOwn(given, variable);
    const kept = Object.entries(stored[name]?.variables ?? {}).filter(([variable]) => !isGiven(variable));
    return referenceFlaws(Object.fromEntries(kept), [...path, String(index), "variables"], { name, rules: stored });
  });
}

/** The flaws of numbers and percentages. */
function shareFlaws({ name, after = [], tolerates, minActive }: GivenHostGroup, path: readonly string[]): Refusal[] {
  const flaw = (share: Share | undefined, least: 0 | 1, ...at: string[]): Refusal[] => {
    const message = `Invalid ${at[0]} of host group ${name}: use a count of ${least} or more, or a percentage ${least === 0 ? "from 0 to" : "above 0 and up to"} 100.`;
    return flawIf(share !== undefined && !isShare(share, least), message, [...path, ...at]);
  };
  return [
    ...after.flatMap(({ share }, index) => flaw(share, 1, "after", String(index))),
    ...flaw(tolerates, 0, "tolerates"),
    ...flaw(minActive, 0, "minActive"),
  ];
}

/** Given host groups as the cluster stores them. */
export async function storedGroups(
  tx: Tx,
  parts: VariablesParts,
  groups: readonly GivenHostGroup[],
  { id, hostGroups: present }: Pick<ClusterRow, "id" | "hostGroups">,
): Promise<HostGroups> {
  const named = groups.map(({ name, variables, ...rules }) => [
    name,
    { ...rules, variables: isJsonObject(variables) ? variables : {} },
  ]);
  const encrypted = await encryptGroups(tx, parts, id, Object.fromEntries(named) as HostGroups);
  return Object.fromEntries(
    Object.entries(encrypted).map(([name, group]) => [
      name,
      { ...group, variables: overlay(present[name]?.variables, group.variables) },
    ]),
  );
}
