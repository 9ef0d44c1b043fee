/** How a stream of transitions ends, and that it is never silent before. */
import { afterAll, afterEach, describe, expect, test, vi } from "vitest";
import { feedUnderTest, positionsOf, range } from "../support/feed.ts";
import type { FeedUnderTest } from "../support/feed.ts";
import { takeAll, takeUntil } from "../support/service.ts";

const feed = await feedUnderTest();
afterAll(() => feed[Symbol.asyncDispose]());
const { ostler } = feed;

const newest = async (of: FeedUnderTest = feed) => (await of.log()).at(-1)?.position ?? 0;

/** Whether a promise has been settled by the time everything that is due has happened. */
async function isPending(promise: Promise<unknown>): Promise<boolean> {
  const open = Symbol("open");
  await new Promise(setImmediate);
  return (await Promise.race([promise, Promise.resolve(open)])) === open;
}

/** Timers that wait for us, and the clock that goes with them; it goes on from where it is. */
function fakeTimers(): void {
  const began = Math.ceil(performance.now());
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date", "performance"] });
  const fake = performance.now.bind(performance);
  const from = fake();
  vi.spyOn(performance, "now").mockImplementation(() => began + Math.round(fake() - from));
}

describe("a stream to which nothing happens", () => {
  afterEach(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });

  test("gives a bookmark every ten seconds [R-120]", async () => {
    const stream = feed.stream({ filter: { name: { eq: "nobody" } } });
    await stream.next();
    fakeTimers();
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

  test("gives one too while others, that do not match, go on [R-120]", async () => {
    const nodes = await ostler.aNode().in("AVAILABLE").times(2);
    const stream = feed.stream({ filter: { name: { eq: "nobody" } } });
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

describe("a stream that waits for its snapshot", () => {
  afterEach(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });
  /** A stream to which no snapshot is given, and whether it still claims one. */
  function waitingStream() {
    const released = vi.fn<() => void>();
    vi.spyOn(feed.tail, "snapshot").mockReturnValue({ taken: new Promise(() => {}), release: released });
    return { stream: feed.stream({ snapshot: true }), released };
  }

  test("gives a bookmark every ten seconds, at no position", async () => {
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

  test("ends at once when its client leaves, and gives up its claim", async () => {
    const { stream, released } = waitingStream();
    const next = stream.next();
    expect(await isPending(next)).toBe(true);
    expect(released).not.toHaveBeenCalled();
    await stream.return?.();
    expect(await next).toEqual({ done: true, value: undefined });
    expect(released).toHaveBeenCalledTimes(1);
  });

  test("fails when it cannot be taken", async () => {
    vi.spyOn(feed.tail, "snapshot").mockReturnValue({
      taken: Promise.reject(new Error("the database is away")),
      release() {},
    });
    await expect(feed.stream({ snapshot: true }).next()).rejects.toThrow("the database is away");
  });

  test("gives up its claim when it has been given everything", async () => {
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

describe("a clock that is set back", () => {
  test("makes no stream silent", async () => {
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

describe("a stream whose client leaves", () => {
  test("ends at once, although it waits, and nobody listens any more [R-127]", async () => {
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

  test("gives nothing afterwards, though it had more", async () => {
    await ostler.aNode().times(5);
    const stream = feed.stream({ after: 0 });
    await stream.next();
    await stream.return?.();
    expect(await stream.next()).toEqual({ done: true, value: undefined });
  });

  test("leaves nothing behind, time after time", async () => {
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

  test("and never took an item leaves nothing behind either", async () => {
    const before = feed.listeners;
    const stream = feed.stream();
    await stream.return?.();
    expect(feed.listeners).toBe(before);
  });
});

describe("a stream that is asked for several items at once", () => {
  test("gives them in the order asked", async () => {
    await ostler.aNode().times(10);
    const until = await newest();
    const stream = feed.stream({ after: until - 10 });
    const items = await Promise.all(range(1, 10).map(() => stream.next()));
    await stream.return?.();
    expect(items.map(({ value }) => (value as { position: number }).position)).toEqual(range(until - 9, until));
  });
});

describe("when the process leaves", () => {
  test("a waiting stream ends with SHUTTING_DOWN and the cursor to go on from [R-128]", async () => {
    await using leaving = await feedUnderTest();
    await leaving.ostler.aNode().times(3);
    const stream = leaving.stream();
    await stream.next();
    const rest = takeAll(stream);
    leaving.tail.close();
    expect(await rest).toEqual([{ kind: "reset", reason: "SHUTTING_DOWN", position: 3 }]);
    expect(leaving.listeners).toBe(0);
  });

  test("a replaying one is told what there is first", async () => {
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

describe("when old transitions are not kept", () => {
  test("a cursor from before ends with CURSOR_EXPIRED and the earliest that is good [R-121]", async () => {
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

  test("of a log that is empty only the newest position is good", async () => {
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
