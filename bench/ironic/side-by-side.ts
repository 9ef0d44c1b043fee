/**
 * Subject `ironic`: the cycle of the subject `cycle` in Ostler and in OpenStack Ironic, in alternating passes on the
 * same machine, each with its simulated driver without delay, its own durable PostgreSQL of the same version, and its
 * defaults, with the power reader. `bulk`: all nodes take each step before the next one begins; in Ostler by one
 * request, in Ironic, which has none for several nodes, by one for each node, some of them in flight at a time.
 * `single`: as many nodes at a time, each by its own requests. Whether a node is done is read from the database in
 * both, with a session whose CPU is not counted: requests that ask again and again would cost more.
 */
import { loadavg } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import {
  MODES,
  POLL_MS,
  THIS_CHECKOUT,
  enroll,
  memoryMb,
  openBuild,
  readCounters,
  runPass,
  verbsOf,
} from "../cycle-passes.ts";
import type { Mode, PassOptions } from "../cycle-passes.ts";
import { median, printTable, shown } from "../figures.ts";
import type { Testbed } from "../testbed.ts";
import { ironicVersion, startIronic } from "./server.ts";
import type { Ironic, Layout } from "./server.ts";

/** In ms. */
interface Cpu {
  readonly service: number;
  /** Of processes for drivers, which Ironic has not. */
  readonly drivers: number;
  readonly postgres: number;
}

interface Contestant extends AsyncDisposable {
  readonly name: string;
  /** Returns the number of cycles. */
  run(mode: Mode): Promise<number>;
  vacuum(): Promise<unknown>;
  cpu(): Promise<Cpu>;
  memoryMb(): number;
}

/** Per node and cycle, except for memory, which is the highest of the pass. */
interface Cost {
  readonly postgresCpuMs: number;
  readonly serviceCpuMs: number;
  readonly driversCpuMs: number;
  readonly cyclesPerSecond: number;
  readonly pssMb: number;
  /** Load of the machine in the last minute, at the end of the pass. */
  readonly load: number;
}

/** Targets of Ironic's provision requests, with the state that each ends in. */
const TARGETS = [
  ["manage", "manageable"],
  ["inspect", "manageable"],
  ["provide", "available"],
  ["active", "active"],
  ["deleted", "available"],
] as const;
type Target = (typeof TARGETS)[number][0];

const LAYOUTS: Readonly<Record<Layout, string>> = {
  one: "Ironic, one process",
  two: "Ironic, API and conductor",
};
const SAMPLE_MS = 1_000;
const ENROLL_AT_ONCE = 16;
/** A node that is locked, and a conductor without a free worker. */
const RETRIED = [409, 503];
const HEADERS = { "content-type": "application/json", "x-openstack-ironic-api-version": "1.80" };

export interface IronicOptions extends PassOptions {
  readonly rounds: number;
  /** Layouts of Ironic, see `Layout`. */
  readonly layouts: readonly string[];
  /** Nodes of each pass of Ironic, which takes many times as long; as many are registered as in Ostler. */
  readonly theirs: number;
}

export async function measureIronic(testbed: Testbed, options: IronicOptions): Promise<void> {
  const version = ironicVersion();
  const layouts = layoutsOf(options);
  console.log(
    `  Ironic ${version}; ${options.nodes} nodes; passes of Ostler: all in bulk, ` +
      `${options.singles} by single requests; passes of Ironic: ${options.theirs}`,
  );
  await using parts = new AsyncDisposableStack();
  const contestants = [parts.use(await openOstler(testbed, options))];
  for (const layout of layouts) contestants.push(parts.use(await openIronic(testbed, layout, options)));
  for (const mode of MODES) {
    const costs = new Map(contestants.map(({ name }) => [name, [] as Cost[]]));
    for (let round = 1; round <= options.rounds; round += 1) {
      // The order alternates between rounds.
      for (const contestant of round % 2 === 1 ? contestants : contestants.toReversed()) {
        const cost = await measurePass(contestant, mode);
        costs.get(contestant.name)?.push(cost);
        console.log(`  ${mode}, round ${round}, ${contestant.name}: ${JSON.stringify(rounded(cost))}`);
      }
    }
    print(mode, costs);
  }
}

