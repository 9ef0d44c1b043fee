/** Secrets of sessions: 32 random bytes, of which only the SHA-256 is stored. */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";

export function newSecret(): string {
  return randomBytes(32).toString("base64url");
}

export function hashOfSecret(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}

/** In constant time. */
export function isSecret(given: string, hash: string): boolean {
  const [one, other] = [Buffer.from(hashOfSecret(given)), Buffer.from(hash)];
  return one.length === other.length && timingSafeEqual(one, other);
}
