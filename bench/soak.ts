/**
 * `npm run tool -- soak`: runs one service under load for a long time (soak-traffic.ts) and checks that its memory and
 * other resources do not grow. Every ten seconds the service reports its resources after a garbage collection; a
 * regression over the second half of the time gives the growth per hour. No timing is evaluated, so it can run beside
 * other load. The tables grow, because they keep the history; they are printed but not evaluated.
 *
 * Options: --minutes 24 --nodes 200 --streams 24. Exits with 1 if a resource grows, or after an unexpected error.
 */
import { once } from "node:events";
import { readdirSync, readlinkSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { fileURLToPath } from "node:url";
import postgres from "postgres";
import { curve, printTable, shown, trend } from "./figures.ts";
import { startServed } from "./service.ts";
import type { Served } from "./service.ts";
import { openTestbed } from "./testbed.ts";
import { WRONG, startTraffic } from "./soak-traffic.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "24" },
    nodes: { type: "string", default: "200" },
    streams: { type: "string", default: "24" },
  },
});
const MINUTES = Number(values.minutes);
const POLL_MS = 10_000;
const MB = 1024 * 1024;
/** Limit for the growth per hour, as a share of the mean. */
const GROWTH_MAX = 0.05;
/** Growth of fewer standard errors is noise. */
const ERRORS_MIN = 2;
/** Number of transitions that the tail of the log keeps. The heap grows until they have been written. */
const KEPT_TRANSITIONS = 16_384;

/** `evaluated`: a leak shows in this column. The others are only printed. */
const COLUMNS = {
  "heap MB": { evaluated: true, decimals: 1 },
  "buffers MB": { evaluated: true, decimals: 1 },
  "RSS MB": { evaluated: false, decimals: 0 },
  handles: { evaluated: true, decimals: 0 },
  fds: { evaluated: true, decimals: 0 },
  "PostgreSQL connections": { evaluated: true, decimals: 0 },
  "event loop, worst ms": { evaluated: false, decimals: 0 },
  "tables MB": { evaluated: false, decimals: 1 },
  "dead rows": { evaluated: false, decimals: 0 },
  transitions: { evaluated: false, decimals: 0 },
} as const;
type Column = keyof typeof COLUMNS;
type Sample = Readonly<Record<Column, number>> & {
  readonly minute: number;
  /** Kind of handle or file descriptor → count. */
  readonly kinds: ReadonlyMap<string, number>;
};

async function main(): Promise<void> {
  await using testbed = await openTestbed();
  await using made = await testbed.database("served");
  if (!("url" in made.connection)) throw new Error("A served database has a URL.");
  const reporter = fileURLToPath(new URL("resource-report.mjs", import.meta.url));
  await using service = await startServed(testbed, {
    environment: { DATABASE_URL: made.connection.url },
    nodeArgs: ["--expose-gc", "--import", reporter],
  });
  const sql = postgres(made.connection.url, { max: 1, onnotice: () => {} });
  const traffic = await startTraffic({
    url: service.url,
    nodes: Number(values.nodes),
    streams: Number(values.streams),
  });
  const samples: Sample[] = [];
  const start = performance.now();
  console.log(`soak: npm run tool -- soak --minutes ${MINUTES} --nodes ${values.nodes} --streams ${values.streams}`);
  while (performance.now() - start < MINUTES * 60_000) {
    await delay(POLL_MS);
    const sample = { minute: (performance.now() - start) / 60_000, ...(await takeSample(service, sql)) };
    samples.push(sample);
    console.log(
      `  ${shown(sample.minute)} min: ${Object.entries(COLUMNS)
        .map(([name, { decimals }]) => `${name} ${shown(sample[name as Column], decimals)}`)
        .join(", ")}`,
    );
  }
  await traffic.stop();
  console.log(`  done: ${[...traffic.done].map(([what, count]) => `${what} ${count}`).join(", ")}`);
  await sql.end({ timeout: 5 });
  const isFlat = evaluate(samples);
  process.exitCode = isFlat && ![...traffic.done.keys()].some((what) => what.startsWith(WRONG)) ? 0 : 1;
}

