/**
 * The keys of an issuer. They are read again every ten minutes, and for a token with an unknown key, at most once in 30
 * seconds. While the issuer is away the present keys count, for up to a day; without any, its tokens are refused, and
 * reading is tried again every few seconds.
 */
import { readFile } from "node:fs/promises";
import type { JSONWebKeySet, JWTVerifyGetKey } from "jose";
import { isConfidential } from "../config/values.ts";
import type { IssuerConfig } from "../config/oidc.ts";
import { isRecord } from "../runtime/json-values.ts";
import { startPeriodic } from "../runtime/periodic.ts";

const RELOAD_MS = 10 * 60_000;
const COOLDOWN_MS = 30_000;
const VALID_MS = 24 * 3_600_000;
/** How often to look whether it is time, and after a failure how soon to try again. */
const LOOK_MS = 1_000;
const RETRY_MS = 5_000;
/** Time for the discovery document and the keys. */
const FETCH_MS = 3_000;

/** Thrown while an issuer has no keys that may be used. */
export class KeysUnavailableError extends Error {}

interface IssuerKeysOptions {
  readonly issuer: IssuerConfig;
  /** Called at the first failure after a success. */
  readonly onFailure: (error: unknown) => void;
  readonly now?: () => number;
}

export class IssuerKeys implements Disposable {
  readonly #options: IssuerKeysOptions;
  readonly #now: () => number;
  readonly #periodic: { stop(): void };
  #keys: JWTVerifyGetKey | null = null;
  #loadedAt = Number.NEGATIVE_INFINITY;
  #triedAt = Number.NEGATIVE_INFINITY;
  #isFailing = false;
  #loading: Promise<void> | null = null;

  constructor(options: IssuerKeysOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    void this.load();
    this.#periodic = startPeriodic(
      LOOK_MS,
      async () => {
        const isDue = this.#now() - this.#loadedAt >= RELOAD_MS && this.#now() - this.#triedAt >= RETRY_MS;
        if (isDue) await this.load();
      },
      () => {},
    );
  }

  [Symbol.dispose](): void {
    this.#periodic.stop();
  }

  /** The key of a token. Throws `KeysUnavailableError`, or an error of jose if no key fits. */
  readonly find: JWTVerifyGetKey = async (header, token) => {
    const { errors } = await import("jose");
    try {
      return await (
        await this.#present()
      )(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey) || this.#now() - this.#triedAt < COOLDOWN_MS) throw error;
    }
    await this.load();
    return (await this.#present())(header, token);
  };

  /** Reads the keys. A failure is reported, and leaves the present ones. */
  load(): Promise<void> {
    this.#triedAt = this.#now();
    this.#loading ??= this.#read().finally(() => {
      this.#loading = null;
    });
    return this.#loading;
  }

  async #present(): Promise<JWTVerifyGetKey> {
    if (this.#keys === null) await this.#loading;
    if (this.#keys === null || this.#now() - this.#loadedAt > VALID_MS)
      throw new KeysUnavailableError(
        `The keys of the issuer ${this.#options.issuer.name} cannot be read at this time. Try again later.`,
      );
    return this.#keys;
  }

  async #read(): Promise<void> {
    try {
      const [{ createLocalJWKSet }, keys] = await Promise.all([import("jose"), this.#fetch()]);
      this.#keys = createLocalJWKSet(keys as unknown as JSONWebKeySet);
      this.#loadedAt = this.#now();
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) this.#options.onFailure(error);
      this.#isFailing = true;
    }
  }

  async #fetch(): Promise<Record<string, unknown>> {
    const { issuer, keys } = this.#options.issuer;
    if (keys && "file" in keys) return objectOf(JSON.parse(await readFile(keys.file, "utf8")), keys.file);
    const signal = AbortSignal.timeout(FETCH_MS);
    if (keys) return fetchObject(keys.uri, signal);
    const found = await fetchObject(`${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`, signal);
    if (found["issuer"] !== issuer)
      throw new Error(`its discovery document names the issuer ${JSON.stringify(found["issuer"])}`);
    const uri = URL.parse(String(found["jwks_uri"]));
    if (uri === null || !isConfidential(uri)) throw new Error("its discovery document has no `jwks_uri` with https");
    return fetchObject(uri.href, signal);
  }
}

async function fetchObject(url: string, signal: AbortSignal): Promise<Record<string, unknown>> {
  const response = await fetch(url, { signal, redirect: "error", headers: { accept: "application/json" } });
  if (!response.ok) throw new Error(`${url} answered with status ${response.status}`);
  return objectOf(await response.json(), url);
}

function objectOf(value: unknown, source: string): Record<string, unknown> {
  if (!isRecord(value)) throw new Error(`${source} is not a JSON object`);
  return value;
}
