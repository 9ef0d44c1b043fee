/**
 * Streams over WebSocket and server-sent events: both deliver the same items, and a slow client does not affect others.
 */
import { connect } from "node:net";
import { afterAll, describe, expect, test, vi } from "vitest";
import { WebSocket } from "ws";
import { eventually } from "../support/eventually.ts";
import { range } from "../support/feed.ts";
import { randomOfTest } from "../support/random.ts";
import { serviceUnderTest, takeAll, takeUntil } from "../support/service.ts";
import type { Items, ServiceUnderTest, Variables } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const NODE_TRANSITIONS = `
  subscription Watch($filter: NodeFilter, $after: String, $snapshot: Boolean! = false) {
    nodeTransitions(filter: $filter, after: $after, snapshot: $snapshot) {
      type: __typename
      ... on NodeSnapshot { cursor node { name state transitionCount } }
      ... on Transition { cursor nodeName from to event sequence step reason at }
      ... on StreamBookmark { cursor caughtUp snapshotComplete }
      ... on StreamReset { cursor code }
    }
  }`;

interface Item {
  readonly type: "NodeSnapshot" | "Transition" | "StreamBookmark" | "StreamReset";
  readonly cursor: string;
  readonly nodeName?: string;
  readonly to?: string;
  readonly caughtUp?: boolean;
  readonly snapshotComplete?: boolean;
}

type Way = "overSocket" | "overEvents";
const WAYS = [
  { way: "overSocket", over: "a WebSocket" },
  { way: "overEvents", over: "server-sent events" },
] as const;

