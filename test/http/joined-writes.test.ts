/** Items of a stream that are ready at the same time leave in one write to the connection. */
import { Socket } from "node:net";
import { Writable } from "node:stream";
import { afterAll, describe, expect, test, vi } from "vitest";
import { Cork } from "../../src/http/sockets/corked.ts";
import { serviceUnderTest, takeUntil } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const TRANSITIONS = 400;
const REPLAY =
  'subscription { nodeTransitions(after: "0") { ... on Transition { cursor nodeName } ... on StreamBookmark { caughtUp } } }';

interface Replayed {
  readonly nodeTransitions: { readonly nodeName?: string; readonly caughtUp?: boolean };
}

/** The writes of the service's side of all connections, as the kernel gets them. */
function countWrites(): () => number {
  const port = Number(new URL(ostler.url).port);
  const ways = Socket.prototype as unknown as Record<"_writev" | "_write", (...given: unknown[]) => void>;
  const spies = [vi.spyOn(ways, "_writev"), vi.spyOn(ways, "_write")];
  return () => {
    const sockets = spies.flatMap(({ mock }) => mock.contexts as unknown as readonly Socket[]);
    for (const spy of spies) spy.mockRestore();
    return sockets.filter(({ localPort }) => localPort === port).length;
  };
}

describe.each([
  { way: "overSocket", over: "a WebSocket" },
  { way: "overEvents", over: "server-sent events" },
] as const)("a replay over $over", ({ way }) => {
  test("a replay costs a write for each page of items, not for each item [R-203]", async () => {
    if (way === "overSocket") await ostler.register(TRANSITIONS);
    const writes = countWrites();
    const items = await takeUntil(
      ostler[way]<Replayed>(REPLAY),
      ({ nodeTransitions }) => nodeTransitions.caughtUp === true,
    );
    const count = writes();
    expect(items.filter(({ nodeTransitions }) => nodeTransitions.nodeName !== undefined)).toHaveLength(TRANSITIONS);
    expect(count).toBeGreaterThan(0);
    expect(count).toBeLessThan(TRANSITIONS / 8);
  });
});

test("writes of one turn of the event loop are joined, also those before the end", async () => {
  const written: number[] = [];
  const stream = new Writable({
    writev(chunks, done) {
      written.push(chunks.length);
      done();
    },
  });
  const cork = new Cork(stream);
  const write = (count: number) => {
    for (let index = 0; index < count; index += 1) {
      cork.hold();
      stream.write("x");
    }
  };
  write(100);
  expect(written).toEqual([]);
  await new Promise(setImmediate);
  expect(written).toEqual([100]);
  write(3);
  stream.end();
  await new Promise(setImmediate);
  expect(written).toEqual([100, 3]);
});
