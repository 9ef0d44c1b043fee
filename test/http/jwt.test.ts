/** JWTs of an issuer, over HTTP, server-sent events and WebSocket. */
import { createSecretKey, createHmac } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "graphql-ws";
import { SignJWT, generateKeyPair, exportJWK } from "jose";
import { afterAll, describe, expect, test, vi } from "vitest";
import { WebSocket } from "ws";
import { IssuerKeys } from "../../src/access/issuer-keys.ts";
import { JwtVerifier } from "../../src/access/jwt.ts";
import { isRejection } from "../../src/access/access.ts";
import { eventually } from "../support/eventually.ts";
import { AUDIENCE, CLIENT_ID, ROBOT_ID, startIssuer } from "../support/issuer.ts";
import { serviceUnderTest } from "../support/service.ts";

const TOKEN = "a-token-of-some-length";
const issuer = await startIssuer();
const ostler = await serviceUnderTest({
  token: TOKEN,
  issuers: [issuer.config()],
  proxies: ["127.0.0.0/8"],
  started: false,
});
afterAll(async () => {
  await ostler[Symbol.asyncDispose]();
  await issuer[Symbol.asyncDispose]();
});

const VIEWER = "{ viewer { subject displayName groups roles scope } }";
const as = (token: string) => ({ authorization: `Bearer ${token}` });
const viewerOf = async (token: string) => (await ostler.ask(VIEWER, {}, as(token))).data?.["viewer"];
const seconds = () => Math.floor(Date.now() / 1_000);
const DAY = 86_400;

async function grant(principal: string, role: string): Promise<void> {
  const { setRoles } = await ostler.query<{ setRoles: { errors: unknown[] } }>(
    "mutation Grant($input: SetRolesInput!) { setRoles(input: $input) { errors { message } } }",
    { input: { principal, roles: [{ role }] } },
  );
  expect(setRoles.errors).toEqual([]);
}

describe("JWT of an issuer", () => {
  test("a JWT acts as its subject, with the roles of its groups [R-990]", async () => {
    await grant("group:corp:ops", "operator");
    const token = await issuer.sign({ sub: "ada", name: "Ada", groups: ["ops", "night"] });
    expect(await viewerOf(token)).toEqual({
      subject: "user:corp:ada",
      displayName: "Ada",
      groups: ["group:corp:ops", "group:corp:night"],
      roles: ["operator"],
      scope: "OPERATE",
    });
  });

  test("a JWT that the issuer itself gave a program is accepted", async () => {
    expect(await viewerOf(await issuer.robotToken())).toMatchObject({ subject: `user:corp:${ROBOT_ID}`, scope: null });
  });

  test.each([
    ["a subject that looks like an account", "account:x"],
    ["a subject that looks like the configured token", "token"],
    ["a subject with a colon and quotes", `"a":b`],
  ])("%s gets the prefix of its issuer", async (_what, sub) => {
    expect(await viewerOf(await issuer.sign({ sub }))).toMatchObject({ subject: `user:corp:${sub}`, scope: null });
  });

  test("a JWT is accepted with ES256, within 30 s after it has expired, and with one key of its type without a kid", async () => {
    expect(await viewerOf(await issuer.sign({}, { kid: "key-3" }))).toBeTruthy();
    expect(await viewerOf(await issuer.sign({ exp: seconds() - 20 }))).toBeTruthy();
    const es256 = new SignJWT({ iss: issuer.url, aud: AUDIENCE, sub: "x", iat: seconds(), exp: seconds() + 60 });
    const { "key-3": key } = issuer.keys;
    if (!key) throw new Error("The issuer has three keys.");
    expect(await viewerOf(await es256.setProtectedHeader({ alg: "ES256" }).sign(key))).toBeTruthy();
  });

  test("JWTs that were issued before their subject was revoked are refused, later ones are not [R-992]", async () => {
    const iat = seconds() - 5;
    const [old, fresh] = [
      await issuer.sign({ sub: "bob", iat }),
      await issuer.sign({ sub: "bob", iat: seconds() + 3 }),
    ];
    expect(await viewerOf(old)).toBeTruthy();
    const { revokeTokens } = await ostler.query<{ revokeTokens: { errors: unknown[] } }>(
      'mutation { revokeTokens(input: { tokens: { subject: "user:corp:bob" } }) { errors { message } } }',
    );
    expect(revokeTokens.errors).toEqual([]);
    const refused = await ostler.ask(VIEWER, {}, as(old));
    expect([refused.status, refused.errors[0]?.message]).toEqual([401, expect.stringMatching(/were revoked at/)]);
    expect(await viewerOf(fresh)).toBeTruthy();
  });

  test.each([
    ["group:corp:ops", "INVALID_INPUT"],
    ["user:other:bob", "NOT_FOUND"],
    ["bob", "INVALID_INPUT"],
  ])("the revocation of the tokens of %s is refused with %s", async (subject, code) => {
    const { revokeTokens } = await ostler.query<{ revokeTokens: { errors: unknown[] } }>(
      "mutation Revoke($input: RevokeTokensInput!) { revokeTokens(input: $input) { errors { code } } }",
      { input: { tokens: { subject } } },
    );
    expect(revokeTokens.errors).toEqual([{ code }]);
  });
});

