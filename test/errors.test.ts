/** `messageOf`: the text of anything thrown. */
import { createServer, connect } from "node:net";
import type { AddressInfo } from "node:net";
import { once } from "node:events";
import { expect, test } from "vitest";
import { messageOf } from "../src/errors.ts";

test.each([
  [new Error("no"), "no"],
  ["a text", "a text"],
  [new AggregateError([new Error("one"), new Error("other")], "neither"), "neither"],
])("the message of %s is its own text", (thrown, message) => {
  expect(messageOf(thrown)).toBe(message);
});

test("the message for a host whose addresses all refuse names each address", async () => {
  const closed = createServer().listen(0, "127.0.0.1");
  await once(closed, "listening");
  const { port } = closed.address() as AddressInfo;
  await new Promise((done) => closed.close(done));
  const addresses = ["127.0.0.1", "127.0.0.2"].map((address) => ({ address, family: 4 }));
  const socket = connect({
    host: "two.example",
    port,
    autoSelectFamily: true,
    lookup: (_host, _options, answer) => answer(null, addresses),
  });
  const [error] = (await once(socket, "error").catch((thrown: unknown) => [thrown])) as [unknown];
  expect(messageOf(error)).toBe(`connect ECONNREFUSED 127.0.0.1:${port}; connect ECONNREFUSED 127.0.0.2:${port}`);
});
