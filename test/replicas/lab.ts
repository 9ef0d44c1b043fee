/**
 * Runs replicas: the service in several processes on one database. Each records the commands to its fake machines in a
 * separate journal, which shows which replica did what and when. Does not depend on a test runner; scripts use it too.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createClient } from "graphql-ws";
import { WebSocket } from "ws";
import { startEmbedded } from "../../src/store/postgres/embedded.ts";
import { TEST_KEYS } from "../support/keyring.ts";
import { ask as askService } from "../support/ask.ts";
import { TRANSITION_FIELDS } from "../support/transition-log.ts";
import type { LoggedTransition } from "../support/transition-log.ts";

export interface ReplicaSetup {
  readonly databaseUrl: string;
  readonly environment?: Readonly<Record<string, string | undefined>>;
  /** Source tree of the replica; absent: this one. */
  readonly root?: string;
  /** Receives the log, also before the replica is ready. */
  readonly onLog?: (text: string) => void;
}

/** A line of a journal: a step was entered, or ended. */
export interface Entry {
  readonly at: number;
  readonly node: string;
  readonly step?: string;
  readonly attempt?: string;
  /** The memo of the step; null on the first entry. */
  readonly memo?: unknown;
  readonly done?: true;
}

export interface Replica extends AsyncDisposable {
  /** Address as http://host:port. */
  readonly url: string;
  readonly pid: number;
  /** Log so far. */
  log(): string;
  /** Journal so far. */
  journal(): Entry[];
  /** Sends SIGKILL, like a power failure. */
  kill(): Promise<void>;
  /** Pauses the process and its children (SIGSTOP); `wake` resumes them. */
  pause(): void;
  wake(): void;
  /** Sends SIGTERM. Resolves with the exit code and the duration of the shutdown in milliseconds. */
  end(): Promise<{ readonly code: number | null; readonly ms: number }>;
}

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const READY_MS = 60_000;

let replicas = 0;
/** The configured tokens of the replicas that have one, by their addresses. */
const tokens = new Map<string, string>();