const BAD: Readonly<Record<string, () => Promise<string> | string>> = {
  "the algorithm none": () => unsigned({ alg: "none" }),
  "HS256, keyed with the public key": async () => {
    const key = createSecretKey(Buffer.from(JSON.stringify(issuer.publicJwk)));
    return new SignJWT(claims()).setProtectedHeader({ alg: "HS256", kid: "key-1" }).sign(key);
  },
  "HS256, keyed with the public key as PEM": () => {
    const body = unsigned({ alg: "HS256", kid: "key-1" }).replace(/\.$/, "");
    return `${body}.${createHmac("sha256", issuer.publicJwk.n ?? "")
      .update(body)
      .digest("base64url")}`;
  },
  "its own key in the header jwk": async () => {
    const { privateKey, publicKey } = await generateKeyPair("RS256");
    const header = { alg: "RS256", jwk: await exportJWK(publicKey) };
    return new SignJWT(claims()).setProtectedHeader(header).sign(privateKey);
  },
  "a header jku": async () => {
    const { privateKey } = await generateKeyPair("RS256");
    const header = { alg: "RS256", kid: "mine", jku: "http://127.0.0.1:1/jwks" };
    return new SignJWT(claims()).setProtectedHeader(header).sign(privateKey);
  },
  "an unknown crit": async () => {
    const body = unsigned({ alg: "RS256", kid: "key-1", crit: ["b32"], b32: true }).replace(/\.$/, "");
    const { "key-1": key } = issuer.keys;
    if (!key) throw new Error("The issuer has a key.");
    const signature = await crypto.subtle.sign("RSASSA-PKCS1-v1_5", key, Buffer.from(body));
    return `${body}.${Buffer.from(signature).toString("base64url")}`;
  },
  "another audience": () => issuer.sign({ aud: "https://other.example" }),
  "a longer audience": () => issuer.sign({ aud: `${AUDIENCE}/` }),
  "an issuer with one slash more": () => issuer.sign({ iss: `${issuer.url}/` }),
  "an unknown issuer": () => issuer.sign({ iss: "https://evil.example" }),
  "no iss": () => issuer.sign({ iss: undefined as never }),
  "no exp": () => issuer.sign({ exp: undefined as never }),
  "no sub": () => issuer.sign({ sub: undefined as never }),
  "no iat": () => issuer.sign({ iat: undefined as never }),
  "a sub that is a number": () => issuer.sign({ sub: 7 as never }),
  "a sub with a line break": () => issuer.sign({ sub: "ada\nroot" }),
  "an iat in the future": () => issuer.sign({ iat: seconds() + 120, exp: seconds() + 600 }),
  "an nbf in the future": () => issuer.sign({ nbf: seconds() + 120 }),
  "an iat two days ago": () => issuer.sign({ iat: seconds() - 2 * DAY, exp: seconds() + DAY }),
  "an exp a minute ago": () => issuer.sign({ exp: seconds() - 60 }),
  "no kid, with two keys": () => issuer.sign({}, { kid: undefined }),
  "an unknown kid": () => issuer.sign({}, { kid: "key-9" }),
  "the type of an ID token": () => issuer.sign({ typ: "ID" }, { typ: "JWT" }),
  "the claims of an ID token": () => issuer.sign({ nonce: "n", at_hash: "h" }, { typ: undefined }),
  "the audience of an ID token": () => issuer.sign({ aud: CLIENT_ID }, { typ: "JWT" }),
  "the type of a logout token": () => issuer.sign({}, { typ: "logout+jwt" }),
  "a changed signature": async () => (await issuer.sign()).replace(/.{6}$/, "AAAAAA"),
  "two dots and nothing else": () => "..",
};

