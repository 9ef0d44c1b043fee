/** The port over TLS: the three transports, a certificate that changes, clients without TLS, unfinished handshakes. */
import { once } from "node:events";
import { request as httpsRequest } from "node:https";
import type { RequestOptions } from "node:https";
import { connect } from "node:net";
import type { Socket } from "node:net";
import { text as readText } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import type { IncomingMessage } from "node:http";
import { createClient } from "graphql-ws";
import { afterAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { startHealthServer } from "../../src/http/health.ts";
import { createWebServer } from "../../src/http/port/web-server.ts";
import { createLog } from "../../src/log.ts";
import { createTelemetry } from "../../src/telemetry/telemetry.ts";
import { Circuits } from "../../src/drivers/circuits.ts";
import type { Reader } from "../../src/store/postgres/database.ts";
import { authenticatorWith } from "../support/callers.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest } from "../support/service.ts";
import { aCertificate, tlsFiles } from "../support/tls-files.ts";

const FIRST = aCertificate();
const files = tlsFiles(FIRST);
const ostler = await serviceUnderTest({ tls: files, watched: true });
const { port, hostname } = new URL(ostler.url);
afterAll(async () => {
  await ostler[Symbol.asyncDispose]();
  files[Symbol.dispose]();
});

const WATCH = "subscription { nodeTransitions { ... on Transition { nodeName } } }";

/** Clients trust each certificate of these tests, and the names in them are checked. */
const trusted: string[] = [FIRST.certificate];

type Options = Omit<RequestOptions, "headers"> & { readonly headers?: Readonly<Record<string, string>> };

function ask(body: object, options: Options = {}): Promise<IncomingMessage> {
  const request = httpsRequest({
    hostname,
    port,
    path: "/graphql",
    method: "POST",
    ca: trusted,
    agent: false,
    ...options,
    headers: { "content-type": "application/json", ...options.headers },
  });
  request.end(options.method === "GET" ? undefined : JSON.stringify(body));
  return once(request, "response").then(([response]) => response as IncomingMessage);
}

async function register(name: string, options?: Options): Promise<unknown> {
  const query = `mutation { registerNodes(input: { nodes: [{ name: "${name}", driver: { fake: {} } }] }) { errors { code } } }`;
  return JSON.parse(await readText(await ask({ query }, options)));
}

const REGISTERED = { data: { registerNodes: { errors: [] } } };

/** A stream of server-sent events, with everything that it has sent. */
async function openStream(): Promise<{ readonly response: IncomingMessage; readonly got: () => string }> {
  const response = await ask({ query: WATCH }, { headers: { accept: "text/event-stream" } });
  let got = "";
  response.on("data", (part: Buffer) => (got += part.toString()));
  return { response, got: () => got };
}

/** The certificate that a new connection gets. */
async function shownFingerprint(): Promise<string> {
  const socket = connectTls({ host: hostname, port: Number(port), rejectUnauthorized: false });
  await once(socket, "secureConnect");
  const { fingerprint256 } = socket.getPeerCertificate();
  socket.destroy();
  return fingerprint256;
}

const errorLines = () => ostler.logLines.filter((line) => line.includes("the changed certificate cannot be used"));

describe("port with a certificate", () => {
  test.each(["TLSv1.2", "TLSv1.3"] as const)("port with a certificate answers over %s [R-890]", async (version) => {
    expect(ostler.url).toMatch(/^https:/);
    expect(await register(`over-${version}`, { minVersion: version, maxVersion: version })).toEqual(REGISTERED);
  });

  test("port with a certificate refuses TLS 1.1 [R-890]", async () => {
    const socket = connectTls({
      host: hostname,
      port: Number(port),
      ca: trusted,
      minVersion: "TLSv1.1",
      maxVersion: "TLSv1.1",
      ciphers: "DEFAULT@SECLEVEL=0",
    });
    const [error] = (await once(socket, "error")) as [NodeJS.ErrnoException];
    expect(error.code).toMatch(/PROTOCOL_VERSION/);
  });

  test("port with a certificate serves server-sent events and WebSockets, and the page of its own origin only over https [R-890, R-897]", async () => {
    const events = await openStream();
    class Trusting extends WebSocket {
      constructor(url: string, protocols: string) {
        super(url, protocols, { ca: trusted, origin: ostler.url });
      }
    }
    const client = createClient({
      url: `${ostler.url.replace("http", "ws")}/graphql`,
      webSocketImpl: Trusting,
      retryAttempts: 0,
    });
    let got = "";
    client.subscribe({ query: WATCH }, { next: (item) => (got += JSON.stringify(item)), error() {}, complete() {} });
    await eventually("both streams are open", () => ostler.listeners() === 2);
    expect(await register("streamed")).toEqual(REGISTERED);
    await eventually("the message has arrived", () => got.includes('"streamed"'));
    await eventually("the event has arrived", () => events.got().includes('"streamed"'));
    await client.dispose();
    events.response.destroy();

    const clear = new WebSocket(`${ostler.url.replace("http", "ws")}/graphql`, "graphql-transport-ws", {
      ca: trusted,
      origin: ostler.url.replace("https", "http"),
    });
    const [error] = (await once(clear, "error")) as [Error];
    expect(error.message).toContain("403");
  });

  test("port with a certificate reports when it expires", async () => {
    const metrics = await readText(await ask({}, { method: "GET", path: "/metrics" }));
    const [, seconds] = /^ostler_tls_certificate_expires_seconds (\d+)/m.exec(metrics) ?? [];
    expect(Number(seconds) / 86_400).toBeCloseTo(30, 1);
  });

  test("port with a certificate answers HTTP in clear with 400 and the remedy [R-894]", async () => {
    const socket = connect(Number(port), hostname);
    socket.write("POST /graphql HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\nabcd");
    const answer = await readText(socket);
    expect(answer).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
    expect(answer).toMatch(/\r\n\r\nThis port speaks TLS\. Use a URL that begins with https:\/\/ or wss:\/\/\.\n$/);
  });
});

describe("unfinished handshakes", () => {
  test("unfinished handshakes of one address, 1,000 of them, keep no client out [R-895]", async () => {
    const hanging: Socket[] = [];
    for (let count = 0; count < 1_000; count += 1) {
      const socket = connect(Number(port), hostname).on("error", () => {});
      hanging.push(socket);
      await once(socket, "connect");
    }
    expect(await register("beside-handshakes")).toEqual(REGISTERED);
    for (const socket of hanging) socket.destroy();
  });

  test("unfinished handshakes above the limit are ended, the oldest first [R-895]", async () => {
    const { certificate, key } = FIRST;
    const { server } = createWebServer({}, { cert: certificate, key }, (_, response) => response.end("ok"), 3);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port: at } = server.address() as { readonly port: number };
    const ended: number[] = [];
    const hanging = [];
    for (const number of [1, 2, 3, 4]) {
      const accepted = once(server, "connection");
      const socket = connect(at, "127.0.0.1").on("error", () => {});
      socket.resume().once("close", () => ended.push(number));
      hanging.push(socket);
      await accepted;
    }
    await eventually("the oldest is ended", () => ended.length === 1);
    expect(await readText(await ask({}, { port: at }))).toBe("ok");
    await eventually("the next is ended", () => ended.length === 2);
    expect(ended).toEqual([1, 2]);
    for (const socket of hanging) socket.destroy();
    server.close();
  });

  test("unfinished handshakes do not delay the end of the service", async () => {
    using own = tlsFiles(FIRST);
    await using other = await serviceUnderTest({ tls: own, started: false });
    const at = new URL(other.url);
    const socket = connect(Number(at.port), at.hostname).on("error", () => {});
    await once(socket, "connect");
    const closed = once(socket.resume(), "close");
    await other.close();
    await closed;
  });
});

