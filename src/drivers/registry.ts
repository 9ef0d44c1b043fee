/**
 * The loaded drivers, and the composition of a node's driver: one driver, with single interfaces taken from others.
 * Also the only place that knows which settings are secret.
 */
import type { Json, Schema } from "./driver.ts";
import type { FileServers } from "../runtime/file-servers.ts";
import type { IpNetworks } from "../runtime/ip-networks.ts";
import { LruMap } from "../runtime/lru-map.ts";
import { Circuits } from "./circuits.ts";
import { addressProblems } from "./address-settings.ts";
import { INTERFACES, SHARED_INTERFACES, isInterfaceName, isSharedInterface } from "./interfaces.ts";
import type { AnyDriver, InterfaceName, SharedInterface } from "./interfaces.ts";
import { plainIssues, validate } from "./issues.ts";
import type { Issue } from "./issues.ts";
import { secretNames, shapeOf, publicSchemaOf, withoutNulls } from "./settings-shape.ts";
import type { JsonSchema } from "./settings-shape.ts";
import { secretVariablesOf } from "./variables.ts";

/** The drivers that a node names. */
export interface DriverChoice {
  readonly driver: string;
  /** Interface → driver that provides it. */
  readonly borrowed: Readonly<Record<string, string>>;
  /** Interface → further drivers, in the order in which they are tried. Of `deploy`: whose steps are performed too. */
  readonly fallbacks?: Readonly<Record<string, readonly string[]>>;
}

/** The resolved drivers of a node. */
export interface Composition {
  /** The driver that provides an interface; null if none does. */
  giver(name: InterfaceName): AnyDriver | null;
  /**
   * The driver that provides an interface, then those to try after it. Of `deploy`: all whose steps are performed.
   */
  givers(name: SharedInterface): readonly AnyDriver[];
  /**
   * The drivers that inspect, in their order: the giver of the interface, then the one that installs if it does so
   * through the agent, which sees the disks as they will be written.
   */
  readonly inspectors: readonly AnyDriver[];
  /** All drivers involved, without duplicates; the node must have settings for each. */
  readonly drivers: readonly AnyDriver[];
}

type SettingsResult =
  | {
      readonly ok: true;
      readonly settings: { readonly [key: string]: Json };
      readonly secrets: Readonly<Record<string, string>>;
    }
  | { readonly ok: false; readonly issues: readonly Issue[] };

export type Composed = { readonly composition: Composition } | { readonly problem: string };

export interface Registry extends AsyncDisposable {
  readonly drivers: readonly AnyDriver[];
  get(name: string): AnyDriver | undefined;
  /** Networks in which addresses of machines may be; null: addresses are not limited. */
  readonly networks: IpNetworks | null;
  /** Servers of files that callers name; null: not limited. */
  readonly files: FileServers | null;
  /** Circuit breakers of the controllers. */
  readonly circuits: Circuits;
  /** The node's composition, or a sentence that names the problem. */
  compose(choice: DriverChoice): Composed;
  /**
   * Validates settings, including secrets, and separates the secrets. A null for a field that is not nullable counts as
   * absent.
   */
  checkSettings(driver: AnyDriver, settings: unknown): Promise<SettingsResult>;
  /** Validates the settings of a discovery in the same way; null if the driver does not support discovery. */
  checkDiscovery(driver: AnyDriver, settings: unknown): Promise<SettingsResult> | null;
  secretFields(driver: AnyDriver): readonly string[];
  /** Names of the variables that are secret. */
  readonly secretVariables: ReadonlySet<string>;
}

/** Compositions that are kept; those of a fleet are few. */
const KEPT_MAX = 1_000;

export function createRegistry(
  drivers: readonly AnyDriver[],
  networks: IpNetworks | null = null,
  files: FileServers | null = null,
): Registry {
  const byName = new Map(drivers.map((driver) => [driver.name, driver]));
  const kept = new LruMap<string, Composed>(KEPT_MAX);

  return {
    drivers,
    networks,
    files,
    circuits: new Circuits(),
    get: (name) => byName.get(name),
    secretFields: (driver) => secretNames(shapeOf(driver.settings)),
    secretVariables: secretVariablesOf(drivers),
    compose({ driver, borrowed, fallbacks = {} }) {
      const key = JSON.stringify([driver, borrowed, fallbacks]);
      const known = kept.get(key);
      if (known) return known;
      const made = composeOf(byName, { driver, borrowed, fallbacks });
      kept.set(key, made);
      return made;
    },
    checkSettings: (driver, settings) => check(driver.settings, settings, networks),
    checkDiscovery: (driver, settings) =>
      driver.discover ? check(driver.discover.settings, settings, networks) : null,
    async [Symbol.asyncDispose]() {
      await Promise.allSettled(drivers.map(async (driver) => driver.close?.()));
    },
  };
}

