/**
 * A change that is applied to many nodes: its flaws, whatever the nodes are, and its effect on one node. Pure, except
 * for the checks of settings, which the drivers provide.
 */
import { invalidInput, nodeRefusal } from "../../errors.ts";
import type { Refusal, Refused } from "../../errors.ts";
import type { Registry } from "../../drivers/registry.ts";
import { secretNames, shapeOf } from "../../drivers/settings-shape.ts";
import { isSameJson } from "../../runtime/canonical-json.ts";
import { pick } from "../../runtime/pick.ts";
import type { NodeEdit } from "../../store/nodes/node-edits.ts";
import { OPERATOR_COLUMNS } from "../../store/nodes/node-fields.ts";
import type { NodeRow, Secrets } from "../../store/nodes/nodes.ts";
import type { JsonObject } from "../../store/records.ts";
import { changedFields } from "../input/changed-fields.ts";
import { sortedMacs } from "../input/mac-addresses.ts";
import { labelFlaw, labelRecord, LABELS_MAX, listed, repeatedFlaws } from "../input/name-rules.ts";
import type { LabelEntry } from "../input/name-rules.ts";
import { sizeFlaws } from "../input/size-limits.ts";
import type { GivenController } from "./controller-conflicts.ts";
import { borrowedBy, borrowedOf, fallbacksOf, fieldFlaws, prepareSettings, storedSettings } from "./node-settings.ts";
import type { NodeFields } from "./node-settings.ts";

export interface DriverSettings {
  readonly driver: string;
  readonly settings: unknown;
}

/**
 * A change of nodes. `labels` replaces all labels, `interfaces` the whole list, and `driver` with its `settings` the
 * driver of the nodes.
 */
export interface NodePatch extends Omit<NodeFields, "labels"> {
  readonly labels?: readonly LabelEntry[] | undefined;
  /** Sets single labels; the others stay. */
  readonly setLabels?: readonly LabelEntry[] | undefined;
  /** Keys of labels to remove. */
  readonly removeLabels?: readonly string[] | undefined;
  readonly isProtected?: boolean | undefined;
  /** Laid over the settings of each node for the drivers that it uses; those of other drivers are left out. */
  readonly settingsOfDrivers?: readonly DriverSettings[] | undefined;
}

/** Whether the patch may change the drivers of a node, or its settings for them. */
export function changesDrivers({ driver, settings, interfaces, settingsOfDrivers }: NodePatch): boolean {
  return [driver, settings, interfaces, settingsOfDrivers].some((one) => one !== undefined);
}

/** The flaws of a patch that are the same for all nodes. */
export function patchFlaws(patch: NodePatch): Refusal[] {
  const { setLabels = [], removeLabels = [], settingsOfDrivers: settings, ...fields } = patch;
  if (Object.values(patch).every((one) => one === undefined)) return [invalid("The request changes nothing.", [])];
  const keys = setLabels.map(({ key }) => key);
  const flaws = fieldFlaws(fields, ["input"]);
  for (const [index, { key, value }] of setLabels.entries())
    flaws.push(...labelFlaw(key, value, ["input", "setLabels", String(index)]));
  flaws.push(...repeatedFlaws(keys, ["input", "setLabels"]));
  const refuse = (message: string, member: string) => flaws.push(invalid(message, [member]));
  if (setLabels.length > LABELS_MAX) refuse(`At most ${LABELS_MAX} labels are stored; set fewer.`, "setLabels");
  const both = keys.filter((key) => removeLabels.includes(key));
  if (both.length > 0) refuse(`${listed(both)}: set a label or remove it, not both.`, "removeLabels");
  if (patch.labels && (patch.setLabels ?? patch.removeLabels))
    refuse("`labels` replaces all labels. Leave it out, or leave out `setLabels` and `removeLabels`.", "labels");
  if (settings && (patch.driver ?? patch.interfaces ?? patch.settings))
    refuse("`settings` changes no driver. Leave it out, or leave out `driver` and `interfaces`.", "settings");
  if (settings?.length === 0) refuse("The list of settings is empty; name a driver.", "settings");
  const drivers = (settings ?? []).map(({ driver }) => driver);
  return [...flaws, ...repeatedFlaws(drivers, ["input", "settings"])];
}

function invalid(message: string, path: readonly string[]): Refusal {
  return invalidInput(message, ["input", ...path]);
}

/** The change of one node; null if it already is as the patch wants it. */
type PatchedNode =
  | { readonly edit: NodeEdit | null; readonly controllers: readonly GivenController[] | null }
  | Refused;

/** A node to change, with what is stored beside its row. */
interface StoredNode {
  readonly node: NodeRow;
  /** Read only if the patch has settings. */
  readonly secrets: Secrets;
  /** Its variables after the change; undefined if they stay. */
  readonly variables: JsonObject | undefined;
}

