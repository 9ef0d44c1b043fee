/**
 * What a start of the service and `ostler migrate` have in common: the database is waited for, opened, and brought to the
 * newest migration, and what stands in the way is told in a sentence that names the database.
 */
import type { Config } from "../config.ts";
import { urlWithoutSecrets } from "../config.ts";
import { messageOf } from "../errors.ts";
import type { Log } from "../log.ts";
import { isConnectionLoss, migrateDatabase, openDatabase, sqlState } from "../store/postgres/database.ts";
import type { Connection, Database } from "../store/postgres/database.ts";
import { untilThere } from "../store/postgres/probe.ts";

/** Two that start together wait for each other, also where no database is waited for. */
const TURN_WAIT_SECONDS_MIN = 10;
const NOT_PERMITTED = "42501";

/** Processes are started in any order: one that is there before its server waits for it. Work that loses it in its middle begins anew. */
export function whenThere<T>(config: Config, work: () => Promise<T>, log: Log): Promise<T> {
  const seconds = config.databaseUrl === null ? 0 : config.dbWaitSeconds;
  const onWait = (error: unknown) =>
    log.warn({ err: rootOf(error), seconds }, "the database cannot be reached yet; it is tried again");
  return untilThere(() => named(config.databaseUrl, work), seconds, onWait);
}

/** Opens the database at the newest migration. */
export async function openMigrated(config: Config, connection: Connection, log: Log): Promise<Database> {
  await using parts = new AsyncDisposableStack();
  const listenAt = config.listenUrl === null ? {} : { listenAt: { url: config.listenUrl } };
  const onTurn = () => log.warn("another replica is starting on this database; this one waits for its turn");
  const database = parts.use(
    await openDatabase({
      connection,
      ...listenAt,
      connectionsMax: config.dbPool,
      prepare: config.prepare,
      turnWaitSeconds: Math.max(config.dbWaitSeconds, TURN_WAIT_SECONDS_MIN),
      onTurn,
    }),
  );
  const { made, unknown } = await migrateDatabase(connection, (tried) =>
    log.warn({ tried }, "a migration waits for a table that is in use; it is tried again"),
  );
  if (made.length > 0) log.info({ migrations: made }, "the database was brought to the newest migration");
  if (unknown.length > 0)
    log.warn(
      { migrations: unknown },
      "the database is newer than this release; a newer one has migrated it, and this one goes on",
    );
  parts.move();
  return database;
}

/** What the database was asked, and did not do: in words, with where it is. */
class Unserved extends Error {}

/** Does what asks the database at `url`. Throws a sentence where that is why it fails; null is the embedded one. */
export async function named<T>(url: string | null, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const sentence =
      error instanceof Unserved
        ? undefined
        : sentenceOf(error, url === null ? "The embedded database" : `The database ${urlWithoutSecrets(url)}`);
    throw sentence === undefined ? error : new Unserved(sentence, { cause: error });
  }
}

function sentenceOf(error: unknown, database: string): string | undefined {
  const why = messageOf(rootOf(error)).replace(/\.?$/, ".");
  if (isConnectionLoss(error)) return `${database} is not available: ${why}`;
  const state = sqlState(error);
  if (state === NOT_PERMITTED)
    return `${database} does not let this role do what is needed: ${why} Let the role own the database, or let its owner run \`npm run migrate\` and grant the rights that docs/replicas.md lists.`;
  return state === undefined ? undefined : `${database} refuses: ${why}`;
}

/** Where the chain of causes begins: what it is wrapped in tells the statement, and not what was wrong with it. */
function rootOf(error: unknown): unknown {
  let at = error;
  while (at instanceof Error && at.cause instanceof Error) at = at.cause;
  return at;
}
