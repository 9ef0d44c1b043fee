/**
 * Subject `cycles`: nodes are registered, commissioned, decommissioned and deleted, with a driver without effects.
 * Fleets of different sizes go through the same total number of cycles, so that all write the same number of rows. The
 * target is the same cost per cycle in a large fleet as in a small one.
 */
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import { operationsByIds } from "../src/store/operations/operations.ts";
import { median, printTable, shown } from "./figures.ts";
import { CALLER, openFleet, registerFleet } from "./fleet.ts";
import type { Fleet } from "./fleet.ts";
import type { Testbed } from "./testbed.ts";

export interface CyclesOptions {
  /** Sizes of the fleets; the others are compared with the smallest. */
  readonly fleets: readonly number[];
  /** Cycles per measurement, rounded to whole passes of the fleet. */
  readonly cycles: number;
  readonly rounds: number;
  readonly concurrency: number;
}

/** Cost per cycle. */
interface Cost {
  readonly ms: number;
  readonly nodeCpuMs: number;
  readonly postgresCpuMs: number | null;
}

const POLL_MS = 10;
const WARM_UP_NODES = 100;
/** Limit for the cost per node, relative to the smallest fleet. */
const GROWTH_MAX = 1.2;

export async function measureCycles(
  testbed: Testbed,
  { fleets, cycles, rounds, concurrency }: CyclesOptions,
): Promise<void> {
  const sizes = fleets.toSorted((a, b) => a - b);
  const measured = new Map(sizes.map((size): [number, Cost[]] => [size, []]));
  for (let round = 1; round <= rounds; round += 1) {
    // The order alternates between rounds.
    for (const size of round % 2 === 1 ? sizes : sizes.toReversed())
      measured.get(size)?.push(await measure(testbed, size, { cycles, concurrency }));
  }
  const of = (size: number, field: keyof Cost) => {
    const values = (measured.get(size) ?? []).map((cost) => cost[field]);
    return values.some((value) => value === null) ? Number.NaN : median(values as number[]);
  };
  const [smallest = 0] = sizes;
  const growth = (size: number, field: keyof Cost) => of(size, field) / of(smallest, field);
  const FIELDS = ["nodeCpuMs", "postgresCpuMs", "ms"] as const;
  console.log(
    `  ${cycles} cycles each, ${concurrency} nodes at a time; medians of ${rounds} rounds; in brackets: ratio to a fleet of ${smallest}`,
  );
  printTable(
    ["nodes", "cycles/s", "Node CPU ms/cycle", "PostgreSQL CPU ms/cycle", "ms/cycle", "cycles/s per round"],
    sizes.map((size) => [
      String(size),
      shown(1_000 / of(size, "ms"), 0),
      ...FIELDS.map((field) => `${shown(of(size, field), 2)} (${shown(growth(size, field), 2)})`),
      (measured.get(size) ?? []).map(({ ms }) => shown(1_000 / ms, 0)).join(" "),
    ]),
  );
  const largest = sizes.at(-1) ?? 0;
  const whole = (size: number) => of(size, "nodeCpuMs") + of(size, "postgresCpuMs");
  const grown = Number.isNaN(whole(largest)) ? growth(largest, "nodeCpuMs") : whole(largest) / whole(smallest);
  console.log(
    `  CPU per cycle, ${largest} nodes / ${smallest}: ${shown(grown, 2)}${grown <= GROWTH_MAX ? "" : `, above the limit of ${GROWTH_MAX}`}`,
  );
}

async function measure(
  testbed: Testbed,
  size: number,
  { cycles, concurrency }: Pick<CyclesOptions, "cycles" | "concurrency">,
): Promise<Cost> {
  await using made = await testbed.database("served");
  await using fleet = await openFleet({ connection: made.connection, concurrency });
  await fleet.engine.start();
  await runCycle(fleet, WARM_UP_NODES);
  await analyze(made.connection);
  const times = Math.max(1, Math.round(cycles / size));
  const cpuBefore = process.cpuUsage();
  const postgresBefore = testbed.postgresCpuMs();
  const start = performance.now();
  for (let time = 1; time <= times; time += 1) await runCycle(fleet, size);
  const milliseconds = performance.now() - start;
  const { user, system } = process.cpuUsage(cpuBefore);
  const postgresAfter = testbed.postgresCpuMs();
  return {
    ms: milliseconds / (times * size),
    nodeCpuMs: (user + system) / 1_000 / (times * size),
    postgresCpuMs:
      postgresBefore === null || postgresAfter === null ? null : (postgresAfter - postgresBefore) / (times * size),
  };
}

/** One cycle of a whole fleet. */
async function runCycle({ engine, database }: Fleet, size: number): Promise<void> {
  await registerFleet(engine, size);
  for (const kind of ["COMMISSION", "DECOMMISSION"] as const) {
    const { operationId, refusals } = await engine.submit(CALLER, { kind, nodes: { all: true } });
    if (operationId === null) throw new Error(refusals[0]?.message);
    for (;;) {
      const [operation] = await operationsByIds(database.reader, [operationId]);
      if (operation?.finishedAt) {
        if (operation.state !== "SUCCEEDED")
          throw new Error(
            `The ${kind} of ${size} nodes ended ${operation.state}: ${JSON.stringify(operation.firstFailure)}`,
          );
        break;
      }
      await delay(POLL_MS);
    }
  }
  const { refusals } = await engine.deleteNodes(CALLER, { all: true });
  if (refusals.length > 0) throw new Error(refusals[0]?.message);
}

/** Gives PostgreSQL statistics of the tables, as autovacuum does in production. */
async function analyze(connection: Parameters<typeof openFleet>[0]["connection"]): Promise<void> {
  const options = { max: 1, onnotice: () => {} };
  const sql = "url" in connection ? postgres(connection.url, options) : postgres({ ...connection, ...options });
  await sql`vacuum analyze`;
  await sql.end({ timeout: 5 });
}
