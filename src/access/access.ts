/**
 * Authentication and scopes. There is one token, and its holder may do everything in the only project. If no token is
 * configured (loopback only), no caller needs one. Every root field of the schema already checks its scope, so tokens
 * with scopes can be added here.
 */
import { createHash, timingSafeEqual } from "node:crypto";

/** Scopes of callers. Each includes the ones before it. */
export const SCOPES = ["READ", "OPERATE", "MANAGE", "ADMIN"] as const;
export type Scope = (typeof SCOPES)[number];

/** A person or machine that calls the API. */
export interface Actor {
  readonly subject: string;
  readonly scope: Scope;
  readonly project: string;
}

const PROJECT = "default";

/** The actor behind an Authorization header; null if the token is wrong or missing. */
export function identify(authorization: string | null | undefined, token: string | null): Actor | null {
  if (token === null) return { subject: "anonymous", scope: "ADMIN", project: PROJECT };
  const given = /^Bearer (.+)$/i.exec(authorization ?? "")?.[1] ?? "";
  return isSame(given, token) ? { subject: "token", scope: "ADMIN", project: PROJECT } : null;
}

export function hasScope(actor: Actor, scope: Scope): boolean {
  return SCOPES.indexOf(actor.scope) >= SCOPES.indexOf(scope);
}

/** Compares in constant time, so that the duration does not reveal the common prefix. */
function isSame(a: string, b: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