describe("JWT that is refused [R-991]", () => {
  test.each(Object.entries(BAD))("a JWT with %s is refused over HTTP", async (_what, make) => {
    const answer = await ostler.ask(VIEWER, {}, { ...as(await make()), ...anotherAddress() });
    expect([answer.status, answer.errors[0]?.extensions?.["code"]], answer.text).toEqual([401, "UNAUTHENTICATED"]);
  });

  test("a refused JWT opens neither a stream nor a socket", async () => {
    const token = await issuer.sign({ aud: "https://other.example" });
    const stream = await fetch(`${ostler.url}/graphql`, {
      method: "POST",
      headers: { ...as(token), ...anotherAddress(), "content-type": "application/json", accept: "text/event-stream" },
      body: JSON.stringify({ query: "subscription { nodeTransitions { __typename } }" }),
    });
    expect(stream.status).toBe(401);
    await stream.body?.cancel();
    expect(await socketWith(token)).toBe(4403);
    await grant("user:corp:socket", "viewer");
    expect(await socketWith(await issuer.sign({ sub: "socket" }))).toBe("connected");
  });
});

describe("JWTs that arrive together", () => {
  test("of wrong ones of an address twenty are verified, and the others get 429 [R-1152]", async () => {
    const address = anotherAddress();
    const verify = vi.spyOn(JwtVerifier.prototype, "verify");
    const tokens = await Promise.all(Array.from({ length: 200 }, (_, index) => issuer.sign({ aud: `not-${index}` })));
    const statuses = await Promise.all(
      tokens.map(async (token) => (await ostler.ask(VIEWER, {}, { ...as(token), ...address })).status),
    );
    const verified = verify.mock.calls.length;
    verify.mockRestore();
    expect(verified).toBe(statuses.filter((status) => status === 401).length);
    // Twenty at once, and twenty a second while the test lasts.
    expect(verified).toBeLessThan(100);
    expect(statuses.filter((status) => status === 429)).toHaveLength(200 - verified);
  });

  test("good ones of an address are all accepted [R-1152]", async () => {
    const address = anotherAddress();
    const tokens = await Promise.all(Array.from({ length: 100 }, (_, index) => issuer.sign({ sub: `herd-${index}` })));
    const statuses = await Promise.all(
      tokens.map(async (token) => (await ostler.ask(VIEWER, {}, { ...as(token), ...address })).status),
    );
    expect(new Set(statuses)).toEqual(new Set([200]));
  });
});

