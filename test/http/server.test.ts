/** The server around the API: access, accepted input, output after internal errors, and shutdown. */
import { once } from "node:events";
import { connect } from "node:net";
import { get, request as httpRequest } from "node:http";
import type { IncomingHttpHeaders } from "node:http";
import { buffer } from "node:stream/consumers";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { afterAll, describe, expect, test, vi } from "vitest";
import { createClient } from "graphql-ws";
import { WebSocket } from "ws";
import createFake from "../../plugins/fake/index.ts";
import type { FakeSettings } from "../../plugins/fake/settings.ts";
import type { Driver, StepCall } from "../../src/drivers/driver.ts";
import { eventually } from "../support/eventually.ts";
import { statusOf } from "../support/raw-request.ts";
import { serviceUnderTest, takeAll } from "../support/service.ts";
import type { ServiceUnderTest } from "../support/service.ts";

const TOKEN = "correct-horse-battery-staple";
/** Callback path of the machine of each node. */
const callbackPaths = new Map<string, string>();

/** The fake driver under another name, which reports the callback path that only the machine would know. */
function aRecordingFake(): Driver<never> {
  const fake = createFake({ log: () => {} });
  const steps = (fake.clean?.steps ?? []).map((step) => ({
    ...step,
    run(call: StepCall<FakeSettings>) {
      callbackPaths.set(call.node.name, call.callbackPath);
      return step.run(call);
    },
  }));
  return { ...fake, name: "recording", clean: { supportsAbort: true, steps } } as unknown as Driver<never>;
}

const open = await serviceUnderTest({ drivers: [aRecordingFake()] });
const guarded = await serviceUnderTest({ token: TOKEN });
afterAll(async () => {
  await open[Symbol.asyncDispose]();
  await guarded[Symbol.asyncDispose]();
});

const VIEWER = JSON.stringify({ query: "{ viewer { subject project } }" });
const JSON_TYPE = { "content-type": "application/json" };
const post = (to: ServiceUnderTest, body: BodyInit, headers: Readonly<Record<string, string>> = JSON_TYPE) =>
  fetch(`${to.url}/graphql`, { method: "POST", headers, body });
const webSocketUrl = (of: ServiceUnderTest) => `${of.url.replace("http", "ws")}/graphql`;

/** The response to a WebSocket upgrade: "open", or the status of the refusal. */
function knock(url: string, headers: Readonly<Record<string, string>> = {}): Promise<string> {
  const socket = new WebSocket(url, "graphql-transport-ws", { headers });
  return new Promise((answer) => {
    socket.once("open", () => {
      answer("open");
      socket.terminate();
    });
    socket.once("unexpected-response", (_request, response) => {
      answer(String(response.statusCode));
      socket.terminate();
    });
    socket.on("error", () => {});
  });
}

/** The result of one query over a WebSocket: its data, or the code with which the socket is closed. */
async function overSocket(
  of: ServiceUnderTest,
  connectionParams: Record<string, unknown> | undefined,
  headers: Readonly<Record<string, string>> = {},
): Promise<unknown> {
  class WithHeaders extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols, { headers });
    }
  }
  const client = createClient({
    url: webSocketUrl(of),
    webSocketImpl: WithHeaders,
    retryAttempts: 0,
    ...(connectionParams && { connectionParams }),
  });
  try {
    const { value } = await client.iterate({ query: "{ viewer { subject } }" }).next();
    return (value as { data: unknown }).data;
  } catch (closed) {
    return (closed as { code: number }).code;
  } finally {
    await client.dispose();
  }
}

