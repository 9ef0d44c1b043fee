/**
 * Subject `profile`: the distribution of the time of a run. A service in a separate process commissions nodes in six
 * steps, twice: once under V8's profiler, with the samples summed by package and layer, and once with PostgreSQL's log
 * of statement durations. Compare shares, not rates: profiler and log take time too.
 */
import { once } from "node:events";
import { mkdirSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import { printTable, shown } from "./figures.ts";
import { CALLER, PLUGIN, openFleet, registerFleet } from "./fleet.ts";
import { startServed } from "./service.ts";
import type { Testbed } from "./testbed.ts";

export interface ProfileOptions {
  readonly runs: number;
  readonly concurrency: number;
}

const POLL_MS = 50;
const SHOWN_MAX = 18;
const SHARE_SHOWN_MIN = 0.01;
const TEXT_LENGTH_MAX = 110;

export async function measureProfile(testbed: Testbed, options: ProfileOptions): Promise<void> {
  const folder = join(testbed.folder, "profile");
  mkdirSync(folder);
  await runAll(testbed, options, { nodeArgs: ["--cpu-prof", `--cpu-prof-dir=${folder}`], logged: false });
  const [file = ""] = readdirSync(folder);
  console.log(`  the service's process, ${options.runs} runs, including its start: shares of its busy time`);
  printTable(
    ["", "%"],
    shares(JSON.parse(readFileSync(join(folder, file), "utf8")) as Profile).map(([what, share]) => [
      what,
      shown(share * 100),
    ]),
  );
  const log = await runAll(testbed, options, { nodeArgs: [], logged: true });
  console.log("  statements by the duration in PostgreSQL's log, including waits for locks and for the disk");
  printTable(["statement", "per run", "ms per run", "%"], durations(log, options.runs));
}

/** Commissions nodes in a new service; returns what PostgreSQL logged during this. */
async function runAll(
  testbed: Testbed,
  { runs, concurrency }: ProfileOptions,
  { nodeArgs, logged }: { readonly nodeArgs: readonly string[]; readonly logged: boolean },
): Promise<string> {
  await using made = await testbed.database("served");
  if (!("url" in made.connection)) throw new Error("A served database has a URL.");
  {
    await using fleet = await openFleet({ connection: made.connection, concurrency: 1 });
    await registerFleet(fleet.engine, runs);
    const { refusals } = await fleet.engine.submit(CALLER, { kind: "COMMISSION", nodes: { all: true } });
    if (refusals.length > 0) throw new Error(refusals[0]?.message);
  }
  const sql = postgres(made.connection.url, { max: 1, onnotice: () => {} });
  await sql`vacuum analyze`;
  // Applies to new connections only, so this connection is not logged.
  if (logged) await sql`alter database ${sql(made.name)} set log_min_duration_statement = 0`;
  const from = readFileSync(testbed.logFile).length;
  const service = await startServed(testbed, {
    environment: {
      DATABASE_URL: made.connection.url,
      OSTLER_PLUGINS: PLUGIN,
      OSTLER_POWER_SECONDS: "0",
      OSTLER_CONCURRENCY: String(concurrency),
    },
    nodeArgs,
  });
  while ((await sql`select 1 from operations where finished_at is null`).length > 0) await delay(POLL_MS);
  const log = readFileSync(testbed.logFile).subarray(from).toString("utf8");
  await sql.end();
  // The process writes the profile when it exits.
  service.child.kill("SIGTERM");
  await once(service.child, "exit");
  return log;
}

// ---- the profile

interface Profile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string };
  }[];
  readonly samples: readonly number[];
  /** In µs. */
  readonly timeDeltas: readonly number[];
}

function shares({ nodes, samples, timeDeltas }: Profile): [string, number][] {
  const kinds = new Map(nodes.map(({ id, callFrame }) => [id, kindOf(callFrame)]));
  const times = new Map<string, number>();
  let busy = 0;
  for (const [index, id] of samples.entries()) {
    const kind = kinds.get(id);
    const time = timeDeltas[index] ?? 0;
    if (kind === undefined || kind === null) continue;
    busy += time;
    times.set(kind, (times.get(kind) ?? 0) + time);
  }
  return [...times]
    .map(([kind, time]): [string, number] => [kind, time / busy])
    .filter(([, share]) => share >= SHARE_SHOWN_MIN)
    .toSorted((a, b) => b[1] - a[1])
    .slice(0, SHOWN_MAX);
}

/** Category of a sample: a package, a directory of src, or a native function. Null if the process was idle. */
function kindOf({ functionName, url }: Profile["nodes"][number]["callFrame"]): string | null {
  if (functionName === "(idle)") return null;
  if (url === "") return NATIVE[functionName] ?? "other native functions";
  const [, inPackage] = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url) ?? [];
  if (inPackage !== undefined) return inPackage;
  const [, directory] = /\/(src\/[^/]+)\//.exec(url) ?? [];
  if (directory !== undefined) return directory;
  if (url.startsWith("node:internal/modules") || url.startsWith("node:internal/process"))
    return "Node: loading modules";
  return url.startsWith("node:") ? "Node: other" : "other";
}

const NATIVE: Readonly<Record<string, string>> = {
  "(garbage collector)": "garbage collection",
  writeBuffer: "writing to PostgreSQL's sockets (writeBuffer)",
  writev: "writing to PostgreSQL's sockets (writeBuffer)",
  writeUtf8String: "writing to other processes and clients (writeUtf8String)",
  compileSourceTextModule: "Node: loading modules",
  "(program)": "the runtime itself",
};

// ---- the log

function durations(log: string, runs: number): string[][] {
  const found = new Map<string, { times: number; ms: number }>();
  for (const entry of log.split(/^(?=\d{4}-\d\d-\d\d )/m)) {
    const [, milliseconds, what = "statement", text = ""] =
      /duration: ([\d.]+) ms {2}(?:(parse|bind|execute) [^:]*|statement): ([\s\S]*)/.exec(entry) ?? [];
    if (milliseconds === undefined) continue;
    const key = text
      .trim()
      .replace(/\s+/g, " ")
      .replaceAll('"', "")
      .replace(/^select .*? from /i, "select … from ")
      .slice(0, TEXT_LENGTH_MAX);
    const known = found.get(key) ?? { times: 0, ms: 0 };
    // A statement with parameters is logged up to three times (parse, bind, execute).
    found.set(key, {
      times: known.times + (what === "execute" || what === "statement" ? 1 : 0),
      ms: known.ms + Number(milliseconds),
    });
  }
  const total = [...found.values()].reduce((sum, { ms }) => sum + ms, 0);
  const slowest = [...found].toSorted(([, a], [, b]) => b.ms - a.ms).slice(0, SHOWN_MAX);
  return slowest.map(([text, { times, ms }]) => [
    text,
    shown(times / runs, 2),
    shown(ms / runs, 3),
    shown((100 * ms) / total),
  ]);
}
