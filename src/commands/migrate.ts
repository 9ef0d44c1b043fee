/**
 * `ostler migrate`: runs the migrations of a start, and nothing else, with a database role that may change tables. The
 * service's own role then needs no such right.
 */
import { ConfigError } from "../config/values.ts";
import type { Config } from "../config/config.ts";
import { createQueue } from "../engine/jobs/queue.ts";
import type { Log } from "../log.ts";
import { openMigrated, waitForDatabase } from "../startup/database-start.ts";
import type { Notifier } from "../store/postgres/notifier.ts";

/** Migrating stores no work, so there is nothing to notify about. */
const NOOP_NOTIFIER: Notifier = { notify() {}, subscribe: () => () => {}, async [Symbol.asyncDispose]() {} };

export async function migrateDatabaseOnly(config: Config, log: Log): Promise<void> {
  const { databaseUrl: url } = config;
  if (url === null)
    throw new ConfigError(
      "DATABASE_URL is not set. Set it to the database to migrate. The embedded database is migrated at each start.",
    );
  const migrate = async () => {
    await using database = await openMigrated(config, { url }, log);
    // The queue makes its own tables when it is created.
    const queue = await database.withStartLock(() =>
      createQueue({
        connection: database.connection,
        notifier: NOOP_NOTIFIER,
        log,
        concurrency: 1,
        connectionsMax: 1,
        supervises: false,
      }),
    );
    await queue.stop(0);
  };
  await waitForDatabase(config, migrate, log);
}
