/**
 * `ostler migrate`: makes everything in the database that a start would make, with a role that may do so, and nothing else.
 * The service's own role then needs no right to make or change tables.
 */
import { ConfigError } from "../config.ts";
import type { Config } from "../config.ts";
import { createQueue } from "../engine/jobs/queue.ts";
import type { Log } from "../log.ts";
import { openMigrated, whenThere } from "./startup.ts";
import type { Notifier } from "../store/postgres/notifier.ts";

/** Nobody is to hear of anything: nothing is stored. */
const SILENT: Notifier = { notify() {}, subscribe: () => () => {}, async [Symbol.asyncDispose]() {} };

export async function migrateOnly(config: Config, log: Log): Promise<void> {
  const { databaseUrl: url } = config;
  if (url === null)
    throw new ConfigError(
      "DATABASE_URL is not set. Set it to the database to migrate; the embedded one is migrated by each start.",
    );
  const migrate = async () => {
    await using database = await openMigrated(config, { url }, log);
    // The queue makes its own tables when it is created.
    const queue = await database.inTurn(() =>
      createQueue({
        connection: database.connection,
        bell: SILENT,
        log,
        concurrency: 1,
        connectionsMax: 1,
        supervises: false,
      }),
    );
    await queue.stop(0);
  };
  await whenThere(config, migrate, log);
}
