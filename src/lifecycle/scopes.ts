/**
 * The rights of callers: roles are names for scopes, grants give roles to principals and add up, and the role of a
 * token is a ceiling. Pure decisions over plain data.
 */

/** Scopes of callers. Each includes the ones before it. */
export const SCOPES = ["READ", "OPERATE", "MANAGE", "ADMIN"] as const;
export type Scope = (typeof SCOPES)[number];

/** Meanings of the scopes for people. */
export const SCOPE_MEANING: Readonly<Record<Scope, string>> = {
  READ: "Queries, streams and plans.",
  OPERATE: "Verbs with automatic steps or a runbook, power, interrupts, waves, holds and marks.",
  MANAGE: "Nodes, clusters, runbooks and images; `force` and chosen steps.",
  ADMIN: "The site's policy, accounts, tokens, roles, and the audit.",
};

/** Whether a scope includes another; null includes none. */
export function includesScope(scope: Scope | null, needed: Scope): boolean {
  return scope !== null && SCOPES.indexOf(scope) >= SCOPES.indexOf(needed);
}

/** One grant: a role for a principal, such as `account:ci`. */
export interface Grant {
  readonly principal: string;
  readonly role: string;
  /** Null: it does not expire. */
  readonly expiresAt: Date | null;
}

/** Roles with their scopes, and principals with their roles. */
export interface AccessRules {
  readonly scopeOf: ReadonlyMap<string, Scope>;
  readonly grantsOf: ReadonlyMap<string, readonly Grant[]>;
  /** Principals that have the role `admin` by the configuration. */
  readonly admins: ReadonlySet<string>;
}

/** The rights of a caller, as of a moment. */
export interface Access {
  /** Null: nothing is granted. */
  readonly scope: Scope | null;
  /** Names of the roles that are granted, sorted. */
  readonly roles: readonly string[];
  /** When the first of its grants expires, or its credential; null if none does. */
  readonly expiresAt: Date | null;
}

interface Asked {
  readonly principals: readonly string[];
  /** The role that limits the credential; null if none does. */
  readonly ceiling: string | null;
  /** When the credential expires; null if it does not. */
  readonly expiresAt: Date | null;
}

export function accessOf(
  { principals, ceiling, expiresAt }: Asked,
  { scopeOf, grantsOf, admins }: AccessRules,
  now: Date,
): Access {
  const grants = principals
    .flatMap((principal) => grantsOf.get(principal) ?? [])
    .filter((grant) => grant.expiresAt === null || grant.expiresAt > now);
  const isAdmin = principals.some((principal) => admins.has(principal));
  const roles = [...new Set([...grants.map(({ role }) => role), ...(isAdmin ? ["admin"] : [])])].toSorted();
  const granted = highest(roles.map((role) => scopeOf.get(role) ?? null));
  const limit = ceiling === null ? granted : (scopeOf.get(ceiling) ?? null);
  const ends = [expiresAt, ...grants.map((grant) => grant.expiresAt)].flatMap((end) => end?.getTime() ?? []);
  return {
    scope: includesScope(granted, limit ?? "READ") ? limit : granted,
    roles,
    expiresAt: ends.length === 0 ? null : new Date(Math.min(...ends)),
  };
}

function highest(scopes: readonly (Scope | null)[]): Scope | null {
  return SCOPES.findLast((scope) => scopes.includes(scope)) ?? null;
}

/** Equal for callers that may do and see the same. */
export function fingerprintOf({ scope, roles }: Pick<Access, "scope" | "roles">): string {
  return JSON.stringify([scope, ...roles]);
}
