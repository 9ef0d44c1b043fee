/**
 * Salted fingerprints of secrets, to recognize them in a repeated request after they were deleted. A plain hash would
 * let an attacker with a dump of the database try millions of passwords per second; a fingerprint costs 32 MiB and
 * about 50 ms for each try.
 */
import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";
import { promisify } from "node:util";
import { hashOf } from "../../runtime/canonical-json.ts";
import type { JsonObject } from "../../store/records.ts";

const SALT_BYTES = 16;
const KEY_BYTES = 32;

export async function fingerprint(secrets: JsonObject): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  return `${salt.toString("base64url")}.${(await keyOf(secrets, salt)).toString("base64url")}`;
}

/** Whether a stored fingerprint is one of these secrets. */
export async function isFingerprintOf(secrets: JsonObject, stored: string): Promise<boolean> {
  const [salt = "", key = ""] = stored.split(".");
  const known = Buffer.from(key, "base64url");
  return known.length === KEY_BYTES && timingSafeEqual(known, await keyOf(secrets, Buffer.from(salt, "base64url")));
}

/** With Node's default parameters: N 16,384, r 8, p 1. */
function keyOf(secrets: JsonObject, salt: Buffer): Promise<Buffer> {
  return promisify<string, Buffer, number, Buffer>(scrypt)(hashOf(secrets), salt, KEY_BYTES);
}
