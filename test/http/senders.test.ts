/** The sender of a request that came through proxies. Anyone can send the headers. */
import type { IncomingMessage } from "node:http";
import { describe, expect, test } from "vitest";
import { isAllowedOrigin } from "../../src/http/port/origins.ts";
import { createSenders } from "../../src/http/port/senders.ts";
import { serviceUnderTest } from "../support/service.ts";

const senders = createSenders(["10.0.0.0/8", "fd00::/8"]);

function from(remoteAddress: string, headers: Readonly<Record<string, string>> = {}): IncomingMessage {
  return { socket: { remoteAddress }, headers } as unknown as IncomingMessage;
}

describe("address of a client", () => {
  test.each([
    ["192.0.2.1", undefined, "192.0.2.1"],
    ["192.0.2.1", "198.51.100.9", "192.0.2.1"],
    ["10.0.0.1", undefined, "10.0.0.1"],
    ["10.0.0.1", "198.51.100.9", "198.51.100.9"],
    ["::ffff:10.0.0.1", "::ffff:198.51.100.9", "198.51.100.9"],
    ["fd00::1", "2001:db8::9", "2001:db8::9"],
    ["10.0.0.1", "203.0.113.7, 198.51.100.9", "198.51.100.9"],
    ["10.0.0.1", "203.0.113.7, 198.51.100.9, 10.0.0.2,fd00::2", "198.51.100.9"],
    ["10.0.0.1", "203.0.113.7,192.0.2.1, 10.0.0.2", "192.0.2.1"],
    ["10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"],
    ["10.0.0.1", "198.51.100.9:40000", "198.51.100.9"],
    ["10.0.0.1", "[2001:db8::9]:40000", "2001:db8::9"],
    ["10.0.0.1", "203.0.113.7, unknown", "10.0.0.1"],
    ["10.0.0.1", "203.0.113.7,", "10.0.0.1"],
  ])(
    "address of a client that connects from %s with X-Forwarded-For %s is %s [R-896]",
    (remote, forwarded, address) => {
      expect(senders.addressOf(from(remote, forwarded === undefined ? {} : { "x-forwarded-for": forwarded }))).toBe(
        address,
      );
    },
  );

  test.each([
    ["a configured proxy", ["127.0.0.0/8"], "198.51.100.9"],
    ["an unknown address", ["10.0.0.0/8"], "127.0.0.1"],
  ])("address of a client in the log comes from %s [R-896]", async (_, proxies, address) => {
    await using ostler = await serviceUnderTest({ token: "a-token-of-the-test", proxies, started: false });
    await fetch(`${ostler.url}/schema.graphql`, { headers: { "x-forwarded-for": "203.0.113.7, 198.51.100.9" } });
    const lines = ostler.logLines.filter((line) => line.includes("had no valid token"));
    expect(lines.map((line) => (JSON.parse(line) as { address: string }).address)).toEqual([address]);
  });
});

describe("page of the service's own host name", () => {
  test.each([
    ["https", "10.0.0.1", "https", true],
    ["https", "10.0.0.1", "wss", true],
    ["http", "10.0.0.1", "https", false],
    ["http", "10.0.0.1", "http", true],
    ["http", "10.0.0.1", "https, http", true],
    ["http", "192.0.2.1", "https", true],
    ["https", "192.0.2.1", "http", true],
  ])(
    "page over %s, sent by %s with X-Forwarded-Proto %s, is allowed: %s [R-897]",
    (scheme, remote, proto, isAllowed) => {
      const headers = { host: "ostler.example", origin: `${scheme}://ostler.example`, "x-forwarded-proto": proto };
      expect(isAllowedOrigin(from(remote, headers), { origins: [], isOpen: true, senders })).toBe(isAllowed);
    },
  );
});
