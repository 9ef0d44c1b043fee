/**
 * Finds the caller of a request: by the configured token, or by an API token. Without a configured token the service
 * listens on loopback only, and a caller without a credential may do everything. A credential that is sent decides: an
 * invalid one is never taken for none.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { LruMap } from "../runtime/lru-map.ts";
import { createTokenBucket } from "../runtime/token-bucket.ts";
import type { TokenBucket } from "../runtime/token-bucket.ts";
import type { DocumentRow } from "../store/access/documents.ts";
import type { KnownToken } from "../store/access/tokens.ts";
import { ANONYMOUS, CONFIGURED, actorOf, isRejection } from "./access.ts";
import type { Actor, Identity, Rejection } from "./access.ts";
import { AccessWatch } from "./access-watch.ts";
import type { Present } from "./access-watch.ts";
import { isSecretOf, readApiToken } from "../runtime/api-token.ts";
import type { Directory } from "./directory.ts";

/** Failed logins a second and address; further ones are not looked up. */
const FAILURES_MAX = 20;
/** Addresses with a count of their own. */
const ADDRESSES_MAX = 10_000;

/** The parts of a request that identify its caller. */
export interface Presented {
  readonly authorization: string | undefined;
  /** Address of the sender. */
  readonly address: string;
  /** Whether it has more than one header `Authorization`. */
  readonly isAmbiguous?: boolean;
}

export interface AuthenticatorOptions {
  readonly directory: Directory;
  /** The configured token; null if there is none. */
  readonly token: string | null;
}

export class Authenticator {
  readonly #directory: Directory;
  readonly #token: string | null;
  readonly #failures = new LruMap<string, TokenBucket>(ADDRESSES_MAX);
  readonly #watch = new AccessWatch((actor) => this.present(actor));

  constructor({ directory, token }: AuthenticatorOptions) {
    this.#directory = directory;
    this.#token = token;
    directory.onChange(() => this.#watch.changed());
  }

  /** Whether callers need no credential. */
  get isOpen(): boolean {
    return this.#token === null;
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

  async #identityOf({ authorization, address, isAmbiguous = false }: Presented): Promise<Identity | Rejection> {
    if (isAmbiguous) return { rejected: "AMBIGUOUS", message: "Send one Authorization header, not several." };
    const [isBearer, credential = ""] = /^Bearer(?: (.*))?$/i.exec(authorization ?? "Bearer") ?? [];
    if (isBearer === undefined) return this.#mayFail(address) ? UNKNOWN : tooMany();
    if (credential === "") return this.isOpen ? ANONYMOUS : { rejected: "MISSING", message: "The token is missing." };
    if (this.#token !== null && isSame(credential, this.#token)) return CONFIGURED;
    return this.#ofApiToken(credential, address);
  }

  async #ofApiToken(text: string, address: string): Promise<Identity | Rejection> {
    const given = readApiToken(text);
    const known = given && this.#directory.token(given.id);
    if (known && isSecretOf(given.secret, known.hash)) return this.#used(known);
    // Counts as a failure before it is looked up.
    if (!this.#mayFail(address)) return tooMany();
    const stored = given && !known ? await this.#directory.lookUp(given.id) : undefined;
    return stored && given && isSecretOf(given.secret, stored.hash) ? this.#used(stored) : UNKNOWN;
  }

  #used(token: KnownToken): Identity | Rejection {
    const identity = this.#identityOfToken(token);
    if (!isRejection(identity)) this.#directory.noteUse(token.id);
    return identity;
  }

  #identityOfToken(token: KnownToken): Identity | Rejection {
    const { id, account, accountId, role, expiresAt, revokedAt, documents } = token;
    const owner = { id, subject: `account:${account}`, displayName: this.#directory.displayNameOf(accountId) };
    const ended = (message: string): Rejection => ({ rejected: "ENDED", message, owner });
    if (revokedAt) return ended(`The token was revoked at ${revokedAt.toISOString()}.`);
    if (expiresAt <= new Date()) return expired(expiresAt);
    if (!this.#directory.isEnabled(accountId)) return ended(`The account ${account} of the token is disabled.`);
    return { ...owner, kind: "API_TOKEN", groups: [], ceiling: role, expiresAt, documents };
  }

  #presentOf(identity: Identity): Actor | Rejection {
    const { expiresAt } = identity;
    if (expiresAt !== null && expiresAt <= new Date()) return expired(expiresAt);
    if (identity.kind !== "API_TOKEN") return this.#actorOf(identity);
    const token = this.#directory.token(identity.id);
    const present = token ? this.#identityOfToken(token) : UNKNOWN;
    return isRejection(present) ? present : this.#actorOf(present);
  }

  #actorOf(identity: Identity): Actor {
    return actorOf(identity, this.#directory.rules, new Date());
  }

  /** Whether the address may fail once more in this second. */
  #mayFail(address: string): boolean {
    const bucket = this.#failures.get(address) ?? createTokenBucket(FAILURES_MAX, FAILURES_MAX);
    this.#failures.set(address, bucket);
    return bucket.take();
  }
}

function expired(at: Date): Rejection {
  return { rejected: "ENDED", message: `The token expired at ${at.toISOString()}.` };
}

const UNKNOWN: Rejection = { rejected: "INVALID", message: "Invalid token." };

function tooMany(): Rejection {
  return {
    rejected: "TOO_MANY",
    message: `More than ${FAILURES_MAX} requests a second of this address had no valid token. Correct the token, then try again in a second.`,
  };
}

/** Compares in constant time, so that the duration does not reveal the common prefix. */
function isSame(a: string, b: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
