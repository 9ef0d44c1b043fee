/**
 * Editors as texts of their fields: of a node, of the variables of a cluster, of its host groups. A save sends what
 * differs from the texts that were read; another person has changed what differs there.
 */
import { changedKeys, variablesPatch } from "./clusters.ts";
import type { HostGroupSettings } from "./clusters.ts";
import { cut } from "./plain-text.ts";
import { objectOf, shareOf, shareText } from "./terms.ts";

/** By the name of the field. A box that is ticked has a text, and another one has none. */
export type Texts = Readonly<Record<string, string>>;

export interface EditField {
  readonly name: string;
  /** Words after a comma or in brackets explain it. */
  readonly label: string;
  readonly kind: "line" | "lines" | "json" | "check" | "choice";
  readonly hint?: string;
  /** Values and their names. */
  readonly choices?: Readonly<Record<string, string>>;
  /** Fields of the same group stand together. */
  readonly group?: string;
}

/** As it was read, to compare with. */
export interface Edited {
  readonly revision: number;
  readonly texts: Texts;
}

export interface ReadEdit {
  readonly input: Readonly<Record<string, unknown>>;
  /** By field; empty if it can be sent. */
  readonly flaws: Readonly<Record<string, string>>;
}

type Values = Readonly<Record<string, unknown>>;

const jsonText = (value: unknown) => JSON.stringify(value, null, 2);
/** The object of a text; null while it is not one. */
const valuesOf = (text = ""): Values | null => {
  const value = objectOf(text.trim() === "" ? "{}" : text);
  return typeof value === "string" ? null : (value as Values);
};
const linesOf = (text = "") =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");

const SHOWN_LENGTH = 60;
const shown = (text: string) => (text === "" ? "nothing" : cut(text, SHOWN_LENGTH).text);

/** The keys of an object, or the lines of a list, that differ; or else both texts. Empty if nothing differs. */
export function differencesOf(
  { name, label, kind, choices }: EditField,
  before: Texts,
  after: Texts,
): readonly string[] {
  const [old = "", now = ""] = [before[name], after[name]];
  if (old === now) return [];
  if (kind === "json") {
    const [a, b] = [valuesOf(old), valuesOf(now)];
    return a && b ? changedKeys(a, b) : [label];
  }
  if (kind === "lines") {
    const [a, b] = [linesOf(old), linesOf(now)];
    const without = a.filter((line) => !b.includes(line)).map((line) => `without ${shown(line)}`);
    return [...b.filter((line) => !a.includes(line)).map(shown), ...without];
  }
  if (kind === "check") return [now === "" ? "no" : "yes"];
  return [`${shown(choices?.[now] ?? now)}, before ${shown(choices?.[old] ?? old)}`];
}

/** My texts over those that another person saved: a field that I did not touch becomes theirs. */
export function mergedTexts(base: Texts, mine: Texts, theirs: Texts): Texts {
  const merged: Record<string, string> = {};
  for (const name of Object.keys({ ...mine, ...theirs })) {
    const text = mine[name] === base[name] ? theirs[name] : mine[name];
    if (text !== undefined) merged[name] = text;
  }
  return merged;
}

export function areSame(a: Texts, b: Texts): boolean {
  return Object.keys({ ...a, ...b }).every((name) => a[name] === b[name]);
}

/** The JSON fields among these that are none, by name. */
function jsonFlaws(texts: Texts, names: readonly string[]): Record<string, string> {
  const flaws: Record<string, string> = {};
  for (const name of names) {
    const value = objectOf(texts[name] ?? "");
    if (typeof value === "string") flaws[name] = value;
  }
  return flaws;
}

const patchOf = (before: string | undefined, after: string | undefined) =>
  variablesPatch(valuesOf(before) ?? {}, valuesOf(after) ?? {});

/** The image and the variables that nodes of a cluster should have. `images`: names of those that can be chosen. */
export function wantedFields(images: readonly string[]): readonly EditField[] {
  const choices = { "": "as each node has it", ...Object.fromEntries(images.map((name) => [name, name])) };
  return [
    ...(images.length > 0 ? [{ name: "image", label: "Image", kind: "choice", choices } as const] : []),
    { name: "variables", label: "Variables, as JSON", kind: "json" },
  ];
}

interface Wanted {
  readonly image: { readonly name: string } | null;
  readonly variables: unknown;
}

export const wantedTexts = ({ image, variables }: Wanted): Texts => ({
  image: image?.name ?? "",
  variables: jsonText(variables),
});

