/** The stream of transitions: no gaps, no duplicates, in order, whenever a reader subscribes or leaves. */
import { afterAll, describe, expect, test } from "vitest";
import { move } from "../support/moves.ts";
import { feedUnderTest, positionsOf, range } from "../support/feed.ts";
import type { SeenItem } from "../support/feed.ts";
import type { TestNode } from "../support/builders.ts";
import { randomOfTest } from "../support/random.ts";
import { takeAll, takeUntil } from "../support/service.ts";

const feed = await feedUnderTest();
afterAll(() => feed[Symbol.asyncDispose]());
const { ostler } = feed;

const isCaughtUp = (item: SeenItem) => item.kind === "bookmark" && item.caughtUp;
const isAt = (position: number) => (item: SeenItem) => item.position >= position;
const newest = async () => (await feed.log()).at(-1)?.position ?? 0;

/** Eight concurrent writers, each on its own nodes; some change one node per transaction, some many. */
async function severalWriters(
  rounds: number,
): Promise<{ readonly from: number; readonly until: number; readonly done: Promise<void> }> {
  const groups = await Promise.all(
    [1, 1, 1, 1, 2, 5, 10, 30].map((count) => ostler.aNode().in("AVAILABLE").times(count)),
  );
  const from = await newest();
  const done = Promise.all(groups.map((group) => feed.goRound(group, rounds))).then(() => {});
  return { from, until: from + groups.flat().length * rounds * 3, done };
}

describe("live node stream", () => {
  test("node stream without a cursor reports its position and that it has caught up at once", async () => {
    await ostler.aNode().made();
    const stream = feed.stream();
    const first = await stream.next();
    await stream.return?.();
    expect(first.value).toMatchObject({
      kind: "bookmark",
      position: await newest(),
      caughtUp: true,
      snapshotComplete: false,
    });
  });

  test("node stream emits every later transition once, in order and without gaps, while eight writers write [R-117]", async () => {
    const stream = feed.stream();
    const { value: first } = (await stream.next()) as { value: SeenItem };
    const { until, done } = await severalWriters(10);
    const [items] = await Promise.all([takeUntil(stream, isAt(until)), done]);
    await stream.return?.();
    expect(positionsOf(items)).toEqual(range(first.position + 1, await newest()));
  });

  test("node stream emits the transitions of each node in order [R-117]", async () => {
    const nodes = await ostler.aNode().in("AVAILABLE").times(3);
    const stream = feed.stream();
    await stream.next();
    await feed.goRound(nodes, 2);
    const items = await takeUntil(stream, isAt(await newest()));
    await stream.return?.();
    for (const { id } of nodes) {
      const rows = items.flatMap((item) => (item.kind === "transition" && item.row.nodeId === id ? [item.row] : []));
      expect(rows.map(({ event }) => event)).toEqual(["manage", "clean", "done", "manage", "clean", "done"]);
      expect(rows.map(({ sequence }) => sequence)).toEqual(range(rows[0]?.sequence ?? 0, (rows[0]?.sequence ?? 0) + 5));
    }
  });
});

