/** A node as a request describes it, and the check of its drivers and their settings. */
import { invalidInput } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { INTERFACES, isInterfaceName } from "../../drivers/interfaces.ts";
import type { AnyDriver } from "../../drivers/interfaces.ts";
import type { Issue } from "../../drivers/issues.ts";
import type { Registry } from "../../drivers/registry.ts";
import { bindingNames, secretNames, shapeOf } from "../../drivers/settings-shape.ts";
import { isSameJson } from "../../runtime/canonical-json.ts";
import { groupsOf } from "../../runtime/groups.ts";
import type { OperatorFields } from "../../store/nodes/node-fields.ts";
import type { NodeRow, Secrets } from "../../store/nodes/nodes.ts";
import type { JsonObject } from "../../store/records.ts";
import { macFlaws } from "../input/mac-addresses.ts";
import { controllersOf } from "../input/machine-identities.ts";
import type { ControllerIdentity } from "../input/machine-identities.ts";
import { labelFlaws, listed, nameFlaw } from "../input/name-rules.ts";
import type { GivenLabels } from "../input/name-rules.ts";
import type { ClusterRef } from "../input/node-selector.ts";
import { sizeFlaws } from "../input/size-limits.ts";
import { levelFlaws } from "../input/output-references.ts";
import type { GivenController } from "./controller-conflicts.ts";
import { operatorFieldFlaws } from "./operator-fields.ts";

/** The fields that a request gives for a node. In a change, an absent field stays, and null removes a value. */
export interface NodeFields extends OperatorFields {
  readonly name?: string | undefined;
  readonly driver?: string | undefined;
  /** For its own driver. */
  readonly settings?: unknown;
  readonly interfaces?: readonly BorrowedInterfaces[] | undefined;
  readonly labels?: GivenLabels | undefined;
  readonly macs?: readonly string[] | null | undefined;
  /** In a change, laid over the present ones; null removes a key. */
  readonly variables?: unknown;
}

/** A node to register. */
export interface NewNode extends NodeFields {
  readonly name: string;
  readonly driver: string;
  readonly cluster?: ClusterRef | undefined;
}

/** Interfaces taken from another driver, with that driver's settings. */
export interface BorrowedInterfaces {
  readonly kinds: readonly string[];
  /** Interfaces for which it is tried after the drivers that come before it. */
  readonly fallbackFor?: readonly string[] | undefined;
  readonly driver: string;
  readonly settings?: unknown;
}

/** The checked settings of a node, secrets apart. Valid only if there are no refusals. */
export interface PreparedSettings {
  readonly settings: Readonly<Record<string, JsonObject>>;
  readonly secrets: Secrets;
  /**
   * Address of the management controller; null if the driver reports none, so that the controller is the node's own.
   */
  readonly controller: string | null;
  /** The controllers of all its drivers. */
  readonly controllers: readonly GivenController[];
  readonly refusals: readonly Refusal[];
}

/** Settings that a node has already, secrets included: driver name → settings. */
type StoredSettings = Readonly<Record<string, JsonObject>>;

const ISSUES_MAX = 10;

/** The flaws of fields that do not depend on a driver or on another node. */
export function fieldFlaws(fields: NodeFields, path: readonly string[]): Refusal[] {
  return [
    ...nameFlaw(fields.name, [...path, "name"]),
    ...labelFlaws(fields.labels, path),
    ...operatorFieldFlaws(fields, path),
    ...macFlaws(fields.macs, path),
    ...levelFlaws(fields.variables, [...path, "variables"]),
  ];
}

