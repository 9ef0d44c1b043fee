/** Reads that many streams request at the same time are shared, and are never older than the request. */
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createFacts } from "../../src/feed/facts.ts";
import { nodeSnapshot } from "../../src/feed/kinds/node-changes.ts";
import { createSnapshots } from "../../src/feed/log/snapshots.ts";
import type { Claim, Snapshot } from "../../src/feed/log/snapshots.ts";
import type { NodeFacts } from "../../src/store/nodes/node-facts.ts";
import type { NodeFilter } from "../../src/store/nodes/node-filter.ts";
import type { NodeRow } from "../../src/store/nodes/nodes.ts";
import type { TransitionRow } from "../../src/store/log/transitions.ts";
import { ALICE } from "../support/builders.ts";
import { feedUnderTest } from "../support/feed.ts";
import type { SeenItem } from "../support/feed.ts";
import { takeAll, takeUntil } from "../support/service.ts";
import { changeNode } from "../support/change-node.ts";

const feed = await feedUnderTest();
afterAll(() => feed[Symbol.asyncDispose]());
const { ostler } = feed;
const { reader } = ostler.database;

const isCaughtUp = (item: SeenItem) => item.kind === "bookmark" && item.caughtUp;
const newest = async () => (await feed.log()).at(-1)?.position ?? 0;
const tailIsAt = (position: number) =>
  vi.waitFor(() => expect(feed.tail.head).toBe(position), { timeout: 5_000, interval: 5 });
const namesOf = (items: readonly SeenItem[]) =>
  items.flatMap((item) => (item.kind === "transition" ? [item.row.nodeName] : []));

/** Number of statements that started while `work` ran. */
async function statements(work: () => Promise<unknown>): Promise<number> {
  const asked = [vi.spyOn(reader, "select"), vi.spyOn(reader, "execute")];
  await work();
  const count = asked.reduce((sum, { mock }) => sum + mock.calls.length, 0);
  for (const spy of asked) spy.mockRestore();
  return count;
}

describe("500 filtered live streams", () => {
  test("500 filtered live streams need as many statements as one stream", async () => {
    const nodes = await ostler.aNode().labelled({ room: "7" }).in("AVAILABLE").times(5);
    await tailIsAt(await newest());
    const filters = Array.from({ length: 500 }, (_, index) =>
      index % 2 === 0
        ? { labels: { room: "7" }, name: { contains: `${index % 5}` } }
        : { ids: [nodes[index % 5]?.id ?? ""] },
    );
    const streams = filters.map((filter) => feed.stream({ filter }));
    for (const stream of streams) await takeUntil(stream, isCaughtUp);
    const mark = await ostler.aNode().labelled({ room: "7" }).named("mark-01234").made();
    await tailIsAt(await newest());
    const waiting = streams
      .filter((_stream, index) => index % 2 === 0)
      .map((stream) => takeUntil(stream, (item) => item.kind === "transition"));
    const count = await statements(async () => {
      await Promise.all(waiting);
      await feed.goRound(nodes);
    });
    for (const seen of await Promise.all(waiting)) expect(namesOf(seen)).toEqual([mark.name]);
    // The tail's own statement and one for the facts of its transitions, each time it found some.
    expect(count).toBeLessThan(30);
    for (const stream of streams) await stream.return?.();
  });
});

describe("shared facts", () => {
  const row = (nodeId: string, position: number) => ({ nodeId, position }) as TransitionRow;
  let reads: string[][] = [];
  let state = "first";
  let fails = false;
  const facts = () =>
    createFacts(async (ids) => {
      reads.push([...ids]);
      if (fails) throw new Error("the database is away");
      return ids.filter((id) => id !== "gone").map((id) => ({ id, name: state }) as NodeFacts);
    });
  const names = async (of: Promise<readonly (NodeFacts | null)[]>) => (await of).map((node) => node?.name ?? null);
  beforeEach(() => {
    reads = [];
    state = "first";
    fails = false;
  });

  test("shared facts are read once for all that request the same, each node once", async () => {
    const of = facts();
    const asked = [of([row("a", 1), row("b", 2), row("a", 3)], 3), of([row("a", 3)], 3), of([row("gone", 2)], 3)];
    expect(await Promise.all(asked.map(names))).toEqual([["first", "first", "first"], ["first"], [null]]);
    expect(reads).toEqual([["a", "b"], ["gone"]]);
  });

  test("shared facts that were read before a transition do not serve it", async () => {
    const of = facts();
    await of([row("a", 1)], 1);
    state = "second";
    expect(await names(of([row("a", 2)], 2))).toEqual(["second"]);
    expect(await names(of([row("a", 1)], 2))).toEqual(["second"]);
    expect(reads).toEqual([["a"], ["a"]]);
  });

  test("shared facts are read again after a moment", async () => {
    const now = vi.spyOn(performance, "now").mockReturnValue(1_000);
    const of = facts();
    await of([row("a", 1)], 1);
    now.mockReturnValue(1_300);
    state = "second";
    expect(await names(of([row("a", 1)], 1))).toEqual(["second"]);
    now.mockRestore();
  });

  test("shared facts that cannot be read fail the present requests, and no later ones", async () => {
    const of = facts();
    fails = true;
    await expect(of([row("a", 1)], 1)).rejects.toThrow("the database is away");
    fails = false;
    expect(await names(of([row("a", 1)], 1))).toEqual(["first"]);
  });
});

