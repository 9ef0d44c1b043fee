/** Compressed responses: which ones, for which clients, and what happens when a client leaves. */
import { request as httpRequest } from "node:http";
import type { IncomingHttpHeaders } from "node:http";
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { compressAnswers } from "../../src/http/graphql/compressed-answers.ts";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());
beforeAll(async () => {
  await ostler.register(500);
});

const LONG = "{ nodes(first: 500) { nodes { id uuid name state powerState presence createdAt updatedAt } } }";
const SHORT = "{ nodes(first: 5) { nodes { id name } } }";

interface Raw {
  readonly status: number | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** A request whose response is not decoded. */
function raw(query: string, headers: Readonly<Record<string, string>>, method = "POST"): Promise<Raw> {
  const { promise, resolve, reject } = Promise.withResolvers<Raw>();
  const sent = httpRequest(
    `${ostler.url}/graphql`,
    { method, headers: { "content-type": "application/json", ...headers } },
    (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.once("error", reject);
      response.once("end", () =>
        resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks) }),
      );
    },
  );
  sent.once("error", reject);
  sent.end(method === "POST" ? JSON.stringify({ query }) : undefined);
  return promise;
}

describe("a long response", () => {
  test.each([
    ["zstd", zstdDecompressSync],
    ["br", brotliDecompressSync],
    ["gzip", gunzipSync],
  ] as const)(
    "is compressed with %s for a client that accepts it, to the same document [R-641]",
    async (name, decode) => {
      const plain = await raw(LONG, {});
      const { status, headers, body } = await raw(LONG, { "accept-encoding": name });
      expect(status).toBe(200);
      expect(plain.headers["content-encoding"]).toBeUndefined();
      expect(plain.body.length).toBeGreaterThan(64 * 1024);
      expect(headers["content-encoding"]).toBe(name);
      expect(Number(headers["content-length"])).toBe(body.length);
      expect(body.length).toBeLessThan(plain.body.length / 2);
      expect(decode(body).equals(plain.body)).toBe(true);
    },
  );

  test.each([
    ["gzip, deflate, br, zstd", "zstd"],
    ["gzip;q=1.0, br;q=0.5, zstd;q=0", "br"],
    ["GZIP", "gzip"],
    ["*", "zstd"],
    ["*;q=0", undefined],
    ["identity", undefined],
    ["deflate", undefined],
  ])("for `Accept-Encoding: %s` has the encoding %s [R-641]", async (accepted, expected) => {
    const { headers } = await raw(LONG, { "accept-encoding": accepted });
    expect(headers["content-encoding"]).toBe(expected);
    expect(headers["vary"]).toMatch(/accept-encoding/);
  });
});

test("a short response is not compressed, but says that its encoding depends on the client [R-641]", async () => {
  const { headers } = await raw(SHORT, { "accept-encoding": "gzip" });
  expect(headers["content-encoding"]).toBeUndefined();
  expect(headers["vary"]).toMatch(/accept-encoding/);
});

test("server-sent events are not compressed [R-641]", async () => {
  const { headers, body } = await raw(LONG, { "accept-encoding": "gzip", accept: "text/event-stream" });
  expect(headers["content-type"]).toMatch(/text\/event-stream/);
  expect(headers["content-encoding"] ?? "none").toBe("none");
  expect(body.toString()).toMatch(/event: next/);
});

test("HEAD is refused with the same headers and no body", async () => {
  const { status, headers, body } = await raw(LONG, { "accept-encoding": "gzip" }, "HEAD");
  expect({ status, bytes: body.length }).toEqual({ status: 405, bytes: 0 });
  expect(headers["content-encoding"]).toBeUndefined();
});

describe("the plugin", () => {
  const long = JSON.stringify({ data: "x".repeat(100_000) });

  /** Responses that wait in the compressor until `open`. */
  function held() {
    const gate = Promise.withResolvers<void>();
    const plugin = compressAnswers(async (bytes) => {
      await gate.promise;
      return Buffer.from(bytes.subarray(0, 10));
    });
    const answer = async (res: { destroyed: boolean; headersSent: boolean; appendHeader: () => void }) => {
      let sent = new Response(long, {
        headers: { "content-type": "application/json", "content-length": String(long.length) },
      });
      await plugin.onResponse({
        request: new Request("http://localhost/", { headers: { "accept-encoding": "gzip" } }),
        response: sent,
        setResponse: (made) => void (sent = made),
        serverContext: { res },
        fetchAPI: { Response, Headers },
      });
      return sent.headers.get("content-encoding");
    };
    return { answer, open: () => gate.resolve() };
  }
  const client = (destroyed = false) => ({ destroyed, headersSent: false, appendHeader: () => {} });

  test("beyond eight at a time, responses are sent as they are; a client that leaves frees its place [R-642]", async () => {
    const { answer, open } = held();
    const clients = Array.from({ length: 8 }, () => client());
    const answers = clients.map(answer);
    expect(await answer(client())).toBeNull();
    for (const one of clients) one.destroyed = true;
    open();
    expect(await Promise.all(answers)).toEqual(Array.from({ length: 8 }, () => "gzip"));
    expect(await Promise.all(Array.from({ length: 8 }, () => answer(client())))).toEqual(
      Array.from({ length: 8 }, () => "gzip"),
    );
  });

  test("nothing is compressed for a client that has left [R-642]", async () => {
    const { answer } = held();
    expect(await answer(client(true))).toBeNull();
  });

  test("a response that cannot be compressed frees its place [R-642]", async () => {
    const plugin = compressAnswers(() => Promise.reject(new Error("no memory")));
    const sent = new Response(long, {
      headers: { "content-type": "application/json", "content-length": String(long.length) },
    });
    for (let round = 0; round < 9; round += 1)
      await expect(
        plugin.onResponse({
          request: new Request("http://localhost/", { headers: { "accept-encoding": "gzip" } }),
          response: sent.clone(),
          setResponse: () => {},
          serverContext: { res: client() },
          fetchAPI: { Response, Headers },
        }),
      ).rejects.toThrow("no memory");
  });
});

test("clients that leave while their responses are made leave the service as it was [R-642]", async () => {
  for (let round = 0; round < 20; round += 1) {
    const sent = httpRequest(`${ostler.url}/graphql`, {
      method: "POST",
      headers: { "content-type": "application/json", "accept-encoding": "br" },
    });
    const { promise: closed, resolve } = Promise.withResolvers<void>();
    sent.once("close", resolve).once("error", () => {});
    sent.once("response", (response) => response.destroy());
    sent.end(JSON.stringify({ query: LONG }), () => round % 2 === 0 && sent.destroy());
    await closed;
  }
  const { headers } = await raw(LONG, { "accept-encoding": "br" });
  expect(headers["content-encoding"]).toBe("br");
  expect(ostler.logLines.filter((line) => line.includes("unexpected error"))).toEqual([]);
});
