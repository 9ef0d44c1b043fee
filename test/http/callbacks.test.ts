/** Floods of callbacks: anything can call, so what is invalid must cost little and must not keep out what is valid. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, describe, expect, test } from "vitest";
import { createCallbacks } from "../../src/http/callback.ts";
import type { CallbackLimits } from "../../src/http/callback.ts";
import { createSenders } from "../../src/http/port/senders.ts";
import { eventually } from "../support/eventually.ts";

const LIMITS: CallbackLimits = { atOnceMax: 8, waitingMax: 10, rejectedBurst: 1_000, rejectedPerSecond: 20 };
const TOKEN = `1b671a64-40d5-491e-99b0-da01ff1f3341.${"A".repeat(43)}`;

type Receive = Parameters<typeof createCallbacks>[0]["receiveCallback"];

const servers = new AsyncDisposableStack();
afterAll(() => servers[Symbol.asyncDispose]());

/** A server of callbacks only; `receive` stands for the engine. */
async function served(receive: Receive, limits: Partial<CallbackLimits> = {}) {
  const callbacks = createCallbacks({ receiveCallback: receive }, createSenders([]), { ...LIMITS, ...limits });
  const server = createServer((request, response) => {
    void callbacks.serve(request, response, (request.url ?? "").slice(1));
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  servers.defer(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return async (token = TOKEN) => {
    const response = await fetch(`http://127.0.0.1:${port}/${token}`, { method: "POST", body: "{}" });
    await response.arrayBuffer();
    return response;
  };
}

describe("a flood of callbacks [R-201]", () => {
  test.each(["x", TOKEN.slice(1), `${TOKEN}A`, TOKEN.slice(0, -1), `${TOKEN}.A`, TOKEN.replace("AAAA", "A+/A")])(
    "a malformed token (%s) does not reach the database",
    async (token) => {
      let received = 0;
      const post = await served(async () => {
        received += 1;
        return "UNKNOWN";
      });
      expect((await post(token)).status).toBe(404);
      expect(received).toBe(0);
    },
  );

  test("a flood uses eight connections at most; more wait in a queue, and beyond it get 503 with Retry-After", async () => {
    const gate = Promise.withResolvers<"TAKEN">();
    let entered = 0;
    const post = await served(() => {
      entered += 1;
      return gate.promise;
    });
    const statuses: number[] = [];
    const posts = Array.from({ length: 20 }, async () => {
      const response = await post();
      statuses.push(response.status);
      return response;
    });
    await eventually("two are refused", () => statuses.length === 2);
    expect(entered).toBe(8);
    expect(statuses).toEqual([503, 503]);
    gate.resolve("TAKEN");
    const responses = await Promise.all(posts);
    expect(statuses.toSorted((a, b) => a - b)).toEqual([...Array.from({ length: 18 }, () => 202), 503, 503]);
    expect(responses.find(({ status }) => status === 503)?.headers.get("retry-after")).toBe("5");
  });

  test("an address that has sent many rejected callbacks has to wait; taken ones do not count", async () => {
    let answer: Awaited<ReturnType<Receive>> = "TAKEN";
    const post = await served(async () => answer, { rejectedBurst: 3, rejectedPerSecond: 0 });
    for (let count = 0; count < 10; count += 1) expect((await post()).status).toBe(202);
    answer = "UNKNOWN";
    const statuses: number[] = [];
    for (let count = 0; count < 6; count += 1) statuses.push((await post()).status);
    expect(statuses).toEqual([404, 404, 404, 404, 429, 429]);
  });
});
