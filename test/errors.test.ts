/** What is thrown, as a sentence for people. */
import { createServer, connect } from "node:net";
import type { AddressInfo } from "node:net";
import { once } from "node:events";
import { expect, test } from "vitest";
import { messageOf } from "../src/errors.ts";

test.each([
  [new Error("no"), "no"],
  ["a text", "a text"],
  [new AggregateError([new Error("one"), new Error("other")], "neither"), "neither"],
])("%s is told as it says", (thrown, message) => {
  expect(messageOf(thrown)).toBe(message);
});

test("a name none of whose addresses answers is told with what came of each", async () => {
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