async function takeSample({ child, pid }: Served, sql: postgres.Sql): Promise<Omit<Sample, "minute">> {
  const answer = once(child, "message") as Promise<
    [
      {
        readonly held: {
          readonly rss: number;
          readonly heapUsed: number;
          readonly buffers: number;
          readonly resources: Readonly<Record<string, number>>;
          readonly lagMs: number;
        };
      },
    ]
  >;
  child.send("report");
  const [{ held }] = await answer;
  const fds = fdsOf(pid);
  const [row] = await sql`
    select (select count(*) from pg_stat_activity where datname = current_database())::int as connections,
           (select sum(pg_total_relation_size(relid)) from pg_stat_user_tables)::float8 as bytes,
           (select sum(n_dead_tup) from pg_stat_user_tables)::int as dead,
           (select position from feed_position)::int as transitions`;
  return {
    "heap MB": held.heapUsed / MB,
    "buffers MB": held.buffers / MB,
    "RSS MB": held.rss / MB,
    handles: Object.values(held.resources).reduce((sum, count) => sum + count, 0),
    fds: fds.length,
    "PostgreSQL connections": Number(row?.["connections"]),
    "event loop, worst ms": held.lagMs,
    "tables MB": Number(row?.["bytes"]) / MB,
    "dead rows": Number(row?.["dead"]),
    transitions: Number(row?.["transitions"]),
    kinds: countOf([
      ...Object.entries(held.resources).flatMap(([kind, count]) => Array.from({ length: count }, () => kind)),
      ...fds.map((kind) => `fd ${kind}`),
    ]),
  };
}

function countOf(kinds: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const kind of kinds.toSorted()) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return counts;
}

/** Kind of each file descriptor of a process: socket, pipe, anon_inode, or a path. */
function fdsOf(pid: number): string[] {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).flatMap((fd) => {
    try {
      return readlinkSync(`${folder}/${fd}`).replace(/:\[\d+\]$/, "");
    } catch {
      // Closed in the meantime.
      return [];
    }
  });
}

/** Prints the development of each column. True if no evaluated column grows. */
function evaluate(samples: readonly Sample[]): boolean {
  const half = samples.slice(Math.floor(samples.length / 2));
  if ((half[0]?.transitions ?? 0) < KEPT_TRANSITIONS)
    console.log(
      `  Too short to evaluate the heap: ${half[0]?.transitions ?? 0} transitions in the first half, but the service keeps ${KEPT_TRANSITIONS} of them; use more --minutes.`,
    );
  let isFlat = true;
  const rows = (Object.keys(COLUMNS) as Column[]).map((name) => {
    const { evaluated, decimals } = COLUMNS[name];
    const { rise, error, mean } = trend(half.map((sample) => [sample.minute / 60, sample[name]]));
    const grows = rise - ERRORS_MIN * error > GROWTH_MAX * mean;
    if (evaluated && grows) isFlat = false;
    const all = samples.map((sample) => sample[name]);
    return [
      name,
      shown(Math.min(...all), decimals),
      shown(mean, decimals),
      shown(Math.max(...all), decimals),
      `${shown(rise, decimals)} ± ${shown(error, decimals)}`,
      evaluated ? (grows ? "GROWS" : "flat") : "",
      curve(all),
    ];
  });
  printTable(["", "least", "mean of 2nd half", "most", "growth per hour", "result", "over time"], rows);
  if (!isFlat)
    for (const sample of [half[0], half.at(-1)])
      console.log(
        `  at ${shown(sample?.minute ?? null)} min: ${[...(sample?.kinds ?? [])].map(([kind, count]) => `${kind} ${count}`).join(", ")}`,
      );
  console.log(isFlat ? "  No resource grows." : "  A resource grows.");
  return isFlat;
}

await main();
