/** Master keys: what a start accepts, and what it says about others. */
import { createSecretKey } from "node:crypto";
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { openDatabase } from "../../src/store/postgres/database.ts";
import type { Database } from "../../src/store/postgres/database.ts";
import { decrypt, encrypt } from "../../src/store/secrets/cipher.ts";
import { dataKeyRows, masterIdOf, openKeyring } from "../../src/store/secrets/keyring.ts";
import { readMasterKeys } from "../../src/store/secrets/master-keys.ts";
import type { MasterKeySettings, MasterKeys } from "../../src/store/secrets/master-keys.ts";
import { testDatabase } from "../support/database.ts";

const folder = mkdtempSync(join(tmpdir(), "ostler-keys-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const base64 = (byte: number, bytes = 32) => Buffer.alloc(bytes, byte).toString("base64");
const SERVED = { secretKeys: null, secretKeysFile: null, databaseUrl: "postgres://db/ostler", data: folder };

function aFile(text: string, mode = 0o600): string {
  const file = join(folder, `keys-${Math.random()}`);
  writeFileSync(file, text);
  chmodSync(file, mode);
  return file;
}

function keysOf(secretKeys: string): MasterKeys {
  const keys = readMasterKeys({ ...SERVED, secretKeys });
  if (keys === "off") throw new Error("There are no keys.");
  return keys;
}

async function aDatabase() {
  await using parts = new AsyncDisposableStack();
  const { connection } = parts.use(await testDatabase());
  const database = parts.use(await openDatabase({ connection }));
  const made = parts.move();
  return { database, [Symbol.asyncDispose]: () => made.disposeAsync() };
}

test("a value is opened only at its place, with its key, and unchanged", () => {
  const key = { id: "k1", secret: createSecretKey(Buffer.alloc(32, 1)) };
  const place = ["node_secrets", "7", "redfish", "password"] as const;
  const encrypted = encrypt(key, place, "s3cret");
  expect(encrypted).toMatch(/^v1\.k1\.[\w-]+$/);
  expect(encrypt(key, place, "s3cret")).not.toBe(encrypted);
  expect(decrypt(key, place, encrypted)).toBe("s3cret");
  const others: (readonly [string, string, ...string[]])[] = [
    ["image_secrets", "7", "redfish", "password"],
    ["node_secrets", "8", "redfish", "password"],
    ["node_secrets", "7", "ipmi", "password"],
    ["node_secrets", "7", "redfish", "token"],
  ];
  for (const other of others) expect(decrypt(key, other, encrypted)).toBeNull();
  expect(decrypt({ ...key, id: "k2" }, place, encrypted)).toBeNull();
  expect(decrypt({ ...key, secret: createSecretKey(Buffer.alloc(32, 2)) }, place, encrypted)).toBeNull();
  expect(decrypt(key, place, `${encrypted.slice(0, -2)}AA`)).toBeNull();
});

function refusalOf(settings: MasterKeySettings): string {
  try {
    readMasterKeys(settings);
  } catch (error) {
    return error instanceof Error ? error.message : "";
  }
  return "It was accepted.";
}

describe("master keys", () => {
  test("are read newest first, with commas or new lines between them", () => {
    for (const text of [`b:${base64(2)},a:${base64(1)}`, `b:${base64(2)}\n\na:${base64(1)}\n`])
      expect(keysOf(text).keys.map(({ id }) => id)).toEqual(["b", "a"]);
    expect(readMasterKeys({ ...SERVED, secretKeys: "off" })).toBe("off");
  });

  const refused: (Partial<MasterKeySettings> & { readonly what: string; readonly says: RegExp })[] = [
    { what: "no key", says: /^DATABASE_URL is set, but neither OSTLER_SECRET_KEYS nor OSTLER_SECRET_KEYS_FILE\. / },
    {
      what: "a variable and a file",
      secretKeys: `a:${base64(1)}`,
      secretKeysFile: "/keys",
      says: /^OSTLER_SECRET_KEYS and OSTLER_SECRET_KEYS_FILE are both set\. /,
    },
    {
      what: "two keys with one id",
      secretKeys: `a:${base64(1)},a:${base64(2)}`,
      says: /^OSTLER_SECRET_KEYS has two master keys a\. /,
    },
    { what: "31 bytes", secretKeys: `a:${base64(1, 31)}`, says: /^Master key a of .* has 31 bytes, not 32\. / },
    { what: "33 bytes", secretKeys: `a:${base64(1, 33)}`, says: /^Master key a of .* has 33 bytes, not 32\. / },
    { what: "no base64", secretKeys: "a:s3cret-s3cret!", says: /^Master key a of .* is not base64\. / },
    { what: "no id", secretKeys: base64(1), says: /^Key 1 of OSTLER_SECRET_KEYS has no valid id\. / },
    { what: "id and key swapped", secretKeys: `${base64(1)}:a`, says: /^Key 1 of .* has no valid id\. / },
    { what: "an empty file", secretKeysFile: aFile("\n"), says: /^The file \S+ has no master key\. / },
    {
      what: "a missing file",
      secretKeysFile: join(folder, "none"),
      says: /with the master keys cannot be read: ENOENT/,
    },
    {
      what: "a file that others can read",
      secretKeysFile: aFile(`mine:${base64(1)}`, 0o644),
      says: /^The file \S+ with the master key mine has mode 644, so that other users can read it\. /,
    },
    {
      what: "a file that the group can read",
      secretKeysFile: aFile(`mine:${base64(1)}`, 0o640),
      says: /^The file \S+ with the master key mine has mode 640, /,
    },
  ];
  test.each(refused)(
    "$what is refused with one sentence, which has no key [R-917]",
    ({ says, secretKeys = null, secretKeysFile = null }) => {
      const error = refusalOf({ ...SERVED, secretKeys, secretKeysFile });
      expect(error).toMatch(says);
      expect(error.split("\n")).toHaveLength(1);
      expect(error).not.toMatch(new RegExp(`${base64(1).slice(0, 12)}|${base64(2).slice(0, 12)}|s3cret-s3cret`));
    },
  );

  test("an embedded database makes its key at the first start, with mode 600, and uses it at the next [R-918]", async () => {
    await using made = await aDatabase();
    const data = join(folder, "embedded");
    const embedded = { ...SERVED, databaseUrl: null, data };
    const masters = () => readMasterKeys(embedded) as MasterKeys;
    await openKeyring(made.database, masters());
    const file = join(data, "secret-keys");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const [row] = await dataKeyRows(made.database.reader);
    expect(row && masterIdOf(row)).toBe(masters().keys[0]?.id);
    await openKeyring(made.database, masters());
    const text = readFileSync(file, "utf8");
    rmSync(file);
    await expect(openKeyring(made.database, masters())).rejects.toThrow(
      `Data key ${row?.id} is encrypted with master key ${text.split(":")[0]}, but the file ${file} does not exist. `,
    );
    expect(() => statSync(file)).toThrow("ENOENT");
  });
});

describe("the keyring of a database", () => {
  const rewrap = async (database: Database, masters: MasterKeys) =>
    database.transaction(async (tx) => (await openKeyring(database, masters)).rewrap(tx));

  test("is not opened with another key, whatever its id [R-919]", async () => {
    await using made = await aDatabase();
    await openKeyring(made.database, keysOf(`a:${base64(1)}`));
    const id = (await dataKeyRows(made.database.reader))[0]?.id ?? "";
    await expect(openKeyring(made.database, keysOf(`b:${base64(1)}`))).rejects.toThrow(
      `Data key ${id} is encrypted with master key a, but OSTLER_SECRET_KEYS has only b. `,
    );
    await expect(openKeyring(made.database, keysOf(`a:${base64(2)}`))).rejects.toThrow(
      `Data key ${id} is encrypted with master key a, but the key a of OSTLER_SECRET_KEYS is another one. `,
    );
  });

  test("is made once by replicas that start together, and refuses the one with another key [R-919]", async () => {
    await using made = await aDatabase();
    const opened = await Promise.allSettled(
      ["a", "a", "b"].map((id) => openKeyring(made.database, keysOf(`${id}:${base64(1)}`))),
    );
    const refused = opened.filter(({ status }) => status === "rejected").length;
    expect(await dataKeyRows(made.database.reader)).toHaveLength(1);
    expect([1, 2]).toContain(refused);
  });

  test("follows a new master key: added, rewrapped, the old one removed [R-920]", async () => {
    await using made = await aDatabase();
    await openKeyring(made.database, keysOf(`a:${base64(1)}`));
    const both = keysOf(`b:${base64(2)},a:${base64(1)}`);
    expect(await rewrap(made.database, both)).toBe(1);
    expect(await rewrap(made.database, both)).toBe(0);
    await openKeyring(made.database, keysOf(`b:${base64(2)}`));
    await expect(openKeyring(made.database, keysOf(`a:${base64(1)}`))).rejects.toThrow("master key b");
  });

  test("of a replica with other keys names the key when it encrypts, and stays open [R-921]", async () => {
    await using made = await aDatabase();
    const old = await openKeyring(made.database, keysOf(`a:${base64(1)}`));
    const both = await openKeyring(made.database, keysOf(`b:${base64(2)},a:${base64(1)}`));
    const { id } = await made.database.transaction((tx) => both.rotate(tx));
    await expect(made.database.transaction((tx) => old.encryption(tx))).rejects.toThrow(
      `Data key ${id} is encrypted with master key b, but OSTLER_SECRET_KEYS has only a. `,
    );
  });
});