/** Checks a node's drivers and settings, and separates the secrets. The settings are laid over the `stored` ones. */
export async function prepareSettings(
  registry: Registry,
  node: NewNode,
  path: readonly string[],
  stored: StoredSettings = {},
): Promise<PreparedSettings> {
  const refusals: Refusal[] = [...fieldFlaws(node, path), ...driverFlaws(registry, node, path)];
  const settings: Record<string, JsonObject> = {};
  const secrets: Record<string, Readonly<Record<string, string>>> = {};
  const sources = sourcesOf(registry, node, path);
  for (const source of sources) {
    const { driver } = source;
    const checked = await checkSettings(registry, node.name, source, stored[driver.name]);
    refusals.push(...checked.refusals);
    settings[driver.name] = checked.settings;
    if (Object.keys(checked.secrets).length > 0) secrets[driver.name] = checked.secrets;
  }
  const prepared = { settings, secrets, refusals, controller: null, controllers: [] };
  if (refusals.length > 0) return prepared;
  try {
    const found = sources.flatMap((source) =>
      controllersOf(source.driver, settings, secrets).map((one) => ({ ...one, path: source.path })),
    );
    return { ...prepared, controller: powerController(registry, node, found), controllers: found };
  } catch {
    // The error may contain a secret, so neither the refusal nor the log repeats it.
    const message = `Node ${node.name}: its driver failed to determine the management controller from these settings. Report this to the author of the driver.`;
    return { ...prepared, refusals: [{ code: "UNSUPPORTED_BY_DRIVER", message, path: [...path, "driver"] }] };
  }
}

/** A driver of a node, the settings that the node gives it, and their place in the request. */
interface Source {
  readonly driver: AnyDriver;
  readonly given: unknown;
  readonly path: readonly string[];
}

/** The loaded drivers that a node names, each once. */
function sourcesOf(registry: Registry, node: NewNode, path: readonly string[]): Source[] {
  const own = { name: node.driver, given: node.settings, at: [...path, "driver"] };
  const borrowed = (node.interfaces ?? []).map(({ driver: name, settings: given }, index) => ({
    name,
    given,
    at: [...path, "interfaces", String(index), "driver"],
  }));
  return groupsOf([own, ...borrowed], ({ name }) => name).flatMap(({ key, first: { given, at } }) => {
    const driver = registry.get(key);
    return driver ? [{ driver, given, path: [...at, key] }] : [];
  });
}

/** Checked settings, secrets apart. Valid only if there are no refusals. */
export interface CheckedSettings {
  readonly settings: JsonObject;
  readonly secrets: Readonly<Record<string, string>>;
  readonly refusals: readonly Refusal[];
}

async function checkSettings(
  registry: Registry,
  name: string,
  source: Source,
  stored: JsonObject | undefined,
): Promise<CheckedSettings> {
  const { driver, path } = source;
  const what = `Node ${name}, settings of driver ${driver.name}`;
  const given = source.given ?? {};
  const isObject = typeof given === "object" && !Array.isArray(given);
  const checked = await registry.checkSettings(driver, isObject ? { ...stored, ...given } : given);
  if (!checked.ok)
    return { settings: {}, secrets: {}, refusals: issueFlaws(what, checked.issues.slice(0, ISSUES_MAX), path) };
  const { settings, secrets } = checked;
  const astray =
    stored && isObject ? await strayFlaw(registry, source, { what, given, stored, settings, secrets }) : null;
  const whole = `Node ${name}: its settings for driver ${driver.name}`;
  const refusals = astray ? [astray] : sizeFlaws(whole, { ...settings, ...secrets }, path, stored);
  return { settings, secrets, refusals };
}

/** The flaws that a driver's schema finds in settings. `path`: of the settings. */
export function issueFlaws(what: string, issues: readonly Issue[], path: readonly string[]): Refusal[] {
  return issues.map(({ path: at, message }) => {
    const where = at.length > 0 ? ` (${at.join(".")})` : "";
    return invalidInput(`${what}${where}: ${message}.`, [...path, ...at]);
  });
}

interface ChangedSettings extends Omit<CheckedSettings, "refusals"> {
  /** Begins the message. */
  readonly what: string;
  readonly given: object;
  readonly stored: JsonObject;
}

