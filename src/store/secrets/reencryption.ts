/**
 * Goes through all secrets of a database: counts them, or encrypts those that are in clear or have an older data key.
 * Each batch is a transaction of its own, so that a walk can be killed and repeated, beside working replicas.
 */
import { and, asc, getColumns, gt, isNotNull, sql } from "drizzle-orm";
import type { PgColumn } from "drizzle-orm/pg-core";
import { textArray } from "../postgres/array-parameter.ts";
import { bulkUpdate, rowsText } from "../postgres/bulk.ts";
import type { Database, Reader, Tx } from "../postgres/database.ts";
import { runStatement } from "../postgres/statements.ts";
import type { StoredJson } from "../records.ts";
import { imageSecrets, nodeSecrets, secretKeys } from "../tables.ts";
import { keyIdOf } from "./cipher.ts";
import type { Place } from "./cipher.ts";
import { NO_KEYS, SecretError, readable } from "./keyring.ts";
import type { Keyring } from "./keyring.ts";
import { DECLARED, SECRET_COLUMNS, mapSecrets } from "./secret-columns.ts";
import type { SecretCell, SecretColumn } from "./secret-columns.ts";

const BATCH = 500;

/** Whether secrets that are kept for long are stored in clear. */
export async function hasPlainSecrets(reader: Reader): Promise<boolean> {
  const rows = await reader.execute(sql`
    select from ${nodeSecrets} where ${nodeSecrets.secrets}::text ~ ': "(?!v1[.])' union all
    select from ${imageSecrets} where ${imageSecrets.userData} !~ '^v1[.]' limit 1`);
  return rows.length > 0;
}

/** Number of secrets by data key; null: in clear. `declared`: names of the variables that are secret. */
export async function countSecrets(
  database: Pick<Database, "transaction">,
  declared: ReadonlySet<string>,
): Promise<Map<string | null, number>> {
  const counts = new Map<string | null, number>();
  for await (const keys of inBatches(database, declared, async (_, cells) => cells.flatMap(keysOf)))
    for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}

function keysOf({ value, ...cell }: FilledCell): (string | null)[] {
  const keys: (string | null)[] = [];
  mapSecrets(cell, value, (_, secret) => {
    if (secret !== null) keys.push(keyIdOf(secret));
    return secret;
  });
  return keys;
}

export interface Reencrypted {
  readonly count: number;
  /** Why secrets could not be decrypted, and stay as they are. */
  readonly problems: readonly string[];
}

/** Encrypts all secrets with the newest data key, which it then marks as the key of all. */
export async function encryptAllSecrets(
  database: Pick<Database, "transaction">,
  keyring: Keyring,
  declared: ReadonlySet<string>,
): Promise<Reencrypted> {
  let count = 0;
  const problems: string[] = [];
  for await (const batch of inBatches(database, declared, (tx, cells) => renew(tx, keyring, cells))) {
    count += batch.count;
    problems.push(...batch.problems);
  }
  await database.transaction((tx) =>
    tx.update(secretKeys).set({ rotatedAt: sql`coalesce(${secretKeys.rotatedAt}, now())` }),
  );
  return { count, problems };
}

interface FilledCell extends SecretCell {
  readonly value: StoredJson;
}

/** The cells are of one column. */
async function renew(tx: Tx, keyring: Keyring, cells: readonly FilledCell[]): Promise<Reencrypted> {
  const { keyId, encrypt } = await keyring.encryption(tx);
  if (keyId === null) throw new Error(NO_KEYS);
  const decrypt = await keyring.decryption(
    tx,
    cells.map(({ value }) => value),
  );
  let count = 0;
  const problems: string[] = [];
  const renewed = (place: Place, secret: StoredJson): StoredJson => {
    if (secret === null || keyIdOf(secret) === keyId) return secret;
    const opened = readable(() => decrypt(place, secret));
    if (opened instanceof SecretError) {
      problems.push(opened.message);
      return secret;
    }
    count += 1;
    return encrypt(place, opened);
  };
  const changed = cells.flatMap((cell) => {
    const before = count;
    const value = mapSecrets(cell, cell.value, renewed);
    return count > before ? [{ ...cell, value }] : [];
  });
  const [first] = changed;
  if (first) {
    const { table, key, field } = first.column;
    const given = changed.map(({ row, value }) => ({ [key]: row, change: { [field]: value } }));
    const rows = changed.map(({ row }) => row);
    await runStatement(tx, bulkUpdate(table, { key: [key], fields: [field] }), [rowsText(given), rows]);
  }
  return { count, problems };
}

/** Passes all rows that may have secrets to `work`, which holds their locks, and yields what it returns. */
async function* inBatches<Result>(
  { transaction }: Pick<Database, "transaction">,
  declared: ReadonlySet<string>,
  work: (tx: Tx, cells: readonly FilledCell[]) => Promise<Result>,
): AsyncGenerator<Result> {
  for (const column of Object.values<SecretColumn>(SECRET_COLUMNS)) {
    const columns = getColumns(column.table) as Readonly<Record<string, PgColumn>>;
    const [id, value] = [columns[column.key], columns[column.field]];
    if (!id || !value) throw new Error(`A column of secrets has no ${column.key} or ${column.field}.`);
    const mayHaveSecrets =
      column.only === DECLARED
        ? sql`(${value}::text ~ '"v1[.]' or ${value} ?| ${textArray([...declared])}::text[])`
        : isNotNull(value);
    for (let last: string | undefined; ;) {
      const after = last === undefined ? undefined : gt(id, last);
      const { cells, result } = await transaction(async (tx) => {
        const rows = (await tx
          .select({ row: id, value })
          .from(column.table)
          .where(and(mayHaveSecrets, after))
          .orderBy(asc(id))
          .limit(BATCH)
          .for("no key update")) as Pick<FilledCell, "row" | "value">[];
        const found = rows.map((one) => ({ ...one, column, declared }));
        return { cells: found, result: await work(tx, found) };
      });
      yield result;
      if (cells.length < BATCH) break;
      last = cells.at(-1)?.row;
    }
  }
}
