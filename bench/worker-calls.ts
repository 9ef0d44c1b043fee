/**
 * Child of the subject `workers`: makes calls with the pool of a checkout, and reports what they cost. The
 * checkout has to know the field `dispatch` of a call; an older one takes nested calls for outer ones.
 *
 *     node worker-calls.ts <checkout> <JSON of WorkerLoad>
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { Call, StepCall } from "../src/drivers/driver.ts";
import type * as Loading from "../src/drivers/load.ts";
import type * as Pools from "../src/drivers/isolation/pool.ts";
import type { Dispatched } from "../src/drivers/isolation/dispatch.ts";
import type * as Logs from "../src/log.ts";
import { cpuMsOfChildren, pssMb } from "./testbed.ts";

export interface WorkerLoad {
  readonly calls: number;
  readonly atOnce: number;
  /** How long each call waits. */
  readonly ms: number;
  /** Whether each call reads the power of its node. */
  readonly nested: boolean;
}

export interface WorkerCost {
  readonly seconds: number;
  readonly serviceCpuMs: number;
  readonly workersCpuMs: number;
  /** Memory and number of the workers at the peak. */
  readonly peakMb: number;
  readonly peakWorkers: number;
}

const SAMPLE_MS = 100;

const [, , checkout = "", loadText = ""] = process.argv;
const load = JSON.parse(loadText) as WorkerLoad;
const of = (path: string) => import(pathToFileURL(join(checkout, path)).href) as Promise<unknown>;
const { createPool } = (await of("src/drivers/isolation/pool.ts")) as typeof Pools;
const { loadPlugins } = (await of("src/drivers/load.ts")) as typeof Loading;
const { createLog } = (await of("src/log.ts")) as typeof Logs;

function workers(): string[] {
  return readFileSync(`/proc/self/task/${process.pid}/children`, "utf8").trim().split(/\s+/).filter(Boolean);
}

const log = createLog("silent");
const pool = createPool({ workers: load.atOnce, log });
const registry = await loadPlugins([fileURLToPath(new URL("waiting-driver.ts", import.meta.url))], log, { pool });
const driver = registry.get("waiting");
const step = driver?.clean?.steps[0];
if (!driver || !step) throw new Error("The driver was not loaded.");
const common: Call<unknown> = {
  node: { id: "0f8fad5b-d9cb-469f-a165-70867728950e", name: "rack3-u12", powerState: "OFF", labels: {} },
  settings: { ms: load.ms, nested: load.nested },
  signal: new AbortController().signal,
  deadline: new Date(Date.now() + 3_600_000),
  log: () => {},
  timed: async (_name, work) => work(),
};
const nested: Call<unknown> & Dispatched = { ...common, dispatch: { lane: "NESTED" } };
const call: StepCall<unknown> = {
  ...common,
  args: {},
  memo: null,
  callback: null,
  callbackPath: "",
  attemptKey: "",
  fence: 1,
  variables: {},
  image: null,
  userData: null,
  media: { offered: false, insert: async () => {}, eject: async () => {} },
  agent: {} as StepCall<unknown>["agent"],
  power: {
    read: () => driver.power.read(nested),
    set: async () => {},
    setBootDevice: async () => {},
  },
  progress: () => {},
};

let left = load.calls;
let peakMb = 0;
let peakWorkers = 0;
const look = () => {
  const pids = workers();
  peakWorkers = Math.max(peakWorkers, pids.length);
  peakMb = Math.max(
    peakMb,
    pids.reduce((sum, pid) => sum + pssMb(pid), 0),
  );
};
const timer = setInterval(look, SAMPLE_MS);
const [start, own, ofWorkers] = [performance.now(), process.cpuUsage(), cpuMsOfChildren(process.pid) ?? 0];
await Promise.all(
  Array.from({ length: load.atOnce }, async () => {
    while (left > 0) {
      left -= 1;
      await step.run(call);
    }
  }),
);
const seconds = (performance.now() - start) / 1_000;
const { user, system } = process.cpuUsage(own);
const workersCpuMs = (cpuMsOfChildren(process.pid) ?? 0) - ofWorkers;
look();
clearInterval(timer);
const cost: WorkerCost = {
  seconds,
  serviceCpuMs: (user + system) / 1_000,
  workersCpuMs,
  peakMb,
  peakWorkers,
};
console.log(JSON.stringify(cost));
await registry[Symbol.asyncDispose]();
await pool[Symbol.asyncDispose]();
process.exit(0);
