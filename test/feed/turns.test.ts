/** Streams that catch up take turns, and leave the event loop and the time to others. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, test, vi } from "vitest";
import { createTurns } from "../../src/feed/log/turns.ts";

const idle = { isBusy: () => false };

describe("turns of streams that catch up", () => {
  test("streams that catch up take turns in order, one page at a time [R-204]", async () => {
    const turns = createTurns(idle);
    const order: string[] = [];
    let atOnce = 0;
    let atOnceMax = 0;
    const stream = async (name: string) => {
      for (let page = 1; page <= 3; page += 1)
        await turns.take(async () => {
          atOnceMax = Math.max(atOnceMax, (atOnce += 1));
          await nextTurn();
          order.push(`${name}${page}`);
          atOnce -= 1;
        });
    };
    await Promise.all([stream("a"), stream("b"), stream("c")]);
    expect(order).toEqual(["a1", "b1", "c1", "a2", "b2", "c2", "a3", "b3", "c3"]);
    expect(atOnceMax).toBe(1);
  });

  test("the event loop goes round between two pages of streams that catch up", async () => {
    const turns = createTurns(idle);
    const order: string[] = [];
    const first = turns.take(async () => {
      order.push("first page");
      setImmediate(() => order.push("others"));
    });
    const second = turns.take(async () => void order.push("second page"));
    await Promise.all([first, second]);
    expect(order).toEqual(["first page", "others", "second page"]);
  });

  test("streams that catch up rest after each page while the process writes", async () => {
    const { promise: opened, resolve: open } = Promise.withResolvers<void>();
    let isBusy = true;
    const rests: number[] = [];
    const turns = createTurns({
      isBusy: () => isBusy,
      rest(milliseconds) {
        rests.push(milliseconds);
        return opened;
      },
    });
    const done: string[] = [];
    await turns.take(async () => void done.push("first"));
    const second = turns.take(async () => void done.push("second"));
    await nextTurn();
    await nextTurn();
    expect(done).toEqual(["first"]);
    isBusy = false;
    open();
    await second;
    await turns.take(async () => void done.push("third"));
    expect(done).toEqual(["first", "second", "third"]);
    expect(rests).toHaveLength(1);
  });

  test("streams that catch up have a sixth of the time while the process writes [R-204]", async () => {
    let now = 0;
    using clock = vi.spyOn(performance, "now").mockImplementation(() => now);
    const rests: number[] = [];
    const turns = createTurns({ isBusy: () => true, rest: async (milliseconds) => void rests.push(milliseconds) });
    for (const milliseconds of [4, 1, 300]) await turns.take(async () => void (now += milliseconds));
    await turns.take(async () => {});
    // A turn that waited for a busy database must not stop the next ones for long.
    expect(rests).toEqual([20, 5, 500]);
    expect(clock).toHaveBeenCalled();
  });

  test("turns have fewer items while the process writes", () => {
    let isBusy = true;
    const turns = createTurns({ isBusy: () => isBusy });
    const busy = turns.items;
    isBusy = false;
    expect(turns.items).toBeGreaterThan(busy);
  });

  test("a page that fails does not stop the other streams", async () => {
    const turns = createTurns(idle);
    const failed = turns.take(() => Promise.reject(new Error("the database is away")));
    await expect(failed).rejects.toThrow("the database is away");
    expect(await turns.take(async () => "next")).toBe("next");
  });
});
