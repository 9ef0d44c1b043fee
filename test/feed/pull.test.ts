/** Iterators that are pulled: what settles a request for an item that does not exist yet. */
import { afterEach, describe, expect, test, vi } from "vitest";
import { pulled } from "../../src/feed/pull.ts";
import type { Pause, Producer } from "../../src/feed/pull.ts";
import { Listeners } from "../../src/feed/listeners.ts";
import type { Receiver } from "../../src/runtime/requests.ts";

const HOUR_MS = 3_600_000;

afterEach(() => {
  vi.restoreAllMocks();
});

/** An iterator over what `produced` holds, and the number of calls of its producer. */
function iteratorOf(produced: (number | Pause)[], pauseMs = HOUR_MS) {
  const listeners = new Listeners();
  const state = { calls: 0, released: 0 };
  const produce: Producer<number>["produce"] = () => {
    state.calls += 1;
    const next = produced.shift() ?? { pauseMs };
    return typeof next === "number" ? [next] : next;
  };
  const items = pulled({
    onChange: (listener) => listeners.add(listener),
    produce,
    release: () => void (state.released += 1),
  });
  return { items, state, listeners, change: () => listeners.notify() };
}

describe("pulled iterator", () => {
  test("a change settles a waiting request at once, without another wait", async () => {
    const produced: number[] = [];
    const { items, state, change } = iteratorOf(produced);
    const next = items.next();
    expect(state.calls).toBe(1);
    produced.push(7);
    change();
    expect(state.calls).toBe(2);
    expect(await next).toEqual({ done: false, value: 7 });
    await items.return?.();
  });

  test("a change reaches a waiting receiver at once, which requests the next item", async () => {
    const produced: number[] = [];
    const { items, change } = iteratorOf(produced);
    const received: unknown[] = [];
    const receiver: Receiver<number> = {
      resolve({ done, value }) {
        received.push(done ? "end" : value);
        if (!done) items.request(receiver);
      },
      reject: (error) => received.push(error),
    };
    items.request(receiver);
    for (const value of [1, 2]) {
      produced.push(value);
      change();
      expect(received.at(-1)).toBe(value);
    }
    await items.return?.();
    expect(received).toEqual([1, 2, "end"]);
  });

  test.each([
    { what: "an item that exists", produce: () => [7], received: { done: false, value: 7 } },
    { what: "the end", produce: () => [], received: { done: true, value: undefined } },
    {
      what: "an error",
      produce: () => {
        throw new Error("cannot produce");
      },
      received: new Error("cannot produce"),
    },
  ])("$what reaches a receiver only when its request has returned", async ({ produce, received: expected }) => {
    const items = pulled<number>({ onChange: () => () => {}, produce });
    const received: unknown[] = [];
    items.request({ resolve: (result) => received.push(result), reject: (error) => received.push(error) });
    expect(received).toEqual([]);
    await Promise.resolve();
    expect(received).toEqual([expected]);
  });

  test("a receiver that requests at once each of many items that exist does not exhaust the stack", async () => {
    const many = 50_000;
    const batches = [Array.from({ length: many }, (_, index) => index), []];
    const items = pulled<number>({ onChange: () => () => {}, produce: () => batches.shift() ?? [] });
    let count = 0;
    await new Promise<void>((ended, reject) => {
      const receiver: Receiver<number> = {
        resolve({ done }) {
          if (done) return ended();
          count += 1;
          items.request(receiver);
        },
        reject,
      };
      items.request(receiver);
    });
    expect(count).toBe(many);
  });

  test("an iterator that is woken often starts one timer", async () => {
    const timers = vi.spyOn(globalThis, "setTimeout");
    const produced: number[] = [];
    const { items, change } = iteratorOf(produced);
    for (let index = 0; index < 20; index += 1) {
      const next = items.next();
      produced.push(index);
      change();
      await next;
    }
    expect(timers).toHaveBeenCalledTimes(1);
    await items.return?.();
  });

  test("a shorter pause than the one under way is kept", async () => {
    const { items, change, state } = iteratorOf([{ pauseMs: HOUR_MS }, { pauseMs: 1 }, 5]);
    const next = items.next();
    change();
    expect(await next).toEqual({ done: false, value: 5 });
    expect(state.calls).toBe(3);
    await items.return?.();
  });

  test("a change during a read leads to another read", async () => {
    const listeners = new Listeners();
    const reads: PromiseWithResolvers<readonly number[] | Pause>[] = [];
    const items = pulled<number>({
      onChange: (listener) => listeners.add(listener),
      produce() {
        const read = Promise.withResolvers<readonly number[] | Pause>();
        reads.push(read);
        return read.promise;
      },
    });
    const next = items.next();
    listeners.notify();
    reads[0]?.resolve({ pauseMs: HOUR_MS });
    await vi.waitFor(() => expect(reads).toHaveLength(2));
    reads[1]?.resolve([3]);
    expect(await next).toEqual({ done: false, value: 3 });
    await items.return?.();
  });

  test("a request that waits ends when the reader leaves, and everything is released once", async () => {
    const { items, state, listeners } = iteratorOf([]);
    const next = items.next();
    expect(await items.return?.()).toEqual({ done: true, value: undefined });
    expect(await next).toEqual({ done: true, value: undefined });
    expect(await items.next()).toEqual({ done: true, value: undefined });
    expect(state.released).toBe(1);
    expect(listeners.size).toBe(0);
  });

  test("an error of the producer ends the iterator", async () => {
    const items = pulled<number>({
      onChange: () => () => {},
      produce() {
        throw new Error("cannot produce");
      },
    });
    await expect(items.next()).rejects.toThrow("cannot produce");
    expect((await items.next()).done).toBe(true);
  });
});