describe("node stream from a cursor", () => {
  test("node stream from a cursor replays, reports once that it has caught up, and continues live [R-118]", async () => {
    const nodes = await ostler.aNode().in("AVAILABLE").times(40);
    await feed.goRound(nodes, 3);
    const was = await newest();
    const stream = feed.stream({ after: 0 });
    const replayed = await takeUntil(stream, isCaughtUp);
    expect(positionsOf(replayed)).toEqual(range(1, was));
    await feed.goRound(nodes);
    const live = await takeUntil(stream, isAt(was + 120));
    await stream.return?.();
    expect(positionsOf(live)).toEqual(range(was + 1, was + 120));
    expect(live.filter(isCaughtUp)).toEqual([]);
  });

  test("node stream resumes from any position while eight writers write [R-118]", async () => {
    const random = randomOfTest();
    const { from, until, done } = await severalWriters(20);
    const seen: number[] = [];
    let cuts = 0;
    for (let cursor = from; cursor < until; cuts += 1) {
      const stream = feed.stream({ after: cursor });
      const items = random.whole(0, 99);
      for (let taken = 0; taken < items && cursor < until; taken += 1) {
        const { value } = (await stream.next()) as { value: SeenItem };
        cursor = value.position;
        if (value.kind === "transition") seen.push(value.position);
      }
      await stream.return?.();
    }
    await done;
    expect(cuts).toBeGreaterThan(20);
    expect(seen).toEqual(range(from + 1, until));
  });

  test("node stream resumes from the cursor of a bookmark as from that of a transition [R-118]", async () => {
    const nodes = await ostler.aNode().in("AVAILABLE").times(5);
    const stream = feed.stream({ after: 0 });
    const bookmark = (await takeUntil(stream, isCaughtUp)).at(-1);
    await stream.return?.();
    await feed.goRound(nodes);
    const again = feed.stream({ after: bookmark?.position ?? 0 });
    const items = await takeUntil(again, isCaughtUp);
    await again.return?.();
    expect(positionsOf(items)).toEqual(range((bookmark?.position ?? 0) + 1, (bookmark?.position ?? 0) + 15));
  });

  test("node stream from a future cursor ends at once with CURSOR_EXPIRED [R-121]", async () => {
    const position = await newest();
    expect(await takeAll(feed.stream({ after: position + 1 }))).toEqual([
      { kind: "reset", reason: "CURSOR_EXPIRED", position: 0 },
    ]);
  });
});

describe("node stream with a snapshot", () => {
  test("node stream with a snapshot, folded, equals the nodes while eight writers write [R-119]", async () => {
    const { until, done } = await severalWriters(10);
    const stream = feed.stream({ snapshot: true });
    const states = new Map<string, string | null>();
    const revisions = new Map<string, number>();
    const taken = await takeUntil(stream, (item) => item.kind === "bookmark" && item.snapshotComplete);
    for (const item of taken) {
      if (item.kind !== "snapshot") continue;
      states.set(item.node.name, item.node.state);
      revisions.set(item.node.name, item.node.transitionCount);
    }
    expect(states.size).toBe(taken.length - 1);
    await done;
    const deltas = await takeUntil(stream, isAt(until));
    await stream.return?.();
    expect(positionsOf(deltas)).toEqual(range((taken.at(-1)?.position ?? 0) + 1, until));
    for (const item of deltas) {
      if (item.kind !== "transition") continue;
      expect(item.row.fromState).toBe(states.get(item.row.nodeName));
      expect(item.row.sequence).toBe((revisions.get(item.row.nodeName) ?? 0) + 1);
      states.set(item.row.nodeName, item.row.toState);
      revisions.set(item.row.nodeName, item.row.sequence);
    }
    expect(Object.fromEntries(states)).toEqual(await ostler.nodeStates());
  });

  test("node stream with a snapshot emits every node once, by name, as of one position, and the bookmark last [R-119]", async () => {
    const stream = feed.stream({ snapshot: true });
    const taken = await takeUntil(stream, (item) => item.kind === "bookmark");
    await stream.return?.();
    const nodes = taken.slice(0, -1).map((item) => (item.kind === "snapshot" ? item.node.name : item.kind));
    const rows = await ostler.test.sql<{ name: string }[]>`select name from nodes order by name`;
    expect(nodes).toEqual(rows.map(({ name }) => name));
    expect(new Set(taken.map(({ position }) => position)).size).toBe(1);
    expect(taken.at(-1)).toMatchObject({ kind: "bookmark", snapshotComplete: true });
  });

  test("node stream with a snapshot of no nodes emits the bookmark only", async () => {
    const stream = feed.stream({ snapshot: true, filter: { name: { eq: "no-such-node" } } });
    expect((await stream.next()).value).toMatchObject({ kind: "bookmark", snapshotComplete: true });
    await stream.return?.();
  });
});

