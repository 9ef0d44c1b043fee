/** An engine on a database, and a fleet of nodes with the benchmark's driver. */
import { fileURLToPath } from "node:url";
import { loadPlugins } from "../src/drivers/load.ts";
import { createEngine } from "../src/engine/engine.ts";
import type { Engine } from "../src/engine/engine.ts";
import { createLog } from "../src/log.ts";
import { createNotifier } from "../src/store/postgres/notifier.ts";
import { openDatabase } from "../src/store/postgres/database.ts";
import type { Connection, Database } from "../src/store/postgres/database.ts";
import { openKeyring } from "../src/store/secrets/keyring.ts";
import { readMasterKeys } from "../src/store/secrets/master-keys.ts";
import { MASTER_KEYS } from "./service.ts";
import { DRIVER } from "./six-step-driver.ts";

export const CALLER = { actor: "benchmark", project: "default", scope: "ADMIN" as const };
export const PLUGIN = fileURLToPath(new URL("six-step-driver.ts", import.meta.url));
const REGISTRATION_BATCH = 1_000;

export interface Fleet extends AsyncDisposable {
  readonly engine: Engine;
  readonly database: Database;
}

/** Creates the parts as src/app.ts does, without the API. The engine is not started. */
export async function openFleet({
  connection,
  concurrency,
}: {
  readonly connection: Connection;
  readonly concurrency: number;
}): Promise<Fleet> {
  const log = createLog("silent");
  await using parts = new AsyncDisposableStack();
  const registry = parts.use(await loadPlugins([PLUGIN], createLog("silent")));
  const database = parts.use(await openDatabase({ connection }));
  const notifier = parts.use(await createNotifier(database, () => {}));
  const masterKeys = readMasterKeys({ secretKeys: MASTER_KEYS, secretKeysFile: null, databaseUrl: null, data: "" });
  const keyring = await openKeyring(database, masterKeys);
  const engine = parts.use(await createEngine({ database, registry, keyring, notifier, log, concurrency }));
  const opened = parts.move();
  return { engine, database, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

/** Registers nodes named `n00000`, `n00001` and so on. */
export async function registerFleet(engine: Engine, count: number): Promise<void> {
  for (let from = 0; from < count; from += REGISTRATION_BATCH) {
    const nodes = Array.from({ length: Math.min(REGISTRATION_BATCH, count - from) }, (_, index) => ({
      name: `n${String(from + index).padStart(5, "0")}`,
      driver: DRIVER,
    }));
    const { refusals } = await engine.registerNodes(CALLER, nodes);
    if (refusals.length > 0) throw new Error(refusals[0]?.message);
  }
}
