/**
 * Finds the caller of a request: by the configured token, an API token, a JWT of an issuer, or the session of a
 * browser. With neither a configured token nor an issuer the service listens on loopback only, and a caller without a
 * credential may do everything. A credential that is sent decides: an invalid one is never taken for none.
 */
import { hash, timingSafeEqual } from "node:crypto";
import { LruMap } from "../runtime/lru-map.ts";
import { endSessionRows, insertSession, putSubjectName } from "../store/access/sessions.ts";
import type { SessionRow } from "../store/access/sessions.ts";
import type { DocumentRow } from "../store/access/documents.ts";
import type { KnownToken } from "../store/access/tokens.ts";
import type { Tx } from "../store/postgres/database.ts";
import { ANONYMOUS, CONFIGURED, INVALID, actorOf, isRejection } from "./access.ts";
import type { Actor, Identity, Rejection } from "./access.ts";
import { isSecretOf, readApiToken } from "../runtime/api-token.ts";
import type { Person } from "./claims.ts";
import { AccessWatch } from "./access-watch.ts";
import type { Present } from "./access-watch.ts";
import type { Directory } from "./directory.ts";
import { FAILURES_MAX, LoginAttempts } from "./login-attempts.ts";
import { JwtVerifier, isJwt } from "./jwt.ts";
import { SESSION_MS, createSessionSecret, hashOfSession, idOfSession, isIdle } from "./session.ts";
import type { Session } from "./session.ts";

/** Addresses with a count of their own. */
const ADDRESSES_MAX = 10_000;

/** The parts of a request that identify its caller. */
export interface Presented {
  readonly authorization: string | undefined;
  /** The secret of a session, from the cookie of a browser; it counts without `authorization`. */
  readonly session?: string | undefined;
  /** Address of the sender. */
  readonly address: string;
  /** Whether it has more than one header `Authorization`. */
  readonly isAmbiguous?: boolean;
}

/** A session that begins or ends, with the credential that did it; null: an issuer named its owner. */
type NotedSession = Pick<Identity, "id" | "subject" | "displayName"> & { readonly credential: string | null };

/** Records the beginning or the end of a session in the transaction that makes it. */
export type NoteSession = (tx: Tx, session: NotedSession) => Promise<void>;

interface AuthenticatorOptions {
  readonly directory: Directory;
  /** The configured token; null if there is none. */
  readonly token: string | null;
  /** Verifies JWTs; without issuers by default. */
  readonly jwts?: JwtVerifier;
}

export class Authenticator {
  readonly #directory: Directory;
  readonly #token: string | null;
  readonly #jwts: JwtVerifier;
  readonly #attempts = new LruMap<string, LoginAttempts>(ADDRESSES_MAX);
  readonly #watch = new AccessWatch((actor) => this.present(actor));

  constructor({ directory, token, jwts = new JwtVerifier({ issuers: [] }) }: AuthenticatorOptions) {
    this.#directory = directory;
    this.#token = token;
    this.#jwts = jwts;
    directory.onChange(() => this.#watch.changed());
  }

  /** Whether callers need no credential. */
  get isOpen(): boolean {
    return this.#token === null && !this.#jwts.hasIssuers;
  }

  /** The caller of a request. */
  async identify(presented: Presented): Promise<Actor | Rejection> {
    const found = await this.#identityOf(presented);
    if (isRejection(found)) return found;
    return this.#actorOf(found);
  }

  /** The caller as of rules that are at least as new as this call. */
  async confirm({ identity }: Actor): Promise<Actor | Rejection> {
    await this.#directory.refresh();
    // A mutation over a socket is a use of the session too.
    if (identity.kind === "SESSION") this.#directory.noteUse(identity.id);
    return this.#presentOf(identity);
  }

  /** The caller as of the rules that are known. */
  present({ identity }: Actor): Actor | Rejection {
    return this.#presentOf(identity);
  }

  /** A registered document. */
  document(id: string): Promise<DocumentRow | undefined> {
    return this.#directory.document(id);
  }

  /** Calls the listener once, when the access of the caller is another one. Returns the function that ends this. */
  watch(actor: Actor, listener: (present: Present) => void): () => void {
    return this.#watch.add(actor, listener);
  }

  /** Resolves when this process knows all changes that were committed before the call. */
  refresh(): Promise<void> {
    return this.#directory.refresh();
  }

  /** Begins a session of a person that an issuer has named, or of the owner of a token, with which it ends. */
  async begin(owner: Person | Identity, note: NoteSession): Promise<Session> {
    const credential = "kind" in owner ? owner : null;
    const { subject, displayName: name, groups } = owner;
    const secret = createSessionSecret();
    const id = idOfSession(secret);
    const latest = credential?.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY;
    const expiresAt = new Date(Math.min(Date.now() + SESSION_MS, latest));
    await this.#directory.change(async (tx, version) => {
      await insertSession(tx, {
        id,
        hash: hashOfSession(secret, this.#saltOf(subject)),
        subject,
        name,
        groups: [...groups],
        tokenId: credential?.kind === "API_TOKEN" ? credential.id : null,
        expiresAt,
        version,
      });
      if (!credential) await putSubjectName(tx, { subject, name, version });
      await note(tx, { id, subject, displayName: name, credential: credential?.id ?? null });
    });
    return { id, secret, subject, expiresAt };
  }

