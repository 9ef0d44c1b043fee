/**
 * Subject `cycles`: whole lives of nodes, through the engine and a driver that does nothing: registered, commissioned,
 * decommissioned, deleted. Fleets of different sizes live through the same number of cycles, a small one again and again,
 * so that all write as many rows; what a cycle costs in a large fleet is to be what it costs in a small one.
 */
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import { operationsByIds } from "../src/store/operations.ts";
import { median, printTable, shown } from "./figures.ts";
import { CALLER, openFleet, registerFleet } from "./fleet.ts";
import type { Fleet } from "./fleet.ts";
import type { Site } from "./site.ts";

export interface CyclesOptions {
  /** Sizes of the fleets; the smallest is what the others are compared with. */
  readonly fleets: readonly number[];
  /** Cycles of each measurement, as far as the fleet's size divides them. */
  readonly cycles: number;
  readonly rounds: number;
  readonly concurrency: number;
}

/** What a cycle costs. */
interface Cost {
  readonly ms: number;
  readonly nodeCpuMs: number;
  readonly postgresCpuMs: number | null;
}

const LOOK_EVERY_MS = 10;
const WARM_UP_NODES = 100;
/** What a fleet may cost in place of the smallest, for each node. */
const GROWTH_MAX = 1.2;

export async function measureCycles(site: Site, { fleets, cycles, rounds, concurrency }: CyclesOptions): Promise<void> {
  const sizes = fleets.toSorted((a, b) => a - b);
  const measured = new Map(sizes.map((size): [number, Cost[]] => [size, []]));
  for (let round = 1; round <= rounds; round += 1) {
    // Whoever goes first in one round goes last in the next.
    for (const size of round % 2 === 1 ? sizes : sizes.toReversed())
      measured.get(size)?.push(await measure(site, size, { cycles, concurrency }));
  }
  const of = (size: number, field: keyof Cost) => {
    const values = (measured.get(size) ?? []).map((cost) => cost[field]);
    return values.some((value) => value === null) ? Number.NaN : median(values as number[]);
  };
  const [smallest = 0] = sizes;
  const growth = (size: number, field: keyof Cost) => of(size, field) / of(smallest, field);
  const FIELDS = ["nodeCpuMs", "postgresCpuMs", "ms"] as const;
  console.log(
    `  ${cycles} cycles each, ${concurrency} nodes at a time; medians of ${rounds} rounds; in brackets: times that of a fleet of ${smallest}`,
  );
  printTable(
    ["nodes", "cycles/s", "Node CPU ms/cycle", "PostgreSQL CPU ms/cycle", "ms/cycle", "cycles/s of each round"],
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
    `  growth of the CPU of a cycle, ${largest} nodes / ${smallest}: ${shown(grown, 2)}${grown <= GROWTH_MAX ? "" : `, which is more than ${GROWTH_MAX}`}`,
  );
}

async function measure(
  site: Site,
  size: number,
  { cycles, concurrency }: Pick<CyclesOptions, "cycles" | "concurrency">,
): Promise<Cost> {
  await using made = await site.database("served");
  await using fleet = await openFleet({ connection: made.connection, concurrency });
  await fleet.engine.start();
  await live(fleet, WARM_UP_NODES);
  await analyze(made.connection);
  const times = Math.max(1, Math.round(cycles / size));
  const cpuBefore = process.cpuUsage();
  const postgresBefore = site.postgresCpuMs();
  const begun = performance.now();
  for (let time = 1; time <= times; time += 1) await live(fleet, size);
  const milliseconds = performance.now() - begun;
  const { user, system } = process.cpuUsage(cpuBefore);
  const postgresAfter = site.postgresCpuMs();
  return {
    ms: milliseconds / (times * size),
    nodeCpuMs: (user + system) / 1_000 / (times * size),
    postgresCpuMs:
      postgresBefore === null || postgresAfter === null ? null : (postgresAfter - postgresBefore) / (times * size),
  };
}

/** One cycle of a whole fleet. */
async function live({ engine, database }: Fleet, size: number): Promise<void> {
  await registerFleet(engine, size);
  for (const kind of ["COMMISSION", "DECOMMISSION"] as const) {
    const { operationId, refusals } = await engine.submit(CALLER, { kind, nodes: { filter: {} } });
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
      await delay(LOOK_EVERY_MS);
    }
  }
  const { refusals } = await engine.deleteNodes(CALLER, { filter: {} });
  if (refusals.length > 0) throw new Error(refusals[0]?.message);
}

/** Afterwards PostgreSQL keeps its statistics as it does at any user's. */
async function analyze(connection: Parameters<typeof openFleet>[0]["connection"]): Promise<void> {
  const options = { max: 1, onnotice: () => {} };
  const sql = "url" in connection ? postgres(connection.url, options) : postgres({ ...connection, ...options });
  await sql`vacuum analyze`;
  await sql.end({ timeout: 5 });
}
