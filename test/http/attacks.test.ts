/** Attacks on the HTTP server, beyond the limits of requests. */
import { connect } from "node:net";
import { text as readText } from "node:stream/consumers";
import { afterAll, describe, expect, test } from "vitest";
import type { IncomingMessage } from "node:http";
import { createFailedLogins } from "../../src/http/failed-logins.ts";
import { createLog } from "../../src/log.ts";
import { serviceUnderTest } from "../support/service.ts";

const TOKEN = "a-token-of-the-test";
const open = await serviceUnderTest({ watched: true });
const closed = await serviceUnderTest({ token: TOKEN, watched: true });
afterAll(async () => {
  await open[Symbol.asyncDispose]();
  await closed[Symbol.asyncDispose]();
});

/** The status of a request with these lines as its head. */
async function statusOf(url: string, ...lines: readonly string[]): Promise<number> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.write(`${lines.join("\r\n")}\r\nconnection: close\r\n\r\n`);
  return Number(/^HTTP\/1\.1 (\d+)/.exec(await readText(socket))?.[1]);
}

describe("host names", () => {
  test("/metrics without a token refuses a host name that is not local, as a page with a rebound name sends it", async () => {
    expect(await statusOf(open.url, "GET /metrics HTTP/1.1", "host: evil.example")).toBe(421);
    expect(await statusOf(open.url, "GET /metrics HTTP/1.1", "host: localhost")).toBe(200);
  });

  test.each(["/graphql", "/livez", "/metrics"])("%s with two Host headers is refused with 400", async (path) => {
    expect(await statusOf(open.url, `GET ${path} HTTP/1.1`, "host: localhost", "host: evil.example")).toBe(400);
  });
});

test("an invalid token is logged once a minute for its address, with a count", () => {
  const lines: string[] = [];
  let now = 0;
  const note = createFailedLogins(
    createLog("info", { write: (line: string) => void lines.push(line) }),
    undefined,
    () => now,
  );
  const from = (remoteAddress: string) => ({ socket: { remoteAddress } }) as unknown as IncomingMessage;
  const shown = () =>
    lines.splice(0).map((line) => {
      const { address, count } = JSON.parse(line) as { address: string; count: number };
      return [address, count];
    });
  for (let count = 0; count < 1_200; count += 1) note(from("10.0.0.7"));
  note(from("10.0.0.8"));
  expect(shown()).toEqual([
    ["10.0.0.7", 1],
    ["10.0.0.8", 1],
  ]);
  now = 61_000;
  note(from("10.0.0.7"));
  expect(shown()).toEqual([["10.0.0.7", 1_200]]);
});

test("invalid tokens are counted over HTTP and WebSocket, and missing ones are not", async () => {
  const ask = async (path: string, headers: Record<string, string>) =>
    (await fetch(`${closed.url}${path}`, { headers: { accept: "application/json", ...headers } })).status;
  const wrong = { authorization: "Bearer wrong" };
  expect(await ask("/graphql?query={service{version}}", wrong)).toBe(401);
  expect(await ask("/schema.graphql", wrong)).toBe(401);
  expect(await ask("/metrics", wrong)).toBe(401);
  expect(await ask("/metrics", {})).toBe(401);
  const metrics = await fetch(`${closed.url}/metrics`, { headers: { authorization: `Bearer ${TOKEN}` } });
  expect(await metrics.text()).toMatch(/^ostler_failed_logins_total(\{\})? 3$/m);
  expect(closed.logLines.filter((line) => line.includes("sent an invalid token"))).toHaveLength(1);
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
  test.each(["a\u001b[2Jb", "a\nb", "a\u0085b", "a\u202eb", "a\u2066b"])(
    "%j is refused in labels, reasons and descriptions",
    async (text) => {
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
    },
  );
});
