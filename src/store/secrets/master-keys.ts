/**
 * Master keys, which encrypt the data keys: of a variable or a file for a database server, in a file of its own for the
 * embedded database. Messages name ids of keys, and never a text that may be a key.
 */
import { createSecretKey } from "node:crypto";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { messageOf, SettingError } from "../../errors.ts";
import { createFolderDurably, writeDurably } from "../../runtime/durable-files.ts";
import { KEY_BYTES, KEY_ID, newKey, textOfKey } from "./cipher.ts";
import type { Key } from "./cipher.ts";

export interface MasterKeys {
  /** Newest first. Empty only if the file does not exist. */
  readonly keys: readonly Key[];
  /** Their variable or file, for messages. */
  readonly source: string;
  /** Makes the first key of an embedded database, and its file; absent: operators provide the keys. */
  readonly make?: () => Key;
}

export interface MasterKeySettings {
  /** `id:base64` of 32 bytes, newest first, separated by commas or new lines; or `off`. */
  readonly secretKeys: string | null;
  readonly secretKeysFile: string | null;
  /** Null: the embedded database. */
  readonly databaseUrl: string | null;
  /** Folder of the embedded database. */
  readonly data: string;
}

const OFF = "off";
const VARIABLE = "OSTLER_SECRET_KEYS";
const FILE_OF_EMBEDDED = "secret-keys";
const MAKE_ONE = `(umask 077; echo "$(date +%F):$(head -c ${KEY_BYTES} /dev/urandom | base64)" > secret-keys)`;

/** Throws a sentence for operators if there is no usable key. "off": secrets are stored in clear. */
export function readMasterKeys({
  secretKeys,
  secretKeysFile,
  databaseUrl,
  data,
}: MasterKeySettings): MasterKeys | typeof OFF {
  if (secretKeys !== null && secretKeysFile !== null)
    throw new SettingError(`${VARIABLE} and ${VARIABLE}_FILE are both set. Remove one of them.`);
  if (secretKeys?.trim() === OFF) return OFF;
  if (secretKeys !== null) return { keys: parseKeys(secretKeys, VARIABLE), source: VARIABLE };
  if (secretKeysFile !== null) return ofFile(secretKeysFile);
  if (databaseUrl !== null)
    throw new SettingError(
      `DATABASE_URL is set, but neither ${VARIABLE} nor ${VARIABLE}_FILE. Make a key with \`${MAKE_ONE}\`, name the file in ${VARIABLE}_FILE on every replica, and keep a copy apart from backups of the database; or set ${VARIABLE}=${OFF} to store secrets in clear.`,
    );
  const file = join(data, FILE_OF_EMBEDDED);
  return existsSync(file) ? ofFile(file) : { keys: [], source: `The file ${file}`, make: () => makeFile(file) };
}

function makeFile(file: string): Key {
  const key = newKey();
  createFolderDurably(join(file, ".."), 0o700);
  writeDurably(file, `${key.id}:${textOfKey(key)}\n`, 0o600);
  return key;
}

function ofFile(file: string): MasterKeys {
  const source = `The file ${file}`;
  const { text, mode, uid } = readKeyFile(file, source);
  const keys = parseKeys(text, source);
  // Secrets that root provides to a service, as those of systemd and Kubernetes, are of root and of the group.
  const isProvided = uid === 0 && process.getuid?.() !== 0;
  if ((mode & (isProvided ? 0o007 : 0o077)) === 0) return { keys, source };
  throw new SettingError(
    `${source} with the master key ${idsOf(keys)} has mode ${(mode & 0o777).toString(8)}, so that other users can read it. Run \`chmod 600 ${file}\`; if others may have read it, replace the key (docs/operations.md).`,
  );
}

function readKeyFile(file: string, source: string) {
  try {
    const { mode, uid } = statSync(file);
    return { text: readFileSync(file, "utf8"), mode, uid };
  } catch (error) {
    throw new SettingError(
      `${source} with the master keys cannot be read: ${messageOf(error)}. Check its path and its owner.`,
      { cause: error },
    );
  }
}

function parseKeys(text: string, source: string): Key[] {
  const entries = text.split(/[\n,]/).flatMap((one) => one.trim() || []);
  if (entries.length === 0) throw new SettingError(`${source} has no master key. Make one with \`${MAKE_ONE}\`.`);
  const keys = entries.map((entry, index): Key => {
    const [id = "", encoded, ...rest] = entry.split(":");
    if (!KEY_ID.test(id) || encoded === undefined || rest.length > 0)
      throw new SettingError(
        `Key ${index + 1} of ${source} has no valid id. Write each key as id:base64, with 1–32 letters, digits, dashes or underscores as its id.`,
      );
    const bytes = Buffer.from(encoded, "base64");
    const isBase64 = /^[A-Za-z0-9+/]+={0,2}$/.test(encoded);
    if (isBase64 && bytes.length === KEY_BYTES) return { id, secret: createSecretKey(bytes) };
    const flaw = isBase64 ? `has ${bytes.length} bytes, not ${KEY_BYTES}` : "is not base64";
    throw new SettingError(`Master key ${id} of ${source} ${flaw}. Make one with \`${MAKE_ONE}\`.`);
  });
  const repeated = keys.find(({ id }, index) => keys.findIndex((one) => one.id === id) !== index);
  if (repeated)
    throw new SettingError(`${source} has two master keys ${repeated.id}. Remove one, or give it another id.`);
  return keys;
}

export function idsOf(keys: readonly Key[]): string {
  return keys.map(({ id }) => id).join(", ");
}
