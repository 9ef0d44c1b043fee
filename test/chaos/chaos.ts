/**
 * `npm run tool -- chaos`: runs three replicas on one PostgreSQL with a fleet of machines, clients and subscribers, and
 * injects faults into all of them for a while. Then the faults stop, the remaining work ends, the database is read, and
 * the checker compares it with the records. test/chaos/README.md describes the run and its output.
 *
 * Options: --seed N --minutes 2 --kills N --db-restarts N --nodes 1000 --streams 50 --replicas 3 --clients 6
 * --concurrency 8 --nemeses kill,freeze,… --folder path --keep --service path
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { anySeed, chance } from "../durability/lab.ts";
import { startArena, within } from "./arena.ts";
import type { Arena } from "./arena.ts";
import type { AccountsCommand } from "./accounts.ts";
import { startHelper } from "./control.ts";
import { dump } from "./dump.ts";
import type { MachinesCommand } from "./machines.ts";
import { storm } from "./nemeses.ts";
import { NEMESES, clock, record } from "./records.ts";
import type { Run } from "./records.ts";
import { startSampling } from "./samples.ts";
import { driverCalls, takeOver } from "./summary.ts";
import type { WatchersCommand, WatchersCount } from "./watchers.ts";
import type { WorkloadCommand, WorkloadCount } from "./workload.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: String(anySeed()) },
    minutes: { type: "string", default: "2" },
    kills: { type: "string" },
    "db-restarts": { type: "string" },
    nodes: { type: "string", default: "1000" },
    streams: { type: "string", default: "50" },
    replicas: { type: "string", default: "3" },
    clients: { type: "string", default: "6" },
    nemeses: { type: "string", default: NEMESES.join(",") },
    folder: { type: "string" },
    service: { type: "string", default: fileURLToPath(new URL("../..", import.meta.url)) },
    keep: { type: "boolean", default: false },
    concurrency: { type: "string", default: "8" },
  },
});

const SEED = Number(values.seed);
const MINUTES = Number(values.minutes);
const KILL_EVERY_S = 2.2;
const DATABASE_RESTART_EVERY_S = 27;
/** Time for all replicas to become ready after the storm. */
const READY_AGAIN_MS = 180_000;
/** Limits of the quiet phase: longest time without any change while work is unfinished, and longest duration. */
const NO_CHANGE_MS = 100_000;
const QUIET_MS = 900_000;
const CATCH_UP_MS = 60_000;
/** Accounts whose roles and tokens change. */
const ACCOUNTS = 8;
const CHECKER = fileURLToPath(new URL("checker/check.ts", import.meta.url));

/** Everything that runs beside this process; it ends in reverse order. */
const parts = new AsyncDisposableStack();
let ending: Promise<void> | undefined;
const end = () => (ending ??= parts.disposeAsync());

function print(text: string): void {
  console.log(`${new Date().toISOString().slice(11, 19)}  ${text}`);
}

/** Waits for all operations to end. Resolves with a sentence about those that have not; null if all have. */
async function waitForEnds(arena: Arena): Promise<string | null> {
  const { sql } = arena.database;
  let before = "";
  let changedAt = clock();
  for (const until = clock() + QUIET_MS; ; await delay(500)) {
    const [row] = await sql<{ unfinished: number; position: string; running: string }[]>`
      select (select count(*)::int from operations where finished_at is null) as unfinished,
        (select position::text from feed_position) as position,
        (select coalesce(string_agg(concat_ws(' ', id, node_name, state, wait_reason, interrupt, leg, position, generation, fence), '; ' order by id), '') from (select * from runs where finished_at is null order by id limit 200) as unended) as running`;
    if (!row || row.unfinished === 0) return null;
    const now = `${row.position} ${row.running}`;
    if (now !== before) changedAt = clock();
    before = now;
    const why =
      clock() - changedAt > NO_CHANGE_MS
        ? `nothing has changed for ${NO_CHANGE_MS / 1000} s`
        : clock() > until
          ? `${QUIET_MS / 1000} s are over`
          : null;
    if (why) return `${row.unfinished} operations have not ended, and ${why}: ${row.running.slice(0, 4_000)}`;
  }
}