describe("service with a token", () => {
  test.each([
    { what: "no token", headers: {} },
    { what: "a wrong token", headers: { authorization: `Bearer ${TOKEN}x` } },
    { what: "an empty token", headers: { authorization: "Bearer " } },
    { what: "another scheme", headers: { authorization: `Basic ${TOKEN}` } },
  ])("service with a token answers 401 to $what, over HTTP and as an event stream", async ({ headers }) => {
    for (const accept of ["application/json", "text/event-stream"]) {
      const response = await post(guarded, VIEWER, { ...JSON_TYPE, ...headers, accept });
      expect(response.status).toBe(401);
      expect(response.headers.get("www-authenticate")).toBe("Bearer");
      expect(await response.json()).toMatchObject({ errors: [{ extensions: { code: "UNAUTHENTICATED" } }] });
    }
    expect((await fetch(`${guarded.url}/graphql?query={viewer{subject}}`, { headers })).status).toBe(401);
  });

  test("service with a token answers 401 before it checks anything else", async () => {
    expect((await post(guarded, "x".repeat(2_000_000), { "content-type": "text/plain" })).status).toBe(401);
  });

  test("service with a token accepts a request with the token", async () => {
    expect(await guarded.query("{ viewer { subject project } }")).toEqual({
      viewer: { subject: "token", project: "default" },
    });
  });

  test("service with a token closes a WebSocket without it, and serves one that has it in its first message or its header", async () => {
    expect(await overSocket(guarded, undefined)).toBe(4403);
    expect(await overSocket(guarded, { authorization: "Bearer wrong" })).toBe(4403);
    expect(await overSocket(guarded, { authorization: `Bearer ${TOKEN}` })).toEqual({ viewer: { subject: "token" } });
    expect(await overSocket(guarded, { Authorization: `Bearer ${TOKEN}` })).toEqual({ viewer: { subject: "token" } });
    expect(await overSocket(guarded, undefined, { authorization: `Bearer ${TOKEN}` })).toEqual({
      viewer: { subject: "token" },
    });
  });

  test("service with a token leads a browser without it to the sign-in, and sends no data", async () => {
    const page = await fetch(`${guarded.url}/graphql`, { headers: { accept: "text/html" } });
    expect([page.status, page.url]).toEqual([200, `${guarded.url}/auth/login?return=%2Fgraphql`]);
    expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");
    for (const query of ["?query={viewer{subject}}", "?x=1&query={viewer{subject}}"]) {
      const text = await (
        await fetch(`${guarded.url}/graphql${query}`, { headers: { accept: "text/html,application/json" } })
      ).text();
      expect(text).not.toContain('"subject":');
    }
  });

  test("service with a token answers liveness and readiness probes without it", async () => {
    for (const path of ["/livez", "/readyz"]) {
      const response = await fetch(guarded.url + path);
      expect([response.status, await response.text()]).toEqual([200, "ok\n"]);
    }
  });
});

describe("static texts", () => {
  /** The raw bytes: fetch would decompress them. */
  const fetched = (path: string, headers: Record<string, string>) => {
    const { promise, resolve, reject } = Promise.withResolvers<{
      status: number;
      headers: IncomingHttpHeaders;
      body: Buffer;
    }>();
    get(open.url + path, { headers }, (response) => {
      buffer(response).then(
        (body) => resolve({ status: response.statusCode ?? 0, headers: response.headers, body }),
        reject,
      );
    }).on("error", reject);
    return promise;
  };
  const undo: Readonly<Record<string, (body: Buffer) => Buffer>> = { br: brotliDecompressSync, gzip: gunzipSync };

  test.each([
    { path: "/graphql", accept: "text/html,*/*;q=0.8", sign: "GraphiQL", type: "text/html; charset=utf-8" },
    { path: "/schema.graphql", accept: "*/*", sign: "type Mutation {", type: "text/plain; charset=utf-8" },
  ])("static text $path is compressed as the client accepts it, and once", async ({ path, accept, sign, type }) => {
    const plain = await fetched(path, { accept });
    expect(plain.headers).not.toHaveProperty("content-encoding");
    expect(plain.body.toString()).toContain(sign);
    expect(plain.headers).toMatchObject({
      "cache-control": "no-cache",
      "content-type": type,
      vary: expect.stringContaining("accept-encoding") as string,
    });
    for (const [asked, given] of [
      ["gzip, deflate, br", "br"],
      ["gzip", "gzip"],
      ["br;q=0, *", "gzip"],
    ] as const) {
      const one = await fetched(path, { accept, "accept-encoding": asked });
      expect(one.headers).toMatchObject({ "content-encoding": given, etag: plain.headers.etag });
      expect(one.body.length).toBeLessThan(plain.body.length / 3);
      expect(undo[given]?.(one.body).equals(plain.body)).toBe(true);
      const again = await fetched(path, {
        accept,
        "accept-encoding": asked,
        "if-none-match": `"other", ${one.headers.etag ?? ""}`,
      });
      expect([again.status, again.body.length]).toEqual([304, 0]);
    }
    expect((await fetched(path, { accept, "if-none-match": '"other"' })).status).toBe(200);
    expect((await fetched(path, { accept, "accept-encoding": "gzip;q=0, identity" })).headers).not.toHaveProperty(
      "content-encoding",
    );
  });
});

