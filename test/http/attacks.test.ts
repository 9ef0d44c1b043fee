/** Attacks on the HTTP server, beyond the limits of requests. */
import { afterAll, describe, expect, test, vi } from "vitest";
import type { IncomingMessage } from "node:http";
import { createFailedLogins } from "../../src/http/port/failed-logins.ts";
import { createSenders } from "../../src/http/port/senders.ts";
import { createLog } from "../../src/log.ts";
import { statusOf } from "../support/raw-request.ts";
import { serviceUnderTest } from "../support/service.ts";

const TOKEN = "a-token-of-the-test";
const open = await serviceUnderTest({ watched: true });
const closed = await serviceUnderTest({ token: TOKEN, watched: true });
afterAll(async () => {
  await open[Symbol.asyncDispose]();
  await closed[Symbol.asyncDispose]();
});

const REJECTED = { code: "UNAUTHENTICATED", message: "Invalid token." } as const;

describe("host names", () => {
  test("/metrics without a token refuses a host name that is not local, as a page with a rebound name sends it", async () => {
    expect(await statusOf(open.url, "GET /metrics HTTP/1.1", "host: evil.example")).toBe(421);
    expect(await statusOf(open.url, "GET /metrics HTTP/1.1", "host: localhost")).toBe(200);
  });

  test.each(["/graphql", "/livez", "/metrics"])("%s with two Host headers is refused with 400", async (path) => {
    expect(await statusOf(open.url, `GET ${path} HTTP/1.1`, "host: localhost", "host: evil.example")).toBe(400);
  });
});

describe("log of failed logins", () => {
  const from = (remoteAddress: string) => ({ socket: { remoteAddress }, headers: {} }) as unknown as IncomingMessage;

  function aLog() {
    const lines: string[] = [];
    const log = createLog("info", { write: (line: string) => void lines.push(line) });
    const shown = () =>
      lines.splice(0).map((line) => {
        const { address, missing, wrong } = JSON.parse(line) as Record<string, unknown>;
        return [address, missing, wrong];
      });
    return { log, shown };
  }

  test("requests without a valid token are logged once a minute for their address, with counts [R-313]", () => {
    vi.useFakeTimers();
    try {
      const { log, shown } = aLog();
      using logins = createFailedLogins({ senders: createSenders([]), log, now: () => Date.now() });
      for (let count = 0; count < 1_200; count += 1) logins.note(from("10.0.0.7"), "Bearer wrong", REJECTED);
      logins.note(from("10.0.0.7"), undefined, REJECTED);
      logins.note(from("10.0.0.8"), "", REJECTED);
      expect(shown()).toEqual([
        ["10.0.0.7", 0, 1],
        ["10.0.0.8", 1, 0],
      ]);
      vi.advanceTimersByTime(59_000);
      expect(shown()).toEqual([]);
      vi.advanceTimersByTime(10_000);
      expect(shown()).toEqual([["10.0.0.7", 1, 1_199]]);
      vi.advanceTimersByTime(120_000);
      expect(shown()).toEqual([]);
    } finally {
      vi.useRealTimers();
    }
  });

  test("failed logins of the last minute are logged when the service stops [R-313]", () => {
    const { log, shown } = aLog();
    const logins = createFailedLogins({ senders: createSenders([]), log });
    for (let count = 0; count < 8; count += 1) logins.note(from("10.0.0.7"), "Bearer wrong", REJECTED);
    logins[Symbol.dispose]();
    expect(shown()).toEqual([
      ["10.0.0.7", 0, 1],
      ["10.0.0.7", 0, 7],
    ]);
  });

  test("failed logins of more addresses than are counted are in one line for the others", () => {
    const { log, shown } = aLog();
    const logins = createFailedLogins({ senders: createSenders([]), log });
    for (let count = 0; count < 10_050; count += 1)
      logins.note(from(`fd00::${count.toString(16)}`), undefined, REJECTED);
    logins[Symbol.dispose]();
    const lines = shown();
    expect(lines).toHaveLength(10_002);
    expect(lines.at(-1)).toEqual(["other addresses", 49, 0]);
  });
});

