/**
 * Encrypts and decrypts secrets with data keys, which are stored in the database, encrypted with a master key. A
 * process keeps the data keys that it has met, and loads one that another process has added when it meets a value of
 * it. Decision 0072.
 */
import { createHash, createHmac, createSecretKey, hkdfSync } from "node:crypto";
import type { KeyObject } from "node:crypto";
import { asc, eq, sql } from "drizzle-orm";
import { SettingError } from "../../errors.ts";
import type { Database, Reader, Tx } from "../postgres/database.ts";
import type { StoredJson } from "../records.ts";
import { secretKeys } from "../tables.ts";
import type { runs } from "../tables.ts";
import { decrypt, encrypt, keyIdOf, KEY_BYTES, newKey, textOfKey } from "./cipher.ts";
import type { Key, Place } from "./cipher.ts";
import { idsOf } from "./master-keys.ts";
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

export function orThrow<Value>(value: Value | SecretError): Value {
  if (value instanceof SecretError) throw value;
  return value;
}

/**
 * Encrypts the value of a place, except null, which means no value; or decrypts it, and returns one that is not
 * encrypted as it is. Throws a `SecretError`.
 */
export type ChangeSecret = (place: Place, value: StoredJson) => StoredJson;

type DataKeyRow = typeof secretKeys.$inferSelect;

export class Keyring {
  /** Null: secrets are stored in clear. */
  readonly #masters: MasterKeys | null;
  /** Data keys, oldest first; an error for one that the master keys cannot decrypt. */
  readonly #keys = new Map<string, Key | SecretError>();

  constructor(masters: MasterKeys | null) {
    this.#masters = masters;
  }

