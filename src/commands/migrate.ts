/**
 * `ostler migrate`: runs the migrations of a start, and nothing else, with a database role that may change tables. The
 * service's own role then needs no such right.
 */
import { ConfigError } from "../config/values.ts";
import type { Config } from "../config/config.ts";
import type { Log } from "../log.ts";
import { openMigrated, waitForDatabase } from "../startup/database-start.ts";

export async function migrateDatabaseOnly(config: Config, log: Log): Promise<void> {
  const { databaseUrl: url } = config;
  if (url === null)
    throw new ConfigError(
      "DATABASE_URL is not set. Set it to the database to migrate. The embedded database is migrated at each start.",
    );
  const migrate = async () => {
    await using _ = await openMigrated(config, { url }, log);
  };
  await waitForDatabase(config, migrate, log);
}