  /** Ends a session on every replica. */
  async end({ identity: { id }, subject, displayName }: Actor, note: NoteSession): Promise<void> {
    await this.#directory.change(async (tx, version) => {
      await endSessionRows(tx, { id }, version);
      await note(tx, { id, subject, displayName, credential: id });
    });
  }

  async #identityOf({
    authorization,
    session,
    address,
    isAmbiguous = false,
  }: Presented): Promise<Identity | Rejection> {
    if (isAmbiguous) return { rejected: "AMBIGUOUS", message: "Send one Authorization header, not several." };
    if (authorization === undefined && session !== undefined) return this.#ofSession(session, address);
    const [isBearer, credential = ""] = /^Bearer(?: (.*))?$/i.exec(authorization ?? "Bearer") ?? [];
    if (isBearer === undefined) return this.#failed(address);
    if (credential === "") return this.isOpen ? ANONYMOUS : { rejected: "MISSING", message: "The token is missing." };
    const known = isJwt(credential) ? this.#jwts.known(credential) : undefined;
    if (known) return this.#presentJwt(known);
    if (this.#token !== null && isSame(credential, this.#token)) return CONFIGURED;
    return isJwt(credential) ? this.#ofJwt(credential, address) : this.#ofApiToken(credential, address);
  }

  async #ofJwt(text: string, address: string): Promise<Identity | Rejection> {
    const attempts = this.#attemptsOf(address);
    if (!(await attempts.begin())) return tooMany();
    let hasFailed = true;
    try {
      const found = await this.#jwts.verify(text);
      hasFailed = isRejection(found) && found.rejected !== "UNAVAILABLE";
      return isRejection(found) ? found : this.#presentJwt(found);
    } finally {
      attempts.end(hasFailed);
    }
  }

  /** A JWT is refused if the tokens of its subject were revoked since it was issued. */
  #presentJwt(identity: Identity): Identity | Rejection {
    const { subject, expiresAt, issuedAt } = identity;
    const { tokensFrom = null, name = null } = this.#directory.subject(subject) ?? {};
    if (expiresAt && expiresAt <= new Date())
      return ended(`The token expired at ${expiresAt.toISOString()}.`, identity);
    if (tokensFrom && issuedAt && issuedAt < tokensFrom)
      return ended(`The tokens of ${subject} were revoked at ${tokensFrom.toISOString()}.`, identity);
    return identity.displayName === null && name !== null ? { ...identity, displayName: name } : identity;
  }

  async #ofApiToken(text: string, address: string): Promise<Identity | Rejection> {
    const given = readApiToken(text);
    const known = given && this.#directory.token(given.id);
    if (known && isSecretOf(given.secret, known.hash)) return this.#used(known);
    // Counts as a failure before it is looked up.
    if (!this.#mayFail(address)) return tooMany();
    const stored = given && !known ? await this.#directory.lookUp(given.id) : undefined;
    return stored && given && isSecretOf(given.secret, stored.hash) ? this.#used(stored) : INVALID;
  }

  #used(token: KnownToken): Identity | Rejection {
    const identity = this.#identityOfToken(token);
    if (!isRejection(identity)) this.#directory.noteUse(token.id);
    return identity;
  }

  #identityOfToken(token: KnownToken): Identity | Rejection {
    const { id, account, accountId, role, expiresAt, revokedAt, documents } = token;
    const owner = { id, subject: `account:${account}`, displayName: this.#directory.displayNameOf(accountId) };
    if (revokedAt) return ended(`The token was revoked at ${revokedAt.toISOString()}.`, owner);
    if (expiresAt <= new Date()) return ended(`The token expired at ${expiresAt.toISOString()}.`, owner);
    if (!this.#directory.isEnabled(accountId)) return ended(`The account ${account} of the token is disabled.`, owner);
    return { ...owner, kind: "API_TOKEN", groups: [], ceiling: role, expiresAt, documents };
  }

  async #ofSession(secret: string, address: string): Promise<Identity | Rejection> {
    const id = idOfSession(secret);
    const known = this.#directory.session(id);
    // Counts as a failure before it is looked up.
    if (!known && !this.#mayFail(address)) return tooMany();
    let session = known ?? (await this.#directory.lookUpSession(id));
    if (session?.hash !== hashOfSession(secret, this.#saltOf(session?.subject ?? "")))
      return known ? this.#failed(address) : INVALID;
    // It may have been used at another replica.
    if (isIdle(session)) session = (await this.#directory.lookUpSession(id)) ?? session;
    const identity = isIdle(session)
      ? ended("The session ended because it was not used for an hour.", ownerOf(session))
      : this.#identityOfSession(session);
    if (!isRejection(identity)) this.#directory.noteUse(id);
    return identity;
  }

  #identityOfSession(row: SessionRow): Identity | Rejection {
    const { id, subject, name, groups, tokenId, expiresAt, endedAt } = row;
    if (endedAt) return ended(`The session ended at ${endedAt.toISOString()}.`, ownerOf(row));
    if (expiresAt <= new Date()) return ended(`The session expired at ${expiresAt.toISOString()}.`, ownerOf(row));
    const session = { kind: "SESSION", id, expiresAt } as const;
    const issuer = /^user:([^:]+):/.exec(subject)?.[1];
    if (issuer !== undefined && !this.#jwts.isKnown(issuer))
      return ended(`The issuer ${issuer} of the session is not configured any more.`, ownerOf(row));
    if (tokenId === null) return { ...session, subject, displayName: name, groups, ceiling: null, documents: null };
    const token = this.#directory.token(tokenId);
    const owner = token ? this.#identityOfToken(token) : ended("The token of the session has ended.");
    return isRejection(owner) ? owner : { ...owner, ...session };
  }

  /** A session of the configured token ends when another one is configured. */
  #saltOf(subject: string): string {
    return subject === CONFIGURED.subject ? (this.#token ?? "") : "";
  }

  #presentOf(identity: Identity): Actor | Rejection {
    const present = this.#presentIdentity(identity);
    if (isRejection(present)) return present;
    const { expiresAt } = present;
    if (expiresAt && expiresAt <= new Date()) return ended(`The token expired at ${expiresAt.toISOString()}.`);
    return this.#actorOf(present);
  }

  #presentIdentity(identity: Identity): Identity | Rejection {
    switch (identity.kind) {
      case "NONE":
      case "CONFIGURED":
        return identity;
      case "JWT":
        return this.#presentJwt(identity);
      case "API_TOKEN": {
        const token = this.#directory.token(identity.id);
        return token ? this.#identityOfToken(token) : INVALID;
      }
      case "SESSION": {
        const session = this.#directory.session(identity.id);
        return session ? this.#identityOfSession(session) : ended("The session has expired.");
      }
    }
  }

  #actorOf(identity: Identity): Actor {
    return actorOf(identity, this.#directory.rules, new Date());
  }

  #failed(address: string): Rejection {
    return this.#mayFail(address) ? INVALID : tooMany();
  }

  /** Whether the address may fail once more in this second. */
  #mayFail(address: string): boolean {
    return this.#attemptsOf(address).fail();
  }

  #attemptsOf(address: string): LoginAttempts {
    const attempts = this.#attempts.get(address) ?? new LoginAttempts();
    this.#attempts.set(address, attempts);
    return attempts;
  }
}

function ownerOf({ id, subject, name }: SessionRow): Rejection["owner"] {
  return { id, subject, displayName: name };
}

function ended(message: string, owner?: Rejection["owner"]): Rejection {
  return { rejected: "ENDED", message, ...(owner && { owner }) };
}

function tooMany(): Rejection {
  return {
    rejected: "TOO_MANY",
    message: `More than ${FAILURES_MAX} requests a second of this address had no valid token. Correct the token, then try again in a second.`,
  };
}

/** Compares in constant time, so that the duration does not reveal the common prefix. */
function isSame(a: string, b: string): boolean {
  const digest = (text: string) => hash("sha256", text, "buffer");
  return timingSafeEqual(digest(a), digest(b));
}