describe("filtered node stream", () => {
  test.each<{ by: string; filter: (node: TestNode) => object }>([
    { by: "id", filter: ({ id }) => ({ ids: [id] }) },
    { by: "name", filter: ({ name }) => ({ name: { eq: name } }) },
    { by: "label", filter: () => ({ labels: { room: "7" } }) },
    { by: "cluster", filter: () => ({ clusterName: "paris" }) },
  ])(
    "filtered node stream by $by emits the matching node only, and advances its cursor over the others",
    async ({ by, filter }) => {
      await ostler.engine.createCluster(
        { actor: "alice", project: "default", scope: "ADMIN" as const },
        { name: "paris" },
      );
      const others = await ostler.aNode().in("AVAILABLE").times(3);
      const from = await newest();
      const node = await ostler
        .aNode()
        .labelled(by === "label" ? { room: "7" } : {})
        .in("AVAILABLE")
        .made();
      if (by === "cluster")
        await ostler.engine.updateCluster(
          { actor: "alice", project: "default", scope: "ADMIN" as const },
          { name: "paris" },
          { add: { ids: [node.id] } },
        );
      await feed.goRound([node]);
      await feed.goRound(others);
      const stream = feed.stream({ after: from, filter: filter(node) });
      const items = await takeUntil(stream, isCaughtUp);
      await stream.return?.();
      expect(items.flatMap((item) => (item.kind === "transition" ? [item.row.nodeName] : []))).toEqual(
        Array.from({ length: by === "cluster" ? 3 + 4 : 7 }, () => node.name),
      );
      expect(items.at(-1)?.position).toBe(await newest());
      if (by === "cluster")
        await ostler.engine.updateCluster(
          { actor: "alice", project: "default", scope: "ADMIN" as const },
          { name: "paris" },
          { remove: { ids: [node.id] } },
        );
    },
  );

  test("filtered node stream by state emits a change only while the node is in the state", async () => {
    const resting = await ostler.aNode().in("AVAILABLE").made();
    const gone = await ostler.aNode().in("AVAILABLE").made();
    const from = await newest();
    await feed.goRound([resting, gone]);
    await ostler.transact(
      async (work) => void (await move(work, [gone.id], { from: "AVAILABLE", event: "manage" }, { actor: "test" })),
    );
    const stream = feed.stream({ after: from, filter: { states: ["AVAILABLE"], ids: [resting.id, gone.id] } });
    const items = await takeUntil(stream, isCaughtUp);
    await stream.return?.();
    expect(items.flatMap((item) => (item.kind === "transition" ? [item.row.nodeName] : []))).toEqual([
      resting.name,
      resting.name,
      resting.name,
    ]);
  });

  test("filtered node stream by ids emits deletions and the transitions before them", async () => {
    const node = await ostler.aNode().made();
    const stream = feed.stream({ filter: { ids: [node.id] } });
    await stream.next();
    await ostler.engine.deleteNodes(
      { actor: "alice", project: "default", scope: "ADMIN" as const },
      { ids: [node.id] },
    );
    const live = await stream.next();
    await stream.return?.();
    expect(live.value).toMatchObject({
      kind: "transition",
      row: { event: "delete", fromState: "ENROLLED", toState: null, nodeName: node.name },
    });
    const replay = feed.stream({ after: 0, filter: { ids: [node.id] } });
    const items = await takeUntil(replay, isCaughtUp);
    await replay.return?.();
    expect(items.flatMap((item) => (item.kind === "transition" ? [item.row.event] : []))).toEqual([
      "register",
      "delete",
    ]);
  });
});

describe("many node streams", () => {
  test("many node streams emit the same, whatever their pace", async () => {
    const { from, until, done } = await severalWriters(5);
    const streams = Array.from({ length: 50 }, () => feed.stream({ after: from }));
    const seen = await Promise.all(
      streams.map(async (stream, index) => {
        // Half of them start after everything is written, the others before.
        if (index % 2 === 1) await done;
        const items = await takeUntil(stream, isAt(until));
        await stream.return?.();
        return positionsOf(items);
      }),
    );
    for (const positions of seen) expect(positions).toEqual(range(from + 1, until));
  });
});
