/**
 * Callers: who calls, by which credential, and what the caller may do. directory.ts knows the rules, authenticator.ts
 * finds the caller of a request.
 */
import { accessOf, fingerprintOf, includesScope } from "../lifecycle/scopes.ts";
import type { Access, AccessRules, Scope } from "../lifecycle/scopes.ts";
import type { BoundDocument } from "../store/records.ts";

/** How a caller is known. */
type CredentialKind =
  /** No token is configured, and the service listens on loopback only. */
  | "NONE"
  /** The token of OSTLER_TOKEN. */
  | "CONFIGURED"
  | "API_TOKEN"
  /** A token of an issuer. */
  | "JWT"
  /** The cookie of a browser. */
  | "SESSION";

/** A verified credential, from which what its owner may do follows at any time. */
export interface Identity {
  readonly kind: CredentialKind;
  /** Names the credential in the audit; not secret. */
  readonly id: string;
  /** Stable name of the owner: `user:<issuer>:<subject>`, `account:<name>`, `token` or `anonymous`. */
  readonly subject: string;
  /** Name for people; null: there is none. */
  readonly displayName: string | null;
  /** Groups whose grants count, as principals. */
  readonly groups: readonly string[];
  /** The role that limits the credential; null if none does. */
  readonly ceiling: string | null;
  /** When the credential expires; null if it does not. */
  readonly expiresAt: Date | null;
  /** The only documents that the credential sends; null: it has no such limit. */
  readonly documents: readonly BoundDocument[] | null;
  /** When it was issued; only of a JWT. */
  readonly issuedAt?: Date;
}

/** A person or machine that calls the API. */
export interface Actor extends Access {
  readonly subject: string;
  readonly displayName: string | null;
  readonly groups: readonly string[];
  readonly project: string;
  readonly identity: Identity;
}

export const PROJECT = "default";

const WITHOUT_ACCOUNT = { displayName: null, groups: [], ceiling: null, expiresAt: null, documents: null } as const;
/** The caller of a service without a token. */
export const ANONYMOUS: Identity = { ...WITHOUT_ACCOUNT, kind: "NONE", id: "none", subject: "anonymous" };
/** The owner of the configured token. */
export const CONFIGURED: Identity = { ...WITHOUT_ACCOUNT, kind: "CONFIGURED", id: "token", subject: "token" };

/** The caller with a credential, by these rules. Both that need no account may do everything. */
export function actorOf(identity: Identity, rules: AccessRules, now: Date): Actor {
  const { subject, displayName, groups } = identity;
  // Subjects of accounts and issuers have a prefix. A session of the configured token has its subject.
  const access: Access =
    subject === ANONYMOUS.subject || subject === CONFIGURED.subject
      ? { scope: "ADMIN", roles: ["admin"], expiresAt: identity.expiresAt }
      : accessOf({ ...identity, principals: [subject, ...groups] }, rules, now);
  return { subject, displayName, groups, project: PROJECT, identity, ...access };
}

/** Equal for callers whose streams show the same. */
export function accessKey({ scope, roles }: SharedAccess): string {
  return fingerprintOf({ scope, roles });
}

/** All on which items may depend that callers share, as those of streams. */
export type SharedAccess = Pick<Access, "scope" | "roles">;

/** Why a caller may not have what needs the scope; null if it may. `what` begins the sentence. */
export function lackOf(what: string, needed: Scope, actor: Actor): string | null {
  const principals = [actor.subject, ...actor.groups].join(", ");
  return lackSentence(what, needed, actor, { who: principals, whom: principals });
}

/** The same where others with the same access may read the sentence: it names no caller. */
export function sharedLackOf(what: string, needed: Scope, access: SharedAccess): string | null {
  return lackSentence(what, needed, access, { who: "The caller", whom: "the caller" });
}

function lackSentence(
  what: string,
  needed: Scope,
  { scope, roles }: SharedAccess,
  { who, whom }: { readonly who: string; readonly whom: string },
): string | null {
  if (includesScope(scope, needed)) return null;
  return roles.length === 0
    ? `${what} requires the scope ${needed}, and no role is granted to ${whom}. An administrator grants one with setRoles.`
    : `${what} requires the scope ${needed}. ${who} has ${roles.length === 1 ? "the role" : "the roles"} ${roles.join(", ")}, with this token ${scope === null ? "without a scope" : `up to ${scope}`}.`;
}

/** Why a caller may not read a page of the service, such as `/metrics`; null if it may. */
export function lackOfPage(page: string, actor: Actor): string | null {
  if (actor.identity.documents !== null) return `${page} is not served to a token that is bound to documents.`;
  return lackOf(page, "READ", actor);
}

/** Why a request has no caller. */
export interface Rejection {
  /** ENDED: the credential is genuine, but revoked, expired or disabled. */
  readonly rejected:
    | "MISSING"
    | "INVALID"
    | "ENDED"
    | "AMBIGUOUS"
    | "TOO_MANY"
    /** Its owner may not have this. */
    | "DENIED"
    /** The keys of its issuer cannot be read. */
    | "UNAVAILABLE";
  /** A sentence without the credential. */
  readonly message: string;
  /** The owner of a genuine credential. */
  readonly owner?: Pick<Identity, "id" | "subject" | "displayName">;
}

/** The credential is not genuine; more is not disclosed. */
export const INVALID: Rejection = { rejected: "INVALID", message: "Invalid token." };

export function isRejection(found: object): found is Rejection {
  return "rejected" in found;
}
