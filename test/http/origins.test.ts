/**
 * Requests from browsers: pages of listed origins may call the service; other pages may not, under any host name or
 * with any request that imitates ours.
 */
import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { serviceUnderTest } from "../support/service.ts";
import type { ServiceUnderTest } from "../support/service.ts";

const TOKEN = "correct-horse-battery-staple";
const LISTED = "https://console.example";
const EVIL = "https://evil.example";
const open = await serviceUnderTest({ started: false, origins: [LISTED] });
const guarded = await serviceUnderTest({
  started: false,
  origins: [LISTED],
  token: TOKEN,
  introspection: false,
  bodyBytesMax: 64 * 1024,
});
afterAll(async () => {
  await open[Symbol.asyncDispose]();
  await guarded[Symbol.asyncDispose]();
});

const QUERY = "{ viewer { subject } }";
const JSON_TYPE = { "content-type": "application/json" };
const post = (
  to: ServiceUnderTest,
  headers: Readonly<Record<string, string>>,
  body = JSON.stringify({ query: QUERY }),
) => fetch(`${to.url}/graphql`, { method: "POST", headers: { ...JSON_TYPE, ...headers }, body });

interface Raw {
  readonly status: number;
  readonly body: string;
}

/** A request with headers that `fetch` does not allow. */
function raw(of: ServiceUnderTest, path: string, headers: Readonly<Record<string, string>>): Promise<Raw> {
  const { hostname, port } = new URL(of.url);
  return new Promise((answer, failed) => {
    httpRequest({ hostname, port, path, headers }, (response) => {
      let body = "";
      response
        .on("data", (part: Buffer) => (body += part.toString()))
        .on("end", () => answer({ status: response.statusCode ?? 0, body }));
    })
      .on("error", failed)
      .end();
  });
}

/** True if a WebSocket is accepted. */
function knock(of: ServiceUnderTest, headers: Readonly<Record<string, string>>): Promise<string> {
  const socket = new WebSocket(`${of.url.replace("http", "ws")}/graphql`, "graphql-transport-ws", { headers });
  return new Promise((answer) => {
    socket.once("open", () => {
      answer("open");
      socket.terminate();
    });
    socket.once("unexpected-response", (_request, response) => answer(String(response.statusCode)));
    socket.on("error", () => {});
  });
}

describe("page of a listed origin", () => {
  test("page of a listed origin may read a response and its request ID", async () => {
    const { headers } = await post(open, { origin: LISTED });
    expect(headers.get("access-control-allow-origin")).toBe(LISTED);
    expect(headers.get("access-control-expose-headers")).toBe("x-request-id");
    expect(headers.get("access-control-allow-credentials")).toBeNull();
    expect(headers.get("vary")).toMatch(/origin/i);
  });

  test("page of a listed origin may read a refusal", async () => {
    const response = await post(guarded, { origin: LISTED });
    expect([response.status, response.headers.get("access-control-allow-origin")]).toEqual([401, LISTED]);
  });

  test("page of a listed origin gets a preflight answer without a token", async () => {
    const response = await fetch(`${guarded.url}/graphql`, {
      method: "OPTIONS",
      headers: {
        origin: LISTED,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
      },
    });
    expect(response.status).toBe(204);
    expect(response.headers.get("access-control-allow-origin")).toBe(LISTED);
    expect(response.headers.get("access-control-allow-methods")).toBe("GET, POST");
    expect(response.headers.get("access-control-allow-headers")).toBe("authorization,content-type");
    expect(response.headers.get("x-request-id")).toMatch(/^[\w-]+$/);
  });

  test("page of a listed origin may open a WebSocket", async () => {
    expect(await knock(open, { origin: LISTED })).toBe("open");
  });
});