describe("paths of the service", () => {
  test("paths of the service: the root redirects to the API, the schema is text, others are not found", async () => {
    const root = await fetch(open.url, { redirect: "manual" });
    expect([root.status, root.headers.get("location")]).toEqual([302, "/graphql"]);
    expect(await (await fetch(`${open.url}/schema.graphql`)).text()).toContain("type Mutation {");
    for (const path of ["/nothing", "/graphql/x", "/livez/x", "/callback"])
      expect((await fetch(open.url + path)).status, path).toBe(404);
    expect((await fetch(`${open.url}/livez`, { method: "POST" })).status).toBe(404);
  });

  test("a request that names the address before the path, as to a proxy, was 404", async () => {
    const host = `host: ${new URL(open.url).host}`;
    const statusAt = (path: string) =>
      statusOf(open.url, `GET ${open.url}${path} HTTP/1.1`, host, "x-requested-with: test");
    const paths = ["/livez", "/readyz", "/graphql?query={viewer{subject}}", "", "/nothing"];
    expect(await Promise.all(paths.map(statusAt))).toEqual([200, 200, 200, 302, 404]);
  });

  test("readiness fails while the database is unavailable; liveness does not", async () => {
    await using failing = await serviceUnderTest({ started: false });
    await failing.database[Symbol.asyncDispose]();
    expect((await fetch(`${failing.url}/readyz`)).status).toBe(503);
    expect((await fetch(`${failing.url}/livez`)).status).toBe(200);
  });

  test("readiness fails while the database takes no writes, as a standby [R-783]", async () => {
    await using standby = await serviceUnderTest({ started: false });
    const [row] = [
      ...(await standby.database.bounded.execute("select current_setting('transaction_read_only') as only")),
    ];
    expect(row).toEqual({ only: "off" });
    await standby.database.bounded.execute("set default_transaction_read_only = on");
    expect((await fetch(`${standby.url}/readyz`)).status).toBe(503);
  });

  test("readiness checks the connections that serve requests", async () => {
    await using half = await serviceUnderTest({ started: false });
    vi.spyOn(half.database.bounded, "execute").mockRejectedValue(new Error("lost"));
    await half.database.reader.execute("select 1");
    expect((await fetch(`${half.url}/readyz`)).status).toBe(503);
  });
});