function layoutsOf({ layouts }: IronicOptions): readonly Layout[] {
  return layouts.map((name) => {
    if (name === "one" || name === "two") return name;
    throw new Error(`Unknown layout ${name}: use one, two.`);
  });
}

function rounded(cost: Cost): Record<string, number> {
  return Object.fromEntries(Object.entries(cost).map(([name, value]) => [name, Math.round(value * 100) / 100]));
}

function print(mode: Mode, costs: ReadonlyMap<string, readonly Cost[]>): void {
  const [[, ours] = ["", []]] = costs;
  const cpu = (cost: Cost) => cost.postgresCpuMs + cost.serviceCpuMs + cost.driversCpuMs;
  const shapes: readonly ((cost: Cost) => number)[] = [
    ({ serviceCpuMs }) => serviceCpuMs,
    ({ driversCpuMs }) => driversCpuMs,
    ({ postgresCpuMs }) => postgresCpuMs,
    cpu,
    ({ cyclesPerSecond }) => cyclesPerSecond,
    ({ pssMb }) => pssMb,
    ({ load }) => load,
  ];
  const middle = (list: readonly Cost[], shape: (cost: Cost) => number) => median(list.map(shape));
  console.log(`  ${mode}, medians:`);
  printTable(
    [
      "",
      "service CPU ms",
      "drivers CPU ms",
      "PostgreSQL CPU ms",
      "CPU ms",
      "cycles/s",
      "PSS MB, peak",
      "load",
      "CPU ratio",
      "rate ratio",
    ],
    [...costs].map(([name, list]) => [
      name,
      ...shapes.map((shape) => shown(middle(list, shape))),
      // Of one round each, because the load changes between rounds.
      shown(median(list.map((cost, round) => cpu(cost) / cpu(ours[round] ?? cost)))),
      shown(median(list.map((cost, round) => (ours[round] ?? cost).cyclesPerSecond / cost.cyclesPerSecond))),
    ]),
  );
}

async function measurePass(contestant: Contestant, mode: Mode): Promise<Cost> {
  await contestant.vacuum();
  let pssMb = contestant.memoryMb();
  const timer = setInterval(() => (pssMb = Math.max(pssMb, contestant.memoryMb())), SAMPLE_MS);
  try {
    const before = await contestant.cpu();
    const start = performance.now();
    const cycles = await contestant.run(mode);
    const seconds = (performance.now() - start) / 1_000;
    const after = await contestant.cpu();
    return {
      postgresCpuMs: (after.postgres - before.postgres) / cycles,
      serviceCpuMs: (after.service - before.service) / cycles,
      driversCpuMs: (after.drivers - before.drivers) / cycles,
      cyclesPerSecond: cycles / seconds,
      pssMb: Math.max(pssMb, contestant.memoryMb()),
      load: loadavg()[0] ?? Number.NaN,
    };
  } finally {
    clearInterval(timer);
  }
}

async function openOstler(testbed: Testbed, options: IronicOptions): Promise<Contestant> {
  const build = await openBuild(testbed, "Ostler", THIS_CHECKOUT, { ...options, asStarted: true });
  const passes = { ...options, verbs: await verbsOf([build]) };
  await enroll(build, passes);
  return {
    name: "Ostler",
    run: (mode) => runPass(build, mode, passes),
    vacuum: () => build.sql`vacuum analyze`,
    cpu: () => readCounters(build),
    memoryMb: () => memoryMb(build),
    [Symbol.asyncDispose]: () => build[Symbol.asyncDispose](),
  };
}

