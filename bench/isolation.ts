/**
 * Subject `isolation`: the cost of a call of a driver without effects, in this process, in a thread that only echoes,
 * and in a worker process; and the start time and memory of a thread and of a worker.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { once } from "node:events";
import type { Call } from "../src/drivers/driver.ts";
import { createPool } from "../src/drivers/isolation/pool.ts";
import { loadPlugins } from "../src/drivers/load.ts";
import type { Registry } from "../src/drivers/registry.ts";
import { createLog } from "../src/log.ts";
import { printTable, shown } from "./figures.ts";
import { DRIVER } from "./six-step-driver.ts";

const PLUGIN = fileURLToPath(new URL("six-step-driver.ts", import.meta.url));
const WARM_UP = 2_000;
const PARALLEL_CALLS = 4;
const THREADS = 4;

interface Cost {
  readonly wallUs: number;
  readonly cpuUs: number;
  /** CPU of the worker processes; null without any. */
  readonly workerCpuUs: number | null;
}

const call: Call<unknown> = {
  node: { id: "0f8fad5b-d9cb-469f-a165-70867728950e", name: "rack3-u12", powerState: "OFF", labels: { rack: "3" } },
  settings: {},
  signal: new AbortController().signal,
  deadline: new Date(Date.now() + 3_600_000),
  log: () => {},
  timed: async (_name, work) => work(),
};

export async function measureIsolation({ calls }: { readonly calls: number }): Promise<void> {
  const log = createLog("silent");
  const local = await loadPlugins([PLUGIN], log);
  await using pool = createPool({ workers: PARALLEL_CALLS, log });
  await using isolated = await loadPlugins([PLUGIN], log, { pool });
  const rows: [string, Cost][] = [
    ["in this process", await costOf(calls, 1, reading(local))],
    ["in a thread that echoes", await inThread(calls)],
    ["in a worker", await costOf(calls, 1, reading(isolated))],
    [`in a worker, ${PARALLEL_CALLS} calls at a time`, await costOf(calls, PARALLEL_CALLS, reading(isolated))],
  ];
  printTable(
    ["a call", "µs", "CPU of the caller, µs", "CPU of the worker, µs"],
    rows.map(([what, { wallUs, cpuUs, workerCpuUs }]) => [
      what,
      shown(wallUs, 0),
      shown(cpuUs, 0),
      shown(workerCpuUs, 0),
    ]),
  );
  console.log();
  printTable(
    ["with a driver", "ms to start", "private memory, MB"],
    [await threadStart(), ["a worker", shown(await workerStart(log)), shown(memoryOfWorkers())]],
  );
}

function reading(registry: Registry): () => Promise<unknown> {
  const driver = registry.get(DRIVER);
  if (!driver) throw new Error("The driver was not loaded.");
  return () => driver.power.read(call);
}

async function costOf(calls: number, atOnce: number, make: () => Promise<unknown>): Promise<Cost> {
  const loop = async (count: number) => {
    for (let made = 0; made < count; made += 1) await make();
  };
  const all = (count: number) => Promise.all(Array.from({ length: atOnce }, () => loop(count / atOnce)));
  await all(WARM_UP);
  const [start, cpuBefore, workersBefore] = [performance.now(), process.cpuUsage(), cpuOfChildren()];
  await all(calls);
  const { user, system } = process.cpuUsage(cpuBefore);
  const workerCpu = cpuOfChildren() - workersBefore;
  return {
    wallUs: ((performance.now() - start) * 1_000) / calls,
    cpuUs: (user + system) / calls,
    workerCpuUs: workerCpu === 0 ? null : workerCpu / calls,
  };
}

const ECHO = `import { parentPort } from "node:worker_threads"; parentPort.on("message", (message) => parentPort.postMessage(message)); parentPort.postMessage("ready");`;

async function startThread(source: string): Promise<Worker> {
  const thread = new Worker(new URL(`data:text/javascript,${encodeURIComponent(source)}`));
  await once(thread, "message");
  return thread;
}

async function inThread(calls: number): Promise<Cost> {
  const thread = await startThread(ECHO);
  const given = {
    target: { on: "power", function: "read" },
    node: call.node,
    settings: call.settings,
    deadline: call.deadline.getTime(),
  };
  try {
    return await costOf(calls, 1, () => {
      thread.postMessage(given);
      return once(thread, "message");
    });
  } finally {
    await thread.terminate();
  }
}

async function threadStart(): Promise<string[]> {
  const before = privateMemory(process.pid);
  const began = performance.now();
  const threads: Worker[] = [];
  for (let count = 0; count < THREADS; count += 1)
    threads.push(
      await startThread(
        `await import(${JSON.stringify(new URL("six-step-driver.ts", import.meta.url).href)}); ${ECHO}`,
      ),
    );
  const row = [
    "a thread",
    shown((performance.now() - began) / THREADS),
    shown((privateMemory(process.pid) - before) / THREADS),
  ];
  await Promise.all(threads.map((thread) => thread.terminate()));
  return row;
}

/** From the first call to its result. */
async function workerStart(log: ReturnType<typeof createLog>): Promise<number> {
  await using pool = createPool({ workers: 1, log });
  await using registry = await loadPlugins([PLUGIN], log, { pool });
  const began = performance.now();
  await reading(registry)();
  return performance.now() - began;
}

function memoryOfWorkers(): number {
  const sizes = workersOf().map(privateMemory);
  return sizes.reduce((sum, size) => sum + size, 0) / sizes.length;
}

/** Worker processes of this process; empty on systems other than Linux. */
function workersOf(): number[] {
  try {
    return readFileSync(`/proc/self/task/${process.pid}/children`, "utf8")
      .trim()
      .split(/\s+/)
      .map(Number)
      .filter((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("isolation/worker.ts"));
  } catch {
    return [];
  }
}

/** Private memory of a process, in MB. */
function privateMemory(pid: number): number {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  const kilobytes = [...text.matchAll(/^Private_\w+:\s+(\d+) kB/gm)].map(([, size]) => Number(size));
  return kilobytes.reduce((sum, size) => sum + size, 0) / 1_024;
}

/** CPU of the worker processes, in µs. */
function cpuOfChildren(): number {
  return workersOf().reduce((sum, pid) => {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
    return sum + (Number(fields[11]) + Number(fields[12])) * 10_000;
  }, 0);
}
