/**
 * Encrypted values: `v1.<key id>.<nonce, ciphertext, tag>`, by AES-256-GCM with a random nonce. The place of a value is
 * authenticated with it, so that a copy to another place cannot be opened.
 */
import { createCipheriv, createDecipheriv, createSecretKey, randomBytes } from "node:crypto";
import type { KeyObject } from "node:crypto";

export interface Key {
  readonly id: string;
  /** Node takes a buffer in its place, but at six times the CPU of a MAC. */
  readonly secret: KeyObject;
}

/** Table, id of the row, and the path of the value in its column. */
export type Place = readonly [table: string, row: string, ...path: string[]];

export const KEY_BYTES = 32;
export const KEY_ID = /^[\w-]{1,32}$/;
const CIPHER = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** With at least a nonce and a tag, in base64url. PostgreSQL reads it too. */
export const ENCRYPTED = /^v1\.([\w-]{1,32})\.([\w-]{38,})$/;

export function encrypt({ id, secret }: Key, place: Place, text: string): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, secret, nonce).setAAD(contextOf(id, place));
  const parts = [nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()];
  return `v1.${id}.${Buffer.concat(parts).toString("base64url")}`;
}

/** Null if the value is of another place, was changed, or was encrypted with another key of this id. */
export function decrypt({ id, secret }: Key, place: Place, encrypted: string): string | null {
  const data = Buffer.from(ENCRYPTED.exec(encrypted)?.[2] ?? "", "base64url");
  const decipher = createDecipheriv(CIPHER, secret, data.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
    .setAAD(contextOf(id, place))
    .setAuthTag(data.subarray(-TAG_BYTES));
  try {
    return decipher.update(data.subarray(NONCE_BYTES, -TAG_BYTES), undefined, "utf8") + decipher.final("utf8");
  } catch {
    return null;
  }
}

export function newKey(): Key {
  return { id: randomBytes(4).toString("hex"), secret: createSecretKey(randomBytes(KEY_BYTES)) };
}

/** The key in base64. */
export function textOfKey({ secret }: Key): string {
  return secret.export().toString("base64");
}

/** The id of the key of an encrypted value; null for any other value. */
export function keyIdOf(value: unknown): string | null {
  return typeof value === "string" ? (ENCRYPTED.exec(value)?.[1] ?? null) : null;
}

function contextOf(keyId: string, place: Place): Buffer {
  return Buffer.from(JSON.stringify([...place, keyId]));
}
