/**
 * Loads the configured driver plugins (plugin-module.ts finds their modules). A broken plugin fails the start: without
 * its driver the service cannot manage its nodes.
 */
import { SettingError, messageOf } from "../errors.ts";
import type { Log } from "../log.ts";
import { fileServers } from "../runtime/file-servers.ts";
import type { FileServers } from "../runtime/file-servers.ts";
import type { IpNetworks } from "../runtime/ip-networks.ts";
import type { Driver, DriverFactory, PluginHost, Step, StepInterface } from "./driver.ts";
import { isolate } from "./isolation/isolate.ts";
import { createMemory } from "./isolation/driver-memory.ts";
import type { Pool } from "./isolation/pool.ts";
import { egressLimits } from "./address-settings.ts";
import { limitEgress } from "./egress.ts";
import { parsePin, verifyPin } from "./pinned-plugin.ts";
import { pluginModule } from "./plugin-module.ts";
import { FUNCTIONS } from "./driver-functions.ts";
import { CONTRACT, INTERFACE_OF_PHASE, STEP_INTERFACES } from "./interfaces.ts";
import { createRegistry } from "./registry.ts";
import type { AnyDriver } from "./interfaces.ts";
import type { Registry } from "./registry.ts";
import { shapeProblem } from "./settings-shape.ts";
import { variablesProblem } from "./variables.ts";

/** A driver's name is a field name in GraphQL. */
const DRIVER = /^[a-z][a-z0-9]*(_[a-z0-9]+)*$/;

/** Bundled plugins. */
const BUNDLED_PLUGINS = ["agent", "ansible", "fake", "ipmi", "redfish"] as const;

/**
 * Loads the plugins in order. Throws an error with one sentence for the first that cannot be used. With a pool, their
 * functions run in worker processes; without one, in this process.
 */
export async function loadPlugins(words: readonly string[], log: Log, options: LoadOptions = {}): Promise<Registry> {
  const { networks = null, files = fileServers([], null) } = options;
  return createRegistry(await driversOf(words, log, {}, options), networks, networks && files);
}

interface LoadOptions {
  /** Runs the drivers' functions in worker processes. */
  readonly pool?: Pool | undefined;
  /** Null: addresses are not limited. */
  readonly networks?: IpNetworks | null;
  /** With `networks`: servers of files that callers name. Absent: those of registered images. */
  readonly files?: FileServers;
  /** Where plugins are looked up by name, in addition to the bundled ones. */
  readonly pluginFolder?: string | null;
}

/** Loads plugins for their declarations only; their functions must not be called. */
export function describeDrivers(
  words: readonly string[] = BUNDLED_PLUGINS,
  pluginFolder: string | null = null,
): Promise<readonly AnyDriver[]> {
  return driversOf(words, { info: () => {} }, { describing: true }, { pluginFolder });
}

type PluginLog = Pick<Log, "info">;

async function driversOf(
  words: readonly string[],
  log: PluginLog,
  host: Pick<PluginHost, "describing"> = {},
  { pool, networks = null, files = fileServers([], null), pluginFolder = null }: LoadOptions = {},
): Promise<AnyDriver[]> {
  const drivers: AnyDriver[] = [];
  for (const pinned of words) {
    const { plugin: word, hash } = parsePin(pinned);
    if (word.includes("#sha"))
      throw new Error(
        `Plugin "${word}" has an invalid hash. Use #sha512- and the hash in Base64, as \`openssl dgst -sha512 -binary FILE | base64 -w0\` prints it.`,
      );
    const memory = createMemory();
    const find = () => pluginModule(word, pluginFolder);
    const made = await loadPlugin({ word, hash, find }, log, { ...host, memory });
    const egress = networks && egressLimits(made, networks, files);
    const driver = pool
      ? isolate(
          made,
          {
            module: find(),
            hash,
            permissions: made.permissions ?? [],
            name: made.name,
            version: made.version,
            memory,
            egress,
          },
          pool,
        )
      : egress
        ? limitEgress(made, egress)
        : made;
    if (drivers.some(({ name }) => name === driver.name))
      throw new SettingError(
        `Plugin "${word}" provides a driver "${driver.name}", but another plugin already provides a driver of that name. Remove one of them from OSTLER_PLUGINS.`,
      );
    drivers.push(driver);
    log.info({ driver: driver.name, version: driver.version, plugin: word }, "driver loaded");
  }
  return drivers;
}