test("wrong and missing tokens are counted over HTTP and WebSocket [R-313]", async () => {
  const ask = async (path: string, headers: Record<string, string>) =>
    (await fetch(`${closed.url}${path}`, { headers: { accept: "application/json", ...headers } })).status;
  for (const headers of [{ authorization: "Bearer wrong" }, {}])
    for (const path of ["/graphql?query={service{version}}", "/schema.graphql", "/metrics"])
      expect(await ask(path, headers)).toBe(401);
  expect(await closeCodeOf({ authorization: "Bearer wrong" })).toBe(4403);
  expect(await closeCodeOf(undefined)).toBe(4403);
  const metrics = await fetch(`${closed.url}/metrics`, { headers: { authorization: `Bearer ${TOKEN}` } });
  const text = await metrics.text();
  expect(text).toMatch(/^ostler_failed_logins_total\{reason="wrong"\} 4$/m);
  expect(text).toMatch(/^ostler_failed_logins_total\{reason="missing"\} 4$/m);
  expect(closed.logLines.filter((line) => line.includes("had no valid token"))).toHaveLength(1);
});

/** The code with which a connection with these parameters is closed. */
async function closeCodeOf(payload: Record<string, unknown> | undefined): Promise<number> {
  const socket = new WebSocket(`${closed.url.replace(/^http/, "ws")}/graphql`, "graphql-transport-ws");
  socket.addEventListener("open", () => socket.send(JSON.stringify({ type: "connection_init", payload })));
  return new Promise((done) => socket.addEventListener("close", ({ code }) => done(code)));
}

test("upgrade to WebSocket with two Host headers is refused with 400", async () => {
  const lines = ["GET /graphql HTTP/1.1", "host: localhost", "host: evil.example", "upgrade: websocket"];
  expect(
    await statusOf(open.url, ...lines, "sec-websocket-protocol: graphql-transport-ws", "connection: upgrade"),
  ).toBe(400);
});

test("unknown members of a request body are ignored, as GraphQL over HTTP says", async () => {
  const response = await fetch(`${open.url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: '{ "query": "{ service { maxPageSize } }", "foo": 1, "then": 2, "__proto__": { "query": 3 } }',
  });
  expect([response.status, await response.json()]).toMatchObject([200, { data: { service: { maxPageSize: 100 } } }]);
});

test("no URL is answered by the health check of the library", async () => {
  const response = await fetch(`${open.url}/graphql?x=/health`, { headers: { accept: "application/json" } });
  expect(response.headers.get("x-yoga-id")).toBe(null);
  expect(await response.json()).toMatchObject({ errors: [{ message: expect.any(String) }] });
});

describe("control characters", () => {
  test.each([
    "a\u001b[2Jb",
    "a\nb",
    "a\u0085b",
    "a\u202eb",
    "a\u2066b",
    "a\u200db",
    "\u0645\u200c\u200cb",
    "7\u200d\u{1f527}",
  ])("%j is refused in labels, reasons and descriptions", async (text) => {
    const { registerNodes, abort, setMaintenance, createRunbook } = await open.query<
      Record<string, { errors: { code: string; path: string[] }[] }>
    >(
      `mutation Try($text: String!) {
          registerNodes(input: { nodes: [{ name: "n", driver: { fake: {} }, labels: [{ key: "k", value: $text }] }] }) { errors { code path } }
          abort(input: { work: { names: ["n"] }, reason: $text }) { errors { code path } }
          setMaintenance(input: { nodes: { names: ["n"] }, reason: $text }) { errors { code path } }
          createRunbook(input: { name: "r", description: $text, steps: [{ interface: CLEAN, name: "erase_disks" }] }) { errors { code path } }
        }`,
      { text },
    );
    for (const answer of [registerNodes, abort, setMaintenance, createRunbook])
      expect(answer?.errors).toMatchObject([{ code: "INVALID_INPUT" }]);
  });

  test("joiners that the spelling of Persian and Sinhala, and emoji, need were refused [R-884]", async () => {
    const text =
      "\u0645\u06CC\u200C\u062E\u0648\u0627\u0647\u0645 \u0DC1\u0DCA\u200D\u0DBB\u0DD3 \u{1F469}\u{1F3FD}\u200D\u{1F527}";
    const { createRunbook } = await open.query<{ createRunbook: unknown }>(
      `mutation Write($text: String!) {
        createRunbook(input: { name: "joined", description: $text, steps: [{ interface: CLEAN, name: "erase_disks" }] }) { runbook { description } errors { message } }
      }`,
      { text },
    );
    expect(createRunbook).toEqual({ runbook: { description: text }, errors: [] });
  });
});