describe("issuer that is away", () => {
  const HOUR = 3_600_000;

  test("while an issuer is away, its tokens are accepted for up to a day [R-993]", async () => {
    await using other = await startIssuer();
    let now = 0;
    using keys = new IssuerKeys({ issuer: other.config(), onFailure: () => {}, now: () => now });
    const find = () => keys.find({ alg: "RS256", kid: "key-1" }, { payload: "", signature: "" });
    await find();
    other.isAway = true;
    now += HOUR;
    await keys.load();
    await expect(find()).resolves.toBeTruthy();
    now += 24 * HOUR;
    await expect(find()).rejects.toThrow("The keys of the issuer corp cannot be read at this time.");
    other.isAway = false;
    await keys.load();
    await expect(find()).resolves.toBeTruthy();
  });

  test("an unknown key is looked for once in 30 s", async () => {
    await using other = await startIssuer();
    let now = 0;
    using keys = new IssuerKeys({ issuer: other.config(), onFailure: () => {}, now: () => now });
    const find = () => keys.find({ alg: "RS256", kid: "key-9" }, { payload: "", signature: "" });
    const fetched = () => other.requests.filter((path) => path === "/jwks").length;
    for (let time = 0; time < 10; time += 1) await expect(find()).rejects.toThrow("no applicable key");
    expect(fetched()).toBe(1);
    now += 31_000;
    for (let time = 0; time < 10; time += 1) await expect(find()).rejects.toThrow("no applicable key");
    expect(fetched()).toBe(2);
  });

  test("a service starts while the issuer is away, refuses its tokens with 503, and accepts them once it is back [R-994]", async () => {
    await using other = await startIssuer();
    other.isAway = true;
    await using late = await serviceUnderTest({ token: TOKEN, issuers: [other.config()], started: false });
    const token = await other.sign();
    const refused = await late.ask(VIEWER, {}, as(token));
    expect([refused.status, refused.errors[0]?.extensions?.["code"]]).toEqual([503, "ISSUER_UNAVAILABLE"]);
    expect((await late.ask(VIEWER)).status).toBe(200);
    other.isAway = false;
    await eventually("the keys are read", async () => (await late.ask(VIEWER, {}, as(token))).status === 200, 20_000);
  });

  test("keys come from a file, and a discovery document of another issuer is refused", async () => {
    const folder = mkdtempSync(join(tmpdir(), "jwks-"));
    const file = join(folder, "jwks.json");
    writeFileSync(file, JSON.stringify({ keys: [{ ...issuer.publicJwk, kid: "key-1", alg: "RS256" }] }));
    using fromFile = new JwtVerifier({ issuers: [issuer.config({ keys: { file } })] });
    expect(isRejection(await fromFile.verify(await issuer.sign()))).toBe(false);
    rmSync(folder, { recursive: true });
    const failures: string[] = [];
    using other = new JwtVerifier({
      issuers: [issuer.config({ issuer: `${issuer.url}/` })],
      onFailure: (error) => failures.push(String(error)),
    });
    expect(await other.verify(await issuer.sign({ iss: `${issuer.url}/` }))).toMatchObject({ rejected: "UNAVAILABLE" });
    expect(failures).toEqual([expect.stringContaining("names the issuer")]);
  });
});

test("claims are found by their paths, and required values are required", async () => {
  using jwts = new JwtVerifier({
    issuers: [
      issuer.config({
        claims: { subject: ["uid"], name: ["preferred_username"], groups: ["realm_access", "roles"] },
        requiredClaims: { tenant: "a", amr: "mfa" },
      }),
    ],
  });
  const given = { uid: "u1", preferred_username: "ada", realm_access: { roles: ["ops", "ops", 7, ""] }, tenant: "a" };
  expect(await jwts.verify(await issuer.sign({ ...given, amr: ["pwd", "mfa"] }))).toMatchObject({
    subject: "user:corp:u1",
    displayName: "ada",
    groups: ["group:corp:ops"],
  });
  expect(await jwts.verify(await issuer.sign({ ...given, amr: ["pwd"] }))).toMatchObject({ rejected: "INVALID" });
  expect(await jwts.verify(await issuer.sign({ ...given, amr: "mfa", uid: undefined }))).toMatchObject({
    rejected: "INVALID",
  });
});

function claims() {
  return { iss: issuer.url, aud: AUDIENCE, sub: "ada", iat: seconds(), exp: seconds() + 600 };
}

function unsigned(header: object): string {
  const encoded = [header, claims()].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"));
  return `${encoded.join(".")}.`;
}

let addresses = 0;

/** Failed logins of one address are limited. */
function anotherAddress() {
  return { "x-forwarded-for": `192.0.2.${(addresses += 1)}` };
}

function socketWith(token: string): Promise<number | "connected"> {
  return new Promise((done) => {
    const client = createClient({
      url: `${ostler.url.replace("http", "ws")}/graphql`,
      webSocketImpl: WebSocket,
      lazy: false,
      retryAttempts: 0,
      connectionParams: as(token),
      onNonLazyError: () => {},
      on: {
        connected: () => {
          done("connected");
          void client.dispose();
        },
        closed: (event) => done((event as { code: number }).code),
      },
    });
  });
}