describe("shared snapshots", () => {
  type Limits = Parameters<typeof createSnapshots>[1];
  const claimed = (filters: readonly (NodeFilter | undefined)[], limits?: Limits) => {
    const claim = createSnapshots(ostler.database, limits);
    return filters.map((filter) => claim(nodeSnapshot(filter)));
  };
  const taken = (claims: readonly Claim<NodeRow>[]) => Promise.all(claims.map((claim) => claim.taken));
  const differing = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ not: { name: { eq: `x${index}` } } }));
  /** Number of open snapshots now, and in total. */
  function openedSnapshots() {
    const counts = { now: 0, most: 0, all: 0 };
    const { snapshot } = ostler.database;
    vi.spyOn(ostler.database, "snapshot").mockImplementation(async (work) => {
      counts.now += 1;
      counts.all += 1;
      counts.most = Math.max(counts.most, counts.now);
      return snapshot(work).finally(() => void (counts.now -= 1));
    });
    return counts;
  }
  afterEach(() => void vi.restoreAllMocks());

  test("shared snapshots that are requested at the same time are two at most: the running one and the next one", async () => {
    const opened = openedSnapshots();
    const all = await Promise.all(Array.from({ length: 200 }, () => feed.tail.snapshot(nodeSnapshot(undefined)).taken));
    expect(opened.all).toBe(2);
    expect(new Set(all).size).toBe(2);
    await feed.tail.snapshot(nodeSnapshot(undefined)).taken;
    expect(opened.all).toBe(3);
  });

  test("shared snapshots contain everything that was written before the request [R-119]", async () => {
    const [node] = await ostler.aNode().times(1);
    const early = feed.tail.snapshot(nodeSnapshot(undefined)).taken;
    const revision = (await ostler.node(node as never)).revision;
    await changeNode(ostler.engine, ALICE, node?.id ?? "", { labels: { written: "just now" }, ifRevision: revision });
    const late = await feed.tail.snapshot(nodeSnapshot(undefined)).taken;
    await early;
    expect(late.rows.find(({ id }) => id === node?.id)?.labels).toEqual({ written: "just now" });
  });

  test("shared snapshots of 100 filters are taken two at a time and hold each node once", async () => {
    await ostler.aNode().times(20);
    const opened = openedSnapshots();
    const all = await taken(claimed(differing(100)));
    expect(opened).toMatchObject({ all: 100, most: 2 });
    const [first] = all;
    expect(first?.rows.length).toBeGreaterThanOrEqual(20);
    expect(new Set(all.flatMap(({ rows }) => rows)).size).toBe(first?.rows.length);
  });

  test("shared snapshots share no row of a node that has changed in between", async () => {
    const [node] = await ostler.aNode().times(1);
    const claim = createSnapshots(ostler.database);
    const rowIn = ({ rows }: Snapshot<NodeRow>) => rows.find(({ id }) => id === node?.id);
    const before = await claim(nodeSnapshot(undefined)).taken;
    // This includes changes without a new revision.
    await ostler.test.sql`update nodes set labels = '{"quietly": "written"}' where id = ${node?.id ?? ""}`;
    const after = await claim(nodeSnapshot(undefined)).taken;
    expect(rowIn(before)?.labels).toEqual({});
    expect(rowIn(after)?.labels).toEqual({ quietly: "written" });
    expect(before.rows.filter((row) => after.rows.includes(row))).toHaveLength(before.rows.length - 1);
  });

  test("shared snapshots wait for readers that hold many rows, and are taken in the order of requests when these release them", async () => {
    await ostler.aNode().times(3);
    const opened = openedSnapshots();
    const claims = claimed(differing(4), { atOnce: 1, heldMax: 1 });
    await claims[0]?.taken;
    const second = vi.fn<() => void>();
    void claims[1]?.taken.then(second);
    await new Promise(setImmediate);
    expect(opened.all).toBe(1);
    expect(second).not.toHaveBeenCalled();
    claims[2]?.release();
    claims[0]?.release();
    claims[0]?.release();
    await claims[1]?.taken;
    expect(opened.all).toBe(2);
    claims[1]?.release();
    await claims[3]?.taken;
    expect(opened.all).toBe(3);
  });

  test("shared snapshots without a waiting reader are not started, or are cancelled", async () => {
    const opened = openedSnapshots();
    const [now, ...later] = claimed(differing(50), { atOnce: 1, heldMax: 1 });
    for (const claim of later) claim.release();
    now?.release();
    await vi.waitFor(() => expect(opened.now).toBe(0));
    expect(opened.all).toBe(1);
  });

  test("shared snapshots that fail, fail the present requests and no later ones", async () => {
    const claim = createSnapshots(ostler.database);
    vi.spyOn(ostler.database, "snapshot").mockRejectedValueOnce(new Error("the database is away"));
    await expect(claim(nodeSnapshot(undefined)).taken).rejects.toThrow("the database is away");
    expect((await claim(nodeSnapshot(undefined)).taken).rows.length).toBeGreaterThan(0);
  });
});

