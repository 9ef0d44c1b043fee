/**
 * Start-up steps that the service and `ostler migrate` share: wait for the database, open it, migrate it. Failures name
 * the database and say what to do.
 */
import { join } from "node:path";
import type { Config } from "../config/config.ts";
import { urlWithoutSecrets } from "../config/config.ts";
import { messageOf } from "../errors.ts";
import type { Log } from "../log.ts";
import { isConnectionLoss, sqlState } from "../store/postgres/connection-errors.ts";
import { migrateDatabase, openDatabase } from "../store/postgres/database.ts";
import type { Connection, Database } from "../store/postgres/database.ts";
import { startEmbedded } from "../store/postgres/embedded.ts";
import { retryUntilReachable } from "../store/postgres/probe.ts";

const NOT_PERMITTED = "42501";

/**
 * Runs `work`, and retries it while the database cannot be reached, up to `dbWaitSeconds`: supervisors start processes
 * in any order. Work that loses the connection midway starts again.
 */
export function waitForDatabase<T>(config: Config, work: () => Promise<T>, log: Log): Promise<T> {
  const seconds = config.databaseUrl === null ? 0 : config.dbWaitSeconds;
  const onWait = (error: unknown) =>
    log.warn({ err: rootOf(error), seconds }, "cannot reach the database yet; retrying");
  return retryUntilReachable(() => explainDatabaseErrors(config.databaseUrl, work), seconds, onWait);
}

/** The database server's URL; without one, starts the embedded database. */
export async function connectionOf(config: Config, parts: AsyncDisposableStack, log: Log): Promise<Connection> {
  if (config.databaseUrl !== null) return { url: config.databaseUrl };
  const keepUp = {
    down: (why: string) => log.error({ why }, "the embedded database exited unexpectedly; restarting it"),
    up: () => log.info("the embedded database is running again"),
  };
  const embedded = parts.use(await startEmbedded({ folder: join(config.data, "postgres"), keepUp }));
  log.info({ folder: config.data }, "the embedded database is running");
  return embedded.connection;
}

/** Opens the database and migrates it to the newest migration. */
export async function openMigrated(config: Config, connection: Connection, log: Log): Promise<Database> {
  await using parts = new AsyncDisposableStack();
  const listenAt = config.listenUrl === null ? {} : { listenAt: { url: config.listenUrl } };
  const database = parts.use(
    await openDatabase({
      connection,
      ...listenAt,
      connectionsMax: config.dbPool,
      prepare: config.prepare,
    }),
  );
  const { made, unknown } = await migrateDatabase(connection, (tried) =>
    log.warn({ tried }, "a migration waits for a table that is in use; retrying"),
  );
  if (made.length > 0) log.info({ migrations: made.length }, "migrated the database");
  if (unknown.length > 0)
    log.warn({ migrations: unknown }, "the database was migrated by a newer release; this release continues to use it");
  parts.move();
  return database;
}

/** The database failed; the message names it and says what to do. */
class DatabaseUnavailableError extends Error {}

/**
 * Runs `work`. If the database makes it fail, throws an error that names the database. `url: null`: the embedded one.
 */
export async function explainDatabaseErrors<T>(url: string | null, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const sentence =
      error instanceof DatabaseUnavailableError
        ? undefined
        : sentenceOf(error, url === null ? "The embedded database" : `The database ${urlWithoutSecrets(url)}`);
    throw sentence === undefined ? error : new DatabaseUnavailableError(sentence, { cause: error });
  }
}

function sentenceOf(error: unknown, database: string): string | undefined {
  const why = messageOf(rootOf(error)).replace(/\.?$/, ".");
  if (isConnectionLoss(error)) return `${database} is not available: ${why}`;
  const state = sqlState(error);
  if (state === NOT_PERMITTED)
    return `${database} denies this role a required privilege: ${why} Make the role the owner of the database, or let the owner run \`npm run migrate\` and grant the privileges listed in docs/replicas.md.`;
  return state === undefined ? undefined : `${database} reports an error: ${why}`;
}

/** The root cause: the wrappers name the statement, not the problem. */
function rootOf(error: unknown): unknown {
  let at = error;
  while (at instanceof Error && at.cause instanceof Error) at = at.cause;
  return at;
}