async function main(folder: string): Promise<boolean> {
  const nemeses = values.nemeses
    .split(",")
    .filter((what) => what !== "")
    .map((what) => {
      const known = NEMESES.find((one) => one === what);
      if (!known) throw new Error(`Unknown nemesis ${what}: use ${NEMESES.join(", ")}.`);
      return known;
    });
  const nodes = Number(values.nodes);
  const kills = nemeses.includes("kill") ? Number(values.kills ?? Math.ceil((MINUTES * 60) / KILL_EVERY_S)) : 0;
  const databaseRestarts = nemeses.includes("postgres-restart")
    ? Number(values["db-restarts"] ?? Math.ceil((MINUTES * 60) / DATABASE_RESTART_EVERY_S))
    : 0;
  print(
    `seed ${SEED}: ${MINUTES} minutes, ${kills} kills, ${databaseRestarts} restarts of PostgreSQL, ${nodes} nodes, ${values.streams} streams, ${values.replicas} replicas; ${folder}`,
  );

  const nemesisRecorder = record(folder, "nemesis");
  const replicaRecorder = record(folder, "replicas");
  const phase = (what: "warm-up" | "storm" | "quiet" | "settled" | "over", detail: string | null = null) =>
    nemesisRecorder.write({ t: clock(), k: "phase", what, detail });
  const wallMs = Date.now();
  const t = clock();

  parts.defer(() => nemesisRecorder.close());
  parts.defer(() => replicaRecorder.close());
  const arena = await startArena(
    {
      folder,
      seed: SEED,
      replicas: Number(values.replicas),
      service: resolve(values.service),
      concurrency: Number(values.concurrency),
      recorder: replicaRecorder,
    },
    parts,
  );
  const urls = Object.fromEntries(arena.replicas.map(({ name, url }) => [name, url]));
  const basis = { do: "start", seed: SEED, folder, urls } as const;
  const machines = parts.use(
    await startHelper<MachinesCommand>("machines.ts", { ...basis, socket: join(folder, "machines.sock") }),
  );
  const workload = parts.use(
    await startHelper<WorkloadCommand>("workload.ts", { ...basis, nodes, clients: Number(values.clients) }),
  );
  const names = (await (phase("warm-up"), workload.send({ do: "warm-up" }))) as readonly string[];
  const accounts = parts.use(await startHelper<AccountsCommand>("accounts.ts", { ...basis, accounts: ACCOUNTS }));
  await accounts.send({ do: "warm-up" });
  const watchers = parts.use(
    await startHelper<WatchersCommand>("watchers.ts", { ...basis, streams: Number(values.streams) }),
  );
  parts.use(startSampling(arena, watchers.child.pid, replicaRecorder));

  phase("storm");
  print("storm");
  await workload.send({ do: "storm" });
  await accounts.send({ do: "storm" });
  const done = await storm({
    arena,
    machines,
    watchers,
    recorder: nemesisRecorder,
    random: chance(SEED),
    nemeses,
    nodes: names,
    milliseconds: MINUTES * 60_000,
    kills,
    databaseRestarts,
    extendsUntilMet: values.kills !== undefined || values["db-restarts"] !== undefined,
  });

  phase("quiet");
  print("quiet");
  for (const { database, clients, ...replica } of arena.replicas) {
    database.set({});
    clients.set({});
    replica.shiftClock(0);
    replica.thaw();
  }
  await within(READY_AGAIN_MS, "Not all replicas became ready in the quiet phase", () =>
    arena.replicas.every((one) => one.isReady()),
  );
  const accessCount = (await accounts.send({ do: "quiet" })) as { readonly changes: number };
  const requestCount = (await workload.send({ do: "quiet" })) as WorkloadCount;
  const unsettled = await waitForEnds(arena);
  const [last] = await arena.database.sql<{ position: string }[]>`select position::text from feed_position`;
  const streamCount = (await watchers.send({
    do: "catch-up",
    position: Number(last?.position),
    withinMs: CATCH_UP_MS,
  })) as WatchersCount;
  phase("settled", unsettled);
  if (unsettled !== null) print(`NOT SETTLED: ${unsettled}`);
  if (streamCount.behind.length > 0) print(`BEHIND position ${last?.position}: ${streamCount.behind.join(", ")}`);

  const rows = await dump(arena.database.sql, folder);
  const run: Run = {
    seed: SEED,
    nodes,
    streams: Number(values.streams),
    replicas: arena.replicas.map(({ name }) => name),
    nemeses,
    wallMs,
    t,
    unsettled,
  };
  writeFileSync(join(folder, "run.json"), JSON.stringify(run, null, 2));
  phase("over");
  const { unexpectedEnds } = arena;
  await end();

  const [over, calls] = [await takeOver(folder), await driverCalls(folder)];
  print(
    `${done.kills} kills, ${done.freezes} freezes, ${done.terms} sent SIGTERM, ${done.databaseRestarts} restarts of PostgreSQL, ${done.others} other nemeses`,
  );
  print(
    `${requestCount.requests} requests, ${requestCount.answers} answers, ${requestCount.refused} of them refusals; ${rows["operations"]} operations, ${rows["runs"]} runs, ${rows["attempts"]} attempts, ${rows["transitions"]} transitions`,
  );
  print(
    `${streamCount.opened} streams opened, ${streamCount.items} items; ${calls.entries} entries of steps, ${calls.power} calls for power, ${calls.callbacks} callbacks; ${accessCount.changes} changes of accounts`,
  );
  print(
    `take-over of a killed replica's steps: ${over.count}, p50 ${over.p50Ms} ms, max ${over.maxMs} ms (${over.slowest ?? "none"})`,
  );
  for (const one of unexpectedEnds)
    print(
      `ENDED UNEXPECTEDLY: ${one}; the end of its log:\n${readFileSync(join(folder, `${one.split(" ")[0]}.log`), "utf8")
        .trim()
        .split("\n")
        .slice(-3)
        .join("\n")}`,
    );
  return (await check(folder)) && unsettled === null && streamCount.behind.length === 0;
}

/** The checker runs in its own process and shares only the records. */
async function check(folder: string): Promise<boolean> {
  if (!existsSync(CHECKER)) throw new Error(`${CHECKER} does not exist.`);
  const child = spawn(process.execPath, [CHECKER, folder], { stdio: "inherit" });
  const [code] = (await once(child, "exit")) as [number | null];
  return code === 0;
}

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    const exit = () => process.exit(1);
    end().then(exit, exit);
  });
}

const folder = values.folder === undefined ? mkdtempSync(join(tmpdir(), "ostler-chaos-")) : resolve(values.folder);
mkdirSync(folder, { recursive: true });
let isGood = false;
try {
  isGood = await main(folder);
} catch (error) {
  console.error(error);
} finally {
  await end();
}
print(isGood ? "all promises held" : `FAILED; seed ${SEED}; records are in ${folder}`);
if (isGood && !values.keep) rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
process.exit(isGood ? 0 : 1);
