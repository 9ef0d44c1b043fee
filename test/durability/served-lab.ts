/**
 * A service in a separate process, on a temporary database that this process also writes to, like another replica. The
 * service reports its memory on request.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Engine } from "../../src/engine/engine.ts";
import type { Transact } from "../../src/engine/transaction.ts";
import { startEmbedded } from "../../src/store/postgres/embedded.ts";
import { migrateDatabase } from "../../src/store/postgres/database.ts";
import { TEST_KEYS } from "../support/keyring.ts";
import { runEngine } from "../support/running-engine.ts";

export interface ServedLab extends AsyncDisposable {
  /** URL of the service, without the path of the API. */
  readonly url: string;
  /** An engine of this process without workers; it registers nodes. */
  readonly engine: Engine;
  readonly transact: Transact;
  /** Memory of the service after a collection, in MB. */
  memory(): Promise<{ readonly rss: number; readonly heap: number; readonly buffers: number }>;
}

const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
/** Run in the service before it starts. */
const REPORTER =
  "process.on('message', () => { globalThis.gc(); process.send(process.memoryUsage()); }); process.channel.unref();";
const MB = 1024 * 1024;
const END_MS = 15_000;

export async function openServedLab(): Promise<ServedLab> {
  await using making = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), "ostler-lab-"));
  making.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));
  // Below the range that the kernel assigns to outgoing connections.
  const port = 20_000 + Math.floor(Math.random() * 12_000);
  making.use(await startEmbedded({ folder, durable: false, tcpPort: port }));
  const connection = { url: `postgres://ostler@127.0.0.1:${port}/postgres` };
  await migrateDatabase(connection);
  const { engine, transact } = making.use(await runEngine(connection, { started: false }));
  const child = spawn(
    process.execPath,
    ["--expose-gc", "--import", `data:text/javascript,${encodeURIComponent(REPORTER)}`, MAIN],
    {
      env: {
        PATH: process.env["PATH"],
        DATABASE_URL: connection.url,
        OSTLER_SECRET_KEYS: TEST_KEYS,
        OSTLER_PORT: "0",
        OSTLER_LOG: "error",
        OSTLER_POWER_SECONDS: "0",
      },
      stdio: ["ignore", "pipe", "inherit", "ipc"],
    },
  );
  const ended = once(child, "exit");
  making.defer(async () => {
    child.kill("SIGTERM");
    const insist = setTimeout(() => child.kill("SIGKILL"), END_MS);
    await ended;
    clearTimeout(insist);
  });
  const url = await new Promise<string>((ready, fail) => {
    child.stdout?.on("data", (text: Buffer) => {
      const found = /Ostler is ready: (http:\/\/\S+)\/graphql/.exec(text.toString())?.[1];
      if (found !== undefined) ready(found);
    });
    child.once("exit", (code) => fail(new Error(`The service ended (${code}) before it was ready.`)));
  });
  const owned = making.move();
  return {
    url,
    engine,
    transact,
    async memory() {
      const answer = once(child, "message");
      child.send("how much");
      const [{ rss, heapUsed, external, arrayBuffers }] = (await answer) as [NodeJS.MemoryUsage];
      return { rss: rss / MB, heap: heapUsed / MB, buffers: (external + arrayBuffers) / MB };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