async function loadPlugin(
  { word, hash, find }: { readonly word: string; readonly hash: string | null; readonly find: () => string },
  log: PluginLog,
  host: Omit<PluginHost, "log">,
): Promise<AnyDriver> {
  const refuse = (what: string, cause?: unknown): never => {
    const message = `Plugin "${word}" cannot be used: ${what} Repair it or remove it from OSTLER_PLUGINS.`;
    throw new SettingError(message, { cause });
  };
  let module: Record<string, unknown>;
  try {
    const url = find();
    verifyPin(url, hash);
    module = (await import(url)) as Record<string, unknown>;
  } catch (error) {
    return refuse(`it cannot be loaded (${messageOf(error)}).`, error);
  }
  const factory = module["default"];
  if (typeof factory !== "function") return refuse("its default export is not a driver factory.");
  let driver: unknown;
  try {
    driver = await (factory as DriverFactory<unknown>)({
      ...host,
      log: (message) => log.info({ plugin: word }, message),
    });
  } catch (error) {
    return refuse(messageOf(error), error);
  }
  let problem: string | null;
  try {
    problem = problemOf(driver);
  } catch (error) {
    return refuse(`it cannot be inspected (${messageOf(error)}).`, error);
  }
  return problem === null ? (driver as AnyDriver) : refuse(problem);
}

/**
 * Why a value does not implement the driver contract; null if it does. A safety check; the conformance suite is
 * thorough.
 */
function problemOf(made: unknown): string | null {
  if (typeof made !== "object" || made === null) return "its factory did not return a driver.";
  const driver = made as Partial<Driver<unknown>>;
  const contract: unknown = driver.contract;
  if (contract !== CONTRACT)
    return `it implements driver contract ${String(contract)}, but this service supports ${CONTRACT}. Change it as docs/drivers.md describes, and declare \`contract: ${CONTRACT}\`.`;
  if (typeof driver.name !== "string" || !DRIVER.test(driver.name))
    return `its driver's name ${JSON.stringify(driver.name)} is invalid. Use lower-case letters and digits, in words joined by _.`;
  if (typeof driver.version !== "string" || typeof driver.description !== "string")
    return "its driver lacks a version or a description.";
  const { permissions = [] } = driver;
  if (!Array.isArray(permissions) || permissions.some((one) => one !== "FILES" && one !== "PROGRAMS"))
    return "its driver's permissions are not a list of FILES and PROGRAMS.";
  const standard = driver.settings?.["~standard"];
  if (!standard || typeof standard.validate !== "function" || typeof standard.jsonSchema?.input !== "function") {
    return "its settings are not a Standard Schema with Standard JSON Schema.";
  }
  const problem =
    shapeProblem(driver.settings, "its settings") ??
    (driver.discover ? shapeProblem(driver.discover.settings, "the settings of its discovery") : null);
  if (problem !== null) return problem;
  if (driver.discover && typeof driver.discover.probe !== "function") return "its discovery lacks probe.";
  if (typeof driver.power?.read !== "function") return "its driver lacks power.read.";
  for (const kind of ["media", "firmware", "bios", "console"] as const) {
    const offered = driver[kind] as Readonly<Record<string, unknown>> | undefined;
    const missing = offered && FUNCTIONS[kind].find((one) => typeof offered[one] !== "function");
    if (missing !== undefined) return `its ${kind} interface lacks ${missing}.`;
  }
  return stepsProblem(driver) ?? (driver.variables ? variablesProblem(driver.variables) : null);
}

const GROUPS: readonly unknown[] = ["raid", "bios", "firmware", "management", "storage", "vendor"];

function stepsProblem(driver: Partial<Driver<unknown>>): string | null {
  for (const kind of STEP_INTERFACES) {
    const offered: Partial<StepInterface<unknown>> | null | undefined = driver[kind];
    if (offered === undefined) continue;
    if (!Array.isArray(offered?.steps) || typeof offered.supportsAbort !== "boolean")
      return `its ${kind} interface lacks steps or supportsAbort.`;
    for (const step of offered.steps as readonly (Partial<Step<unknown>> | null)[]) {
      const problem = stepProblem(kind, step);
      if (problem !== null) return `step ${JSON.stringify(step?.name)} of its ${kind} interface ${problem}`;
    }
  }
  return null;
}

/** The end of a sentence about the step; null if it has no problem. */
function stepProblem(kind: "inspect" | "deploy" | "clean", step: Partial<Step<unknown>> | null): string | null {
  if (
    typeof step?.name !== "string" ||
    typeof step.run !== "function" ||
    !(Number(step.timeoutSeconds) > 0) ||
    typeof step.priority !== "number"
  )
    return "lacks a name, a run function, a priority or a timeout.";
  const fitting = DRIVER_PHASES.filter((phase) => INTERFACE_OF_PHASE[phase] === kind);
  if (!fitting.some((phase) => phase === step.phase))
    return `has the phase ${JSON.stringify(step.phase)}, in which it would never run. Declare ${fitting.map((phase) => JSON.stringify(phase)).join(" or ")}, or move it to the interface of its phase.`;
  if (step.group !== undefined && !GROUPS.includes(step.group))
    return `has the group ${JSON.stringify(step.group)}. Use one of ${GROUPS.join(", ")}.`;
  return null;
}

const DRIVER_PHASES = Object.keys(INTERFACE_OF_PHASE) as readonly (keyof typeof INTERFACE_OF_PHASE)[];
