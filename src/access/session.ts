/** Sessions of browsers: 256 random bits, of which the cookie has all and the database a hash. */
import { hash, randomBytes } from "node:crypto";
import type { SessionRow } from "../store/access/sessions.ts";

const SECRET_BYTES = 32;
const ID_LENGTH = 16;
const IDLE_MS = 3_600_000;
/** The most that a session lasts, however much it is used. */
export const SESSION_MS = 12 * 3_600_000;

/** A session that has just begun. */
export interface Session {
  readonly id: string;
  readonly secret: string;
  readonly subject: string;
  readonly expiresAt: Date;
}

export function createSessionSecret(): string {
  return randomBytes(SECRET_BYTES).toString("base64url");
}

/** Names the session in the audit; not secret. */
export function idOfSession(secret: string): string {
  return hash("sha256", secret).slice(0, ID_LENGTH);
}

/** The hash that is stored. With a salt that changes, the secret no longer fits. */
export function hashOfSession(secret: string, salt: string): string {
  return hash("sha256", `${salt}.${secret}`);
}

export function isIdle({ lastUsedAt }: SessionRow): boolean {
  return Date.now() - lastUsedAt.getTime() > IDLE_MS;
}
