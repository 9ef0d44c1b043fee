/** How a stream of transitions ends, and that it emits bookmarks until then. */
import { afterAll, afterEach, describe, expect, test, vi } from "vitest";
import { feedUnderTest, positionsOf, range } from "../support/feed.ts";
import type { FeedUnderTest } from "../support/feed.ts";
import { takeAll, takeUntil } from "../support/service.ts";

const feed = await feedUnderTest();
afterAll(() => feed[Symbol.asyncDispose]());
const { ostler } = feed;

const newest = async (of: FeedUnderTest = feed) => (await of.log()).at(-1)?.position ?? 0;

/** True if the promise is not settled after everything that is due has run. */
async function isPending(promise: Promise<unknown>): Promise<boolean> {
  const open = Symbol("open");
  await new Promise(setImmediate);
  return (await Promise.race([promise, Promise.resolve(open)])) === open;
}

/** Fake timers, with a clock that starts at the next full second, when the bookmarks of idle streams are due. */
function fakeTimers(): void {
  const began = Math.ceil(performance.now() / 1_000) * 1_000;
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date", "performance"] });
  const fake = performance.now.bind(performance);
  const from = fake();
  vi.spyOn(performance, "now").mockImplementation(() => began + Math.round(fake() - from));
}

describe("idle stream", () => {
  afterEach(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });

  test("bookmarks of idle streams are due at the same moment", async () => {
    const began = Math.ceil(performance.now() / 1_000) * 1_000;
    const now = vi.spyOn(performance, "now").mockReturnValue(began);
    const streams = [];
    for (const ms of [100, 900]) {
      now.mockReturnValue(began + ms);
      const stream = feed.stream({});
      await stream.next();
      streams.push(stream);
    }
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const next = streams.map((stream) => stream.next());
    now.mockReturnValue(began + 9_999);
    await vi.advanceTimersByTimeAsync(9_899);
    expect(await Promise.all(next.map(isPending))).toEqual([true, true]);
    now.mockReturnValue(began + 10_000);
    await vi.advanceTimersByTimeAsync(1);
    for (const { value } of await Promise.all(next)) expect(value).toMatchObject({ kind: "bookmark" });
    for (const stream of streams) await stream.return?.();
  });

  test("idle stream emits a bookmark within ten seconds [R-120]", async () => {
    fakeTimers();
    const stream = feed.stream({ filter: { name: { eq: "no-such-node" } } });
    await stream.next();
    for (const _ of range(1, 3)) {
      const next = stream.next();
      await vi.advanceTimersByTimeAsync(9_990);
      expect(await isPending(next)).toBe(true);
      await vi.advanceTimersByTimeAsync(10);
      expect((await next).value).toMatchObject({
        kind: "bookmark",
        position: await newest(),
        caughtUp: false,
        snapshotComplete: false,
      });
    }
    await stream.return?.();
  });

  test("idle stream emits bookmarks while transitions that do not match are written [R-120]", async () => {
    const nodes = await ostler.aNode().in("AVAILABLE").times(2);
    const stream = feed.stream({ filter: { name: { eq: "no-such-node" } } });
    await stream.next();
    const next = stream.next();
    const began = performance.now();
    const now = vi.spyOn(performance, "now").mockReturnValue(began + 9_000);
    await feed.goRound(nodes);
    expect(await isPending(next)).toBe(true);
    now.mockReturnValue(began + 10_001);
    await feed.goRound(nodes);
    expect((await next).value).toMatchObject({ kind: "bookmark", caughtUp: false });
    await stream.return?.();
  });
});

describe("stream that waits for its snapshot", () => {
  afterEach(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });
  /** A stream that never gets its snapshot, with a check whether it still holds its request. */
  function waitingStream() {
    const released = vi.fn<() => void>();
    vi.spyOn(feed.tail, "snapshot").mockReturnValue({ taken: new Promise(() => {}), release: released });
    return { stream: feed.stream({ snapshot: true }), released };
  }

  test("stream that waits for its snapshot emits a bookmark within ten seconds, without a position", async () => {
    fakeTimers();
    const { stream } = waitingStream();
    for (const _ of range(1, 3)) {
      const next = stream.next();
      await vi.advanceTimersByTimeAsync(9_990);
      expect(await isPending(next)).toBe(true);
      await vi.advanceTimersByTimeAsync(10);
      expect((await next).value).toMatchObject({
        kind: "bookmark",
        position: 0,
        caughtUp: false,
        snapshotComplete: false,
      });
    }
    await stream.return?.();
  });

  test("stream that waits for its snapshot ends at once when its client leaves, and gives up its request", async () => {
    const { stream, released } = waitingStream();
    const next = stream.next();
    expect(await isPending(next)).toBe(true);
    expect(released).not.toHaveBeenCalled();
    await stream.return?.();
    expect(await next).toEqual({ done: true, value: undefined });
    expect(released).toHaveBeenCalledTimes(1);
  });

  test("stream that waits for its snapshot fails if the snapshot fails", async () => {
    vi.spyOn(feed.tail, "snapshot").mockReturnValue({
      taken: Promise.reject(new Error("the database is away")),
      release() {},
    });
    await expect(feed.stream({ snapshot: true }).next()).rejects.toThrow("the database is away");
  });

  test("stream that has emitted its snapshot gives up its request", async () => {
    const released = vi.fn<() => void>();
    const { snapshot } = feed.tail;
    vi.spyOn(feed.tail, "snapshot").mockImplementation((filter) => ({
      taken: snapshot(filter).taken,
      release: released,
    }));
    const stream = feed.stream({ snapshot: true });
    await takeUntil(stream, (item) => item.kind === "bookmark" && item.snapshotComplete);
    expect(released).toHaveBeenCalledTimes(1);
    await stream.return?.();
    expect(released).toHaveBeenCalledTimes(1);
  });
});

