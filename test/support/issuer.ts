/** An issuer on loopback: oidc-provider, whose keys the test has too, so that it can sign what no issuer would. */
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { SignJWT, exportJWK, generateKeyPair } from "jose";
import type { CryptoKey, JWK, JWTPayload } from "jose";
import { Provider } from "oidc-provider";
import type { IssuerConfig } from "../../src/config/oidc.ts";

export const AUDIENCE = "https://ostler.example/api";
export const CLIENT_ID = "ostler-web";
export const CLIENT_SECRET = "a-secret-of-the-client";
/** A client that gets JWTs without a person. */
export const ROBOT_ID = "robot";

interface User {
  readonly sub: string;
  readonly name?: string;
  readonly groups?: readonly string[];
}

export interface TestIssuer extends AsyncDisposable {
  readonly url: string;
  /** The person who signs in at the next request; null: sign-ins are refused. */
  user: User | null;
  /** Requests to the issuer so far, as paths. */
  readonly requests: readonly string[];
  /** Its keys: `key-1` signs with RS256, `key-2` too, `key-3` with ES256. */
  readonly keys: Readonly<Record<string, CryptoKey>>;
  readonly publicJwk: JWK;
  config(change?: Partial<IssuerConfig>): IssuerConfig;
  /** A valid access token with these changes; a claim that is undefined is left out. */
  sign(claims?: JWTPayload, header?: Readonly<Record<string, unknown>>): Promise<string>;
  /** A JWT of the provider itself, for the client without a person. */
  robotToken(): Promise<string>;
  /** Answers every request with 503 until it is back. */
  isAway: boolean;
}

export async function startIssuer(): Promise<TestIssuer> {
  const made = await Promise.all(
    (["RS256", "RS256", "ES256"] as const).map(async (alg, index) => {
      const pair = await generateKeyPair(alg, { extractable: true });
      return { kid: `key-${index + 1}`, alg, ...pair, jwk: await exportJWK(pair.privateKey) };
    }),
  );
  const requests: string[] = [];
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const users = new Map<string, User>();
  const provider = createProvider(url, {
    jwks: made.map(({ jwk, kid, alg }) => ({ ...jwk, kid, alg, use: "sig" })),
    userOf: (sub) => users.get(sub),
  });
  const serve = provider.callback();

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    requests.push(request.url ?? "");
    if (issuer.isAway) return void response.writeHead(503).end();
    if (!request.url?.startsWith("/interaction/")) return serve(request, response);
    const { params } = await provider.interactionDetails(request, response);
    const { user } = issuer;
    if (user === null)
      return provider.interactionFinished(request, response, {
        error: "access_denied",
        error_description: "<b>no</b>",
      });
    users.set(user.sub, user);
    const grant = new provider.Grant({ accountId: user.sub, clientId: String(params["client_id"]) });
    grant.addOIDCScope("openid profile");
    const result = { login: { accountId: user.sub }, consent: { grantId: await grant.save() } };
    await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
  }

  const [first] = made;
  if (!first) throw new Error("The issuer has keys.");
  const issuer: TestIssuer = {
    url,
    requests,
    user: null,
    isAway: false,
    keys: Object.fromEntries(made.map(({ kid, privateKey }) => [kid, privateKey])),
    publicJwk: await exportJWK(first.publicKey),
    config: (change = {}) => ({
      name: "corp",
      issuer: url,
      audiences: [AUDIENCE],
      keys: null,
      claims: { subject: ["sub"], name: ["name"], groups: ["groups"] },
      requiredClaims: {},
      client: null,
      ...change,
    }),
    sign(claims = {}, header = {}) {
      const seconds = Math.floor(Date.now() / 1_000);
      const whole = { iss: url, aud: AUDIENCE, sub: "ada", iat: seconds, exp: seconds + 600, ...claims };
      const key = made.find(({ kid }) => kid === (header["kid"] ?? first.kid)) ?? first;
      return new SignJWT(whole)
        .setProtectedHeader({ alg: key.alg, typ: "at+jwt", kid: key.kid, ...header })
        .sign(key.privateKey);
    },
    async robotToken() {
      const body = new URLSearchParams({ grant_type: "client_credentials", resource: AUDIENCE, scope: "api" });
      const response = await fetch(`${url}/token`, {
        method: "POST",
        headers: { authorization: `Basic ${btoa(`${ROBOT_ID}:${CLIENT_SECRET}`)}` },
        body,
      });
      return ((await response.json()) as { access_token: string }).access_token;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
  return issuer;
}

interface ProviderParts {
  readonly jwks: JWK[];
  readonly userOf: (sub: string) => User | undefined;
}

function createProvider(url: string, { jwks, userOf }: ProviderParts): Provider {
  const client = { client_secret: CLIENT_SECRET, redirect_uris: ["https://ostler.example/auth/callback"] };
  const provider = new Provider(url, {
    clients: [
      { ...client, client_id: CLIENT_ID, grant_types: ["authorization_code"], response_types: ["code"] },
      {
        client_id: ROBOT_ID,
        client_secret: CLIENT_SECRET,
        grant_types: ["client_credentials"],
        redirect_uris: [],
        response_types: [],
      },
    ],
    jwks: { keys: jwks },
    cookies: { keys: ["for-tests"] },
    claims: { openid: ["sub"], profile: ["name", "groups"] },
    pkce: { required: () => true },
    findAccount: (_context, sub) => ({ accountId: sub, claims: () => ({ ...userOf(sub), sub }) }),
    interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: () => ({
          scope: "api",
          audience: AUDIENCE,
          accessTokenFormat: "jwt",
          accessTokenTTL: 600,
          jwt: { sign: { alg: "RS256" } },
        }),
      },
    },
  });
  // The port of a service under test is not known before.
  provider.Client.prototype.redirectUriAllowed = (uri: string) =>
    /^http:\/\/(127\.0\.0\.1|localhost):\d+\/auth\/callback$/.test(uri);
  return provider;
}
