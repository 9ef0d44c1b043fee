/**
 * The rules of access, as a process knows them: roles, grants, accounts, and the tokens that can be used. They are read
 * as of an access version. A process looks once a second whether there is a newer one; a mutation looks before it
 * begins, so it never acts on old rules.
 */
import type { AccessRules } from "../lifecycle/scopes.ts";
import { LruMap } from "../runtime/lru-map.ts";
import { startPeriodic } from "../runtime/periodic.ts";
import { allAccounts } from "../store/access/accounts.ts";
import type { AccountRow } from "../store/access/accounts.ts";
import { documentsByIds } from "../store/access/documents.ts";
import type { DocumentRow } from "../store/access/documents.ts";
import { allGrants, allRoles } from "../store/access/grants.ts";
import { liveSessions, noteSessionUse, sessionById, sessionsSince, subjectsSince } from "../store/access/sessions.ts";
import type { SessionRow, SubjectRow } from "../store/access/sessions.ts";
import { liveTokens, noteTokenUse, tokenById, tokensSince } from "../store/access/tokens.ts";
import type { KnownToken } from "../store/access/tokens.ts";
import { raiseAccessVersion, readAccessVersion } from "../store/access/version.ts";
import type { Database, Reader, Tx } from "../store/postgres/database.ts";

/** Interval of looking for changes, in milliseconds. */
const LOOK_MS = 1_000;
/** Registered documents in memory. */
const DOCUMENTS_KEPT = 256;

interface DirectoryOptions {
  readonly reader: Reader;
  readonly transaction: Database["transaction"];
  /** Principals that are always administrators. */
  readonly admins: readonly string[];
  readonly onFailure: (error: unknown) => void;
}

export class Directory implements Disposable {
  readonly #options: DirectoryOptions;
  readonly #listeners = new Set<() => void>();
  readonly #used = new Set<string>();
  #version = -1;
  #rules: AccessRules = { scopeOf: new Map(), grantsOf: new Map(), admins: new Set() };
  #accounts: ReadonlyMap<string, AccountRow> = new Map();
  #tokens = new Map<string, KnownToken>();
  #documents = new LruMap<string, DocumentRow>(DOCUMENTS_KEPT);
  #sessions = new Map<string, SessionRow>();
  #subjects = new Map<string, SubjectRow>();
  #reading: Promise<void> | null = null;
  #next: Promise<void> | null = null;
  #periodic: { stop(): void } | undefined;

  private constructor(options: DirectoryOptions) {
    this.#options = options;
  }

  /** Reads the rules, and keeps them up to date until it is disposed of. */
  static async open(options: DirectoryOptions): Promise<Directory> {
    const directory = new Directory(options);
    await directory.refresh();
    directory.#periodic = startPeriodic(LOOK_MS, () => directory.#look(), options.onFailure);
    return directory;
  }

  [Symbol.dispose](): void {
    this.#periodic?.stop();
  }

  get rules(): AccessRules {
    return this.#rules;
  }

  /** Whether the account exists and is not disabled. */
  isEnabled(accountId: string): boolean {
    return this.#accounts.get(accountId)?.disabledAt === null;
  }

  displayNameOf(accountId: string): string | null {
    return this.#accounts.get(accountId)?.displayName ?? null;
  }

  /** A token that can be used, or was when it was last changed. */
  token(id: string): KnownToken | undefined {
    return this.#tokens.get(id);
  }

  /** A token that is not known: one that was created a moment ago, or has ended. */
  async lookUp(id: string): Promise<KnownToken | undefined> {
    await this.refresh();
    return this.#tokens.get(id) ?? tokenById(this.#options.reader, id);
  }

  /** A registered document. */
  async document(id: string): Promise<DocumentRow | undefined> {
    // A change of the rules replaces the map: what is read meanwhile is kept in the one of before.
    const documents = this.#documents;
    const known = documents.get(id);
    if (known) return known;
    const [row] = await documentsByIds(this.#options.reader, [id]);
    if (row) documents.set(id, row);
    return row;
  }

  /** A session that can be used, or was when it was last changed. */
  session(id: string): SessionRow | undefined {
    return this.#sessions.get(id);
  }

  /** The session as of now. */
  async lookUpSession(id: string): Promise<SessionRow | undefined> {
    await this.refresh();
    const found = await sessionById(this.#options.reader, id);
    if (found && this.#sessions.has(id)) this.#sessions.set(id, found);
    return found;
  }

  /** The name of a subject of an issuer, and since when its tokens count; undefined if neither is known. */
  subject(subject: string): SubjectRow | undefined {
    return this.#subjects.get(subject);
  }

  /** Makes a change, which this process knows when it resolves. */
  async change(make: (tx: Tx, version: number) => Promise<void>): Promise<void> {
    await this.#options.transaction(async (tx) => make(tx, await raiseAccessVersion(tx)));
    await this.refresh();
  }

  /** Notes that a token or a session was used. */
  noteUse(id: string): void {
    this.#used.add(id);
    const session = this.#sessions.get(id);
    if (session) this.#sessions.set(id, { ...session, lastUsedAt: new Date() });
  }

  /** Calls the listener after each change of the rules; returns a function that ends this. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Resolves when the rules are at least as new as this call. Calls that come together share one reading. */
  refresh(): Promise<void> {
    if (this.#reading) {
      // A reading that has begun may have missed what was committed since.
      this.#next ??= this.#reading
        .catch(() => {})
        .then(() => {
          this.#next = null;
          return this.refresh();
        });
      return this.#next;
    }
    this.#reading = this.#read().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async #read(): Promise<void> {
    const { reader } = this.#options;
    const version = await readAccessVersion(reader);
    if (version === this.#version) return;
    const isFirst = this.#version === -1;
    const [roles, grants, accounts, tokens, sessions, subjects] = await Promise.all([
      allRoles(reader),
      allGrants(reader),
      allAccounts(reader),
      isFirst ? liveTokens(reader) : tokensSince(reader, this.#version),
      isFirst ? liveSessions(reader) : sessionsSince(reader, this.#version),
      subjectsSince(reader, this.#version),
    ]);
    this.#rules = {
      scopeOf: new Map(roles.map(({ name, scope }) => [name, scope])),
      grantsOf: Map.groupBy(grants, ({ principal }) => principal),
      admins: new Set(this.#options.admins),
    };
    this.#accounts = new Map(accounts.map((account) => [account.id, account]));
    for (const token of tokens) this.#tokens.set(token.id, token);
    this.#documents = new LruMap(DOCUMENTS_KEPT);
    for (const session of sessions) this.#sessions.set(session.id, session);
    for (const subject of subjects) this.#subjects.set(subject.subject, subject);
    this.#version = version;
    for (const listener of this.#listeners) listener();
  }

  async #look(): Promise<void> {
    await this.refresh();
    const now = new Date();
    for (const known of [this.#tokens, this.#sessions])
      for (const [id, { expiresAt }] of known) if (expiresAt <= now) known.delete(id);
    const used = [...this.#used];
    this.#used.clear();
    if (used.length === 0) return;
    await this.#options.transaction(async (tx) => {
      await noteTokenUse(tx, used);
      await noteSessionUse(tx, used);
    });
  }
}
