/** The tail of the log: a notification reports new transitions, and polling finds those whose notification was lost. */
import { afterAll, describe, expect, test, vi } from "vitest";
import { createTail } from "../../src/feed/log/tail.ts";
import { createLog } from "../../src/log.ts";
import { createNotifier } from "../../src/store/postgres/notifier.ts";
import type { Notifier } from "../../src/store/postgres/notifier.ts";
import { engineUnderTest } from "../support/builders.ts";

const ostler = await engineUnderTest({ started: false });
afterAll(() => ostler[Symbol.asyncDispose]());
const { database } = ostler;
const log = createLog("silent");

const SILENT_NOTIFIER: Notifier = { notify() {}, subscribe: () => () => {}, [Symbol.asyncDispose]: async () => {} };

describe("tail", () => {
  test("tail is notified at once of transitions that another process has written", async () => {
    await using notifier = await createNotifier(database, () => {});
    // It does not poll.
    vi.useFakeTimers({ toFake: ["setInterval"] });
    await using tail = await createTail({ database, notifier, log }).finally(() => vi.useRealTimers());
    const { promise, resolve } = Promise.withResolvers<void>();
    tail.onAdvance(resolve);
    const before = tail.head;
    await ostler.aNode().made();
    await promise;
    expect(tail.head).toBe(before + 1);
  });

  test("tail finds transitions within a second without a notification", async () => {
    await using tail = await createTail({ database, notifier: SILENT_NOTIFIER, log });
    const { promise, resolve } = Promise.withResolvers<void>();
    tail.onAdvance(resolve);
    const before = tail.head;
    await ostler.aNode().times(3);
    await promise;
    expect(tail.head).toBe(before + 3);
    expect(tail.recent(before, 100)?.map(({ position }) => position)).toEqual([before + 1, before + 2, before + 3]);
  });

  test("tail returns no more recent transitions than requested, none beyond its head, and null before its buffer", async () => {
    await ostler.aNode().times(4);
    await using notifier = await createNotifier(database, () => {});
    await using tail = await createTail({ database, notifier, log });
    const start = tail.head;
    const { promise, resolve } = Promise.withResolvers<void>();
    tail.onAdvance(() => tail.head === start + 5 && resolve());
    await ostler.aNode().times(5);
    await promise;
    expect(tail.recent(start + 1, 2)?.map(({ position }) => position)).toEqual([start + 2, start + 3]);
    expect(tail.recent(start + 5, 100)).toEqual([]);
    expect(tail.recent(start + 50, 100)).toEqual([]);
    expect(tail.recent(start - 1, 100)).toBeNull();
  });
});
