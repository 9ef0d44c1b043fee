/**
 * Secrets as they may be remembered after they are gone, to know them again in a request that is repeated. A plain hash of
 * a request would let whoever has a dump of the database try passwords against it, millions a second; a seal costs 32 MiB
 * and some 50 ms for each try, and no two are alike.
 */
import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";
import { promisify } from "node:util";
import { hashOf } from "../../runtime/canonical-json.ts";
import type { JsonObject } from "../../store/records.ts";

const SALT_BYTES = 16;
const KEY_BYTES = 32;

export async function seal(secrets: JsonObject): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  return `${salt.toString("base64url")}.${(await keyOf(secrets, salt)).toString("base64url")}`;
}

/** Whether a seal is of these secrets. */
export async function isSealOf(secrets: JsonObject, sealed: string): Promise<boolean> {
  const [salt = "", key = ""] = sealed.split(".");
  const known = Buffer.from(key, "base64url");
  return known.length === KEY_BYTES && timingSafeEqual(known, await keyOf(secrets, Buffer.from(salt, "base64url")));
}

/** Node's own parameters: N 16,384, r 8, p 1. */
function keyOf(secrets: JsonObject, salt: Buffer): Promise<Buffer> {
  return promisify<string, Buffer, number, Buffer>(scrypt)(hashOf(secrets), salt, KEY_BYTES);
}
