/** Lookups of a worker: the names of a call lead to the addresses that were checked. */
import dns from "node:dns";
import { lookup as lookupWithCallback } from "node:dns";
import { lookup } from "node:dns/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { pinLookups } from "../../src/drivers/isolation/pinned-lookups.ts";

const pin = pinLookups();
const NAME = "bmc-7.invalid";
const server = createServer((request, response) => response.end(request.headers.host));
let port = 0;
beforeAll(async () => {
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  ({ port } = server.address() as AddressInfo);
});
afterAll(() => server.close());

test("HTTP request to a checked name goes to the checked address, and keeps the name in its Host header [R-312]", async () => {
  pin(new Map([[NAME, [{ address: "127.0.0.1", family: 4 }]]]));
  const response = await fetch(`http://${NAME.toUpperCase()}:${port}/`);
  expect(await response.text()).toBe(`${NAME}:${port}`);
});

test("every lookup function returns the checked addresses [R-312]", async () => {
  const [four, six] = [
    { address: "10.0.0.7", family: 4 },
    { address: "2001:db8::7", family: 6 },
  ];
  pin(new Map([[NAME, [four, six]]]));
  expect(await lookup(NAME)).toEqual(four);
  expect(await lookup(NAME, { all: true })).toEqual([four, six]);
  expect(await lookup(NAME, 6)).toEqual(six);
  expect(await promisify(dns.lookup)(NAME, { family: 6 })).toEqual(six);
  expect(await new Promise((done) => lookupWithCallback(NAME, (...found) => done(found)))).toEqual([
    null,
    "10.0.0.7",
    4,
  ]);
  pin(new Map([[NAME, [four]]]));
  await expect(lookup(NAME, { family: 6 })).rejects.toMatchObject({ code: "ENOTFOUND" });
});

test("names that are not in the call are looked up as usual, and those of an earlier call again [R-312]", async () => {
  pin(new Map([[NAME, [{ address: "10.0.0.7", family: 4 }]]]));
  expect(await lookup("localhost", 4)).toEqual({ address: "127.0.0.1", family: 4 });
  pin(new Map());
  await expect(lookup(NAME)).rejects.toMatchObject({ code: expect.stringMatching(/ENOTFOUND|EAI_AGAIN/) });
});
