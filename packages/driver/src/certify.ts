/** Runs the conformance suite on a driver module. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { conformance } from "./conformance/conformance.ts";
import type { ChosenStep, ConformanceCheck, ConformanceOptions } from "./conformance/conformance.ts";
import type { DriverFactory, Json } from "../../../src/drivers/driver.ts";
import type { Certificate, CheckResult } from "./certificate.ts";

export interface CheckRequest {
  /** Path of a JSON file. */
  readonly settings: string;
  readonly live: boolean;
  readonly refused?: string | undefined;
  readonly driveless?: string | undefined;
  /** Names of steps with their interfaces, separated by commas. */
  readonly steps?: string | undefined;
  readonly seconds: string;
}

type Settings = Readonly<Record<string, Json>>;

export async function certify(module: string, request: CheckRequest): Promise<Certificate> {
  const factory = await factoryOf(module);
  const settings = readSettings(request.settings);
  const liveSeconds = Number(request.seconds);
  if (!(liveSeconds > 0)) throw new Error(`--seconds ${request.seconds} is not a positive number.`);
  const endpoint = endpointOf(settings);
  const options: ConformanceOptions = {
    factory,
    settings,
    live: request.live,
    liveSeconds,
    ...(endpoint && { endpoint }),
    ...(request.refused !== undefined && { refused: readSettings(request.refused) }),
    ...(request.driveless !== undefined && { driveless: readSettings(request.driveless) }),
    ...(request.steps !== undefined && { steps: request.steps.split(",").map(stepOf) }),
  };
  return certifyDriver(options);
}

/** Runs the checks that the options allow, in order. */
export async function certifyDriver(options: ConformanceOptions): Promise<Certificate> {
  const { name, version, contract } = await options.factory({ log: () => undefined, describing: true });
  const checks: CheckResult[] = [];
  for (const check of conformance(options)) checks.push(await judge(check));
  const failed = checks.filter(({ problem }) => problem !== null).length;
  const unsupported = checks.filter((check) => check.problem === null && check.unsupported.length > 0).length;
  return {
    driver: name,
    version,
    contract,
    node: process.version,
    live: options.live === true,
    passed: checks.length - failed - unsupported,
    unsupported,
    failed,
    checks,
  };
}

async function judge({ title, run, unsupported }: ConformanceCheck): Promise<CheckResult> {
  const began = performance.now();
  const problem = await run().then(
    () => null,
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
  return { title, problem, unsupported: [...unsupported], milliseconds: Math.round(performance.now() - began) };
}

async function factoryOf(module: string): Promise<DriverFactory<unknown>> {
  const loaded = (await import(pathToFileURL(resolve(module)).href)) as { readonly default?: unknown };
  if (typeof loaded.default !== "function") throw new Error(`The default export of ${module} is not a driver factory.`);
  return loaded.default as DriverFactory<unknown>;
}

function readSettings(path: string): Settings {
  const value: unknown = JSON.parse(readFileSync(path, "utf8"));
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Settings;
  throw new Error(`${path} does not contain a JSON object.`);
}

function stepOf(word: string): ChosenStep {
  const [kind, step, ...rest] = word.split(".");
  const isInterface = kind === "inspect" || kind === "clean" || kind === "deploy";
  if (isInterface && step !== undefined && rest.length === 0) return { interface: kind, step };
  throw new Error(`--steps names "${word}"; write an interface and a step, such as clean.erase_disks.`);
}

/** How the settings name another machine: by the usual `address` and `port`, or by a `url`. */
function endpointOf(settings: Settings): ConformanceOptions["endpoint"] {
  if (typeof settings["address"] === "string") return ({ host, port }) => ({ ...settings, address: host, port });
  const { url } = settings;
  if (typeof url !== "string" || !URL.canParse(url)) return undefined;
  return ({ host, port }) => ({ ...settings, url: `${new URL(url).protocol}//${host}:${port}` });
}