function composeOf(
  byName: ReadonlyMap<string, AnyDriver>,
  { driver, borrowed, fallbacks = {} }: DriverChoice,
): Composed {
  const names = () => [...byName.keys()].join(", ") || "none";
  const own = byName.get(driver);
  if (!own)
    return { problem: `driver "${driver}" is not loaded (loaded: ${names()}); add its plugin to OSTLER_PLUGINS.` };
  const givers = new Map<InterfaceName, AnyDriver | null>(
    INTERFACES.map((name) => [name, offers(own, name) ? own : null]),
  );
  for (const [name, from] of Object.entries(borrowed)) {
    const giver = byName.get(from);
    if (!isInterfaceName(name))
      return { problem: `there is no interface "${name}" (known: ${INTERFACES.join(", ")}).` };
    if (!giver)
      return {
        problem: `driver "${from}", which provides its ${name} interface, is not loaded (loaded: ${names()}).`,
      };
    if (!offers(giver, name)) return { problem: `driver "${from}" offers no ${name} interface.` };
    givers.set(name, giver);
  }
  const next = new Map<InterfaceName, readonly AnyDriver[]>();
  for (const [name, others] of Object.entries(fallbacks)) {
    if (!isSharedInterface(name))
      return {
        problem: `its ${name} interface has a further driver, which only ${SHARED_INTERFACES.join(", ")} can have.`,
      };
    const found: AnyDriver[] = [];
    for (const other of others) {
      const giver = byName.get(other);
      if (!giver)
        return {
          problem: `driver "${other}", a further driver of its ${name} interface, is not loaded (loaded: ${names()}).`,
        };
      if (!offers(giver, name)) return { problem: `driver "${other}" offers no ${name} interface.` };
      if (giver === givers.get(name) || found.includes(giver))
        return { problem: `driver "${other}" is named twice for its ${name} interface.` };
      found.push(giver);
    }
    next.set(name, found);
  }
  const [inspector, installer] = [givers.get("inspect") ?? null, givers.get("deploy") ?? null];
  const agent = installer?.usesAgent && installer.inspect ? installer : null;
  const all = [...givers.values()].filter((giver) => giver !== null);
  const involved = [...new Set([own, ...all, ...[...next.values()].flat()])];
  return {
    composition: {
      giver: (name) => givers.get(name) ?? next.get(name)?.[0] ?? null,
      givers: (name) => [givers.get(name) ?? [], next.get(name) ?? []].flat(),
      inspectors: [...new Set([inspector, agent])].filter((one) => one !== null),
      drivers: involved,
    },
  };
}

/** Whether some driver of a node can change its power. */
export function setsPower(composition: Pick<Composition, "givers">): boolean {
  return composition.givers("power").some(({ power }) => power.set !== undefined);
}

function offers(driver: AnyDriver, name: InterfaceName): boolean {
  return driver[name] !== undefined;
}

/** JSON Schema of a driver's settings for clients, without defaults of secrets. */
export function settingsSchema(driver: AnyDriver): JsonSchema {
  return publicSchemaOf(driver.settings);
}

/** JSON Schema of the settings of a discovery; null if the driver does not support discovery. */
export function discoverySchema(driver: AnyDriver): JsonSchema | null {
  return driver.discover ? publicSchemaOf(driver.discover.settings) : null;
}

/** The values of the secrets in settings. */
export function secretsOf(schema: Schema<unknown>, settings: unknown): readonly string[] {
  const fields =
    typeof settings === "object" && settings !== null ? (settings as Readonly<Record<string, unknown>>) : {};
  return secretNames(shapeOf(schema)).flatMap((name) => (typeof fields[name] === "string" ? [fields[name]] : []));
}

/** Identifies a node's management controller; null if the driver does not report one. */
export function controllerOf(driver: AnyDriver, settings: unknown): string | null {
  const controller: unknown = driver.controllerOf?.(settings);
  return typeof controller === "string" && controller !== "" ? controller : null;
}

/** Identifies the machine behind the controller; empty if it is the only one. */
export function systemOf(driver: AnyDriver, settings: unknown): string {
  const system: unknown = driver.systemOf?.(settings);
  return typeof system === "string" ? system : "";
}

async function check(schema: Schema<unknown>, settings: unknown, networks: IpNetworks | null): Promise<SettingsResult> {
  const shape = shapeOf(schema);
  const secretFields = secretNames(shape);
  const given = withoutNulls(shape, settings);
  const result = await validate(schema, given);
  if (result.issues) return { ok: false, issues: plainIssues(schema, given, result.issues) };
  const refused = await addressProblems(schema, result.value, { networks, files: null, images: async () => [] });
  if (refused.length > 0) return { ok: false, issues: refused };
  const open: Record<string, Json> = {};
  const secrets: Record<string, string> = {};
  for (const [key, value] of Object.entries(result.value as Record<string, Json>)) {
    if (value === undefined) continue;
    if (secretFields.includes(key)) secrets[key] = typeof value === "string" ? value : JSON.stringify(value);
    else open[key] = value;
  }
  return { ok: true, settings: open, secrets };
}
