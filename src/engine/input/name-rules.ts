/**
 * Rules for names of nodes, clusters and runbooks, labels and host groups. Each function returns the flaws of its
 * input.
 */
import { flawIf, invalidInput } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { nameKey } from "../../store/names.ts";
import { hasControls } from "../../runtime/text.ts";

const NAME = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$/;
const LABEL = /^[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$/;
/** Labels of one object. */
export const LABELS_MAX = 64;

export function nameFlaw(name: string | undefined, path: readonly string[]): Refusal[] {
  const message = `Invalid name ${JSON.stringify(name)}: use 1–253 letters, digits, dots, dashes or underscores; begin and end with a letter or digit.`;
  return flawIf(name !== undefined && !NAME.test(name), message, path);
}

/** The flaws of a list of new objects of which two have the same name. */
export function repeatedNames(given: readonly { readonly name: string }[], path: readonly string[]): Refusal[] {
  const first = new Map(given.map(({ name }, index) => [nameKey(name), index] as const).toReversed());
  return given.flatMap(({ name }, index) =>
    flawIf(first.get(nameKey(name)) !== index, `The name ${name} is given twice.`, [...path, String(index), "name"]),
  );
}

export interface LabelEntry {
  readonly key: string;
  readonly value: string;
}

/** Labels that a request sets. As a list it may have a key twice, which is a flaw. */
export type GivenLabels = Readonly<Record<string, string>> | readonly LabelEntry[];

export function labelFlaws(labels: GivenLabels = [], path: readonly string[]): Refusal[] {
  const entries = isList(labels) ? labels : Object.entries(labels).map(([key, value]) => ({ key, value }));
  if (entries.length > LABELS_MAX)
    return [invalidInput(`At most ${LABELS_MAX} labels are stored; remove some.`, [...path, "labels"])];
  const flaws = entries.flatMap(({ key, value }) => labelFlaw(key, value, [...path, "labels"]));
  const keys = entries.map(({ key }) => key);
  return [...flaws, ...repeatedFlaws(keys, [...path, "labels"])];
}

export function repeatedFlaws(names: readonly string[], path: readonly string[]): Refusal[] {
  const repeated = [...new Set(names.filter((name, index) => names.indexOf(name) !== index))];
  return flawIf(repeated.length > 0, `${listed(repeated)}: given more than once.`, path);
}

/** Labels without flaws, as they are stored. */
export function labelRecord(labels: GivenLabels = []): Readonly<Record<string, string>> {
  return isList(labels) ? Object.fromEntries(labels.map(({ key, value }) => [key, value])) : labels;
}

function isList(labels: GivenLabels): labels is readonly LabelEntry[] {
  return Array.isArray(labels);
}

export function labelFlaw(key: string, value: string, path: readonly string[]): Refusal[] {
  const isLabel = LABEL.test(key) && value.length <= 253 && !hasControls(value);
  const message = `Invalid label ${JSON.stringify(key)}: use a key of 1–63 letters, digits, dots, dashes, slashes or underscores, and a value of at most 253 characters without control or invisible characters.`;
  return flawIf(!isLabel, message, path);
}

export function hostGroupFlaw(hostGroup: string | null | undefined, path: readonly string[]): Refusal[] {
  return hostGroup == null ? [] : groupNameFlaw(hostGroup, [...path, "hostGroup"]);
}

export function groupNameFlaw(hostGroup: string, path: readonly string[]): Refusal[] {
  const message = `Invalid host group ${JSON.stringify(hostGroup)}: use 1–63 letters, digits, dots, dashes, slashes or underscores; begin and end with a letter or digit.`;
  return flawIf(!LABEL.test(hostGroup), message, path);
}

/** A number of nodes in a message. */
export function nodesText(count: number): string {
  return count === 1 ? "1 node" : `${count.toLocaleString("en")} nodes`;
}

/** Names in a message. Programs read all of them from the data beside it. */
const LISTED_MAX = 10;

/** The first names, and the number of the others, for a message. */
export function listed(names: readonly string[]): string {
  const others = names.length - LISTED_MAX;
  if (others <= 0) return names.join(", ");
  return `${names.slice(0, LISTED_MAX).join(", ")} and ${others === 1 ? "1 other" : `${others.toLocaleString("en")} others`}`;
}
