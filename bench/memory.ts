/**
 * Subject `memory`: the memory of the service, its drivers' processes and PostgreSQL, in one run of the driver `fake`:
 * at rest, with calls that end at once, and with as many calls as there may be runs that wait at the same time. A page
 * that several processes share counts once (PSS). With `--against`, another checkout is measured in the same minutes,
 * in alternating passes.
 */
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { median, printTable, shown } from "./figures.ts";
import { PARTS, processesOf, sampleOf, totalMb, withPeak } from "./process-memory.ts";
import type { Part, Sample } from "./process-memory.ts";
import { inputTypes, mutate, request } from "./request.ts";
import { nodeArgsOf, startServed } from "./service.ts";
import type { Served } from "./service.ts";
import { cpuMs, statOf } from "./testbed.ts";
import type { Testbed } from "./testbed.ts";

export interface MemoryOptions {
  readonly nodes: number;
  readonly concurrency: number;
  readonly rounds: number;
  /** Duration of the calls of each pass, in ms. */
  readonly delays: readonly number[];
  /** Folder with the checkout of another build; empty: only this one is measured. */
  readonly against: string;
}

/** The nodes end in the state in which they began. */
const VERBS = ["inspectNodes", "provideNodes", "manageNodes"] as const;
const POLL_MS = 100;
/** Idle processes of drivers have ended after this time. */
const REST_MS = 15_000;
const REGISTER_AT_ONCE = 500;
/** Unit of CPU times in /proc on all systems that Node supports. */
const TICK_MS = 10;

interface Pass {
  readonly peak: Sample;
  readonly peakMb: number;
  readonly seconds: number;
  readonly cpuMs: Readonly<Record<Part, number>>;
}

interface Build extends AsyncDisposable {
  readonly name: string;
  readonly service: Served;
}

export async function measureMemory(testbed: Testbed, options: MemoryOptions): Promise<void> {
  await using parts = new AsyncDisposableStack();
  const checkouts = [fileURLToPath(new URL("../", import.meta.url)), ...(options.against ? [options.against] : [])];
  const builds: Build[] = [];
  for (const [index, checkout] of checkouts.entries())
    builds.push(parts.use(await openBuild(testbed, index === 0 ? "this build" : checkout, checkout, options)));
  await delay(REST_MS);
  printTable(
    ["at rest", "service MB", "drivers MB", "processes", "PostgreSQL MB", "in all MB"],
    builds.map(({ name, service }) => [name, ...memoryCells(sampleOf(service.pid))]),
  );
  for (const delayMs of options.delays) {
    const passes = new Map(builds.map((build) => [build, [] as Pass[]]));
    let names: readonly string[] = [];
    for (const build of builds) names = await enroll(build, options.nodes, delayMs);
    for (let round = 1; round <= options.rounds; round += 1)
      for (const build of round % 2 === 1 ? builds : builds.toReversed())
        passes.get(build)?.push(await measurePass(build, names));
    printPasses(delayMs, passes, options);
  }
}

function printPasses(delayMs: number, passes: ReadonlyMap<Build, readonly Pass[]>, options: MemoryOptions): void {
  const { nodes, concurrency, rounds } = options;
  console.log(
    `\n  calls of ${delayMs} ms, ${nodes} nodes, ${concurrency} at a time; peak memory, the highest of ${rounds} rounds; CPU per node, medians`,
  );
  printTable(
    [
      "",
      "service MB",
      "drivers MB",
      "processes",
      "PostgreSQL MB",
      "in all MB",
      "seconds",
      ...PARTS.map((part) => `${part} CPU ms`),
    ],
    [...passes].map(([{ name }, list]) => {
      const highest = list.reduce((most, pass) => (pass.peakMb > most.peakMb ? pass : most));
      return [
        name,
        ...memoryCells(highest.peak),
        list.map(({ seconds }) => shown(seconds)).join(" "),
        ...PARTS.map((part) => shown(median(list.map((pass) => pass.cpuMs[part])) / nodes, 2)),
      ];
    }),
  );
}

