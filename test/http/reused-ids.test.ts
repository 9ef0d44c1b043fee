/**
 * The number of concurrent operations of a socket, whatever their client completes, and the order in which they start.
 */
import { describe, expect, test } from "vitest";
import { withReusedIds } from "../../src/http/workarounds/reused-ids.ts";

/** A socket whose operations end on command. */
function socketUnderTest(operationsMax: number) {
  const live = new Set<string>();
  const under = new Map<string, () => void>();
  const seen: string[] = [];
  const held: boolean[] = [];
  let cuts = 0;
  const receive = withReusedIds(
    {
      handle(text) {
        const { id, type } = JSON.parse(text) as { readonly id: string; readonly type: string };
        seen.push(`${type} ${id}`);
        if (type === "complete") live.delete(id);
        if (type !== "subscribe") return Promise.resolve();
        live.add(id);
        const { promise, resolve } = Promise.withResolvers<void>();
        under.set(id, resolve);
        return promise;
      },
      isLive: (id) => live.has(id),
      liveCount: () => live.size,
      onFull: (isFull) => void held.push(isFull),
      onSurplus: () => void (cuts += 1),
    },
    operationsMax,
  );
  return {
    seen,
    get underWay() {
      return under.size;
    },
    get isHeld() {
      return held.at(-1) === true;
    },
    get cuts() {
      return cuts;
    },
    send: (type: "subscribe" | "complete", id: string) => receive(JSON.stringify({ type, id })),
    async end(id: string) {
      under.get(id)?.();
      under.delete(id);
      live.delete(id);
      await new Promise(setImmediate);
    },
  };
}

describe("operations that their client has completed and that still run", () => {
  test("operations that their client has completed count until they end: one above the limit waits, and nothing more is read", async () => {
    const socket = socketUnderTest(3);
    for (const id of ["a", "b", "c"]) {
      socket.send("subscribe", id);
      socket.send("complete", id);
    }
    socket.send("subscribe", "d");
    socket.send("subscribe", "e");
    expect(socket.underWay).toBe(3);
    expect(socket.isHeld).toBe(true);
    await socket.end("b");
    expect(socket.underWay).toBe(3);
    expect(socket.isHeld).toBe(true);
    await socket.end("a");
    expect(socket.isHeld).toBe(false);
    expect(socket.seen).toEqual([
      "subscribe a",
      "complete a",
      "subscribe b",
      "complete b",
      "subscribe c",
      "complete c",
      "subscribe d",
      "subscribe e",
    ]);
  });

  test("operations that are completed while they wait do not start", async () => {
    const socket = socketUnderTest(1);
    for (let index = 0; index < 3_000; index += 1) {
      socket.send("subscribe", `${index}`);
      socket.send("complete", `${index}`);
    }
    socket.send("subscribe", "last");
    await socket.end("0");
    expect(socket.seen).toEqual(["subscribe 0", "complete 0", "subscribe last"]);
    expect(socket.isHeld).toBe(false);
    expect(socket.cuts).toBe(0);
  });

  test("operations above the limit are refused at once if the client has completed none of the others", () => {
    const socket = socketUnderTest(2);
    for (const id of ["a", "b", "c"]) socket.send("subscribe", id);
    expect(socket.seen).toEqual(["subscribe a", "subscribe b", "subscribe c"]);
    expect(socket.isHeld).toBe(false);
  });
});

describe("reused operation ID", () => {
  test("reused operation ID waits for the end of its earlier operation, and later messages wait behind it", async () => {
    const socket = socketUnderTest(10);
    socket.send("subscribe", "a");
    socket.send("complete", "a");
    socket.send("subscribe", "a");
    socket.send("subscribe", "a");
    socket.send("subscribe", "b");
    expect(socket.seen).toEqual(["subscribe a", "complete a", "subscribe b"]);
    expect(socket.isHeld).toBe(false);
    await socket.end("a");
    expect(socket.seen).toEqual(["subscribe a", "complete a", "subscribe b", "subscribe a", "subscribe a"]);
  });

  test("reused operation ID is refused if it is reused again and again", () => {
    const socket = socketUnderTest(10);
    socket.send("subscribe", "a");
    socket.send("complete", "a");
    for (let index = 0; index < 100; index += 1) socket.send("subscribe", "a");
    expect(socket.cuts).toBe(0);
    socket.send("subscribe", "a");
    expect(socket.cuts).toBe(1);
  });
});