export function readWanted(texts: Texts, before: Texts): ReadEdit {
  const { image = "", variables } = texts;
  const input = {
    ...(image !== before["image"] && { image: image === "" ? null : { name: image } }),
    ...(variables !== before["variables"] && { variables: patchOf(before["variables"], variables) }),
  };
  return { input, flaws: jsonFlaws(texts, ["variables"]) };
}

interface NodeSettings {
  readonly name: string;
  readonly description: string;
  readonly hostGroup: string | null;
  readonly labels: readonly { readonly key: string; readonly value: string }[];
  readonly macs: readonly string[];
  readonly variables: unknown;
  readonly automaticCleaning: boolean | null;
  readonly diskless: boolean;
  readonly sharedController: boolean;
}

export const NODE_FIELDS: readonly EditField[] = [
  { name: "name", label: "Name", kind: "line" },
  { name: "description", label: "Description", kind: "line" },
  { name: "hostGroup", label: "Host group", kind: "line", hint: "none" },
  { name: "labels", label: "Labels, one a line", kind: "lines", hint: "rack=r07" },
  { name: "macs", label: "MAC addresses, one a line", kind: "lines", hint: "52:54:00:12:34:56" },
  { name: "variables", label: "Variables (JSON)", kind: "json" },
  {
    name: "automaticCleaning",
    label: "Automatic clean steps",
    kind: "choice",
    choices: { "": "as the site has it", true: "run", false: "do not run" },
  },
  { name: "diskless", label: "It has no disk of its own", kind: "check" },
  { name: "sharedController", label: "Other nodes may have the same controller", kind: "check" },
  {
    name: "settings",
    label: "Settings of its drivers (JSON: only those to change)",
    kind: "json",
    hint: '{"redfish": {"password": "…"}}',
  },
];

const ticked = (isOn: boolean) => (isOn ? "yes" : "");

export function nodeTexts(node: NodeSettings): Texts {
  return {
    name: node.name,
    description: node.description,
    hostGroup: node.hostGroup ?? "",
    labels: node.labels.map(({ key, value }) => `${key}=${value}`).join("\n"),
    macs: node.macs.join("\n"),
    variables: jsonText(node.variables),
    automaticCleaning: node.automaticCleaning === null ? "" : String(node.automaticCleaning),
    diskless: ticked(node.diskless),
    sharedController: ticked(node.sharedController),
    settings: "",
  };
}

/** A label without a value is its key alone. */
function labelOf(line: string): readonly [string, string] {
  const at = line.indexOf("=");
  return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
}

/** Only what was changed: labels one by one, so that those of another person stay. */
export function readNode(texts: Texts, before: Texts): ReadEdit {
  const isTouched = (name: string) => texts[name] !== before[name];
  const orNull = (name: string) => texts[name]?.trim() || null;
  const [labels, old] = [texts, before].map((all) => new Map(linesOf(all["labels"]).map(labelOf)));
  const set = [...(labels ?? [])].filter(([key, value]) => old?.get(key) !== value);
  const removed = [...(old?.keys() ?? [])].filter((key) => !labels?.has(key));
  const cleaning = texts["automaticCleaning"];
  const settings = Object.entries(valuesOf(texts["settings"]) ?? {});
  const input = {
    ...(isTouched("name") && { name: texts["name"]?.trim() ?? "" }),
    ...(isTouched("description") && { description: orNull("description") }),
    ...(isTouched("hostGroup") && { hostGroup: orNull("hostGroup") }),
    ...(set.length > 0 && { setLabels: set.map(([key, value]) => ({ key, value })) }),
    ...(removed.length > 0 && { removeLabels: removed }),
    ...(isTouched("macs") && { macs: linesOf(texts["macs"]) }),
    ...(isTouched("variables") && { variables: patchOf(before["variables"], texts["variables"]) }),
    ...(isTouched("automaticCleaning") && { automaticCleaning: cleaning ? cleaning === "true" : null }),
    ...(isTouched("diskless") && { diskless: texts["diskless"] !== "" }),
    ...(isTouched("sharedController") && { sharedController: texts["sharedController"] !== "" }),
    ...(settings.length > 0 && { settings: settings.map(([driver, values]) => ({ [driver]: values })) }),
  };
  return { input, flaws: jsonFlaws(texts, ["variables", "settings"]) };
}

