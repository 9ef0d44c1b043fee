/** Sessions of browsers: sign-in at an issuer or with a token, the rules of the cookie, and the end of a session. */
import { createClient } from "graphql-ws";
import { afterAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { administratorOf } from "../support/accounts.ts";
import { Browser } from "../support/browser.ts";
import { CLIENT_ID, CLIENT_SECRET, startIssuer } from "../support/issuer.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest } from "../support/service.ts";
import type { ServiceUnderTest, Variables } from "../support/service.ts";

const TOKEN = "a-token-of-some-length";
const LISTED = "https://console.example";
const issuer = await startIssuer();
const client = { clientId: CLIENT_ID, clientSecret: CLIENT_SECRET, scopes: ["openid", "profile"], baseUrl: null };
const setup = {
  token: TOKEN,
  origins: [LISTED],
  proxies: ["127.0.0.0/8"],
};
/** People sign in at the issuer. */
const ostler = await serviceUnderTest({ ...setup, issuers: [issuer.config({ client })] });
/** People sign in with tokens. */
const small = await serviceUnderTest(setup);
afterAll(async () => {
  await ostler[Symbol.asyncDispose]();
  await small[Symbol.asyncDispose]();
  await issuer[Symbol.asyncDispose]();
});

/** The newest row of the audit with an action. */
async function newestRow({ test: { sql } }: ServiceUnderTest, action: string) {
  const [row] = await sql<{ credential: string | null; targets: string[] }[]>`
    select subject, display_name, credential, address, request_id, targets, outcome
    from audit where action = ${action} order by id desc limit 1`;
  return row;
}

/** Of the service where people sign in with tokens. */
const administrator = administratorOf(small);

const OWN = { "sec-fetch-site": "same-origin" };
const QUERY = "{ viewer { subject scope groups } }";
const page = (service: ServiceUnderTest, path = "/graphql") => `${service.url}${path}`;

interface Asked {
  readonly status: number;
  readonly viewer?: Readonly<Record<string, unknown>> | undefined;
  readonly message?: string | undefined;
}

async function ask(browser: Browser, service: ServiceUnderTest, headers: Variables = OWN): Promise<Asked> {
  const { status, body } = await browser.send(page(service), {
    method: "POST",
    headers: { "content-type": "application/json", ...(headers as Record<string, string>) },
    body: JSON.stringify({ query: QUERY }),
  });
  const { data, errors } = JSON.parse(body) as {
    data?: { viewer: Record<string, unknown> };
    errors?: { message: string }[];
  };
  return { status, viewer: data?.viewer, message: errors?.[0]?.message };
}

const form = (token: string, returnTo = "/graphql", headers: Readonly<Record<string, string>> = OWN) => ({
  method: "POST",
  headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
  body: new URLSearchParams({ token, return: returnTo }).toString(),
});

/** A browser with a session of an account. */
async function signedIn(role = "operator") {
  const browser = new Browser();
  const account = await administrator.accountWith({ roles: [role], token: { role } });
  const { status } = await browser.send(page(small, "/auth/session"), form(account.token));
  expect(status).toBe(303);
  return { browser, ...account };
}

describe("sign-in at an issuer", () => {
  test("GraphiQL leads to the issuer and back to the same page, with the rights of person and groups [R-996]", async () => {
    await administratorOf(ostler).edit("setRoles", { principal: "group:corp:ops", roles: [{ role: "operator" }] });
    issuer.user = { sub: "ada", name: "Ada", groups: ["ops"] };
    const browser = new Browser();
    const seen = await browser.open(page(ostler, "/graphql?query=%7Ba%7D"));
    expect([seen.status, seen.url]).toEqual([200, page(ostler, "/graphql?query=%7Ba%7D")]);
    expect(await ask(browser, ostler)).toMatchObject({
      viewer: { subject: "user:corp:ada", scope: "OPERATE", groups: ["group:corp:ops"] },
    });
    expect(await newestRow(ostler, "LOGIN")).toMatchObject({
      subject: "user:corp:ada",
      display_name: "Ada",
      credential: null,
      address: "127.0.0.1",
      request_id: expect.stringMatching(/^[\w-]{36}$/),
    });
    const shown = await browser.send(page(ostler, "/auth/session"), { headers: OWN });
    expect(JSON.parse(shown.body)).toMatchObject({
      session: { subject: "user:corp:ada", displayName: "Ada" },
      issuer: "corp",
    });
  });

  test("neither the session's secret nor a token of the issuer is stored", async () => {
    issuer.user = { sub: "eve" };
    const browser = new Browser();
    await browser.open(page(ostler));
    const secret = browser.cookiesOf(ostler.url).replace(/^ostler=/, "");
    expect(secret).toMatch(/^[\w-]{43}$/);
    const stored = await ostler.dump();
    expect(stored).toContain("user:corp:eve");
    expect(stored).not.toContain(secret);
    expect(stored).not.toContain("eyJ");
  });

  test("a sign-in that the issuer refuses shows its code, and no markup", async () => {
    issuer.user = null;
    const browser = new Browser();
    const seen = await browser.open(page(ostler));
    expect(seen.status).toBe(403);
    expect(seen.body).toContain("The issuer corp refused the sign-in (access_denied).");
    expect(seen.body).not.toContain("<b>");
    const row = await eventually("the failure has a row", () => newestRow(ostler, "LOGIN_FAILED"));
    expect(row).toMatchObject({ request_id: seen.headers["x-request-id"] });
    const forged = await begun();
    const answer = `/auth/callback?state=${forged.state}&error=%3Cscript%3Ealert(1)%3C/script%3E&iss=${issuer.url}`;
    const { status, body } = await forged.browser.send(page(ostler, answer));
    expect([status, body.includes("<script")]).toEqual([403, false]);
  });

  /** A sign-in that the issuer has confirmed, before the browser follows its redirect to the service. */
  async function begun() {
    issuer.user = { sub: "kim" };
    const browser = new Browser();
    let { headers, url } = await browser.send(page(ostler, "/auth/login"));
    while (headers.location !== undefined && !headers.location.startsWith(page(ostler, "/auth/callback")))
      ({ headers, url } = await browser.send(new URL(headers.location, url).href));
    const callback = headers.location ?? "";
    return { browser, callback, state: new URL(callback).searchParams.get("state") ?? "" };
  }

  const REFUSED: Readonly<Record<string, (made: Awaited<ReturnType<typeof begun>>) => Promise<[Browser, string]>>> = {
    "the state of another browser": async ({ callback }) => [new Browser(), callback],
    "a foreign state": async ({ browser, callback, state }) => [browser, callback.replace(state, "foreign")],
    "no state": async ({ browser, callback, state }) => [browser, callback.replace(`state=${state}`, "")],
    "a repeated state and code": async ({ browser, callback }) => {
      const cookies = browser.cookiesOf(ostler.url);
      await browser.send(callback);
      browser.setCookies(ostler.url, cookies);
      return [browser, callback];
    },
    "a code of another sign-in": async ({ browser, callback, state }) => {
      const other = new URL((await begun()).callback);
      other.searchParams.set("state", state);
      return [browser, callback && other.href];
    },
    "another issuer": async ({ browser, callback }) => [
      browser,
      callback.replace(/iss=[^&]*/, "iss=https://evil.example"),
    ],
    "nothing at all": async ({ browser }) => [browser, page(ostler, "/auth/callback")],
  };
  test.each(Object.entries(REFUSED))("a callback with %s begins no session [R-1000]", async (_what, change) => {
    const [browser, callback] = await change(await begun());
    const { status, headers } = await browser.send(callback);
    expect(status).toBeGreaterThanOrEqual(400);
    expect(String(headers["set-cookie"])).not.toMatch(/ostler=\w/);
  });

  test("failed sign-ins have ten rows a minute and address in the audit [R-1017]", async () => {
    const fail = (address: string) =>
      new Browser().send(page(ostler, "/auth/callback?code=a&state=a"), { headers: { "x-forwarded-for": address } });
    await Promise.all(Array.from({ length: 30 }, () => fail("198.51.100.250")));
    await fail("198.51.100.251");
    const rowsOf = ({ sql } = ostler.test) =>
      sql<{ address: string }[]>`select address from audit where address like '198.51.100.25%' order by id`;
    // Rows are written in their order.
    await eventually("the last one has its row", async () => (await rowsOf()).at(-1)?.address === "198.51.100.251");
    expect(await rowsOf()).toHaveLength(11);
  });

  test("a code is accepted once, also by a replica that did not see it", async () => {
    const { browser, callback } = await begun();
    const cookies = browser.cookiesOf(ostler.url);
    expect((await browser.send(callback)).status).toBe(302);
    await using replica = await serviceUnderTest({ ...setup, issuers: [issuer.config({ client })], started: false });
    browser.setCookies(replica.url, cookies);
    expect((await browser.send(callback.replace(ostler.url, replica.url))).status).toBe(502);
  });

  test("while the issuer is away its page says so, and takes a token", async () => {
    await using other = await startIssuer();
    other.isAway = true;
    await using late = await serviceUnderTest({ ...setup, issuers: [other.config({ client })], started: false });
    const browser = new Browser();
    const seen = await browser.open(page(late));
    expect([seen.status, seen.body]).toEqual([503, expect.stringContaining("The issuer corp does not answer.")]);
    expect((await browser.open(page(late, "/auth/session"), form(TOKEN))).url).toBe(page(late));
    expect((await ask(browser, late)).viewer).toMatchObject({ subject: "token", scope: "ADMIN" });
  });

  test("revokeTokens of a subject ends its sessions [R-992]", async () => {
    issuer.user = { sub: "leaving" };
    const browser = new Browser();
    await browser.open(page(ostler));
    const { revokeTokens } = await ostler.query<{ revokeTokens: { sessionsEnded: number } }>(
      'mutation { revokeTokens(input: { tokens: { subject: "user:corp:leaving" } }) { sessionsEnded } }',
    );
    expect(revokeTokens.sessionsEnded).toBe(1);
    expect(await ask(browser, ostler)).toMatchObject({
      status: 401,
      message: expect.stringMatching(/^The session ended/),
    });
  });

  test("a session ends when its issuer is not configured any more [R-1018]", async () => {
    issuer.user = { sub: "former" };
    const browser = new Browser();
    await browser.open(page(ostler));
    const shared = { ...setup, started: false, databaseUrl: () => ostler.test.url };
    await using same = await serviceUnderTest({ ...shared, issuers: [issuer.config({ client })] });
    await using without = await serviceUnderTest(shared);
    for (const { url } of [same, without]) browser.setCookies(url, browser.cookiesOf(ostler.url));
    expect((await ask(browser, same)).viewer).toMatchObject({ subject: "user:corp:former" });
    expect(await ask(browser, without)).toMatchObject({
      status: 401,
      message: expect.stringMatching(/^The issuer corp of the session/),
    });
  });
});

describe("sign-in with a token", () => {
  test("a page asks whether a sign-in is needed without a failed login [R-1361]", async () => {
    await using open = await serviceUnderTest({ started: false });
    const [needed, free] = await Promise.all(
      [small, open].map(
        async (service) =>
          (
            await new Browser().send(page(service, "/auth/session"), {
              headers: { ...OWN, "x-forwarded-for": "198.51.100.254" },
            })
          ).body,
      ),
    );
    expect([needed, free].map((body = "") => JSON.parse(body))).toEqual([
      { session: null, issuer: null, isOpen: false },
      { session: null, issuer: null, isOpen: true },
    ]);
    const rows = await small.test.sql`select from audit where action = 'LOGIN_FAILED' and address = '198.51.100.254'`;
    expect(rows).toHaveLength(0);
  });

  test("a session has the rights of its token, and ends with it [R-997]", async () => {
    const { browser, name, tokenId } = await signedIn("viewer");
    expect((await ask(browser, small)).viewer).toMatchObject({ subject: `account:${name}`, scope: "READ" });
    await administrator.revoke({ tokenId });
    expect((await ask(browser, small)).status).toBe(401);
    const other = await signedIn("viewer");
    await administrator.edit("updateAccount", { account: other.name, disabled: true });
    expect((await ask(other.browser, small)).status).toBe(401);
  });

  test("the rows of sign-in and sign-out name the token, the session, whose rows name it, and the request [R-1151]", async () => {
    const { name, token, tokenId } = await administrator.accountWith({ roles: ["viewer"] });
    const browser = new Browser();
    const { headers } = await browser.send(page(small, "/auth/session"), form(token));
    const login = await newestRow(small, "LOGIN");
    const subject = `account:${name}`;
    expect(login).toMatchObject({ subject, credential: tokenId, request_id: headers["x-request-id"] });
    const session = login?.targets[0];
    await browser.send(page(small), {
      method: "POST",
      headers: { ...OWN, "content-type": "application/json" },
      body: JSON.stringify({ query: "{ accounts { name } }" }),
    });
    expect(await newestRow(small, "accounts")).toMatchObject({ subject, credential: session, outcome: "FORBIDDEN" });
    const left = await browser.send(page(small, "/auth/logout"), { method: "POST", headers: OWN });
    expect(await newestRow(small, "LOGOUT")).toMatchObject({
      credential: session,
      targets: [session],
      request_id: left.headers["x-request-id"],
    });
  });

  test("the cookie is for this host, and not for scripts", async () => {
    const { token } = await administrator.account("viewer");
    const local = await new Browser().send(page(small, "/auth/session"), form(token));
    expect(local.headers["set-cookie"]).toEqual([
      expect.stringMatching(/^ostler=[\w-]{43}; Max-Age=\d+; Path=\/; HttpOnly; SameSite=Lax$/),
    ]);
    const secured = { host: "ostler.example", "x-forwarded-proto": "https" };
    const behind = await new Browser().send(page(small, "/auth/session"), form(token, "/", { ...OWN, ...secured }));
    expect(behind.headers["set-cookie"]).toEqual([
      expect.stringMatching(/^__Host-ostler=[\w-]{43}; Max-Age=\d+; Path=\/; HttpOnly; Secure; SameSite=Lax$/),
    ]);
  });

  test("a wrong token shows the page with the reason; a program gets it as JSON", async () => {
    const seen = await new Browser().open(page(small, "/auth/session"), form("ost_wrong"));
    expect([seen.status, seen.body]).toEqual([
      401,
      expect.stringContaining('role="alert" id="message">Invalid token.'),
    ]);
    const headers = { "content-type": "application/json" };
    const url = page(small, "/auth/session");
    const answer = await new Browser().send(url, { method: "POST", headers, body: '{"token":"ost_wrong"}' });
    expect([answer.status, JSON.parse(answer.body)]).toMatchObject([401, { errors: [{ message: "Invalid token." }] }]);
    const jwt = await new Browser().send(page(ostler, "/auth/session"), form(await issuer.sign()));
    expect([jwt.status, jwt.body]).toEqual([400, expect.stringContaining("Only a token of an account")]);
  });

  test("without TLS a browser on another machine gets no cookie, and GraphiQL without a sign-in", async () => {
    const headers = { host: "ostler.example" };
    expect((await new Browser().open(page(small), { headers })).status).toBe(200);
    const seen = await new Browser().open(page(small, "/auth/login"), { headers });
    expect([seen.status, seen.body]).toEqual([403, expect.stringContaining("needs https")]);
  });

  test("a service that needs no credential shows GraphiQL as before, and forgets an old cookie", async () => {
    await using open = await serviceUnderTest({ started: false });
    const browser = new Browser();
    browser.setCookies(open.url, "ostler=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    expect((await ask(browser, open)).status).toBe(401);
    expect((await browser.open(page(open))).url).toBe(page(open));
    expect((await ask(browser, open)).viewer).toMatchObject({ subject: "anonymous" });
  });

  test("a session holds at every replica at once; that of the configured token ends when another is configured", async () => {
    const browser = new Browser();
    await browser.send(page(small, "/auth/session"), form(TOKEN));
    const shared = { ...setup, started: false, databaseUrl: () => small.test.url };
    await using replica = await serviceUnderTest(shared);
    await using changed = await serviceUnderTest({ ...shared, token: `${TOKEN}-2` });
    await browser.send(page(small, "/auth/session"), form(TOKEN));
    for (const { url } of [replica, changed]) browser.setCookies(url, browser.cookiesOf(small.url));
    expect((await ask(browser, replica)).viewer).toMatchObject({ subject: "token", scope: "ADMIN" });
    expect((await ask(browser, changed)).status).toBe(401);
  });
});

describe("the cookie counts only for pages of the service [R-998]", () => {
  const FOREIGN: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
    ["no page", {}],
    ["a page of another site", { "sec-fetch-site": "cross-site", origin: "https://evil.example" }],
    ["another port of this host", { "sec-fetch-site": "same-site", origin: "http://127.0.0.1:1" }],
    ["a link or a bookmark", { "sec-fetch-site": "none" }],
    ["an old browser, from another site", { origin: "https://evil.example" }],
    ["a page without an origin", { origin: "null" }],
    ["a listed origin", { "sec-fetch-site": "cross-site", origin: LISTED }],
    ["an old browser, from a listed origin", { origin: LISTED }],
    ["a listed origin with a wrong Sec-Fetch-Site", { "sec-fetch-site": "same-origin", origin: LISTED }],
  ];
  const url = `${page(small)}?query=${encodeURIComponent(QUERY)}`;

  test.each(FOREIGN)("a request of %s has no rights by POST, GET, a stream, or a socket", async (_what, headers) => {
    const { browser } = await signedIn();
    const other = { "x-forwarded-for": `198.51.100.${(addresses += 1)}` };
    expect((await ask(browser, small, { ...headers, ...other })).status).toBe(401);
    const got = await browser.send(url, { headers: { ...headers, ...other, "x-requested-with": "x" } });
    expect(got.status).toBe(401);
    const stream = await browser.send(url, {
      headers: { ...headers, ...other, accept: "text/event-stream", "x-requested-with": "x" },
    });
    expect(stream.status).toBe(401);
    expect(await socketOf(browser, { ...headers, ...other })).toMatch(/4403|403/);
    expect(JSON.parse((await browser.send(page(small, "/auth/session"), { headers })).body)).toEqual({
      session: null,
      issuer: null,
      isOpen: false,
    });
  });

  test.each([
    ["with Sec-Fetch-Site", OWN],
    ["of an old browser", { origin: small.url }],
    ["with both", { ...OWN, origin: small.url }],
  ])("a request of GraphiQL %s has the rights of the session", async (_what, headers) => {
    const { browser } = await signedIn();
    expect((await ask(browser, small, headers)).status).toBe(200);
    expect((await browser.send(url, { headers })).status).toBe(200);
    expect(await socketOf(browser, headers)).toBe("connected");
  });

  test("no answer allows another origin to send cookies", async () => {
    const { browser } = await signedIn();
    for (const method of ["OPTIONS", "POST", "GET"]) {
      const { headers } = await browser.send(page(small), { method, headers: { origin: LISTED } });
      expect(headers["access-control-allow-credentials"]).toBeUndefined();
    }
    const { headers } = await browser.send(page(small, "/auth/session"), { headers: { origin: LISTED } });
    expect(headers["access-control-allow-origin"]).toBeUndefined();
  });

  test.each(FOREIGN.filter(([, headers]) => Object.keys(headers).length > 0))(
    "%s can neither sign in nor sign out",
    async (_what, headers) => {
      const { browser, token } = await signedIn();
      const tried = await new Browser().send(page(small, "/auth/session"), form(token, "/", headers));
      expect([tried.status, tried.headers["set-cookie"]]).toEqual([403, undefined]);
      expect((await browser.send(page(small, "/auth/logout"), { method: "POST", headers })).status).toBe(403);
      expect((await ask(browser, small)).status).toBe(200);
    },
  );
});

test("the first credential decides: header, connection_init, cookie; an invalid one never gives way [R-999]", async () => {
  const { browser } = await signedIn();
  const bearer = { authorization: `Bearer ${TOKEN}` };
  expect((await ask(browser, small, { ...OWN, ...bearer })).viewer).toMatchObject({ subject: "token" });
  expect((await ask(browser, small, { ...OWN, authorization: "Bearer wrong" })).status).toBe(401);
  expect(await socketOf(browser, OWN, { authorization: "Bearer wrong" })).toBe("4403");
  for (const authorization of [5, [], {}, ""]) expect(await socketOf(browser, OWN, { authorization })).toBe("4403");
  expect(await socketOf(browser, { ...OWN, authorization: "Bearer wrong" }, bearer)).toBe("4403");
  expect(await socketOf(browser, { ...OWN, ...bearer }, { authorization: "Bearer wrong" })).toBe("connected");
  browser.setCookies(small.url, "ostler=wrong");
  expect((await ask(browser, small, { ...OWN, ...bearer })).status).toBe(200);
  expect((await ask(browser, small)).status).toBe(401);
});

describe("return path", () => {
  test.each([
    ["/graphql?query=a", "/graphql?query=a"],
    ["/schema.graphql", "/schema.graphql"],
    ["https://evil.example/", "/graphql"],
    ["//evil.example/", "/graphql"],
    ["/\\evil.example/", "/graphql"],
    ["/\t/evil.example/", "/graphql"],
    ["/.//evil.example/", "/graphql"],
    ["/x/..//evil.example/", "/graphql"],
    ["javascript:alert(1)", "/graphql"],
    ["graphql", "/graphql"],
    ["/auth/logout", "/graphql"],
    [`/${"a".repeat(3_000)}`, "/graphql"],
    ["/a\r\nset-cookie: x=1", "/aset-cookie:%20x=1"],
    ['/"><script>', "/%22%3E%3Cscript%3E"],
  ])("a sign-in that began at %j leads to %s [R-1001]", async (given, expected) => {
    const { headers } = await new Browser().send(page(small, "/auth/session"), form(TOKEN, given));
    expect(headers.location).toBe(expected);
    const shown = await new Browser().send(page(small, `/auth/login?return=${encodeURIComponent(given)}`));
    expect(shown.body).toContain(`name="return" value="${expected}"`);
  });
});

describe("end of a session", () => {
  const EARLIER: Readonly<Record<string, readonly [column: string, seconds: number]>> = {
    "after twelve hours": ["expires_at", 1],
    "after an hour without a request": ["last_used_at", 3_601],
    "by an administrator": ["ended_at", 1],
  };
  test.each(Object.entries(EARLIER))(
    "a session that ended %s is refused, and leads to the sign-in and back [R-1002]",
    async (_what, [column, seconds]) => {
      const { browser, name, token } = await signedIn();
      await small.test.sql`
        with next as (update access_version set version = version + 1 returning version)
        update sessions
        set ${small.test.sql(column)} = now() - ${seconds} * interval '1 second', version = next.version from next
        where subject = ${`account:${name}`}`;
      // An answered change is known.
      await administrator.account("viewer");
      const refused = await ask(browser, small);
      expect([refused.status, refused.message]).toEqual([401, expect.stringMatching(/^The session (ended|expired)/)]);
      expect(await socketOf(browser, OWN)).toBe("4403");
      const login = await browser.open(page(small, "/graphql?query=a"));
      expect(login.url).toBe(page(small, `/auth/login?return=${encodeURIComponent("/graphql?query=a")}`));
      const back = await browser.open(page(small, "/auth/session"), form(token, "/graphql?query=a"));
      expect([back.status, back.url]).toEqual([200, page(small, "/graphql?query=a")]);
    },
  );

  test("the twenty-first session of a subject ends its oldest one [R-1019]", async () => {
    const { browser, token } = await signedIn();
    expect((await ask(browser, small)).status).toBe(200);
    for (let count = 0; count < 20; count += 1) await new Browser().open(page(small, "/auth/session"), form(token));
    expect(await ask(browser, small)).toMatchObject({
      status: 401,
      message: expect.stringMatching(/^The session ended/),
    });
  });

  test("after a sign-out the cookie is refused [R-1003]", async () => {
    const { browser, name } = await signedIn();
    const cookies = browser.cookiesOf(small.url);
    const seen = await browser.open(page(small, "/auth/logout"), { method: "POST", headers: OWN });
    expect([seen.status, seen.body]).toEqual([200, expect.stringContaining("You are signed out.")]);
    expect(browser.cookiesOf(small.url)).toBe("");
    expect(await newestRow(small, "LOGOUT")).toMatchObject({ subject: `account:${name}` });
    browser.setCookies(small.url, cookies);
    const address = `192.0.2.${(addresses += 1)}`;
    expect(await ask(browser, small, { ...OWN, "x-forwarded-for": address })).toMatchObject({
      status: 401,
      message: expect.stringMatching(/^The session ended/),
    });
    const failure = await eventually("the failed login has a row", async () => {
      const [row] = await small.test.sql`select subject from audit where address = ${address}`;
      return row;
    });
    expect(failure).toEqual({ subject: `account:${name}` });
  });
});

let addresses = 0;

function socketOf(
  browser: Browser,
  headers: Readonly<Record<string, string>>,
  connectionParams: Readonly<Record<string, unknown>> = {},
): Promise<string> {
  class WithCookies extends WebSocket {
    constructor(url: string, protocols: string) {
      super(url, protocols, { headers: { ...headers, cookie: browser.cookiesOf(small.url) } });
    }
  }
  return new Promise((done) => {
    const made = createClient({
      url: page(small).replace("http", "ws"),
      webSocketImpl: WithCookies,
      lazy: false,
      retryAttempts: 0,
      connectionParams,
      onNonLazyError: () => {},
      on: {
        connected: () => {
          done("connected");
          void made.dispose();
        },
        closed: (event) => done(String((event as { code: number }).code)),
        error: (error) => done(String((error as { message?: string }).message)),
      },
    });
  });
}