/** Applies a patch to a node. */
export async function patchedNode(
  registry: Registry,
  patch: NodePatch,
  { node, secrets, variables }: StoredNode,
): Promise<PatchedNode> {
  const labels = patchedLabels(node.labels, patch);
  const fields = {
    labels,
    variables,
    macs: patch.macs === undefined ? undefined : sortedMacs(patch.macs ?? []),
    ...pick(patch, ["name", "isProtected", ...OPERATOR_COLUMNS]),
  };
  const count = Object.keys(labels).length;
  const whole = `The variables together with those of node ${node.name}`;
  const flaws = sizeFlaws(whole, variables, ["input", "variables"], node.variables);
  if (count > LABELS_MAX && count > Object.keys(node.labels).length)
    flaws.push(
      invalid(`Node ${node.name} would have ${count} labels; at most ${LABELS_MAX} are stored.`, ["setLabels"]),
    );
  const prepared = changesDrivers(patch) ? await patchedDrivers(registry, patch, { node, secrets }) : null;
  if (prepared && "refusals" in prepared) return { refusals: [...flaws, ...prepared.refusals] };
  if (flaws.length > 0) return { refusals: flaws };
  const change = changedFields<NodeRow>(node, { ...fields, ...prepared?.open });
  const controllers = prepared?.controllers ?? null;
  if (!change && !prepared?.secrets) return { edit: null, controllers };
  return { edit: { nodeId: node.id, change: change ?? {}, secrets: prepared?.secrets ?? null }, controllers };
}

function patchedLabels(present: NodeRow["labels"], { labels, setLabels = [], removeLabels = [] }: NodePatch) {
  if (labels) return labelRecord(labels);
  const next = new Map(Object.entries(present));
  for (const { key, value } of setLabels) next.set(key, value);
  for (const key of removeLabels) next.delete(key);
  return Object.fromEntries(next);
}

interface PatchedDrivers {
  readonly open: Pick<NodeRow, "driver" | "borrowed" | "fallbacks" | "settings" | "controller">;
  /** Null if they stay. */
  readonly secrets: Secrets | null;
  readonly controllers: readonly GivenController[];
}

async function patchedDrivers(
  registry: Registry,
  { driver, settings, interfaces, settingsOfDrivers }: NodePatch,
  { node, secrets }: Pick<StoredNode, "node" | "secrets">,
): Promise<PatchedDrivers | Refused> {
  const own = driver ?? node.driver;
  const present = borrowedBy(node).filter((one) => one.driver !== own);
  const used = new Set([node.driver, ...present.map((one) => one.driver)]);
  const given = settingsOfDrivers?.filter((one) => used.has(one.driver)) ?? [];
  if (settingsOfDrivers && given.length === 0) return { refusals: [otherDriver(node, settingsOfDrivers, used)] };
  const settingsOf = (name: string) => given.find((one) => one.driver === name)?.settings;
  const next = {
    name: node.name,
    driver: own,
    settings: settings ?? settingsOf(own),
    interfaces: interfaces ?? present.map((one) => ({ ...one, settings: settingsOf(one.driver) })),
  };
  const { refusals, ...prepared } = await prepareSettings(registry, next, ["input"], storedSettings(node, secrets));
  const placed = <One extends { readonly path?: readonly string[] }>(one: One) =>
    settingsOfDrivers ? { ...one, path: pathOf(one, settingsOfDrivers) } : one;
  if (refusals.length > 0) return { refusals: refusals.map(placed) };
  // A secret that is sent counts as a change, also if it is the stored one: a dry run must not confirm a guess.
  const sent = [{ driver: own, settings: next.settings }, ...next.interfaces];
  const sendsSecret = sent.some((one) => secretsIn(registry, one).length > 0);
  const isChanged = sendsSecret || !isSameJson(prepared.secrets, secrets);
  return {
    open: {
      driver: own,
      borrowed: borrowedOf(next.interfaces),
      fallbacks: fallbacksOf(next.interfaces),
      settings: prepared.settings,
      controller: prepared.controller,
    },
    secrets: isChanged ? prepared.secrets : null,
    controllers: prepared.controllers.map(placed),
  };
}

/** Names of the secrets in given settings. */
function secretsIn(
  registry: Registry,
  { driver, settings }: { readonly driver: string; readonly settings?: unknown },
): readonly string[] {
  const loaded = registry.get(driver);
  const sent = new Map(Object.entries(settings ?? {}));
  return loaded ? secretNames(shapeOf(loaded.settings)).filter((name) => sent.get(name) != null) : [];
}

/** The place of a flaw in the request, which names a driver in `settings` and not in `driver` or `interfaces`. */
function pathOf({ path = [] }: Pick<Refusal, "path">, given: readonly DriverSettings[]): readonly string[] {
  const [driver, ...setting] = path.slice(path.lastIndexOf("driver") + 1);
  const index = given.findIndex((one) => one.driver === driver);
  return index === -1 || driver === undefined
    ? ["input", "settings"]
    : ["input", "settings", String(index), driver, ...setting];
}

function otherDriver({ id, name }: NodeRow, given: readonly DriverSettings[], used: ReadonlySet<string>): Refusal {
  const asked = listed(given.map(({ driver }) => driver));
  const message = `Node ${name} does not use the driver ${asked}, but ${listed([...used])}. Select nodes of that driver, or send the driver as \`driver\`.`;
  return nodeRefusal("UNSUPPORTED_BY_DRIVER", id, message, { path: ["input", "settings"] });
}