function memoryCells({ pssMb, processes }: Sample): string[] {
  return [
    shown(pssMb.service, 0),
    shown(pssMb.drivers, 0),
    String(processes.drivers),
    shown(pssMb.postgres, 0),
    shown(totalMb({ pssMb }), 0),
  ];
}

// ---- the service

async function openBuild(testbed: Testbed, name: string, checkout: string, options: MemoryOptions): Promise<Build> {
  const service = await startServed(testbed, {
    program: join(checkout, "src/main.ts"),
    nodeArgs: nodeArgsOf(checkout),
    environment: {
      OSTLER_DATA: join(testbed.folder, `memory-${name === "this build" ? "this" : "other"}`),
      OSTLER_PLUGINS: "fake",
      OSTLER_CONCURRENCY: String(options.concurrency),
    },
  });
  return { name, service, [Symbol.asyncDispose]: () => service[Symbol.asyncDispose]() };
}

/** Registers the nodes of a pass, and returns their names. */
async function enroll({ service }: Build, nodes: number, delayMs: number): Promise<readonly string[]> {
  const names = Array.from({ length: nodes }, (_, index) => `delay-${delayMs}-${index}`);
  for (let from = 0; from < nodes; from += REGISTER_AT_ONCE) {
    const list = names.slice(from, from + REGISTER_AT_ONCE).map((name) => ({ name, driver: { fake: { delayMs } } }));
    await mutate(
      service,
      "mutation ($input: RegisterNodesInput!) { registerNodes(input: $input) { errors { message } } }",
      { input: { nodes: list } },
    );
  }
  await completed(service, "manageNodes", names);
  return names;
}

async function measurePass({ service }: Build, names: readonly string[]): Promise<Pass> {
  const [before, start] = [cpuOf(service.pid), performance.now()];
  const { peak } = await withPeak(
    () => sampleOf(service.pid),
    async () => {
      for (const verb of VERBS) await completed(service, verb, names);
    },
  );
  const after = cpuOf(service.pid);
  const cpu = Object.fromEntries(PARTS.map((part) => [part, after[part] - before[part]])) as Pass["cpuMs"];
  return { peak, peakMb: totalMb(peak), seconds: (performance.now() - start) / 1_000, cpuMs: cpu };
}

async function completed(service: Served, verb: (typeof VERBS)[number], names: readonly string[]): Promise<void> {
  const { work } = await mutate<{ work: { operation: { id: string } } }>(
    service,
    `mutation ($input: ${(await inputTypes(service)).get(verb)}!) { work: ${verb}(input: $input) { operation { id } errors { code message } } }`,
    { input: { nodes: { names } } },
  );
  for (;;) {
    const { operation } = await request<{ operation: { finishedAt: string | null; state: string } }>(
      service,
      "query ($id: ID!) { operation(id: $id) { finishedAt state } }",
      { id: work.operation.id },
    );
    if (operation.finishedAt !== null) {
      if (operation.state !== "SUCCEEDED") throw new Error(`${verb} of ${names.length} nodes: ${operation.state}`);
      return;
    }
    await delay(POLL_MS);
  }
}

/** CPU so far by part, in ms, including that of processes that have ended: drivers', and those of PostgreSQL. */
function cpuOf(service: number): Record<Part, number> {
  const { drivers, postgres } = processesOf(service);
  const own = (pids: readonly number[]) => pids.reduce((sum, pid) => sum + (cpuMs(pid) ?? 0), 0);
  const ofEnded = (pids: readonly number[]) =>
    pids
      .map((pid) => statOf(String(pid)))
      .reduce((sum, fields) => sum + TICK_MS * (Number(fields[13] ?? 0) + Number(fields[14] ?? 0)), 0);
  return {
    service: own([service]),
    drivers: own(drivers) + ofEnded([service]),
    postgres: own(postgres) + ofEnded(postgres),
  };
}
