/**
 * JWTs of the configured issuers. The issuer is known before the signature is verified, and its key decides which of
 * its tokens are genuine: headers of a token name no keys. A verified token is known for a minute.
 */
import { hash } from "node:crypto";
import type { JWTPayload, JWTVerifyResult } from "jose";
import type { IssuerConfig } from "../config/oidc.ts";
import { FreshMap } from "../runtime/fresh-map.ts";
import { INVALID } from "./access.ts";
import type { Identity, Rejection } from "./access.ts";
import { personOf } from "./claims.ts";
import { IssuerKeys, KeysUnavailableError } from "./issuer-keys.ts";

const ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA"];
/** Clocks may differ by this, in seconds. */
const SKEW = 30;
/** The most since the token was issued, in seconds. */
const AGE_MAX = 24 * 3_600;
/** More than any header that Node accepts. */
const LENGTH_MAX = 16_384;
const KNOWN_MS = 60_000;
const KNOWN_MAX = 10_000;
/** Claims that only ID tokens have. */
const OF_ID_TOKENS = ["nonce", "at_hash", "c_hash", "s_hash"];

interface Issuer {
  readonly config: IssuerConfig;
  readonly keys: IssuerKeys;
}

interface JwtOptions {
  readonly issuers: readonly IssuerConfig[];
  /** Called if the keys of an issuer cannot be read. */
  readonly onFailure?: (error: unknown, issuer: string) => void;
  readonly now?: () => number;
}

/** Whether a credential has the form of a JWT. */
export function isJwt(text: string): boolean {
  return text.split(".", 4).length === 3;
}

export class JwtVerifier implements Disposable {
  readonly #issuers: ReadonlyMap<string, Issuer>;
  readonly #known = new FreshMap<Identity>(KNOWN_MS, KNOWN_MAX);

  constructor({ issuers, onFailure = () => {}, ...clock }: JwtOptions) {
    this.#issuers = new Map(
      issuers.map((config) => [
        config.issuer,
        {
          config,
          keys: new IssuerKeys({ issuer: config, onFailure: (error) => onFailure(error, config.name), ...clock }),
        },
      ]),
    );
  }

  get hasIssuers(): boolean {
    return this.#issuers.size > 0;
  }

  /** Whether there is an issuer of this name. */
  isKnown(name: string): boolean {
    return this.#issuers.values().some(({ config }) => config.name === name);
  }

  [Symbol.dispose](): void {
    for (const { keys } of this.#issuers.values()) keys[Symbol.dispose]();
  }

  /** The owner of a token that was verified within the last minute. */
  known(text: string): Identity | undefined {
    return this.#known.get(digestOf(text));
  }

  async verify(text: string): Promise<Identity | Rejection> {
    if (text.length > LENGTH_MAX) return INVALID;
    const { decodeJwt, jwtVerify } = await import("jose");
    let issuer: Issuer | undefined;
    try {
      issuer = this.#issuers.get(decodeJwt(text).iss ?? "");
    } catch {
      return INVALID;
    }
    if (!issuer) return INVALID;
    const { config, keys } = issuer;
    try {
      const verified = await jwtVerify(text, keys.find, {
        algorithms: ALGORITHMS,
        issuer: config.issuer,
        audience: [...config.audiences],
        requiredClaims: ["sub", "exp", "iat"],
        clockTolerance: SKEW,
        maxTokenAge: AGE_MAX,
      });
      return this.#accepted(text, config, verified);
    } catch (error) {
      return rejectionOf(error);
    }
  }

  #accepted(text: string, config: IssuerConfig, { payload, protectedHeader }: JWTVerifyResult): Identity | Rejection {
    if (!isAccessToken(payload, protectedHeader.typ))
      return { rejected: "INVALID", message: "The token is an ID token, or of another kind. Send an access token." };
    const person = personOf(config, payload);
    if (typeof person === "string") return { rejected: "INVALID", message: person };
    const { exp = 0, iat = 0 } = payload;
    const digest = digestOf(text);
    const identity: Identity = {
      ...person,
      kind: "JWT",
      id: digest.slice(0, 16),
      ceiling: null,
      documents: null,
      issuedAt: new Date(iat * 1_000),
      expiresAt: new Date((Math.min(exp, iat + AGE_MAX) + SKEW) * 1_000),
    };
    this.#known.set(digest, identity);
    return identity;
  }
}

/** Types that an issuer sets decide; without one, a token with claims of ID tokens is one. */
function isAccessToken(payload: JWTPayload, type: string | undefined): boolean {
  const header = type?.toLowerCase().replace(/^application\//, "");
  // Keycloak has a claim.
  const claim = typeof payload["typ"] === "string" ? payload["typ"].toLowerCase() : undefined;
  if (header === "at+jwt") return true;
  if (header !== undefined && header !== "jwt") return false;
  return claim === undefined ? OF_ID_TOKENS.every((name) => payload[name] === undefined) : claim === "bearer";
}

/** The reason is shown only of a token whose signature is genuine. */
function rejectionOf(error: unknown): Rejection {
  if (error instanceof KeysUnavailableError) return { rejected: "UNAVAILABLE", message: error.message };
  const { code, payload, claim } = error as { code?: unknown; payload?: JWTPayload; claim?: unknown };
  if (code === "ERR_JWT_EXPIRED")
    return {
      rejected: "ENDED",
      message:
        claim === "exp"
          ? `The token expired at ${new Date((payload?.exp ?? 0) * 1_000).toISOString()}.`
          : `The token was issued more than ${AGE_MAX / 3_600} hours ago.`,
    };
  if (code === "ERR_JWT_CLAIM_VALIDATION_FAILED")
    return { rejected: "INVALID", message: `Invalid token: its claim ${String(claim)} is missing or not accepted.` };
  return INVALID;
}

function digestOf(text: string): string {
  return hash("sha256", text, "base64url");
}
