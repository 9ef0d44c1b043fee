/**
 * Encrypts and decrypts secrets with data keys, which are stored in the database, encrypted with a master key. A
 * process keeps the data keys that it has met, and loads one that another process has added when it meets a value of
 * it. Decision 0072.
 */
import { createHash, createHmac, hkdfSync, randomBytes } from "node:crypto";
import { asc, eq, inArray, sql } from "drizzle-orm";
import { SettingError } from "../../errors.ts";
import type { Database, Reader, Tx } from "../postgres/database.ts";
import type { StoredJson } from "../records.ts";
import { secretKeys } from "../tables.ts";
import { decrypt, encrypt, keyIdOf, KEY_BYTES } from "./cipher.ts";
import type { Key, Place } from "./cipher.ts";
import type { MasterKeys } from "./master-keys.ts";

/** A stored secret cannot be read; the message names its place and its key. It concerns one row. */
export class SecretError extends SettingError {}

/** The result, or a `SecretError` as a value, so that the other rows of a list are not concerned. */
export function readable<Value>(read: () => Value): Value | SecretError {
  try {
    return read();
  } catch (error) {
    if (error instanceof SecretError) return error;
    throw error;
  }
}

export interface Encryption {
  /** The data key that it encrypts with; null: secrets are stored in clear. */
  readonly keyId: string | null;
  /** Encrypts a value for a place. Null, which means no value, stays null. */
  readonly encrypt: (place: Place, value: StoredJson) => StoredJson;
}

/** Decrypts the value of a place; returns one that is not encrypted as it is. Throws a `SecretError`. */
export type Decrypt = (place: Place, stored: StoredJson) => StoredJson;

export function orThrow<Value>(value: Value | SecretError): Value {
  if (value instanceof SecretError) throw value;
  return value;
}

export type DataKeyRow = typeof secretKeys.$inferSelect;

export const NO_KEYS = "OSTLER_SECRET_KEYS is off, so that there are no keys. Set it to a master key first.";

export class Keyring {
  /** Null: secrets are stored in clear. */
  readonly #masters: MasterKeys | null;
  readonly #keys = new Map<string, Key>();
  /** Why data keys could not be used when they were loaded last. */
  readonly #problems = new Map<string, string>();
  #digestKey: Buffer | null = null;

  constructor(masters: MasterKeys | null) {
    this.#masters = masters;
  }