/** The field of a path of the input, such as `["input", "setLabels", "0", "key"]`; null if none is at fault. */
export function nodePlace(path: readonly string[]): string | null {
  const [, member = ""] = path;
  if (member === "setLabels" || member === "removeLabels") return "labels";
  return NODE_FIELDS.some(({ name }) => name === member) ? member : null;
}

/** The part first: names of groups have no space. */
const fieldOf = (part: string, group: string) => `${part} ${group}`;
/** Of a group that is not stored yet. */
const NEW = "New group";
const groupIn = (name: string) => name.slice(name.indexOf(" ") + 1);
const groupsIn = (texts: Texts) => [...new Set(Object.keys(texts).map(groupIn))];

export function groupTexts(groups: readonly HostGroupSettings[]): Texts {
  return Object.fromEntries(
    groups.flatMap(({ name, after, tolerates, minActive, variables }) => [
      [fieldOf("after", name), after.map(({ group, share }) => `${group} ${shareText(share)}`.trim()).join(", ")],
      [fieldOf("tolerates", name), shareText(tolerates)],
      [fieldOf("minActive", name), shareText(minActive)],
      [fieldOf("variables", name), jsonText(variables)],
    ]),
  );
}

/** With another group, whose name is typed. */
export function withGroup(texts: Texts): Texts {
  const taken = groupsIn(texts);
  const group =
    taken
      .concat("")
      .map((_, index) => `${NEW} ${index + 1}`)
      .find((name) => !taken.includes(name)) ?? NEW;
  const parts = ["name", "after", "tolerates", "minActive", "variables"];
  return { ...texts, ...Object.fromEntries(parts.map((part) => [fieldOf(part, group), ""])) };
}

export function withoutGroup(texts: Texts, group: string): Texts {
  return Object.fromEntries(Object.entries(texts).filter(([name]) => groupIn(name) !== group));
}

/** The fields of all groups, in their order. */
export function groupFields(texts: Texts): readonly EditField[] {
  return groupsIn(texts).flatMap((group): readonly EditField[] => [
    ...(group.startsWith(NEW) ? [{ name: fieldOf("name", group), label: "Name", kind: "line", group } as const] : []),
    { name: fieldOf("after", group), label: "Begins after", kind: "line", hint: "masters, storage 50 %", group },
    { name: fieldOf("tolerates", group), label: "Tolerates failures", kind: "line", hint: "any number", group },
    { name: fieldOf("minActive", group), label: "Stay in service", kind: "line", hint: "no minimum", group },
    { name: fieldOf("variables", group), label: "Variables (JSON)", kind: "json", group },
  ]);
}

/** The service takes the whole list; variables are laid over those that a group has. */
export function readGroups(texts: Texts, before: Texts): ReadEdit {
  const groups = groupsIn(texts);
  const flaws = jsonFlaws(
    texts,
    groups.map((group) => fieldOf("variables", group)),
  );
  const shareAt = (part: string, group: string) => {
    const text = texts[fieldOf(part, group)]?.trim() ?? "";
    const share = text === "" ? null : shareOf(text);
    if (text !== "" && share === null) flaws[fieldOf(part, group)] = "Use a number or a percentage, such as 2 or 5 %.";
    return share && { [part]: share };
  };
  const hostGroups = groups.map((group) => {
    const name = group.startsWith(NEW) ? (texts[fieldOf("name", group)]?.trim() ?? "") : group;
    const variables = patchOf(before[fieldOf("variables", name)], texts[fieldOf("variables", group)]);
    const after = (texts[fieldOf("after", group)] ?? "")
      .split(",")
      .map((part) => part.trim())
      .filter((part) => part !== "")
      .map((part) => {
        const [, other = "", number] = /^(\S+)\s*(.*)$/.exec(part) ?? [];
        const share = number ? shareOf(number) : null;
        if (number && share === null)
          flaws[fieldOf("after", group)] = "Use names, each with a number or a percentage, such as masters 2.";
        return { group: other, ...(share && { share }) };
      });
    return {
      name,
      ...(after.length > 0 && { after }),
      ...shareAt("tolerates", group),
      ...shareAt("minActive", group),
      ...(Object.keys(variables).length > 0 && { variables }),
    };
  });
  return { input: { hostGroups }, flaws };
}

/** As nodePlace: the path has the place of the group in the list, `["input", "hostGroups", "1", "after", "0"]`. */
export function groupPlace(path: readonly string[], texts: Texts): string | null {
  const [, , index, part = "name"] = path;
  const group = index === undefined ? undefined : groupsIn(texts)[Number(index)];
  return group === undefined ? null : fieldOf(part, group);
}
