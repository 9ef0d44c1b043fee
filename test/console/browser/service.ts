/**
 * The service as a child process on a database that outlives it: it can be killed and started again at the same
 * address. With a fleet of simulated nodes.
 */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import postgres from "postgres";
import { startEmbedded } from "../../../src/store/postgres/embedded.ts";
import { ask } from "../../support/ask.ts";

export interface Service extends AsyncDisposable {
  /** `http://host:port`, the same after each start. */
  readonly url: string;
  readonly sql: postgres.Sql;
  /** The data of an answer without errors. */
  ask<Data = Record<string, unknown>>(query: string, variables?: Readonly<Record<string, unknown>>): Promise<Data>;
  /** Registers nodes `node-00000` and on, in clusters. */
  register(count: number): Promise<void>;
  kill(): Promise<void>;
  start(): Promise<void>;
  /** Another process with the same database. */
  replica(): Promise<Pick<Service, "url" | "ask"> & AsyncDisposable>;
  /** CPU time of the process, user and system, in seconds. */
  cpuSeconds(): number;
}

const MAIN = fileURLToPath(new URL("../../../src/main.ts", import.meta.url));
const CLUSTERS = ["berlin", "lyon", "oslo", "turin"];
const MODELS = ["PowerEdge R650", "ProLiant DL360", "SR650 V3"];
const BATCH = 1_000;
const TICKS_PER_SECOND = 100;

/** `flags`: further ones of the service. */
export async function startService(...flags: readonly string[]): Promise<Service> {
  await using making = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), "ostler-example-"));
  making.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));
  const port = randomPort();
  making.use(await startEmbedded({ folder, durable: false, tcpPort: port }));
  const databaseUrl = `postgres://ostler@127.0.0.1:${port}/postgres`;
  const sql = postgres(databaseUrl, { max: 2 });
  making.defer(() => sql.end());
  const url = `http://127.0.0.1:${port + 1}`;
  let child: ChildProcess | null = null;
  const spawnAt = (ownPort: number) => {
    const started = spawn(process.execPath, [MAIN, "--plugins", "fake", ...flags], {
      env: {
        PATH: process.env["PATH"],
        DATABASE_URL: databaseUrl,
        OSTLER_PORT: String(ownPort),
        OSTLER_DATA: folder,
        OSTLER_SECRET_KEYS: "off",
        OSTLER_LOG: "warn",
      },
      stdio: ["ignore", "pipe", "inherit"],
    });
    const ready = new Promise<void>((resolve, fail) => {
      started.stdout.on("data", (text: Buffer) => text.includes("Ostler is ready") && resolve());
      started.once("exit", (code) => fail(new Error(`The service ended (${code}) before it was ready.`)));
    });
    return { started, ready };
  };

  async function start(): Promise<void> {
    const { started, ready } = spawnAt(port + 1);
    child = started;
    await ready;
  }

  async function replica() {
    const ownPort = randomPort();
    const { started, ready } = spawnAt(ownPort);
    await ready;
    const ownUrl = `http://127.0.0.1:${ownPort}`;
    return {
      url: ownUrl,
      ask: ((text, variables = {}) => ask(ownUrl, text, { variables })) as Service["ask"],
      [Symbol.asyncDispose]: () => killed(started),
    };
  }

  const kill = () => killed(child);
  making.defer(kill);
  await start();
  const query: Service["ask"] = (text, variables = {}) => ask(url, text, { variables });
  const owned = making.move();
  return {
    url,
    sql,
    ask: query,
    register: (count) => register(query, sql, count),
    kill,
    start,
    replica,
    cpuSeconds() {
      const fields = readFileSync(`/proc/${child?.pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
      return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Below the range that the kernel assigns to outgoing connections. */
const randomPort = () => 20_000 + Math.floor(Math.random() * 6_000) * 2;

async function killed(child: ChildProcess | null): Promise<void> {
  if (child === null || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

async function register(query: Service["ask"], sql: postgres.Sql, count: number): Promise<void> {
  for (const name of CLUSTERS)
    await query("mutation($name: String!) { createCluster(input: { name: $name }) { errors { message } } }", { name });
  for (let first = 0; first < count; first += BATCH) {
    const nodes = Array.from({ length: Math.min(BATCH, count - first) }, (_, index) => newNode(first + index));
    const { registerNodes } = await query<{ registerNodes: { errors: readonly { message: string }[] } }>(
      "mutation($nodes: [RegisterNodeInput!]!) { registerNodes(input: { nodes: $nodes }) { errors { message } } }",
      { nodes },
    );
    if (registerNodes.errors[0]) throw new Error(registerNodes.errors[0].message);
  }
  // Inspection reads the model, and would take minutes for the whole fleet.
  for (const [index, model] of MODELS.entries())
    await sql`update nodes set model = ${model}
      where substring(name from 6)::int / 7 % ${MODELS.length} = ${index} and name like 'node-%'`;
}

function newNode(number: number) {
  return {
    name: nameOf(number),
    driver: { fake: { delayMs: 400, waitSeconds: 1 } },
    cluster: { name: CLUSTERS[Math.floor(number / 500) % CLUSTERS.length] },
    labels: [{ key: "rack", value: `r${Math.floor(number / 40)}` }],
  };
}

export function nameOf(number: number): string {
  return `node-${String(number).padStart(5, "0")}`;
}