  /** The newest data key stays the newest until the end of the transaction. */
  async encryption(tx: Tx): Promise<Encryption> {
    if (!this.#masters) return { keyId: null, encrypt: (_, value) => value };
    // `ostler secrets rotate` waits for this lock before it adds a key.
    await tx.execute(sql`lock table ${secretKeys} in row share mode`);
    const rows = await dataKeyRows(tx);
    const newest = rows.at(-1);
    if (!newest) throw new SecretError("The table secret_keys has no data key. Restore it from a backup.");
    const key = this.#keys.get(newest.id) ?? this.#unwrap(newest);
    return {
      keyId: key.id,
      encrypt: (place, value) => (value === null ? null : encrypt(key, place, JSON.stringify(value))),
    };
  }

  /** `stored`: the values that will be decrypted, as they are stored; their keys are loaded. */
  async decryption(reader: Reader, stored: unknown): Promise<Decrypt> {
    const named = (JSON.stringify(stored) ?? "").matchAll(/"v1\.([\w-]{1,32})\./g);
    await this.load(
      reader,
      [...named].map(([, id = ""]) => id),
    );
    return (place, value) => {
      const id = keyIdOf(value);
      return id === null ? value : this.#decrypted(place, id, value as string);
    };
  }

  /** The key of a run's callback tokens; its data key is loaded. Throws a `SecretError`. */
  callbackKey({ id, callbackSecret, callbackKey }: CallbackSalt): CallbackKey {
    if (callbackKey === null) return callbackSecret;
    const key = this.#keys.get(callbackKey);
    if (!key) throw this.#missing(`the callbacks of run ${id}`, callbackKey);
    return derived(key.bytes, callbackSecret, "callback");
  }

  /** A hash of a secret, which cannot be computed without the keys; the same on all replicas, and after a rotation. */
  digest(text: string): string {
    const hash = this.#digestKey ? createHmac("sha256", this.#digestKey) : createHash("sha256");
    return hash.update(text).digest("base64url");
  }

  /** Unwraps all data keys. Throws a sentence for operators if one cannot be unwrapped. */
  unwrapAll(rows: readonly DataKeyRow[]): void {
    for (const row of rows) this.#unwrap(row);
    const [oldest] = rows;
    const key = oldest && this.#keys.get(oldest.id);
    if (key) this.#digestKey = derived(key.bytes, "", "digest");
  }

  /** Encrypts the data keys with the newest master key. Returns the number of those that were not. */
  async rewrap(tx: Tx): Promise<number> {
    const newest = this.#newestMaster();
    await lockDataKeys(tx);
    const rows = (await dataKeyRows(tx)).filter((row) => masterIdOf(row) !== newest.id);
    for (const row of rows)
      await tx
        .update(secretKeys)
        .set({ wrapped: wrap(newest, this.#unwrap(row)) })
        .where(eq(secretKeys.id, row.id));
    return rows.length;
  }

  /** Adds a data key, unless a rotation to the newest one is unfinished. Returns the newest. */
  async rotate(tx: Tx): Promise<{ readonly id: string; readonly isNew: boolean }> {
    const newest = this.#newestMaster();
    await lockDataKeys(tx);
    const unfinished = (await dataKeyRows(tx)).find(({ rotatedAt }) => rotatedAt === null);
    const id = unfinished?.id ?? (await addDataKey(tx, newest, { isRotated: false }));
    return { id, isNew: !unfinished };
  }

  #newestMaster(): Key {
    const newest = this.#masters?.keys[0];
    if (!newest) throw new Error(NO_KEYS);
    return newest;
  }

  /** Loads the data keys that this process has not met. */
  async load(reader: Reader, ids: readonly (string | null)[]): Promise<void> {
    const unknown = [...new Set(ids)].filter((id) => id !== null && !this.#keys.has(id)) as string[];
    if (!this.#masters || unknown.length === 0) return;
    for (const row of await reader.select().from(secretKeys).where(inArray(secretKeys.id, unknown))) {
      const key = readable(() => this.#unwrap(row));
      if (key instanceof SecretError) this.#problems.set(row.id, key.message);
    }
  }

  #unwrap(row: DataKeyRow): Key {
    const { keys, source } = this.#masters ?? { keys: [], source: "" };
    const id = masterIdOf(row);
    const master = keys.find((one) => one.id === id);
    const whose = `Data key ${row.id} is encrypted with master key ${id}`;
    if (!master) {
      const others = keys.length === 0 ? "does not exist" : `has only ${keys.map((one) => one.id).join(", ")}`;
      throw new SecretError(
        `${whose}, but ${lowered(source)} ${others}. Restore that key: without it the secrets are lost.`,
      );
    }
    const bytes = decrypt(master, placeOf(row.id), row.wrapped);
    if (bytes === null)
      throw new SecretError(
        `${whose}, but the key ${id} of ${lowered(source)} is another one. Restore the right key: without it the secrets are lost.`,
      );
    const key = { id: row.id, bytes: Buffer.from(bytes, "base64") };
    this.#keys.set(row.id, key);
    return key;
  }

  #decrypted(place: Place, id: string, value: string): StoredJson {
    const [table, row, ...path] = place;
    const what = `the secret ${[table, ...path].join(".")} of ${row}`;
    const key = this.#keys.get(id);
    if (!key) throw this.#missing(what, id);
    const text = decrypt(key, place, value);
    if (text === null)
      throw new SecretError(
        `${what} is not what was encrypted there with data key ${id}: it was changed, or moved from another row. Set the secret again.`,
      );
    return JSON.parse(text) as StoredJson;
  }

  #missing(what: string, id: string): SecretError {
    const problem = this.#problems.get(id);
    const why = !this.#masters
      ? `data key ${id}, but OSTLER_SECRET_KEYS is off. Start this replica with the keys that the others have.`
      : `data key ${id}, which the table secret_keys does not have. Restore that row from a backup, or set the secret again.`;
    return new SecretError(`${what} cannot be read: ${problem ?? `it needs ${why}`}`);
  }
}

export type CallbackKey = string | Buffer;

/** A run, as far as the key of its callbacks is derived from it. */
export interface CallbackSalt {
  readonly id: string;
  readonly callbackSecret: string;
  readonly callbackKey: string | null;
}

/**
 * Opens the keyring of a database, and adds the first data key to a new one. Throws a sentence for operators if the
 * master keys are not those of the database.
 */
export async function openKeyring(
  { reader, transaction }: Pick<Database, "reader" | "transaction">,
  masters: MasterKeys | "off",
): Promise<Keyring> {
  let rows = await dataKeyRows(reader);
  if (masters === "off") {
    const [first] = rows;
    if (first)
      throw new SecretError(
        `OSTLER_SECRET_KEYS is off, but secrets of this database are encrypted with master key ${masterIdOf(first)}. Set OSTLER_SECRET_KEYS or OSTLER_SECRET_KEYS_FILE to that key.`,
      );
    return new Keyring(null);
  }
  let { keys } = masters;
  if (rows.length === 0) {
    const newest = keys[0] ?? masters.make?.();
    if (!newest) throw new SecretError(`${masters.source} has no master key.`);
    keys = [newest, ...keys.slice(1)];
    rows = await transaction(async (tx) => {
      await lockDataKeys(tx);
      if ((await dataKeyRows(tx)).length === 0) await addDataKey(tx, newest, { isRotated: true });
      return dataKeyRows(tx);
    });
  }
  const keyring = new Keyring({ ...masters, keys });
  keyring.unwrapAll(rows);
  return keyring;
}

// ---- data keys

/** Oldest first. */
export async function dataKeyRows(reader: Reader): Promise<DataKeyRow[]> {
  return reader.select().from(secretKeys).orderBy(asc(secretKeys.number));
}

/** Waits for the transactions that are encrypting, and keeps others from it. */
async function lockDataKeys(tx: Tx): Promise<void> {
  await tx.execute(sql`lock table ${secretKeys} in exclusive mode`);
}

/** The data keys are locked. Returns the id of the new one. */
async function addDataKey(tx: Tx, master: Key, { isRotated }: { readonly isRotated: boolean }): Promise<string> {
  const key = { id: randomBytes(4).toString("hex"), bytes: randomBytes(KEY_BYTES) };
  await tx.insert(secretKeys).values({
    id: key.id,
    number: sql`(select coalesce(max(number), 0) + 1 from secret_keys)`,
    wrapped: wrap(master, key),
    rotatedAt: isRotated ? sql`now()` : null,
  });
  return key.id;
}

function wrap(master: Key, { id, bytes }: Key): string {
  return encrypt(master, placeOf(id), bytes.toString("base64"));
}

export function masterIdOf({ wrapped }: Pick<DataKeyRow, "wrapped">): string {
  return keyIdOf(wrapped) ?? "";
}

function placeOf(dataKeyId: string): Place {
  return ["secret_keys", dataKeyId];
}

function derived(key: Buffer, salt: string, purpose: string): Buffer {
  return Buffer.from(hkdfSync("sha256", key, salt, `ostler ${purpose}`, KEY_BYTES));
}

function lowered(source: string): string {
  return source.replace(/^The/, "the");
}
