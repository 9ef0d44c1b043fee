/** Host groups of a cluster: the check of those that a request gives, and what is stored of them. */
import { invalidInput } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import type { ClusterRow } from "../../store/nodes/clusters.ts";
import type { Tx } from "../../store/postgres/database.ts";
import type { HostGroups } from "../../store/records.ts";
import type { VariablesParts } from "../../store/secrets/secrets.ts";
import { groupNameFlaw } from "../input/name-rules.ts";
import { isJsonObject, overlay, variablesFlaws } from "../input/variables.ts";
import { encryptGroups } from "./stored-variables.ts";

export interface GivenHostGroup {
  readonly name: string;
  /** Laid over those of the present group of this name; null removes a key. */
  readonly variables?: unknown;
}

const GROUPS_MAX = 100;

/** The flaws of given host groups, all of them. */
export function hostGroupFlaws(groups: readonly GivenHostGroup[], path: readonly string[]): Refusal[] {
  if (groups.length > GROUPS_MAX) return [invalidInput(`At most ${GROUPS_MAX} host groups are stored.`, path)];
  const names = groups.map(({ name }) => name);
  return groups.flatMap(({ name, variables }, index) => {
    const at = [...path, String(index)];
    return [
      ...groupNameFlaw(name, [...at, "name"]),
      ...(names.indexOf(name) === index
        ? []
        : [invalidInput(`The host group ${name} is given twice.`, [...at, "name"])]),
      ...variablesFlaws(variables, [...at, "variables"]),
    ];
  });
}

/** Given host groups as the cluster stores them. */
export async function storedGroups(
  tx: Tx,
  parts: VariablesParts,
  groups: readonly GivenHostGroup[],
  { id, hostGroups: present }: Pick<ClusterRow, "id" | "hostGroups">,
): Promise<HostGroups> {
  const named = groups.map(({ name, variables }) => [name, { variables: isJsonObject(variables) ? variables : {} }]);
  const encrypted = await encryptGroups(tx, parts, id, Object.fromEntries(named) as HostGroups);
  return Object.fromEntries(
    Object.entries(encrypted).map(([name, group]) => [
      name,
      { ...group, variables: overlay(present[name]?.variables, group.variables) },
    ]),
  );
}