/** Starts a replica in `folder`. Resolves when it reports ready. */
export async function startReplica(
  folder: string,
  { databaseUrl, environment = {}, root = ROOT, onLog = () => {} }: ReplicaSetup,
): Promise<Replica> {
  const file = join(folder, `replica-${(replicas += 1)}.jsonl`);
  const child = spawn(process.execPath, [join(root, "src/main.ts")], {
    cwd: folder,
    // A separate process group, so that a pause includes all child processes.
    detached: true,
    env: {
      PATH: process.env["PATH"],
      DATABASE_URL: databaseUrl,
      OSTLER_SECRET_KEYS: TEST_KEYS,
      OSTLER_PORT: "0",
      OSTLER_POWER_SECONDS: "0",
      FAKE_DRIVER_JOURNAL: file,
      ...environment,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exited = once(child, "close") as Promise<[number | null, string | null]>;
  const pid = child.pid ?? 0;
  const signal = (name: NodeJS.Signals) => {
    try {
      process.kill(-pid, name);
    } catch {
      // The process has ended.
    }
  };
  const last = () => signal("SIGKILL");
  process.once("exit", last);
  void exited.then(() => process.off("exit", last));
  let logged = "";
  child.stderr.on("data", (part: Buffer) => {
    logged += part.toString();
    onLog(part.toString());
  });
  const url = await new Promise<string>((ready, fail) => {
    const late = setTimeout(() => fail(new Error(`A replica was not ready in time: ${logged}`)), READY_MS);
    let output = "";
    child.stdout.on("data", (part: Buffer) => {
      output += part.toString();
      const found = /Ostler is ready: (http:\/\/[^/\s]+)/.exec(output)?.[1];
      if (found === undefined) return;
      clearTimeout(late);
      ready(found);
    });
    void exited.then(([code]) => {
      clearTimeout(late);
      fail(new Error(`A replica ended with ${String(code)} before it was ready: ${logged}`));
    });
  });
  if (environment["OSTLER_TOKEN"] !== undefined) tokens.set(url, environment["OSTLER_TOKEN"]);
  const kill = async () => {
    signal("SIGKILL");
    await exited;
  };
  return {
    url,
    pid,
    log: () => logged,
    journal: () => journalOf(file),
    kill,
    pause: () => signal("SIGSTOP"),
    wake: () => signal("SIGCONT"),
    async end() {
      const began = performance.now();
      process.kill(pid, "SIGTERM");
      const [code] = await exited;
      return { code, ms: performance.now() - began };
    },
    [Symbol.asyncDispose]: kill,
  };
}

function journalOf(file: string): Entry[] {
  let text = "";
  try {
    text = readFileSync(file, "utf8");
  } catch {
    return [];
  }
  // A killed process may leave an incomplete line.
  return text
    .slice(0, text.lastIndexOf("\n") + 1)
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Entry);
}

/** Entries of steps, without their ends. */
export function entered(journal: readonly Entry[]): Entry[] {
  return journal.filter(({ step, done }) => step !== undefined && done === undefined);
}

/** Sends a request to a replica. Throws its errors. */
export function ask<Data>(
  url: string,
  query: string,
  variables: Readonly<Record<string, unknown>> = {},
): Promise<Data> {
  return askService<Data>(url, query, { variables, token: tokens.get(url) });
}

export async function register(url: string, names: readonly string[], settings: unknown = {}): Promise<void> {
  const nodes = names.map((name) => ({ name, driver: { fake: settings } }));
  const { registerNodes } = await ask<{ registerNodes: { errors: readonly { message: string }[] } }>(
    url,
    "mutation ($nodes: [RegisterNodeInput!]!) { registerNodes(input: { nodes: $nodes }) { errors { message } } }",
    { nodes },
  );
  if (registerNodes.errors[0]) throw new Error(registerNodes.errors[0].message);
}

/** Commissions nodes. Returns the UUID of the operation. */
export async function commission(url: string, names: readonly string[]): Promise<string> {
  const { commissionNodes } = await ask<{
    commissionNodes: { operation: { uuid: string } | null; errors: readonly { message: string }[] };
  }>(
    url,
    "mutation ($names: [String!]!) { commissionNodes(input: { nodes: { names: $names }, onFailure: LEAVE }) { operation { uuid } errors { message } } }",
    { names },
  );
  if (!commissionNodes.operation) throw new Error(commissionNodes.errors[0]?.message);
  return commissionNodes.operation.uuid;
}

export interface SeenOperation {
  readonly state: string;
  readonly finishedAt: string | null;
}

export async function operationOf(url: string, uuid: string): Promise<SeenOperation> {
  return (
    await ask<{ operation: SeenOperation }>(url, "query ($uuid: ID!) { operation(id: $uuid) { state finishedAt } }", {
      uuid,
    })
  ).operation;
}

/** A subscriber that follows the log from its beginning, at one replica after another, with its last cursor. */
export interface Follower {
  readonly seen: readonly LoggedTransition[];
  /** Codes of the errors that ended its streams; a broken connection has none. */
  readonly resets: readonly string[];
  /** Continues at another replica as soon as the current stream is over. */
  readonly url: string;
  moveTo(url: string): void;
  close(): Promise<void>;
}

type Item =
  | ({ readonly __typename: "Transition" } & LoggedTransition)
  | { readonly __typename: "StreamBookmark"; readonly cursor: string }
  | { readonly __typename: "StreamReset"; readonly code: string };

/** A socket that is closed before it is open emits an error, which graphql-ws does not handle. */
class Quiet extends WebSocket {
  constructor(...given: ConstructorParameters<typeof WebSocket>) {
    super(...given);
    this.on("error", () => {});
  }
}

export function follow(first: string): Follower {
  const seen: LoggedTransition[] = [];
  const resets: string[] = [];
  let url = first;
  let over = false;
  let cursor = "0";
  let leave = () => {};
  const stream = async () => {
    const client = createClient({
      url: `${url.replace("http", "ws")}/graphql`,
      webSocketImpl: Quiet,
      retryAttempts: 0,
      ...(tokens.has(url) && { connectionParams: { authorization: `Bearer ${tokens.get(url)}` } }),
    });
    leave = () => client.terminate();
    try {
      for await (const { data, errors } of client.iterate<{ nodeTransitions: Item }>({
        query: `subscription ($after: String) { nodeTransitions(after: $after) { __typename ... on Transition { ${TRANSITION_FIELDS} } ... on StreamBookmark { cursor } ... on StreamReset { code } } }`,
        variables: { after: cursor },
      })) {
        if (errors) resets.push(...errors.map(({ message }) => message));
        const item = data?.nodeTransitions;
        if (item?.__typename === "Transition") seen.push(item);
        if (item?.__typename === "StreamReset") resets.push(item.code);
        else if (item) ({ cursor } = item);
      }
    } finally {
      await client.dispose();
    }
  };
  const loop = (async () => {
    while (!over) await stream().catch(() => delay(50));
  })();
  return {
    seen,
    resets,
    get url() {
      return url;
    },
    moveTo(other) {
      url = other;
      leave();
    },
    async close() {
      over = true;
      leave();
      await loop;
    },
  };
}

export interface Server extends AsyncDisposable {
  readonly url: string;
  /** Sends SIGKILL, like a power failure. */
  crash(): Promise<void>;
  /** Starts the same server again. */
  start(): Promise<void>;
}

/** A separate PostgreSQL, reached over TCP. */
export async function startServer(folder: string, durable = false): Promise<Server> {
  // Below the range that the kernel assigns to outgoing connections.
  const tcpPort = 20_000 + Math.floor(Math.random() * 12_000);
  const start = () => startEmbedded({ folder: join(folder, "postgres"), durable, tcpPort });
  let running = await start();
  return {
    url: `postgres://ostler@127.0.0.1:${tcpPort}/postgres`,
    async crash() {
      process.kill(running.pid, "SIGQUIT");
      await running[Symbol.asyncDispose]();
    },
    async start() {
      running = await start();
    },
    async [Symbol.asyncDispose]() {
      await running[Symbol.asyncDispose]();
    },
  };
}

/** A temporary folder. */
export function scratch(): { readonly folder: string } & Disposable {
  const folder = mkdtempSync(join(tmpdir(), "ostler-replicas-"));
  return {
    folder,
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }),
  };
}