async function openIronic(
  testbed: Testbed,
  layout: Layout,
  { nodes, theirs, inFlight }: IronicOptions,
): Promise<Contestant> {
  await using parts = new AsyncDisposableStack();
  const ironic = parts.use(await startIronic(testbed, layout));
  const names = Array.from({ length: nodes }, (_, index) => `n${index}`);
  await someAtATime(names, ENROLL_AT_ONCE, (name) =>
    send(ironic, "POST", "/v1/nodes", { name, driver: "fake-hardware" }),
  );
  const some = names.slice(0, theirs);
  await cycleTogether(ironic, some, inFlight);
  const opened = parts.move();
  return {
    name: LAYOUTS[layout],
    async run(mode) {
      await (mode === "bulk" ? cycleTogether : cycleEach)(ironic, some, inFlight);
      return some.length;
    },
    vacuum: () => ironic.sql`vacuum analyze`,
    cpu: () => Promise.resolve({ ...ironic.cpu(), drivers: 0 }),
    memoryMb: ironic.memoryMb,
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

// ---- requests to Ironic

async function cycleTogether(ironic: Ironic, names: readonly string[], inFlight: number): Promise<void> {
  for (const [target, state] of TARGETS) {
    await someAtATime(names, inFlight, (name) => provision(ironic, name, target));
    do await delay(POLL_MS);
    while ((await nodesIn(ironic, names, state)).length < names.length);
  }
}

async function cycleEach(ironic: Ironic, names: readonly string[], inFlight: number): Promise<void> {
  const waiting = new Map<string, { readonly state: string; readonly resolve: () => void }>();
  let isOver = false;
  const poll = (async () => {
    while (!isOver) {
      for (const state of new Set([...waiting.values()].map((entry) => entry.state))) {
        const asked = [...waiting].filter(([, entry]) => entry.state === state).map(([name]) => name);
        for (const name of await nodesIn(ironic, asked, state)) {
          waiting.get(name)?.resolve();
          waiting.delete(name);
        }
      }
      await delay(POLL_MS);
    }
  })();
  const work = someAtATime(names, inFlight, async (name) => {
    for (const [target, state] of TARGETS) {
      await provision(ironic, name, target);
      await new Promise<void>((resolve) => waiting.set(name, { state, resolve }));
    }
  });
  try {
    await Promise.race([work, poll]);
  } finally {
    isOver = true;
    await poll;
  }
}

/** Calls `work` for each name, for `most` of them at the same time. */
async function someAtATime(
  names: readonly string[],
  most: number,
  work: (name: string) => Promise<void>,
): Promise<void> {
  let next = 0;
  const worker = async () => {
    for (let name = names[next++]; name !== undefined; name = names[next++]) await work(name);
  };
  await Promise.all(Array.from({ length: most }, worker));
}

function provision(ironic: Ironic, name: string, target: Target): Promise<void> {
  return send(ironic, "PUT", `/v1/nodes/${name}/states/provision`, { target });
}

async function send({ url }: Ironic, method: string, path: string, body: object): Promise<void> {
  for (;;) {
    const response = await fetch(`${url}${path}`, { method, headers: HEADERS, body: JSON.stringify(body) });
    const answer = await response.text();
    if (response.ok) return;
    if (!RETRIED.includes(response.status))
      throw new Error(`Ironic answered ${response.status} to ${method} ${path}: ${answer}`);
    await delay(POLL_MS);
  }
}

/** Those of the nodes that are in a state and not locked. Throws if one of them has failed. */
async function nodesIn({ sql }: Ironic, names: readonly string[], state: string): Promise<readonly string[]> {
  const rows = await sql<{ name: string; provision_state: string; last_error: string | null }[]>`
    select name, provision_state, last_error from nodes where name = any(${[...names]}) and reservation is null`;
  const failed = rows.find(({ provision_state: now }) => / failed$|^error$/.test(now));
  if (failed) throw new Error(`Node ${failed.name} of Ironic is ${failed.provision_state}: ${failed.last_error}`);
  return rows.filter(({ provision_state: now }) => now === state).map(({ name }) => name);
}