describe("filtered stream with many transitions to skip", () => {
  test("filtered stream reads the table in parts, and emits its position every ten seconds meanwhile [R-120]", async () => {
    await using far = await feedUnderTest();
    const { sql } = far.ostler.test;
    await sql`update feed_position set position = 60000`;
    await sql`alter table transitions disable trigger all`;
    await sql`insert into transitions (position, node_id, node_name, project, from_state, to_state, event, sequence, node_revision, actor, at)
      select n, gen_random_uuid(), 'long-gone', 'default', null, 'ENROLLED', 'register', 1, 1, 'test', now() from generate_series(1, 60000) n`;
    far.notify();
    await vi.waitFor(() => expect(far.tail.head).toBe(60_000), { timeout: 20_000 });
    let now = performance.now();
    vi.spyOn(performance, "now").mockImplementation(() => now);
    const select = far.ostler.database.reader.select.bind(far.ostler.database.reader);
    // Each statement seems to take six seconds to the stream.
    vi.spyOn(far.ostler.database.reader, "select").mockImplementation(((...given: [never]) => {
      now += 6_000;
      return select(...given);
    }) as never);
    const items = await takeUntil(far.stream({ after: 0, filter: { name: { eq: "no-such-node" } } }), isCaughtUp);
    vi.restoreAllMocks();
    expect(items.length).toBeGreaterThan(3);
    expect(items.every(({ kind }) => kind === "bookmark")).toBe(true);
    const at = items.map(({ position }) => position);
    expect(at).toEqual(at.toSorted((a, b) => a - b));
    expect(new Set(at).size).toBeGreaterThan(2);
    expect(at.at(-1)).toBe(60_000);
  });
});

describe("stream whose next transitions are deleted before it reads them", () => {
  test.each([
    { which: "unfiltered", filter: undefined },
    { which: "filtered by id", filter: (ids: readonly string[]) => ({ ids }) },
    { which: "filtered by driver", filter: () => ({ driver: "fake" }) },
  ])(
    "stream that is $which ends with TOO_SLOW and the earliest valid cursor if its next transitions are deleted [R-126]",
    async ({ filter }) => {
      await using short = await feedUnderTest();
      const nodes = await short.ostler.aNode().times(150);
      const stream = await short.streamElsewhere({
        after: 0,
        ...(filter && { filter: filter(nodes.map(({ id }) => id)) }),
      });
      await stream.next();
      await short.ostler.test.sql`delete from transitions where position <= 120`;
      const rest = await takeAll(stream);
      expect(rest.at(-1)).toEqual({ kind: "reset", reason: "TOO_SLOW", position: 120 });
      expect(rest.filter((item) => item.kind === "transition" && item.position > 100)).toEqual([]);
    },
  );
});
