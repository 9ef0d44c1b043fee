/** The tail of the log: it hears of new transitions by the doorbell, and finds them when the doorbell was missed. */
import { afterAll, describe, expect, test } from "vitest";
import { createTail } from "../../src/feed/tail.ts";
import { createLog } from "../../src/log.ts";
import { createNotifier } from "../../src/store/postgres/notifier.ts";
import type { Notifier } from "../../src/store/postgres/notifier.ts";
import { engineUnderTest } from "../support/builders.ts";

const ostler = await engineUnderTest({ started: false });
afterAll(() => ostler[Symbol.asyncDispose]());
const { database } = ostler;
const log = createLog("silent");

const DEAF: Notifier = { notify() {}, subscribe: () => () => {}, [Symbol.asyncDispose]: async () => {} };

describe("a tail", () => {
  test("hears at once of what another process has written", async () => {
    await using bell = await createNotifier(database, () => {});
    await using tail = await createTail({ database, bell, log });
    const { promise, resolve } = Promise.withResolvers<void>();
    tail.onAdvance(resolve);
    const before = tail.head;
    const began = Date.now();
    await ostler.aNode().made();
    await promise;
    expect(tail.head).toBe(before + 1);
    expect(Date.now() - began).toBeLessThan(900);
  });

  test("finds within a second what it was not told of", async () => {
    await using tail = await createTail({ database, bell: DEAF, log });
    const { promise, resolve } = Promise.withResolvers<void>();
    tail.onAdvance(resolve);
    const before = tail.head;
    await ostler.aNode().times(3);
    await promise;
    expect(tail.head).toBe(before + 3);
    expect(tail.recent(before, 100)?.map(({ position }) => position)).toEqual([before + 1, before + 2, before + 3]);
  });

  test("hands out of its ring no more than asked, nothing beyond its head, and says when it does not reach back", async () => {
    await ostler.aNode().times(4);
    await using bell = await createNotifier(database, () => {});
    await using tail = await createTail({ database, bell, log });
    const began = tail.head;
    const { promise, resolve } = Promise.withResolvers<void>();
    tail.onAdvance(() => tail.head === began + 5 && resolve());
    await ostler.aNode().times(5);
    await promise;
    expect(tail.recent(began + 1, 2)?.map(({ position }) => position)).toEqual([began + 2, began + 3]);
    expect(tail.recent(began + 5, 100)).toEqual([]);
    expect(tail.recent(began + 50, 100)).toEqual([]);
    expect(tail.recent(began - 1, 100)).toBeNull();
  });
});