  /** The newest data key stays the newest until the end of the transaction. */
  async encryption(tx: Tx): Promise<ChangeSecret> {
    if (!this.#masters) return (_, value) => value;
    // `ostler secrets rotate` waits for this lock before it adds a key.
    await tx.execute(sql`lock table ${secretKeys} in row share mode`);
    const newest = (await this.read(tx)).at(-1);
    if (!newest) throw new SecretError("The table secret_keys has no data key. Restore it from a backup.");
    const key = orThrow(this.key(newest.id));
    return (place, value) => (value === null ? null : encrypt(key, place, JSON.stringify(value)));
  }

  /** `stored`: the values that will be decrypted, as they are stored; their keys are loaded. */
  async decryption(reader: Reader, stored: unknown): Promise<ChangeSecret> {
    const named = [...(JSON.stringify(stored) ?? "").matchAll(/"v1\.([\w-]{1,32})\./g)];
    const ids = named.map(([, id = ""]) => id);
    await this.load(reader, ids);
    return (place, value) => {
      const id = keyIdOf(value);
      return id === null ? value : this.#decrypted(place, id, value as string);
    };
  }

  /** The key of a run's callback tokens; its data key is loaded. Throws a `SecretError`. */
  callbackKey({ id, callbackSecret, callbackKey }: CallbackSalt): CallbackKey {
    if (callbackKey === null) return callbackSecret;
    return derived(this.#keyFor(`the callbacks of run ${id}`, callbackKey), callbackSecret, "callback");
  }

  /** A hash of a secret, which cannot be computed without the keys; the same on all replicas, and after a rotation. */
  digest(text: string): string {
    const [oldest] = this.#keys.values();
    const hash = oldest ? createHmac("sha256", derived(orThrow(oldest), "", "digest")) : createHash("sha256");
    return hash.update(text).digest("base64url");
  }

  /** Loads the data keys that this process has not met. */
  async load(reader: Reader, ids: readonly (string | null)[]): Promise<void> {
    if (this.#masters && ids.some((id) => id !== null && !this.#has(id))) await this.read(reader);
  }

  /** The rows of all data keys, oldest first, after they were loaded. */
  async read(reader: Reader): Promise<DataKeyRow[]> {
    const rows = await dataKeyRows(reader);
    for (const row of rows) if (!this.#has(row.id)) this.#keys.set(row.id, this.#unwrapped(row));
    return rows;
  }

  /** A data key that is loaded; or why there is none. */
  key(id: string): Key | SecretError {
    const why = this.#masters
      ? "which the table secret_keys does not have. Restore that row from a backup, or set the secret again."
      : "but OSTLER_SECRET_KEYS is off. Start this replica with the keys that the others have.";
    return this.#keys.get(id) ?? new SecretError(`it needs data key ${id}, ${why}`);
  }

  /** Adds the first data key to a new database. */
  async begin(tx: Tx): Promise<void> {
    const rows = await this.#locked(tx);
    if (rows.length === 0) await this.#add(tx, rows);
  }

  /** Adds a data key, unless a rotation to the newest one is unfinished. Returns the newest. */
  async rotate(tx: Tx): Promise<{ readonly id: string; readonly isNew: boolean }> {
    const rows = await this.#locked(tx);
    const unfinished = rows.find(({ rotatedAt }) => rotatedAt === null);
    return { id: unfinished?.id ?? (await this.#add(tx, rows)), isNew: !unfinished };
  }

  /** Encrypts the data keys with the newest master key. Returns the number of those that were not. */
  async rewrap(tx: Tx): Promise<number> {
    const master = this.#newestMaster();
    const rows = (await this.#locked(tx)).filter((row) => masterIdOf(row) !== master.id);
    for (const { id } of rows)
      await tx
        .update(secretKeys)
        .set({ wrapped: wrap(master, orThrow(this.key(id))) })
        .where(eq(secretKeys.id, id));
    return rows.length;
  }

  /** Waits for the transactions that are encrypting, and keeps others from it. */
  async #locked(tx: Tx): Promise<DataKeyRow[]> {
    await tx.execute(sql`lock table ${secretKeys} in exclusive mode`);
    return this.read(tx);
  }

  /** The data keys are locked. The first one is the key of all secrets at once. */
  async #add(tx: Tx, rows: readonly DataKeyRow[]): Promise<string> {
    const key = newKey();
    const newest = rows.at(-1);
    await tx.insert(secretKeys).values({
      id: key.id,
      number: (newest?.number ?? 0) + 1,
      wrapped: wrap(this.#newestMaster(), key),
      rotatedAt: newest ? null : sql`now()`,
    });
    return key.id;
  }

  #newestMaster(): Key {
    const newest = this.#masters?.keys[0];
    if (!newest) throw new SettingError(NO_KEYS);
    return newest;
  }

  #has(id: string): boolean {
    return !(this.key(id) instanceof SecretError);
  }

  #unwrapped(row: DataKeyRow): Key | SecretError {
    const { keys, source } = this.#masters ?? { keys: [], source: "OSTLER_SECRET_KEYS" };
    const id = masterIdOf(row);
    const master = keys.find((one) => one.id === id);
    const text = master && decrypt(master, placeOf(row), row.wrapped);
    if (text) return { id: row.id, secret: createSecretKey(text, "base64") };
    const from = source.replace(/^The/, "the");
    const others = keys.length === 0 ? "does not exist" : `has only ${idsOf(keys)}`;
    const why = master ? `the key ${id} of ${from} is another one` : `${from} ${others}`;
    return new SecretError(
      `Data key ${row.id} is encrypted with master key ${id}, but ${why}. Restore ${master ? "the right" : "that"} key: without it the secrets are lost.`,
    );
  }

  #keyFor(what: string, id: string): Key {
    const key = this.key(id);
    if (key instanceof SecretError) throw new SecretError(`${what} cannot be read: ${key.message}`);
    return key;
  }

  #decrypted(place: Place, id: string, value: string): StoredJson {
    const [table, row, ...path] = place;
    const what = `the secret ${[table, ...path].join(".")} of ${row}`;
    const text = decrypt(this.#keyFor(what, id), place, value);
    if (text !== null) return JSON.parse(text) as StoredJson;
    throw new SecretError(
      `${what} is not what was encrypted there with data key ${id}: it was changed, or moved from another row. Set the secret again.`,
    );
  }
}

export const NO_KEYS = "OSTLER_SECRET_KEYS is off, so that there are no keys. Set it to a master key first.";

export type CallbackKey = string | KeyObject;

/** A run, as far as the key of its callbacks is derived from it. */
type CallbackSalt = Pick<typeof runs.$inferSelect, "id" | "callbackSecret" | "callbackKey">;

/**
 * Opens the keyring of a database, and adds the first data key to a new one. Throws a sentence for operators if the
 * master keys are not those of the database.
 */
export async function openKeyring(
  { reader, transaction }: Pick<Database, "reader" | "transaction">,
  masters: MasterKeys | "off",
): Promise<Keyring> {
  const [first] = await dataKeyRows(reader);
  if (masters === "off") {
    if (!first) return new Keyring(null);
    throw new SecretError(
      `OSTLER_SECRET_KEYS is off, but secrets of this database are encrypted with master key ${masterIdOf(first)}. Set OSTLER_SECRET_KEYS or OSTLER_SECRET_KEYS_FILE to that key.`,
    );
  }
  const keyring = new Keyring(first || !masters.make ? masters : { ...masters, keys: [masters.make()] });
  if (!first) await transaction((tx) => keyring.begin(tx));
  for (const { id } of await keyring.read(reader)) orThrow(keyring.key(id));
  return keyring;
}

/** Oldest first. */
export async function dataKeyRows(reader: Reader): Promise<DataKeyRow[]> {
  return reader.select().from(secretKeys).orderBy(asc(secretKeys.number));
}

export function masterIdOf({ wrapped }: Pick<DataKeyRow, "wrapped">): string {
  return keyIdOf(wrapped) ?? "";
}

function wrap(master: Key, key: Key): string {
  return encrypt(master, placeOf(key), textOfKey(key));
}

function placeOf({ id }: Pick<Key, "id">): Place {
  return ["secret_keys", id];
}

function derived({ secret }: Key, salt: string, purpose: string): KeyObject {
  return createSecretKey(Buffer.from(hkdfSync("sha256", secret, salt, `ostler ${purpose}`, KEY_BYTES)));
}