describe("page of another origin", () => {
  test.each([EVIL, "null", `${LISTED}:8443`, "https://console.example.evil.example", "http://console.example"])(
    "page of another origin %s may neither read responses nor open a WebSocket",
    async (origin) => {
      expect((await post(open, { origin })).headers.get("access-control-allow-origin")).toBeNull();
      const preflight = await fetch(`${open.url}/graphql`, {
        method: "OPTIONS",
        headers: { origin, "access-control-request-method": "POST" },
      });
      expect([...preflight.headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
      expect(await knock(open, { origin })).toBe("403");
    },
  );
});

describe("GET request", () => {
  const path = `/graphql?query=${encodeURIComponent(QUERY)}`;

  test.each([
    { what: "a program", headers: {} },
    { what: "a page of ours", headers: { "sec-fetch-site": "same-origin" } },
    { what: "a user who typed the address", headers: { "sec-fetch-site": "none" } },
    {
      what: "another page after a preflight",
      headers: { "sec-fetch-site": "cross-site", origin: LISTED, "x-requested-with": "console" },
    },
    { what: "another page with a token", headers: { "sec-fetch-site": "cross-site", authorization: "Bearer" } },
  ])("GET request of $what is answered", async ({ headers }) => {
    const { status, body } = await raw(open, path, headers);
    expect([status, JSON.parse(body)]).toMatchObject([200, { data: { viewer: { subject: "anonymous" } } }]);
  });

  test.each([
    { what: "an image of another page", headers: { "sec-fetch-site": "cross-site", accept: "image/avif,*/*" } },
    { what: "a page of the same site", headers: { "sec-fetch-site": "same-site" } },
    { what: "another page in an old browser", headers: { origin: EVIL } },
  ])("GET request of $what is refused without a preflight", async ({ headers }) => {
    const { status, body } = await raw(open, path, headers);
    expect([status, JSON.parse(body)]).toMatchObject([
      403,
      {
        errors: [
          { message: expect.stringContaining("x-requested-with") as string, extensions: { code: "BAD_REQUEST" } },
        ],
      },
    ]);
  });

  test("GET request with invalid JSON variables is refused with 400", async () => {
    expect((await raw(open, `${path}&variables=%7B`, {})).status).toBe(400);
  });
});

describe("service without a token", () => {
  test.each(["localhost", "localhost:4000", "127.0.0.1:1", "[::1]:4000", "console.example"])(
    "service without a token answers to the host name %s",
    async (host) => {
      expect((await raw(open, "/graphql?query={viewer{subject}}", { host })).status).toBe(200);
    },
  );

  test.each(["evil.example", "evil.example:4000", "127.0.0.1.evil.example", "10.0.0.1"])(
    "service without a token refuses the host name %s, which a page may have given to this machine",
    async (host) => {
      const { status, body } = await raw(open, "/graphql?query={viewer{subject}}", { host });
      expect([status, JSON.parse(body)]).toMatchObject([
        421,
        { errors: [{ message: expect.stringContaining("OSTLER_ORIGINS") as string }] },
      ]);
      expect((await raw(open, "/schema.graphql", { host })).status).toBe(421);
      expect(await knock(open, { host, origin: `http://${host}` })).toBe("403");
    },
  );

  test("service with a token answers to any host name", async () => {
    expect(
      (
        await raw(guarded, "/graphql?query={viewer{subject}}", {
          host: "ostler.example",
          authorization: `Bearer ${TOKEN}`,
        })
      ).status,
    ).toBe(200);
  });
});

describe("GET /schema.graphql", () => {
  test("GET /schema.graphql returns the same schema as introspection", async () => {
    const text = await (await fetch(`${open.url}/schema.graphql`)).text();
    expect(text).toContain("type Query");
  });

  test("GET /schema.graphql needs the token if one is set, and is disabled with introspection", async () => {
    const without = await fetch(`${guarded.url}/schema.graphql`);
    expect([without.status, without.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
    const off = await fetch(`${guarded.url}/schema.graphql`, { headers: { authorization: `Bearer ${TOKEN}` } });
    expect([off.status, await off.json()]).toMatchObject([403, { errors: [{ extensions: { code: "FORBIDDEN" } }] }]);
  });
});

describe("request body", () => {
  test("request body that is too large is refused with its limit, even without a declared length", async () => {
    const authorization = `Bearer ${TOKEN}`;
    const tooLarge = JSON.stringify({ query: QUERY, variables: { x: "x".repeat(64 * 1024) } });
    const refused = await post(guarded, { authorization }, tooLarge);
    expect([refused.status, await refused.json()]).toMatchObject([
      413,
      { errors: [{ message: expect.stringContaining("65,536 bytes") as string, extensions: { code: "BAD_REQUEST" } }] },
    ]);
    const { hostname, port } = new URL(guarded.url);
    const status = await new Promise((answer, failed) => {
      const request = httpRequest(
        {
          hostname,
          port,
          path: "/graphql",
          method: "POST",
          headers: { ...JSON_TYPE, authorization, "transfer-encoding": "chunked" },
        },
        (response) => {
          answer(response.statusCode);
          response.resume();
        },
      ).on("error", failed);
      request.end(tooLarge);
    });
    expect(status).toBe(413);
  });

  test("request body that is a batch is refused with an explanation", async () => {
    const response = await post(open, {}, JSON.stringify([{ query: QUERY }, { query: QUERY }]));
    expect([response.status, await response.json()]).toMatchObject([
      400,
      {
        errors: [
          {
            message: expect.stringContaining("Batches are not supported") as string,
            extensions: { code: "BAD_REQUEST" },
          },
        ],
      },
    ]);
  });
});

test("wrong token is distinguished from a missing one", async () => {
  const message = async (headers: Readonly<Record<string, string>>) =>
    ((await (await post(guarded, headers)).json()) as { errors: { message: string }[] }).errors[0]?.message;
  expect(await message({})).toMatch(/^Send the token as "Authorization: Bearer …"/);
  expect(await message({ authorization: "Bearer wrong" })).toMatch(/^Invalid token\./);
});

describe("pipelined requests", () => {
  const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`;

  test("pipelined requests are answered one after another in order", async () => {
    const { hostname, port } = new URL(open.url);
    const socket = connect(Number(port), hostname);
    let text = "";
    const all = new Promise<void>((done) =>
      socket.on("data", (part: Buffer) => /nowhere/.test((text += part.toString())) && done()),
    );
    socket.write([get("/livez"), get("/graphql?query={viewer{subject}}"), get("/nowhere")].join(""));
    await all;
    socket.destroy();
    expect([...text.matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status]) => status)).toEqual(["200", "200", "404"]);
    expect(text.indexOf("ok\n")).toBeLessThan(text.indexOf('"subject":"anonymous"'));
  });

  test("pipelined requests are limited", async () => {
    const { hostname, port } = new URL(open.url);
    const socket = connect(Number(port), hostname);
    socket.on("error", () => {});
    const closed = new Promise((done) => socket.once("close", done));
    socket.write(get("/readyz").repeat(300));
    socket.resume();
    await closed;
    expect(await open.query(QUERY)).toEqual({ viewer: { subject: "anonymous" } });
  });
});

describe("response", () => {
  test("response that its client does not read is abandoned; one that takes long to compute is not", async () => {
    await using hasty = await serviceUnderTest({ started: false, takeMs: 200 });
    const { hostname, port } = new URL(hasty.url);
    const stuck = connect(Number(port), hostname);
    stuck.on("error", () => {});
    stuck.pause();
    // More than the kernel buffers for a client that does not read.
    stuck.write("GET /schema.graphql HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(100));
    const held = Promise.withResolvers<void>();
    const locked = Promise.withResolvers<void>();
    const holding = hasty.test.sql.begin(async (sql) => {
      await sql`lock table clusters in access exclusive mode`;
      locked.resolve();
      await held.promise;
    });
    await locked.promise;
    const slow = hasty.ask('mutation { createCluster(input: { name: "slow" }) { errors { code } } }');
    // Five times the time for which a response may wait.
    expect(await Promise.race([slow, delay(1_000, "nothing yet")])).toBe("nothing yet");
    let answers = 0;
    const closed = new Promise((done) => stuck.once("close", done));
    stuck.on("data", (part: Buffer) => (answers += part.toString().split("HTTP/1.1 200").length - 1));
    stuck.resume();
    await closed;
    expect(answers).toBeGreaterThan(0);
    expect(answers).toBeLessThan(100);
    held.resolve();
    await holding;
    expect((await slow).data).toEqual({ createCluster: { errors: [] } });
  });
});

test("input that is not HTTP is answered with 400, and the service continues", async () => {
  const { hostname, port } = new URL(open.url);
  const socket = connect(Number(port), hostname);
  const answer = new Promise<string>((done) => socket.once("data", (data) => done(data.toString())));
  socket.write("\u0000\u0001nonsense\r\n\r\n");
  expect(await answer).toMatch(/^HTTP\/1\.1 400 /);
  socket.destroy();
  expect(await open.query(QUERY)).toEqual({ viewer: { subject: "anonymous" } });
});
