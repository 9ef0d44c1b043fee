/**
 * `npm run soak`: one service at work for a long time, while it is watched from outside: does what it holds grow? Nodes live
 * through cycles, operations are aborted, stopped and restarted, streams come and leave (soak-traffic.ts). Every ten seconds
 * it tells what it holds after a collection; a line through the second half says what that comes to in an hour. Nothing is
 * judged by time, so it may run beside other work. The tables grow, as they keep the history; they are shown, not judged.
 *
 * Options: --minutes 24 --nodes 200 --streams 24. Ends with 1 when something grows, or was refused or broken off.
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
import { openSite } from "./site.ts";
import { WRONG, startTraffic } from "./soak-traffic.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "24" },
    nodes: { type: "string", default: "200" },
    streams: { type: "string", default: "24" },
  },
});
const MINUTES = Number(values.minutes);
const LOOK_EVERY_MS = 10_000;
const MB = 1024 * 1024;
/** What may be held more after an hour, as a share of what is held; and in standard errors: less is noise. */
const GROWTH_MAX = 0.05;
const ERRORS_MIN = 2;
/** The tail of the log keeps the newest transitions, so many at most: until they have been written, the heap grows with them. */
const KEPT_TRANSITIONS = 16_384;

/** Judged: what a leak shows in. The others are there to look at. */
const COLUMNS = {
  "heap MB": { judged: true, decimals: 1 },
  "buffers MB": { judged: true, decimals: 1 },
  "RSS MB": { judged: false, decimals: 0 },
  handles: { judged: true, decimals: 0 },
  fds: { judged: true, decimals: 0 },
  "PostgreSQL connections": { judged: true, decimals: 0 },
  "event loop, worst ms": { judged: false, decimals: 0 },
  "tables MB": { judged: false, decimals: 1 },
  "dead rows": { judged: false, decimals: 0 },
  transitions: { judged: false, decimals: 0 },
} as const;
type Column = keyof typeof COLUMNS;
type Look = Readonly<Record<Column, number>> & {
  readonly minute: number;
  /** Handles and file descriptors by their kind. */ readonly kinds: ReadonlyMap<string, number>;
};

async function main(): Promise<void> {
  await using site = await openSite();
  await using made = await site.database("served");
  if (!("url" in made.connection)) throw new Error("A served database has a URL.");
  const teller = fileURLToPath(new URL("teller.mjs", import.meta.url));
  await using service = await startServed(site, {
    environment: { DATABASE_URL: made.connection.url },
    nodeArgs: ["--expose-gc", "--import", teller],
  });
  const sql = postgres(made.connection.url, { max: 1, onnotice: () => {} });
  const traffic = await startTraffic({
    url: service.url,
    nodes: Number(values.nodes),
    streams: Number(values.streams),
  });
  const looks: Look[] = [];
  const begun = performance.now();
  console.log(`soak: npm run soak -- --minutes ${MINUTES} --nodes ${values.nodes} --streams ${values.streams}`);
  while (performance.now() - begun < MINUTES * 60_000) {
    await delay(LOOK_EVERY_MS);
    const look = { minute: (performance.now() - begun) / 60_000, ...(await lookAt(service, sql)) };
    looks.push(look);
    console.log(
      `  ${shown(look.minute)} min: ${Object.entries(COLUMNS)
        .map(([name, { decimals }]) => `${name} ${shown(look[name as Column], decimals)}`)
        .join(", ")}`,
    );
  }
  await traffic.stop();
  console.log(`  done: ${[...traffic.done].map(([what, count]) => `${what} ${count}`).join(", ")}`);
  await sql.end({ timeout: 5 });
  const isFlat = verdict(looks);
  process.exitCode = isFlat && ![...traffic.done.keys()].some((what) => what.startsWith(WRONG)) ? 0 : 1;
}

async function lookAt({ child, pid }: Served, sql: postgres.Sql): Promise<Omit<Look, "minute">> {
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
  child.send("held");
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

/** What each file descriptor of a process is: socket, pipe, anon_inode, or a path. */
function fdsOf(pid: number): string[] {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).flatMap((fd) => {
    try {
      return readlinkSync(`${folder}/${fd}`).replace(/:\[\d+\]$/, "");
    } catch {
      // Closed since.
      return [];
    }
  });
}

/** Prints what each column has come to; answers whether nothing that is judged grows. */
function verdict(looks: readonly Look[]): boolean {
  const half = looks.slice(Math.floor(looks.length / 2));
  if ((half[0]?.transitions ?? 0) < KEPT_TRANSITIONS)
    console.log(
      `  Too short to judge the heap: ${half[0]?.transitions ?? 0} transitions in its first half, of which the service keeps up to ${KEPT_TRANSITIONS}.`,
    );
  let isFlat = true;
  const rows = (Object.keys(COLUMNS) as Column[]).map((name) => {
    const { judged, decimals } = COLUMNS[name];
    const { rise, error, mean } = trend(half.map((look) => [look.minute / 60, look[name]]));
    const grows = rise - ERRORS_MIN * error > GROWTH_MAX * mean;
    if (judged && grows) isFlat = false;
    const all = looks.map((look) => look[name]);
    return [
      name,
      shown(Math.min(...all), decimals),
      shown(mean, decimals),
      shown(Math.max(...all), decimals),
      `${shown(rise, decimals)} ± ${shown(error, decimals)}`,
      judged ? (grows ? "GROWS" : "flat") : "",
      curve(all),
    ];
  });
  printTable(["", "least", "mean of 2nd half", "most", "growth an hour", "verdict", "over time"], rows);
  if (!isFlat)
    for (const look of [half[0], half.at(-1)])
      console.log(
        `  at ${shown(look?.minute ?? null)} min: ${[...(look?.kinds ?? [])].map(([kind, count]) => `${kind} ${count}`).join(", ")}`,
      );
  console.log(isFlat ? "  Nothing grows." : "  Something grows.");
  return isFlat;
}

await main();