describe("clock that is set back", () => {
  test("clock that is set back does not silence a stream", async () => {
    const stream = feed.stream();
    await stream.next();
    fakeTimers();
    vi.setSystemTime(Date.now() - 3_600_000);
    const next = stream.next();
    await vi.advanceTimersByTimeAsync(10_000);
    expect((await next).value).toMatchObject({ kind: "bookmark" });
    vi.useRealTimers();
    vi.restoreAllMocks();
    await stream.return?.();
  });
});

describe("stream whose client leaves", () => {
  test("stream whose client leaves ends at once while it waits, and removes its listener [R-127]", async () => {
    const before = feed.listeners;
    const stream = feed.stream();
    await stream.next();
    const waiting = stream.next();
    expect(await isPending(waiting)).toBe(true);
    expect(feed.listeners).toBe(before + 1);
    expect(await stream.return?.()).toEqual({ done: true, value: undefined });
    expect(await isPending(waiting)).toBe(false);
    expect(await waiting).toEqual({ done: true, value: undefined });
    expect(feed.listeners).toBe(before);
  });

  test("stream whose client leaves emits nothing more", async () => {
    await ostler.aNode().times(5);
    const stream = feed.stream({ after: 0 });
    await stream.next();
    await stream.return?.();
    expect(await stream.next()).toEqual({ done: true, value: undefined });
  });

  test("stream whose client leaves leaves nothing behind, however often", async () => {
    const before = feed.listeners;
    for (let time = 0; time < 300; time += 1) {
      const stream = feed.stream(time % 2 === 0 ? {} : { after: 0 });
      await stream.next();
      const waiting = stream.next();
      await stream.return?.();
      await waiting;
    }
    expect(feed.listeners).toBe(before);
  });

  test("stream whose client never took an item leaves nothing behind", async () => {
    const before = feed.listeners;
    const stream = feed.stream();
    await stream.return?.();
    expect(feed.listeners).toBe(before);
  });
});

describe("stream with several requested items", () => {
  test("stream from which several items are requested at once emits them in order", async () => {
    await ostler.aNode().times(10);
    const until = await newest();
    const stream = feed.stream({ after: until - 10 });
    const items = await Promise.all(range(1, 10).map(() => stream.next()));
    await stream.return?.();
    expect(items.map(({ value }) => (value as { position: number }).position)).toEqual(range(until - 9, until));
  });
});

describe("stream of a process that shuts down", () => {
  test("stream that waits ends with SHUTTING_DOWN and a cursor when the process shuts down [R-128]", async () => {
    await using leaving = await feedUnderTest();
    await leaving.ostler.aNode().times(3);
    const stream = leaving.stream();
    await stream.next();
    const rest = takeAll(stream);
    leaving.tail.close();
    expect(await rest).toEqual([{ kind: "reset", reason: "SHUTTING_DOWN", position: 3 }]);
    expect(leaving.listeners).toBe(0);
  });

  test("stream that replays emits the stored transitions before it ends with SHUTTING_DOWN", async () => {
    await using leaving = await feedUnderTest();
    const nodes = await leaving.ostler.aNode().in("AVAILABLE").times(60);
    await leaving.goRound(nodes);
    const until = await newest(leaving);
    await takeUntil(leaving.stream(), ({ position }) => position >= until);
    const stream = leaving.stream({ after: 0 });
    await stream.next();
    leaving.tail.close();
    const items = await takeAll(stream);
    expect(positionsOf(items)).toEqual(range(2, until));
    expect(items.at(-1)).toEqual({ kind: "reset", reason: "SHUTTING_DOWN", position: until });
  });
});

describe("stream after retention", () => {
  test("stream from a deleted cursor ends with CURSOR_EXPIRED and the earliest valid cursor [R-121]", async () => {
    await using short = await feedUnderTest();
    await short.ostler.aNode().times(30);
    await short.ostler.test.sql`delete from transitions where position <= 10`;
    expect(await takeAll(short.stream({ after: 9 }))).toEqual([
      { kind: "reset", reason: "CURSOR_EXPIRED", position: 10 },
    ]);
    const stream = short.stream({ after: 10 });
    expect(positionsOf(await takeUntil(stream, ({ position }) => position === 30))).toEqual(range(11, 30));
    await stream.return?.();
  });

  test("stream of an empty log accepts only the newest position", async () => {
    await using short = await feedUnderTest();
    await short.ostler.aNode().times(3);
    await short.ostler.test.sql`delete from transitions`;
    expect(await takeAll(short.stream({ after: 2 }))).toEqual([
      { kind: "reset", reason: "CURSOR_EXPIRED", position: 3 },
    ]);
    const stream = short.stream({ after: 3 });
    expect((await stream.next()).value).toMatchObject({ kind: "bookmark", caughtUp: true, position: 3 });
    await stream.return?.();
  });
});
