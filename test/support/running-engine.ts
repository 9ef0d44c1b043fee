/**
 * An engine with all it needs, on a database that is there already. Knows no test runner: a child process uses it too.
 */
import createFake from "../../plugins/fake/index.ts";
import type { Driver } from "../../src/drivers/driver.ts";
import { createRegistry } from "../../src/drivers/registry.ts";
import type { AnyDriver } from "../../src/drivers/interfaces.ts";
import { createEngine } from "../../src/engine/engine.ts";
import type { Engine } from "../../src/engine/engine.ts";
import type { Provisioning } from "../../src/engine/input/agent-media.ts";
import { createTransact } from "../../src/engine/transaction.ts";
import type { Transact } from "../../src/engine/transaction.ts";
import { createLog } from "../../src/log.ts";
import type { Log } from "../../src/log.ts";
import { createNotifier } from "../../src/store/postgres/notifier.ts";
import { testKeyring } from "./keyring.ts";
import { openDatabase } from "../../src/store/postgres/database.ts";
import type { Connection, Database } from "../../src/store/postgres/database.ts";

export interface EngineSetup {
  readonly concurrency?: number;
  /** Drivers in addition to `fake`. */
  readonly drivers?: readonly Driver<never>[];
  /** false: requests are admitted and wait. */
  readonly started?: boolean;
  /** Default false: others use the database too. */
  readonly isAlone?: boolean;
  readonly abortGraceMs?: number;
  readonly abortCleanUpMs?: number;
  /** How long a probe of a discovery may take. */
  readonly probeMs?: number;
  readonly patienceMs?: number;
  /** Steps that run at its end are released for other processes. Default: they are not waited for. */
  readonly handsBack?: true;
  /** Interval of background power reads in seconds; default 0: never. */
  readonly powerSeconds?: number;
  /** Folder with the files of stored images. */
  readonly imageFolder?: string;
  /** Default: silent. */
  readonly log?: Log;
  /** How machines reach the service; absent: not at all. */
  readonly provisioning?: Provisioning | null;
  /** Called with the text of each statement of the engine. */
  readonly onStatement?: (text: string) => void;
  /** Puts something between the engine and its database. */
  readonly through?: (database: Database) => Database;
}

export interface RunningEngine extends AsyncDisposable {
  readonly engine: Engine;
  readonly database: Database;
  readonly transact: Transact;
}

const ABORT_GRACE_MS = 200;
const ABORT_CLEAN_UP_MS = 1_000;
const DRAIN_MS = 500;

/** The fake driver writes its journal to the file that FAKE_DRIVER_JOURNAL names at this moment. */
export async function runEngine(connection: Connection, setup: EngineSetup = {}): Promise<RunningEngine> {
  const owned = new AsyncDisposableStack();
  const log = setup.log ?? createLog((process.env["TEST_LOG"] as "debug") ?? "silent");
  const opened = owned.use(
    await openDatabase({
      connection,
      connectionsMax: 8,
      // Otherwise fake timers of a test would close connections, which open again only as those timers pass.
      unusedSeconds: 0,
      ...(setup.onStatement && { onWrite: setup.onStatement }),
    }),
  );
  const database = setup.through?.(opened) ?? opened;
  const notifier = owned.use(await createNotifier(database, () => {}));
  const fake = createFake({ log: () => {} }) as unknown as AnyDriver;
  const registry = owned.use(createRegistry([fake, ...((setup.drivers ?? []) as unknown as AnyDriver[])]));
  const engine = owned.use(
    await createEngine({
      database,
      registry,
      keyring: await testKeyring(opened),
      notifier,
      log,
      concurrency: setup.concurrency ?? 32,
      isAlone: setup.isAlone ?? false,
      ...(setup.imageFolder !== undefined && { imageFolder: setup.imageFolder }),
      abortGraceMs: setup.abortGraceMs ?? ABORT_GRACE_MS,
      abortCleanUpMs: setup.abortCleanUpMs ?? ABORT_CLEAN_UP_MS,
      drainMs: DRAIN_MS,
      ...(setup.handsBack && { endCalls: async () => {} }),
      powerSeconds: setup.powerSeconds ?? 0,
      ...(setup.patienceMs !== undefined && { patienceMs: setup.patienceMs }),
      provisioning: setup.provisioning ?? null,
      ...(setup.probeMs !== undefined && { probeMs: setup.probeMs }),
    }),
  );
  if (setup.started ?? true) await engine.start();
  return {
    engine,
    database,
    transact: createTransact(database, notifier),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
