/**
 * Goes through all secrets of a database: counts them, or encrypts those that are in clear or have an older data key.
 * Each batch is a transaction of its own, so that a walk can be killed and repeated, beside working replicas.
 */
import { and, asc, eq, getTableName, gt, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import { SettingError } from "../../errors.ts";
import { rowsText } from "../postgres/bulk.ts";
import type { Database, Reader, Tx } from "../postgres/database.ts";
import { runStatement } from "../postgres/statements.ts";
import { secretKeys } from "../tables.ts";
import { ENCRYPTED, keyIdOf } from "./cipher.ts";
import { dataKeyRows, NO_KEYS, readable, SecretError } from "./keyring.ts";
import type { ChangeSecret, Keyring } from "./keyring.ts";
import { ANY, DECLARED, givenFor, mapSecrets, SECRETS } from "./secrets.ts";
import type { SecretColumn } from "./secrets.ts";

const COLUMNS: readonly SecretColumn[] = Object.values(SECRETS);
const BATCH = 500;

/** The data key of each secret of a row, as a relation with the column `key`; null: in clear. */
function keysOf({ value, path }: SecretColumn, declared: ReadonlySet<string>): SQL {
  const names = [...declared].map((name) => `@.key == ${JSON.stringify(name)} || `).join("");
  const steps = path.map((step) => {
    if (step === DECLARED)
      return `.keyvalue() ? (${names}@.value like_regex ${JSON.stringify(ENCRYPTED.source)}).value`;
    return step === ANY ? ".*" : `.${step}`;
  });
  return sql`(select substring(secret #>> '{}' from ${ENCRYPTED.source}) as key
    from jsonb_path_query(to_jsonb(${value}), ${`$${steps.join("")}`}::jsonpath) as secret where secret <> 'null') as found`;
}

/** Whether secrets are stored in clear. Those of operations and runs, which can be many, are not looked at. */
export async function hasPlainSecrets(reader: Reader): Promise<boolean> {
  const plain = COLUMNS.filter(({ path }) => !path.includes(DECLARED)).map(
    (column) => sql`select from ${column.table}, lateral ${keysOf(column, new Set())} where found.key is null`,
  );
  return (await reader.execute(sql`${sql.join(plain, sql` union all `)} limit 1`)).length > 0;
}

/** Number of secrets by data key; null: in clear. `declared`: names of the variables that are secret. */
export async function countSecrets(
  { reader }: Pick<Database, "reader">,
  declared: ReadonlySet<string>,
): Promise<Map<string | null, number>> {
  const counts = new Map<string | null, number>();
  for (const column of COLUMNS) {
    const rows = await reader.execute<{ key: string | null; count: number }>(
      sql`select found.key, count(*)::int as count from ${column.table}, lateral ${keysOf(column, declared)} group by 1`,
    );
    for (const { key, count } of rows) counts.set(key, (counts.get(key) ?? 0) + count);
  }
  return counts;
}

interface Reencrypted {
  readonly count: number;
  /** Why secrets could not be decrypted, and stay as they are. */
  readonly problems: readonly string[];
}

/** Encrypts all secrets with the newest data key, which it then marks as the key of all. */
export async function encryptAllSecrets(
  { transaction, reader }: Pick<Database, "transaction" | "reader">,
  keyring: Keyring,
  declared: ReadonlySet<string>,
): Promise<Reencrypted> {
  const newest = (await dataKeyRows(reader)).at(-1);
  if (!newest) throw new SettingError(NO_KEYS);
  let count = 0;
  const problems: string[] = [];
  for (const column of COLUMNS) {
    const walk = { column, declared, keyId: newest.id };
    for (let last: string | undefined, isOver = false; !isOver;) {
      const batch = await transaction((tx) => renewBatch(tx, keyring, walk, last));
      count += batch.count;
      problems.push(...batch.problems);
      last = batch.rows.at(-1);
      isOver = batch.rows.length < BATCH;
    }
  }
  const rotatedAt = sql`coalesce(${secretKeys.rotatedAt}, now())`;
  // Only this one: another process may have added a newer one meanwhile.
  await transaction((tx) => tx.update(secretKeys).set({ rotatedAt }).where(eq(secretKeys.id, newest.id)));
  return { count, problems };
}

interface Walk {
  readonly column: SecretColumn;
  readonly declared: ReadonlySet<string>;
  /** The data key that all secrets get. */
  readonly keyId: string;
}

/** The next rows after one that have secrets with another key or none. */
async function renewBatch(
  tx: Tx,
  keyring: Keyring,
  { column, declared, keyId }: Walk,
  after: string | undefined,
): Promise<Reencrypted & { readonly rows: readonly string[] }> {
  const { table, id, value } = column;
  const hasOther = sql`exists (select from ${keysOf(column, declared)} where found.key is distinct from ${keyId})`;
  const found = await tx
    .select({ row: id, value })
    .from(table)
    .where(and(hasOther, after === undefined ? undefined : gt(id, after)))
    .orderBy(asc(id))
    .limit(BATCH)
    .for("no key update");
  const encrypt = await keyring.encryption(tx);
  const decrypt = await keyring.decryption(tx, found);
  let count = 0;
  const problems: string[] = [];
  const renew: ChangeSecret = (place, secret) => {
    if (secret === null || keyIdOf(secret) === keyId) return secret;
    const opened = readable(() => decrypt(place, secret));
    if (opened instanceof SecretError) {
      problems.push(opened.message);
      return secret;
    }
    count += 1;
    return encrypt(place, opened);
  };
  const renewed = found.map((one) => {
    const row = String(one.row);
    return { row, value: mapSecrets({ column, row, declared }, one.value, renew) };
  });
  const rows = renewed.map(({ row }) => row);
  const name = getTableName(table);
  const text = `update ${name} set "${value.name}" = given.value from ${givenFor(column)}
    where ${name}."${id.name}" = given.row and ${name}."${id.name}" = any($2::text[]::${id.getSQLType()}[])`;
  await runStatement(tx, text, [rowsText(renewed), rows]);
  return { count, problems, rows };
}