/** Why a change would send stored secrets to a place that the caller chooses; null if it does not. */
async function strayFlaw(
  registry: Registry,
  { driver, path }: Source,
  { what, given, stored, settings, secrets }: ChangedSettings,
): Promise<Refusal | null> {
  const shape = shapeOf(driver.settings);
  const sent = new Map(Object.entries(given));
  const kept = secretNames(shape).filter((name) => secrets[name] !== undefined && sent.get(name) == null);
  if (kept.length === 0) return null;
  // Defaults count on both sides: they may be newer than the stored settings.
  const parsed = await registry.checkSettings(driver, stored);
  const before = parsed.ok ? { ...parsed.settings, ...parsed.secrets } : stored;
  const after: JsonObject = { ...settings, ...secrets };
  const changed = bindingNames(shape).filter((name) => !isSameJson(before[name] ?? null, after[name] ?? null));
  const [setting] = changed;
  if (setting === undefined) return null;
  const message = `${what}: ${listed(changed)} ${changed.length === 1 ? "decides" : "decide"} where the stored ${listed(kept)} ${kept.length === 1 ? "is" : "are"} sent. Send the ${listed(kept)} again with the change.`;
  return invalidInput(message, [...path, setting]);
}

/** All flaws of the drivers that a node names. */
function driverFlaws(registry: Registry, node: NewNode, path: readonly string[]): Refusal[] {
  const own = registry.compose({ driver: node.driver, borrowed: {} });
  const flaws = [
    ...("problem" in own ? [{ what: own.problem, at: ["driver"] }] : []),
    ...(node.interfaces ?? []).flatMap((_, index) => borrowedFlaws(registry, node, index)),
  ];
  return flaws.map(({ what, at }) => invalidInput(`Node ${node.name}: ${what}`, [...path, ...at]));
}

interface Flaw {
  readonly what: string;
  /** Path below the node. */
  readonly at: readonly string[];
}

function borrowedFlaws(registry: Registry, node: NewNode, index: number): Flaw[] {
  const all = node.interfaces ?? [];
  const { driver = "", kinds = [], fallbackFor = [] } = all[index] ?? {};
  const flaws: Flaw[] = [];
  const flaw = (what: string, ...at: readonly string[]) =>
    flaws.push({ what, at: ["interfaces", String(index), ...at] });
  const itsOwn = `${driver} is its own driver, which provides every interface that is not taken from another driver. Leave it out.`;
  const twice = `the driver ${driver} is named twice. Name it once, with all interfaces that are taken from it.`;
  const unused = `no interface is taken from the driver ${driver}. Name one, or one for which it is a fallback, or leave the driver out.`;
  if (driver === node.driver) flaw(itsOwn, "driver", driver);
  if (all.findIndex((one) => one.driver === driver) !== index) flaw(twice, "driver", driver);
  if (kinds.length === 0 && fallbackFor.length === 0) flaw(unused, "kinds");
  const earlier = all.slice(0, index).flatMap((one) => one.kinds.filter((kind) => kind !== DEPLOY));
  for (const [position, kind] of kinds.entries()) {
    const where = ["kinds", String(position)];
    if (earlier.includes(kind) || kinds.indexOf(kind) !== position)
      flaw(`its interface ${kind} is given twice.`, ...where);
    if (!isInterfaceName(kind)) {
      flaw(`there is no interface "${kind}" (there are ${INTERFACES.join(", ")}).`, ...where);
      continue;
    }
    const giver = registry.compose({ driver, borrowed: { [kind]: driver } });
    if ("problem" in giver) flaw(giver.problem, ...(registry.get(driver) ? where : ["driver"]));
  }
  for (const [position, kind] of fallbackFor.entries()) {
    const where = ["fallbackFor", String(position)];
    if (kind === DEPLOY) {
      flaw(`${DEPLOY} has no fallbacks: the steps of all its drivers are performed. Name it in \`kinds\`.`, ...where);
      continue;
    }
    const whole = { driver: node.driver, borrowed: borrowedOf(all), fallbacks: { [kind]: [driver] } };
    const fallback =
      fallbackFor.indexOf(kind) === position
        ? registry.compose(whole)
        : { problem: `its fallback for ${kind} is given twice.` };
    if ("problem" in fallback && !("problem" in registry.compose({ ...whole, fallbacks: {} })))
      flaw(fallback.problem, ...where);
  }
  return flaws;
}

