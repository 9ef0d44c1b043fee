/** `ostler secrets`: lists the keys of the stored secrets, and replaces them. Works beside running replicas. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../config/config.ts";
import { ConfigError } from "../config/values.ts";
import { describeDrivers } from "../drivers/load.ts";
import { secretVariablesOf } from "../drivers/variables.ts";
import type { Log } from "../log.ts";
import { connectionOf, openMigrated, waitForDatabase } from "../startup/database-start.ts";
import { auditRow, shellRequest } from "../engine/audit/audit-row.ts";
import { insertAuditRows } from "../store/log/audit.ts";
import type { Database } from "../store/postgres/database.ts";
import { dataKeyRows, masterIdOf, openKeyring } from "../store/secrets/keyring.ts";
import type { Keyring } from "../store/secrets/keyring.ts";
import { readMasterKeys } from "../store/secrets/master-keys.ts";
import { countSecrets, encryptAllSecrets } from "../store/secrets/reencryption.ts";

interface Done {
  readonly lines: readonly string[];
  /** False: some secrets could not be read. */
  readonly isComplete: boolean;
}

/** The stored secrets, and the names of the variables that drivers declare as secret. */
interface Stored {
  readonly database: Database;
  readonly keyring: Keyring;
  readonly declared: ReadonlySet<string>;
}

const ACTIONS: Readonly<Record<string, (stored: Stored) => Promise<Done>>> = {
  async status({ database, declared }) {
    const counts = await countSecrets(database, declared);
    const keys = (await dataKeyRows(database.reader)).map((key) => {
      const count = counts.get(key.id) ?? 0;
      counts.delete(key.id);
      const unfinished = key.rotatedAt ? "" : ", rotation unfinished";
      return `data key ${key.id}, encrypted with master key ${masterIdOf(key)}${unfinished}: ${count} secrets`;
    });
    const others = [...counts].map(
      ([id, count]) => `${id === null ? "in clear" : `data key ${id}, which is missing`}: ${count} secrets`,
    );
    const lines = [...keys, ...others];
    return { lines: lines.length > 0 ? lines : ["There are no secrets and no keys."], isComplete: true };
  },
  async encrypt(stored) {
    return encrypted("Encrypted", stored);
  },
  async rotate(stored) {
    const { id, isNew } = await stored.database.transaction((tx) => stored.keyring.rotate(tx));
    return encrypted(`${isNew ? "Added" : "Continued the rotation to"} data key ${id}; encrypted`, stored);
  },
  async rewrap({ database, keyring }) {
    const count = await database.transaction((tx) => keyring.rewrap(tx));
    return { lines: [`Encrypted ${count} data keys with the newest master key.`], isComplete: true };
  },
};

async function encrypted(what: string, { database, keyring, declared }: Stored): Promise<Done> {
  const { count, problems } = await encryptAllSecrets(database, keyring, declared);
  const lines = [`${what} ${count} secrets.`, ...problems.map((problem) => `Not encrypted: ${problem}`)];
  return { lines, isComplete: problems.length === 0 };
}

/** Carries out a command, after its row of the audit; throws a sentence for operators. */
export async function secretsCommand(name: string, config: Config, log: Log): Promise<Done> {
  const action = ACTIONS[name];
  if (!action)
    throw new ConfigError(`There is no command ostler secrets ${name}. Use one of ${Object.keys(ACTIONS).join(", ")}.`);
  const masterKeys = readMasterKeys(config);
  if (config.databaseUrl === null && !existsSync(join(config.data, "postgres")))
    throw new ConfigError(`There is no database in ${config.data}. Set OSTLER_DATA or DATABASE_URL.`);
  const declared = secretVariablesOf(await describeDrivers(config.plugins, config.pluginFolder));
  await using parts = new AsyncDisposableStack();
  const connection = await connectionOf(config, parts, log);
  return await waitForDatabase(
    config,
    async () => {
      await using database = await openMigrated(config, connection, log);
      const row = auditRow(shellRequest(`ostler secrets ${name}`), { outcome: "ACCEPTED" });
      await database.transaction((tx) => insertAuditRows(tx, [row]));
      return await action({ database, keyring: await openKeyring(database, masterKeys), declared });
    },
    log,
  );
}