/** The items of a subscription with one root field. */
function itemsOf<Field>(from: ServiceUnderTest, way: Way, text: string, variables: Variables = {}): Items<Field> {
  const answers = from[way]<Record<string, Field>>(text, variables);
  return {
    async next() {
      const { done, value } = await answers.next();
      return done ? { done, value: undefined } : { done: false, value: Object.values(value)[0] as Field };
    },
    return: async () => (await answers.return?.()) as never,
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

const transitions = (way: Way, variables: Variables = {}, from = ostler) =>
  itemsOf<Item>(from, way, NODE_TRANSITIONS, variables);
const positionIn = (cursor = "") => Number.parseInt(cursor, 10);
const cursorsOf = (items: readonly Item[]) =>
  items.flatMap(({ type, cursor }) => (type === "Transition" ? [positionIn(cursor)] : []));
const isCaughtUp = ({ caughtUp }: Item) => caughtUp === true;
const newest = async () => Number((await ostler.test.sql`select position from feed_position`)[0]?.["position"]);

describe("commission of 200 nodes", () => {
  test("all streams deliver all transitions of 200 commissioned nodes in the same order without gaps [R-117, R-129]", async () => {
    const names = await ostler.register(200);
    const from = await newest();
    const filter = { name: { in: names } };
    const live = [
      transitions("overSocket"),
      transitions("overEvents"),
      transitions("overSocket", { filter }),
      transitions("overEvents", { filter }),
    ];
    for (const stream of live) await stream.next();
    const uuid = await ostler.begin("commissionNodes", names);
    const seeing = live.map((stream) => {
      let active = 0;
      return takeUntil(stream, ({ to }) => to === "ACTIVE" && (active += 1) === 200);
    });
    const [bySocket = [], byEvents, bySocketFiltered, byEventsFiltered] = await Promise.all(seeing);
    expect(await ostler.operationEnds(uuid)).toBe("SUCCEEDED");
    for (const stream of live) await stream.return?.();
    expect(cursorsOf(bySocket)).toEqual(range(from + 1, from + 200 * 8));
    expect(byEvents).toEqual(bySocket);
    expect(bySocketFiltered).toEqual(bySocket);
    expect(byEventsFiltered).toEqual(bySocket);
    const story = bySocket.filter(({ nodeName }) => nodeName === names[77]).map(({ to }) => to);
    expect(story).toEqual([
      "VERIFYING",
      "MANAGEABLE",
      "INSPECTING",
      "MANAGEABLE",
      "CLEANING",
      "AVAILABLE",
      "DEPLOYING",
      "ACTIVE",
    ]);
    const replayed = transitions("overSocket", { after: String(from) });
    expect(await takeUntil(replayed, isCaughtUp)).toEqual([
      ...bySocket,
      {
        type: "StreamBookmark",
        cursor: expect.stringMatching(`^${from + 1600}-`),
        caughtUp: true,
        snapshotComplete: false,
      },
    ]);
    await replayed.return?.();
  }, 60_000);
});

describe.each(WAYS)("nodeTransitions over $over", ({ way }) => {
  test("nodeTransitions with snapshot starts with all nodes and continues with their transitions", async () => {
    const names = await ostler.register(3);
    const stream = transitions(way, { snapshot: true, filter: { name: { in: names } } });
    const snapshot = await takeUntil(stream, ({ snapshotComplete }) => snapshotComplete === true);
    expect(snapshot.slice(0, -1)).toEqual(
      names.map((name) => ({
        type: "NodeSnapshot",
        cursor: snapshot[0]?.cursor,
        node: { name, state: "ENROLLED", transitionCount: 1 },
      })),
    );
    expect(snapshot.at(-1)?.cursor).toBe(snapshot[0]?.cursor);
    await ostler.commission(names, "AVAILABLE");
    const deltas = await takeUntil(
      stream,
      ({ to, cursor }) => to === "AVAILABLE" && positionIn(cursor) === positionIn(snapshot[0]?.cursor) + 18,
    );
    await stream.return?.();
    expect(cursorsOf(deltas)).toEqual(range(positionIn(snapshot[0]?.cursor) + 1, positionIn(snapshot[0]?.cursor) + 18));
  });

  test("nodeTransitions resumes after any disconnect without loss or repetition", async () => {
    const random = randomOfTest();
    const names = await ostler.register(40);
    const from = await newest();
    const ended = ostler.commission(names, "AVAILABLE");
    const seen: number[] = [];
    let cuts = 0;
    for (let cursor = from; cursor < from + 240; cuts += 1) {
      const stream = transitions(way, { after: String(cursor) });
      const items = random.whole(0, 19);
      for (let taken = 0; taken < items && cursor < from + 240; taken += 1) {
        const { value } = (await stream.next()) as { value: Item };
        cursor = positionIn(value.cursor);
        if (value.type === "Transition") seen.push(cursor);
      }
      await stream.return?.();
    }
    await ended;
    expect(cuts).toBeGreaterThan(10);
    expect(seen).toEqual(range(from + 1, from + 240));
  });

  test("nodeTransitions with a future cursor ends with CURSOR_EXPIRED", async () => {
    expect(await takeAll(transitions(way, { after: "999999999" }))).toEqual([
      { type: "StreamReset", cursor: "0", code: "CURSOR_EXPIRED" },
    ]);
  });

  test("a cursor from before a restore of the database is noticed, although the log has grown past it [R-221]", async () => {
    const before = await newest();
    await ostler.register(6);
    const read = async (after: string) => {
      const stream = transitions(way, { after });
      const items = await takeUntil(stream, ({ type, caughtUp }) => caughtUp === true || type === "StreamReset");
      await stream.return?.();
      return items;
    };
    const lost = await read(String(before));
    expect(cursorsOf(lost)).toEqual(range(before + 1, before + 6));
    const cursors = lost.flatMap(({ type, cursor }) => (type === "Transition" ? [cursor] : []));
    // A restore of a backup from the moment after the second transition, and then other transitions.
    await ostler.test.sql.begin(async (sql) => {
      await sql`set local session_replication_role = replica`;
      await sql`update transitions set at = at + interval '1 minute' where position > ${before + 2}`;
    });
    for (const after of cursors.slice(2)) {
      expect(await read(after)).toEqual([{ type: "StreamReset", cursor: "0", code: "CURSOR_EXPIRED" }]);
      const { errors } = await ostler.ask(
        "query ($after: String) { transitions(after: $after) { edges { cursor } } }",
        {
          after,
        },
      );
      expect(errors).toMatchObject([{ extensions: { code: "CURSOR_EXPIRED", cursor: "0" } }]);
    }
    for (const after of [...cursors.slice(0, 2), String(before + 4)])
      expect(cursorsOf(await read(after))).toEqual(range(positionIn(after) + 1, before + 6));
  });

  test.each(["abc", "-1", "1.5", "1-", "1-A", "", "99999999999999999999", "Tm9kZTox"])(
    "nodeTransitions refuses %j, which is not a cursor",
    async (after) => {
      await expect(takeAll(transitions(way, { after }))).rejects.toThrow(
        /BAD_USER_INPUT: .*is not a cursor of a stream/,
      );
    },
  );

  test("nodeTransitions with both a cursor and snapshot is refused", async () => {
    await expect(takeAll(transitions(way, { after: "0", snapshot: true }))).rejects.toThrow(
      /BAD_USER_INPUT: .*`after`.*`snapshot`/,
    );
  });

  test("nodeTransitions refuses an oversized filter and accepts one with a thousand nodes", async () => {
    const filtered = (count: number) =>
      transitions(way, {
        filter: {
          not: {
            or: [{ name: { in: Array.from({ length: count }, (_, index) => `machine-${index}`.padEnd(50, "x")) } }],
          },
        },
      });
    await expect(takeAll(filtered(2_000))).rejects.toThrow(
      /LIMIT_EXCEEDED: At most 65,536 characters in the JSON of a stream's filter are allowed. This request has 106,034.*on the client/,
    );
    const taken = filtered(1_000);
    expect(await takeUntil(taken, isCaughtUp)).toHaveLength(1);
    await taken.return?.();
  });

  test("nodeTransitions filtered by ids delivers deletions with a null node", async () => {
    const [name = ""] = await ostler.register(1);
    const { node } = await ostler.query<{ node: { id: string } }>(
      "query Id($name: String!) { node(by: { name: $name }) { id } }",
      { name },
    );
    const stream = itemsOf<Item>(
      ostler,
      way,
      "subscription Gone($id: ID!) { nodeTransitions(filter: { ids: [$id] }) { type: __typename ... on Transition { event to nodeName node { name } } } }",
      { id: node.id },
    );
    await stream.next();
    await ostler.query(
      "mutation Delete($name: String!) { deleteNodes(input: { nodes: { names: [$name] } }) { errors { code } } }",
      { name },
    );
    const { value } = await stream.next();
    await stream.return?.();
    expect(value).toEqual({ type: "Transition", event: "DELETE", to: null, nodeName: name, node: null });
  });

  test("nodeTransitions releases its resources when the client disconnects", async () => {
    await eventually("earlier streams are closed", () => ostler.listeners() === 0);
    const streams = Array.from({ length: 10 }, () => transitions(way));
    for (const stream of streams) await stream.next();
    expect(ostler.listeners()).toBe(10);
    for (const stream of streams) await stream.return?.();
    await eventually("no stream is subscribed", () => ostler.listeners() === 0);
  });
});

describe.each(WAYS)("shutdown with a stream over $over", ({ way }) => {
  test("a stream ends with SHUTTING_DOWN and the cursor to continue from", async () => {
    await using closing = await serviceUnderTest();
    await closing.register(2);
    const streams = [
      transitions(way, {}, closing),
      transitions(way, { after: "0" }, closing),
      transitions(way, { filter: { name: { eq: "ghost" } } }, closing),
    ];
    for (const stream of streams) await takeUntil(stream, isCaughtUp);
    const rest = streams.map((stream) => takeUntil(stream, ({ type }) => type === "StreamReset"));
    const began = Date.now();
    await closing.close();
    expect(Date.now() - began).toBeLessThan(4_000);
    for (const items of await Promise.all(rest))
      expect(items).toEqual([{ type: "StreamReset", cursor: expect.stringMatching(/^2-/), code: "SHUTTING_DOWN" }]);
    expect(closing.listeners()).toBe(0);
  });
});

describe("stalled client", () => {
  /** Each item is so large that the buffers between server and client cannot hold all of them. */
  const HEAVY =
    "subscription Heavy { nodeTransitions { ... on Transition { cursor node { cluster { variables } } } } }";
  const NODES = 30;
  /** A registration, and those of a commission. */
  const TRANSITIONS = 9 * NODES;

  async function heavyService() {
    const heavy = await serviceUnderTest();
    const names = await heavy.register(NODES);
    await heavy.query(
      "mutation Create($input: CreateClusterInput!) { createCluster(input: $input) { errors { message } } }",
      { input: { name: "heavy", variables: { ballast: "x".repeat(60_000) }, nodes: { names } } },
    );
    return { heavy, names };
  }

  /** Counts the transitions that the server has read for the stalled client after another client has received all. */
  function readAhead(heavy: ServiceUnderTest): () => number {
    const recent = vi.spyOn(heavy.tail, "recent");
    return () =>
      recent.mock.results.reduce((sum, { value }) => sum + ((value as readonly unknown[] | null)?.length ?? 0), 0) -
      (TRANSITIONS - NODES);
  }

  async function anotherClientReceivesAll(heavy: ServiceUnderTest, names: readonly string[]): Promise<void> {
    const other = transitions("overSocket", { filter: { driver: "fake" } }, heavy);
    await other.next();
    const seen = takeUntil(other, ({ cursor }) => positionIn(cursor) === TRANSITIONS);
    await heavy.commission(names);
    expect(cursorsOf(await seen)).toEqual(range(NODES + 1, TRANSITIONS));
    await other.return?.();
  }

  test("a stalled WebSocket client holds a limited number of items, blocks no other, and gets everything later [R-126]", async () => {
    const { heavy, names } = await heavyService();
    await using _ = heavy;
    const ahead = readAhead(heavy);
    const socket = new WebSocket(`${heavy.url.replace("http", "ws")}/graphql`, "graphql-transport-ws");
    const seen: number[] = [];
    const begun = Promise.withResolvers<void>();
    socket.on("message", (bytes: Buffer) => {
      const { type, payload } = JSON.parse(bytes.toString()) as {
        type: string;
        payload?: { data: { nodeTransitions: { cursor?: string } } };
      };
      if (type === "connection_ack")
        socket.send(JSON.stringify({ type: "subscribe", id: "1", payload: { query: HEAVY } }));
      if (type === "next" && payload?.data.nodeTransitions.cursor !== undefined)
        seen.push(positionIn(payload.data.nodeTransitions.cursor));
      if (type === "next") begun.resolve();
    });
    await new Promise((open) => socket.once("open", open));
    socket.send(JSON.stringify({ type: "connection_init" }));
    await begun.promise;
    socket.pause();
    await anotherClientReceivesAll(heavy, names);
    expect(ahead()).toBeLessThan(200);
    socket.resume();
    await eventually("the client has received everything", () => seen.at(-1) === TRANSITIONS);
    expect(seen).toEqual(range(NODES + 1, TRANSITIONS));
    socket.terminate();
    await eventually("no stream is subscribed", () => heavy.listeners() === 0);
  }, 60_000);

  test("a stalled client of server-sent events holds a limited number of items and is released when it disconnects", async () => {
    const { heavy, names } = await heavyService();
    await using _ = heavy;
    const ahead = readAhead(heavy);
    const { hostname, port } = new URL(heavy.url);
    const socket = connect(Number(port), hostname);
    const body = JSON.stringify({ query: HEAVY });
    socket.write(
      `POST /graphql HTTP/1.1\r\nhost: ${hostname}\r\ncontent-type: application/json\r\naccept: text/event-stream\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    await new Promise((first) => socket.once("data", first));
    socket.pause();
    await eventually("the stream has begun", () => heavy.listeners() === 1);
    await anotherClientReceivesAll(heavy, names);
    expect(ahead()).toBeLessThan(200);
    socket.destroy();
    await eventually("no stream is subscribed", () => heavy.listeners() === 0);
  }, 60_000);
});
