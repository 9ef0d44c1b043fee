/**
 * Variables of host groups that are outputs of other groups, as in `{ fromGroup: "masters", output: "join_token" }`:
 * the value is that of the first ACTIVE node by name that has it, fixed when a node begins.
 */
import { invalidInput } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { comesAfter } from "../../lifecycle/host-groups.ts";
import type { RulesByGroup } from "../../lifecycle/host-groups.ts";
import type { JsonObject, StoredJson } from "../../store/records.ts";
import { isJsonObject, variablesFlaws } from "./variables.ts";

export interface OutputReference {
  readonly fromGroup: string;
  readonly output: string;
}

/** The reference that a variable is; null if it is a value. */
export function referenceIn(value: StoredJson | undefined): OutputReference | null {
  if (!isJsonObject(value) || Object.keys(value).length !== 2) return null;
  const { fromGroup, output } = value;
  return typeof fromGroup === "string" && typeof output === "string" ? { fromGroup, output } : null;
}

/** The references among variables, by name. */
export function referencesIn(variables: JsonObject): ReadonlyMap<string, OutputReference> {
  const found = new Map<string, OutputReference>();
  for (const [name, value] of Object.entries(variables)) {
    const reference = referenceIn(value);
    if (reference) found.set(name, reference);
  }
  return found;
}

/** The flaws of the variables of a level without host groups, which cannot be outputs. */
export function levelFlaws(given: unknown, path: readonly string[]): Refusal[] {
  return [...variablesFlaws(given, path), ...referenceFlaws(given, path, null)];
}

/** The flaws of references of a group; of a level without a group, each is one. */
export function referenceFlaws(
  given: unknown,
  path: readonly string[],
  group: { readonly name: string; readonly rules: RulesByGroup } | null,
): Refusal[] {
  if (!isJsonObject(given)) return [];
  return [...referencesIn(given)].flatMap(([name, { fromGroup }]) => {
    if (group && comesAfter(group.rules, group.name, fromGroup)) return [];
    const message = group
      ? `Variable ${name} of host group ${group.name} is an output of ${fromGroup}, which the group does not come after. Add it to \`after\`, or correct the name.`
      : `Variable ${name} is an output of host group ${fromGroup}. Only the variables of host groups can be outputs.`;
    return [invalidInput(message, [...path, name])];
  });
}
