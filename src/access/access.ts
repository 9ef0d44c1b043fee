/**
 * Who may do what. For now there is one token, and whoever has it may do everything in the one project; without a token
 * configured (loopback only) nobody need show one. Every root field of the schema asks `requireScope`, so the place of
 * the check stands before tokens with scopes and projects do.
 */
import { createHash, timingSafeEqual } from "node:crypto";

/** What a caller may do. Each scope includes the ones before it. */
export const SCOPES = ["READ", "OPERATE", "MANAGE", "ADMIN"] as const;
export type Scope = (typeof SCOPES)[number];

/** A person or machine that calls the API. */
export interface Actor {
  readonly subject: string;
  readonly scope: Scope;
  readonly project: string;
}

const PROJECT = "default";

/** The actor behind an Authorization header, or null where the token is wrong or missing. */
export function identify(authorization: string | null | undefined, token: string | null): Actor | null {
  if (token === null) return { subject: "anonymous", scope: "ADMIN", project: PROJECT };
  const given = /^Bearer (.+)$/i.exec(authorization ?? "")?.[1] ?? "";
  return isSame(given, token) ? { subject: "token", scope: "ADMIN", project: PROJECT } : null;
}

export function hasScope(actor: Actor, scope: Scope): boolean {
  return SCOPES.indexOf(actor.scope) >= SCOPES.indexOf(scope);
}

/** Compares without telling by its time how much was right. */
function isSame(a: string, b: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
