/**
 * The sign-in of a person at an issuer: the code flow of OpenID Connect with PKCE. The tokens of the issuer are not
 * kept: the claims are read once.
 */
import type { Configuration } from "openid-client";
import type { ClientConfig, IssuerConfig } from "../config/oidc.ts";
import { isConfidential } from "../config/values.ts";
import { at, personOf } from "./claims.ts";
import type { Person } from "./claims.ts";

/** Discovery is repeated after this, in milliseconds, so that a service follows changes of the issuer. */
const DISCOVERED_MS = 3_600_000;
const TIMEOUT_SECONDS = 5;

/** Kept by the browser between the beginning and the end of a sign-in. */
export interface SignInCheck {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

/** Thrown if an issuer has answered that it does not sign the person in, or if its claims are not accepted. */
export class SignInRefusedError extends Error {}

export class IssuerSignIn {
  readonly #issuer: IssuerConfig;
  readonly #client: ClientConfig;
  #discovered: { readonly configuration: Promise<Configuration>; readonly at: number } | null = null;

  constructor(issuer: IssuerConfig, client: ClientConfig) {
    this.#issuer = issuer;
    this.#client = client;
  }

  get name(): string {
    return this.#issuer.name;
  }

  /** Where browsers reach this service; null: at the host of the request. */
  get baseUrl(): string | null {
    return this.#client.baseUrl;
  }

  async begin(redirectUri: string): Promise<{ readonly url: URL; readonly check: SignInCheck }> {
    const oidc = await import("openid-client");
    const configuration = await this.#configuration();
    const check = { state: oidc.randomState(), nonce: oidc.randomNonce(), verifier: oidc.randomPKCECodeVerifier() };
    const url = oidc.buildAuthorizationUrl(configuration, {
      redirect_uri: redirectUri,
      scope: this.#client.scopes.join(" "),
      state: check.state,
      nonce: check.nonce,
      code_challenge: await oidc.calculatePKCECodeChallenge(check.verifier),
      code_challenge_method: "S256",
    });
    return { url, check };
  }

  /** The person whom the issuer has signed in. `answer`: the redirect URI with the issuer's parameters. */
  async finish(answer: URL, { state, nonce, verifier }: SignInCheck): Promise<Person> {
    const oidc = await import("openid-client");
    const configuration = await this.#configuration();
    const tokens = await oidc
      .authorizationCodeGrant(configuration, answer, {
        pkceCodeVerifier: verifier,
        expectedState: state,
        expectedNonce: nonce,
        idTokenExpected: true,
      })
      .catch((error: unknown) => {
        if (!(error instanceof oidc.AuthorizationResponseError)) throw error;
        throw new SignInRefusedError(`The issuer ${this.name} refused the sign-in${codeOf(error.error)}.`);
      });
    const ofToken = tokens.claims();
    if (!ofToken) throw new Error("The issuer sent no ID token.");
    const { name, groups } = this.#issuer.claims;
    const lacks = at(ofToken, name) === undefined || at(ofToken, groups) === undefined;
    const more =
      lacks && configuration.serverMetadata().userinfo_endpoint !== undefined
        ? await oidc.fetchUserInfo(configuration, tokens.access_token, ofToken.sub)
        : {};
    const person = personOf(this.#issuer, { ...more, ...ofToken });
    if (typeof person === "string") throw new SignInRefusedError(person);
    return person;
  }

  async #configuration(): Promise<Configuration> {
    const known = this.#discovered;
    if (known && performance.now() - known.at < DISCOVERED_MS) return known.configuration;
    const configuration = this.#discover();
    const discovered = { configuration, at: performance.now() };
    this.#discovered = discovered;
    // A failure is not kept.
    configuration.catch(() => {
      if (this.#discovered === discovered) this.#discovered = null;
    });
    return configuration;
  }

  async #discover(): Promise<Configuration> {
    const { allowInsecureRequests, discovery, None } = await import("openid-client");
    const url = new URL(this.#issuer.issuer);
    const { clientId, clientSecret } = this.#client;
    return discovery(url, clientId, clientSecret ?? undefined, clientSecret === null ? None() : undefined, {
      timeout: TIMEOUT_SECONDS,
      // Only on loopback.
      execute: url.protocol === "http:" && isConfidential(url) ? [allowInsecureRequests] : [],
    });
  }
}

/** The issuer that has a client; null if none has. */
export function signInAt(issuers: readonly IssuerConfig[]): IssuerSignIn | null {
  const [first] = issuers.flatMap((issuer) => (issuer.client ? [new IssuerSignIn(issuer, issuer.client)] : []));
  return first ?? null;
}

/** The code of an error of the issuer: anyone can write it into the address. */
function codeOf(code: string): string {
  return /^[\w.-]{1,64}$/.test(code) ? ` (${code})` : "";
}