describe("changed certificate", () => {
  test("changed certificate is used by new connections, and open streams go on [R-891]", async () => {
    const streams = await Promise.all(Array.from({ length: 20 }, openStream));
    const second = aCertificate({ name: "second", validDays: 60 });
    trusted.push(second.certificate);
    // The two files are not replaced in one moment.
    files.write({ cert: second.certificate });
    files.write({ key: second.key });
    await eventually("the new one is used", async () => (await shownFingerprint()) === second.fingerprint256, 5_000);
    expect(await register("after-the-change")).toEqual(REGISTERED);
    await eventually("all streams go on", () => streams.every(({ got }) => got().includes('"after-the-change"')));
    for (const { response } of streams) response.destroy();
    expect(errorLines()).toEqual([]);
    const metrics = await readText(await ask({}, { method: "GET", path: "/metrics" }));
    expect(metrics).toMatch(/^ostler_tls_certificate_expires_seconds 5\d{6}/m);
  });

  test("changed certificate that cannot be used is logged once, and the old one stays [R-892]", async () => {
    const before = await shownFingerprint();
    const third = aCertificate({ name: "third", validDays: 90 });
    trusted.push(third.certificate);
    files.write({ key: third.key });
    await eventually("it is logged", () => errorLines().length === 1);
    // Three more looks at the files, which leave no trace.
    await delay(3_500);
    expect(errorLines()).toHaveLength(1);
    expect(errorLines()[0]).toMatch(/"level":"error".*OSTLER_TLS_KEY has the key of another certificate/);
    expect(await shownFingerprint()).toBe(before);
    files.write({ cert: third.certificate });
    await eventually("the pair is used", async () => (await shownFingerprint()) === third.fingerprint256, 5_000);
  });
});

test("health and metrics of a replica that only runs work are served over TLS too [R-890]", async () => {
  using own = tlsFiles(FIRST);
  const log = createLog("silent");
  const telemetry = await createTelemetry({ log, version: "0" });
  const reader = { execute: () => Promise.resolve([{ writable: true }]) } as unknown as Reader;
  await using server = await startHealthServer({
    host: "127.0.0.1",
    port: 0,
    tls: own,
    database: { reader, refusesWrites: () => false },
    log,
    observer: telemetry.observer,
    noteAudit: () => {},
    metrics: { authenticator: authenticatorWith(null), scrape: telemetry.scrapeOf(reader, new Circuits()) },
  });
  const get = async (path: string) =>
    await readText(await ask({}, { port: new URL(server.url).port, method: "GET", path }));
  expect(server.url).toMatch(/^https:/);
  expect(await get("/readyz")).toBe("ok\n");
  expect(await get("/metrics")).toMatch(/^ostler_tls_certificate_expires_seconds \d+/m);
});