describe("API request", () => {
  test.each([
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/jsonx",
    "application/json-patch+json",
    "",
  ])("API request of type %j is refused, because a page of another origin could send it", async (type) => {
    const response = await post(open, new Blob([VIEWER]), type === "" ? {} : { "content-type": type });
    expect(response.status).toBe(415);
    expect(await response.json()).toMatchObject({ errors: [{ extensions: { code: "BAD_REQUEST" } }] });
  });

  test("API request with an encoded body, or bytes that are not UTF-8, is refused with the reason [R-1320]", async () => {
    const body = (name: string) =>
      new Blob([Buffer.from(JSON.stringify({ query: `{ node(by: { name: "${name}" }) { id } }` }), "latin1")]);
    const json = { "content-type": "application/json" };
    const answers = [
      await post(open, body("n"), { ...json, "content-encoding": "gzip" }),
      await post(open, body("Köln"), json),
      await post(open, body("n"), { ...json, "content-encoding": "identity" }),
    ];
    expect(await Promise.all(answers.map(async (one) => [one.status, await one.json()]))).toMatchObject([
      [415, { errors: [{ message: expect.stringContaining("content-encoding") }] }],
      [400, { errors: [{ message: "The body is not valid UTF-8." }] }],
      [200, { data: { node: null } }],
    ]);
  });

  test("API request with a mutation as GET is refused", async () => {
    const response = await fetch(
      `${open.url}/graphql?query=${encodeURIComponent(`mutation { createCluster(input: { name: "by-get" }) { errors { code } } }`)}`,
      { headers: { accept: "application/json" } },
    );
    expect(response.status).toBe(405);
    expect(await open.query(`{ cluster(by: { name: "by-get" }) { name } }`)).toEqual({ cluster: null });
  });

  test.each(["application/json", "application/graphql-response+json", "application/*"])(
    "API request for a stream that accepts %s is refused with the accepted types, and leaves no stream",
    async (accept) => {
      const response = await fetch(`${open.url}/graphql`, {
        method: "POST",
        headers: { "content-type": "application/json", accept },
        body: JSON.stringify({ query: "subscription { nodeTransitions(snapshot: true) { __typename } }" }),
      });
      expect(response.status).toBe(406);
      expect(response.headers.get("content-type")).toBe("application/json; charset=utf-8");
      expect(await response.json()).toEqual({
        errors: [
          { message: expect.stringContaining("`Accept: text/event-stream`"), extensions: { code: "BAD_REQUEST" } },
        ],
      });
      await eventually("no stream is left", async () => open.listeners() === 0);
    },
  );

  test.each(["text/plain, image/*", "multipart/mixed"])(
    "API request that accepts only %s is not executed",
    async (accept) => {
      const response = await fetch(`${open.url}/graphql`, {
        method: "POST",
        headers: { "content-type": "application/json", accept },
        body: JSON.stringify({ query: 'mutation { createCluster(input: { name: "unread" }) { cluster { id } } }' }),
      });
      expect([response.status, await response.json()]).toMatchObject([
        406,
        { errors: [{ message: expect.stringContaining("application/json"), extensions: { code: "BAD_REQUEST" } }] },
      ]);
      expect(await open.query('{ cluster(by: { name: "unread" }) { id } }')).toEqual({ cluster: null });
    },
  );

  test("API request as GET may read", async () => {
    const response = await fetch(`${open.url}/graphql?query={viewer{subject}}`, {
      headers: { accept: "application/json" },
    });
    expect(await response.json()).toMatchObject({ data: { viewer: { subject: "anonymous" } } });
  });

  test("API response gives other pages no right to read it", async () => {
    const response = await post(open, VIEWER, { ...JSON_TYPE, origin: "https://evil.example" });
    expect(response.headers.get("access-control-allow-origin")).toBeNull();
    const preflight = await fetch(`${open.url}/graphql`, {
      method: "OPTIONS",
      headers: { origin: "https://evil.example", "access-control-request-method": "POST" },
    });
    expect(preflight.headers.get("access-control-allow-origin")).toBeNull();
  });

  test.each([
    "",
    "{",
    "null",
    "7",
    "[]",
    '"x"',
    '{"query":7}',
    '{"variables":{}}',
    '{"query":"{viewer{subject}}","variables":[1]}',
    `[${VIEWER}]`,
  ])("API request with the body %j is refused, and is not an internal error", async (body) => {
    const response = await post(open, body, { ...JSON_TYPE, accept: "application/graphql-response+json" });
    expect(response.status).toBe(400);
    const { errors } = (await response.json()) as { errors: { extensions?: { code?: string } }[] };
    expect(errors.length).toBeGreaterThan(0);
    for (const { extensions } of errors) expect(extensions?.code).not.toBe("INTERNAL");
  });

  test("API request with the maximum nesting is refused, and the service continues", async () => {
    const deepVariable = `{"query":"query Q($t: JSON) { viewer { subject } }","variables":{"t":${"[".repeat(200_000)}${"]".repeat(200_000)}}}`;
    const deepDocument = JSON.stringify({
      query: `mutation { createCluster(input: { name: "deep", variables: { a: ${"[".repeat(100_000)}${"]".repeat(100_000)} } }) { errors { code } } }`,
    });
    const deepSelection = JSON.stringify({ query: `{ ${"nodes { edges { node { cluster { ".repeat(20_000)}` });
    for (const body of [deepVariable, deepDocument, deepSelection]) await (await post(open, body)).text();
    expect(await open.query("{ viewer { subject } }")).toEqual({ viewer: { subject: "anonymous" } });
  });

  test("API request that declares a length above the limit is refused", async () => {
    const response = await post(open, `{"query":"{ viewer { subject } }","x":"${"x".repeat(1024 * 1024)}"}`);
    expect(response.status).toBe(413);
  });

  const chunkedRequest = () => {
    const { hostname, port } = new URL(open.url);
    const headers = { ...JSON_TYPE, "transfer-encoding": "chunked" };
    return httpRequest({ hostname, port, path: "/graphql", method: "POST", headers });
  };

  test("API request that exceeds the limit without declaring it is closed", async () => {
    const request = chunkedRequest();
    const answered = new Promise<number | string>((answer) => {
      request.on("response", (response) => answer(response.statusCode ?? 0));
      request.on("error", (error: NodeJS.ErrnoException) => answer(error.code ?? ""));
    });
    const chunk = "x".repeat(64 * 1024);
    request.write(`{"query":"`);
    for (let sent = 0; sent < 40 && !request.destroyed; sent += 1)
      await new Promise<void>((done) => void request.write(chunk, () => done()));
    expect([413, "ECONNRESET", "EPIPE"]).toContain(await answered);
    request.destroy();
  });

  test("API request in small pieces is read completely", async () => {
    const request = chunkedRequest();
    for (const letter of VIEWER) await new Promise<void>((done) => void request.write(letter, () => done()));
    const text = await new Promise<string>((answer) => {
      request.on("response", (response) => {
        let body = "";
        response.on("data", (part: Buffer) => (body += part.toString())).on("end", () => answer(body));
      });
      request.end();
    });
    expect(JSON.parse(text)).toMatchObject({ data: { viewer: { subject: "anonymous", project: "default" } } });
  });

  test("API request keeps its ID, or gets one", async () => {
    expect(
      (await post(open, VIEWER, { ...JSON_TYPE, "x-request-id": "my-request.7" })).headers.get("x-request-id"),
    ).toBe("my-request.7");
    expect(
      (await post(open, VIEWER, { ...JSON_TYPE, "x-request-id": "<script>" })).headers.get("x-request-id"),
    ).toMatch(/^[0-9a-f-]{36}$/);
    expect((await fetch(`${open.url}/livez`)).headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
  });
});

describe("WebSocket", () => {
  test("WebSocket is refused for a page of another origin, and at another path", async () => {
    const url = webSocketUrl(open);
    expect(await knock(url, { origin: "https://evil.example" })).toBe("403");
    expect(await knock(url, { origin: "null" })).toBe("403");
    expect(await knock(url, { origin: open.url })).toBe("open");
    expect(await knock(url)).toBe("open");
    expect(await knock(`${url}/x`)).toBe("404");
  });

  test("WebSocket that is refused and reset at once does not end the service", async () => {
    const { hostname, port } = new URL(open.url);
    for (let time = 0; time < 20; time += 1) {
      const socket = connect(Number(port), hostname);
      socket.on("error", () => {});
      socket.write(
        `GET /graphql HTTP/1.1\r\nhost: ${hostname}\r\nupgrade: websocket\r\nconnection: upgrade\r\norigin: https://evil.example\r\n\r\n`,
        () => socket.resetAndDestroy(),
      );
      await new Promise((closed) => socket.once("close", closed));
    }
    expect(await open.query("{ viewer { subject } }")).toEqual({ viewer: { subject: "anonymous" } });
  });

  test("WebSocket keeps its streams when another query on it is invalid", async () => {
    const client = open.client();
    const stream = client.iterate({ query: "subscription { nodeTransitions { ... on Transition { nodeName } } }" });
    await stream.next();
    for (const query of [
      "subscription {",
      "{ nonsense }",
      "",
      'subscription { nodeTransitions(after: "x") { __typename } }',
      "query A { viewer { subject } } query B { viewer { subject } }",
    ]) {
      const errors = await takeAll(client.iterate({ query })).then(
        (results) => results.flatMap((result) => result.errors ?? []),
        (thrown: unknown) => thrown,
      );
      expect(Array.isArray(errors), `${query}: ${String(errors)}`).toBe(true);
      expect(errors).not.toEqual([]);
    }
    const [name] = await open.register(1);
    expect((await stream.next()).value).toMatchObject({ data: { nodeTransitions: { nodeName: name } } });
    await stream.return?.();
  });

  test("WebSocket serves queries and mutations", async () => {
    const client = open.client();
    const [result] = await takeAll(
      client.iterate({
        query: `mutation { createCluster(input: { name: "by-socket" }) { cluster { name } errors { code } } }`,
      }),
    );
    expect(result).toMatchObject({ data: { createCluster: { cluster: { name: "by-socket" }, errors: [] } } });
  });
});

describe("internal error", () => {
  test("internal error is masked and has the ID under which it is logged", async () => {
    await using broken = await serviceUnderTest({ started: false });
    await broken.test.sql`alter table clusters rename to hidden_clusters`;
    const answer = await broken.ask(
      "{ viewer { subject } clusters { edges { cursor } } }",
      {},
      { "x-request-id": "find-me-7" },
    );
    expect(answer.errors).toEqual([
      {
        message: "Unexpected error. The log has the cause under request find-me-7.",
        path: ["clusters"],
        extensions: { code: "INTERNAL", requestId: "find-me-7" },
      },
    ]);
    expect(answer.text).not.toMatch(/select|hidden|relation|stack/i);
    expect(broken.logLines.some((line) => line.includes("find-me-7") && line.includes("does not exist"))).toBe(true);
  });

  test("internal error in a mutation makes data null, names the mutation, and keeps what earlier ones did", async () => {
    await using broken = await serviceUnderTest({ started: false });
    await broken.test.sql`alter table clusters rename to hidden_clusters`;
    const answer = await broken.ask(`mutation {
      fine: registerNodes(input: { nodes: [{ name: "stays", driver: { fake: {} } }] }) { nodes { name } errors { code } }
      broken: createCluster(input: { name: "x" }) { errors { code } }
    }`);
    expect(answer.data).toBeNull();
    const { node } = await broken.query<{ node: unknown }>('{ node(by: { name: "stays" }) { name } }');
    expect(node).toEqual({ name: "stays" });
    expect(answer.errors).toMatchObject([{ path: ["broken"], extensions: { code: "INTERNAL" } }]);
  });

  test("internal error in a stream ends that stream with a masked error, and no other of its socket", async () => {
    await using broken = await serviceUnderTest({ started: false });
    const client = broken.client();
    const other = client.iterate({ query: "subscription { nodeTransitions { ... on Transition { nodeName } } }" });
    await other.next();
    await broken.test.sql`alter table operations rename to hidden_operations`;
    const errors = await takeAll(
      client.iterate({
        query: `subscription { runChanges(operation: "1b671a64-40d5-491e-99b0-da01ff1f3341") { __typename } }`,
      }),
    ).then(
      (results) => results.flatMap((result) => result.errors ?? []),
      (thrown: unknown) => thrown,
    );
    expect(errors).toMatchObject([
      { message: expect.stringMatching(/^Unexpected error/) as string, extensions: { code: "INTERNAL" } },
    ]);
    await broken.register(["still-there"]);
    expect((await other.next()).value).toMatchObject({ data: { nodeTransitions: { nodeName: "still-there" } } });
    await other.return?.();
    const events = broken.overEvents(
      `subscription { runChanges(operation: "1b671a64-40d5-491e-99b0-da01ff1f3341") { __typename } }`,
    );
    await expect(takeAll(events)).rejects.toThrow(/INTERNAL: Unexpected error|broke off|terminated/);
  });
});

describe("client that disconnects within its body", () => {
  test.each(["/graphql", `/callback/1b671a64-40d5-491e-99b0-da01ff1f3341.${"A".repeat(43)}`])(
    "client that disconnects within the body of a request for %s leaves no log line at level error",
    async (path) => {
      const { hostname, port } = new URL(open.url);
      const before = open.logLines.length;
      const socket = connect(Number(port), hostname);
      socket.write(
        `POST ${path} HTTP/1.1\r\nhost: ${hostname}\r\ncontent-type: application/json\r\nx-request-id: left-early\r\ncontent-length: 100\r\nexpect: 100-continue\r\n\r\n`,
      );
      // The server has continued to read, so it waits for the rest of the body.
      await new Promise((asked) => socket.once("data", asked));
      socket.write('{"query":');
      socket.destroy();
      const line = await eventually("the service sees it", () =>
        open.logLines.slice(before).find((one) => one.includes("left-early")),
      );
      expect(JSON.parse(line)).toMatchObject({
        level: "debug",
        msg: "a client disconnected while it sent a request",
        requestId: "left-early",
      });
      expect(open.logLines.slice(before).filter((one) => one.includes('"level":50'))).toEqual([]);
    },
  );
});

describe("callback over HTTP", () => {
  /** The response to a repeated and to a late callback, which do not differ. */
  const NOT_TAKEN = "This callback was already received, or is too late: the step has continued. Nothing was changed.";
  const postCallback = (path: string, body: string, headers: Readonly<Record<string, string>> = JSON_TYPE) =>
    fetch(open.url + path, { method: "POST", headers, body });

  async function waiting(): Promise<{ readonly path: string; readonly uuid: string }> {
    const name = `calling-${callbackPaths.size}`;
    await open.query(
      "mutation Register($input: RegisterNodesInput!) { registerNodes(input: $input) { errors { message } } }",
      { input: { nodes: [{ name, driver: { recording: { steps: { "clean.erase_disks": { callback: true } } } } }] } },
    );
    const uuid = await open.begin("commissionNodes", [name], { until: "AVAILABLE" });
    await eventually(
      "it waits",
      async () =>
        (
          await open.query<{ node: { state: string } }>(
            "query State($name: String!) { node(by: { name: $name }) { state } }",
            { name },
          )
        ).node.state === "CLEAN_WAIT",
    );
    return { path: callbackPaths.get(name) ?? "", uuid };
  }

  test("callback over HTTP to a waiting step is taken once, and the step continues", async () => {
    const { path, uuid } = await waiting();
    const { operation } = await open.query(
      "query Wait($uuid: ID!) { operation(id: $uuid) { runs { edges { node { state waitReason } } } } }",
      { uuid },
    );
    expect(operation).toEqual({ runs: { edges: [{ node: { state: "WAITING", waitReason: "CALLBACK" } }] } });
    const taken = await postCallback(path, '{"disks":2}');
    expect([taken.status, await taken.json()]).toEqual([202, { taken: true }]);
    const again = await postCallback(path, "{}");
    expect([again.status, await again.json()]).toEqual([409, { error: NOT_TAKEN }]);
    expect(await open.operationEnds(uuid)).toBe("SUCCEEDED");
    const late = await postCallback(path, "{}");
    expect([late.status, await late.json()]).toEqual([409, { error: NOT_TAKEN }]);
  });

  test("callback over HTTP with an invented token is answered as if the run did not exist", async () => {
    const { path, uuid } = await waiting();
    const forged = await postCallback(`${path.slice(0, -5)}AAAAA`, "{}");
    const unknown = await postCallback(`/callback/1b671a64-40d5-491e-99b0-da01ff1f3341.${"A".repeat(43)}`, "{}");
    expect(forged.status).toBe(404);
    expect([forged.status, await forged.text()]).toEqual([unknown.status, await unknown.text()]);
    const headersOf = ({ headers }: Response) =>
      [...headers].filter(([name]) => name !== "x-request-id" && name !== "date");
    expect(headersOf(forged)).toEqual(headersOf(unknown));
    expect((await postCallback(path, "{}")).status).toBe(202);
    expect(await open.operationEnds(uuid)).toBe("SUCCEEDED");
  });

  test("callback over HTTP without a body is taken", async () => {
    const { path, uuid } = await waiting();
    expect((await postCallback(path, "", {})).status).toBe(202);
    expect(await open.operationEnds(uuid)).toBe("SUCCEEDED");
  });

  test("callback over HTTP that is not JSON, too large or cannot be stored is refused, and the step keeps waiting", async () => {
    const { path, uuid } = await waiting();
    expect((await postCallback(path, "{")).status).toBe(400);
    expect((await postCallback(path, '{"a":"\\u0000"}')).status).toBe(400);
    const large = await postCallback(path, JSON.stringify("x".repeat(100_000))).then(
      ({ status }) => status,
      () => "closed",
    );
    expect([413, "closed"]).toContain(large);
    expect((await postCallback(path, "{}")).status).toBe(202);
    expect(await open.operationEnds(uuid)).toBe("SUCCEEDED");
  });

  test.each(["1b671a64-40d5-491e-99b0-da01ff1f3341", "x", "%00", "", "..%2Fgraphql", "a/b", "-".repeat(36)])(
    "callback over HTTP with the forged token %j is not found",
    async (token) => {
      expect((await postCallback(`/callback/${token}`, "{}")).status).toBe(404);
    },
  );
});

describe("shutdown of the service", () => {
  test("shutdown of the service answers running requests and accepts no new ones", async () => {
    await using ending = await serviceUnderTest();
    const [name = ""] = await ending.register(1);
    const { node } = await ending.query<{ node: { id: string } }>(
      "query Id($name: String!) { node(by: { name: $name }) { id } }",
      { name },
    );
    const held = Promise.withResolvers<void>();
    const locked = Promise.withResolvers<void>();
    const holding = ending.test.sql.begin(async (sql) => {
      await sql`select from nodes for update`;
      locked.resolve();
      await held.promise;
    });
    await locked.promise;
    const answer = ending.query(
      'mutation Late($id: ID!) { updateNodes(input: { nodes: { ids: [$id] }, labels: [{ key: "late", value: "yes" }] }) { nodes { labels { value } } errors { code } } }',
      { id: node.id },
    );
    await eventually("the request waits for the lock", async () => {
      const rows = await ending.database.reader.execute<{ count: number }>(
        "select count(*)::int as count from pg_locks where not granted",
      );
      return Number([...rows][0]?.["count"]) > 0;
    });
    const closed = ending.close();
    await eventually("new connections are refused", () =>
      fetch(`${ending.url}/livez`).then(
        () => false,
        () => true,
      ),
    );
    held.resolve();
    await holding;
    expect(await answer).toEqual({ updateNodes: { nodes: [{ labels: [{ value: "yes" }] }], errors: [] } });
    await closed;
  });

  test("shutdown of the service does not wait for idle or silent connections", async () => {
    await using ending = await serviceUnderTest();
    const { hostname, port } = new URL(ending.url);
    const silent = connect(Number(port), hostname);
    silent.on("error", () => {});
    await new Promise((connected) => silent.once("connect", connected));
    const socket = new WebSocket(webSocketUrl(ending), "graphql-transport-ws");
    const closing = new Promise<number>((code) => socket.once("close", code));
    await new Promise((opened) => socket.once("open", opened));
    await ending.query("{ viewer { subject } }");
    const began = Date.now();
    await ending.close();
    expect(Date.now() - began).toBeLessThan(15_000);
    expect(await closing).toBe(1001);
    silent.destroy();
  });

  test("shutdown of the service closes an idle connection that is kept alive at once", async () => {
    await using ending = await serviceUnderTest();
    const kept = keptConnection(ending.url);
    await kept.answered;
    const began = Date.now();
    await Promise.all([ending.close(), kept.closed]);
    expect(Date.now() - began).toBeLessThan(15_000);
  });

  test("shutdown of the service closes a client that does not answer the close", async () => {
    await using ending = await serviceUnderTest();
    const socket = new WebSocket(webSocketUrl(ending), "graphql-transport-ws");
    await new Promise((opened) => socket.once("open", opened));
    socket.pause();
    const began = Date.now();
    await ending.close();
    expect(Date.now() - began).toBeLessThan(15_000);
    socket.terminate();
  });
});

/** A connection that has sent one request and stays idle. */
function keptConnection(url: string): { readonly answered: Promise<string>; readonly closed: Promise<unknown> } {
  const { hostname, port, host } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.write(`GET /livez HTTP/1.1\r\nhost: ${host}\r\n\r\n`);
  const answered = once(socket, "data").then(([part]) => String(part));
  return { answered, closed: once(socket, "close") };
}

describe("idle connections", () => {
  test("an idle connection outlives the usual 60 s of a proxy [R-842]", async () => {
    expect(await keptConnection(open.url).answered).toMatch(/^keep-alive: timeout=75\r$/im);
  });

  test("an idle connection is closed after the configured time", async () => {
    await using brief = await serviceUnderTest({ keepAliveMs: 1 });
    await keptConnection(brief.url).closed;
  });
});