/** Address of the management controller, as the driver that provides power reports it. */
function powerController(registry: Registry, node: NewNode, controllers: readonly ControllerIdentity[]): string | null {
  const composed = registry.compose({ driver: node.driver, borrowed: borrowedOf(node.interfaces) });
  const giver = "composition" in composed ? composed.composition.giver("power") : null;
  return controllers.find(({ driver }) => driver === giver?.name)?.text ?? null;
}

/** The interface that several drivers can provide: the steps of all are performed. */
const DEPLOY = "deploy";

/** Interface → further drivers, in the order of the list. */
export function fallbacksOf(interfaces: readonly BorrowedInterfaces[] | undefined): Record<string, readonly string[]> {
  const first = borrowedOf(interfaces);
  const pairs = (interfaces ?? []).flatMap(({ kinds, fallbackFor = [], driver }) =>
    [...kinds.filter((kind) => first[kind] !== driver), ...fallbackFor].map((kind) => ({ kind, driver })),
  );
  const lists = groupsOf(pairs, ({ kind }) => kind);
  return Object.fromEntries(lists.map(({ key, all }) => [key, all.map(({ driver }) => driver)]));
}

/** Interface → driver that provides it, the first of several. */
export function borrowedOf(interfaces: readonly BorrowedInterfaces[] | undefined): Record<string, string> {
  const pairs = (interfaces ?? []).flatMap(({ kinds, driver }) => kinds.map((kind) => [kind, driver] as const));
  return Object.fromEntries(pairs.toReversed());
}

/** The interfaces that a node takes from other drivers, as a request would name them. */
export function borrowedBy({ borrowed, fallbacks }: Pick<NodeRow, "borrowed" | "fallbacks">): BorrowedInterfaces[] {
  const further = fallbacks[DEPLOY];
  const lists = further ? { ...fallbacks, [DEPLOY]: [borrowed[DEPLOY] ?? [], further].flat() } : fallbacks;
  return [...new Set([...inOrder(lists), ...Object.values(borrowed)])].map((driver) => ({
    driver,
    kinds: [
      ...Object.keys(borrowed).filter((kind) => borrowed[kind] === driver),
      ...(fallbacks[DEPLOY]?.includes(driver) ? [DEPLOY] : []),
    ],
    fallbackFor: Object.keys(fallbacks).filter((kind) => kind !== DEPLOY && fallbacks[kind]?.includes(driver)),
  }));
}

/** The drivers of fallbacks, in an order that agrees with each list: all lists come from one. */
function inOrder(fallbacks: NodeRow["fallbacks"]): readonly string[] {
  const lists = Object.values(fallbacks);
  const precedes = (a: string, b: string) =>
    lists.some((list) => list.includes(a) && list.includes(b) && list.indexOf(a) < list.indexOf(b));
  const left = new Set(lists.flat());
  const found: string[] = [];
  while (left.size > 0) {
    const next = [...left].find((one) => ![...left].some((other) => precedes(other, one))) ?? [...left][0] ?? "";
    left.delete(next);
    found.push(next);
  }
  return found;
}

/** The settings of a node, secrets included. */
export function storedSettings({ settings }: Pick<NodeRow, "settings">, secrets: Secrets): StoredSettings {
  return Object.fromEntries(
    Object.entries(settings).map(([driver, open]) => [driver, { ...open, ...secrets[driver] }]),
  );
}
