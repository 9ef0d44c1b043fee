/** `watchNodes` on a real server, over connections that are cut; and on one that follows a script, for what a real one never does. */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { buildSchema, isInputObjectType } from "graphql";
import { afterAll, afterEach, describe, expect, test, vi } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { WatchError, createNodeMap, watchNodes } from "../../src/client/index.ts";
import type { NodeFilter, Transition, WatchItem, WatchOptions } from "../../src/client/index.ts";
import { cutter } from "../support/cutter.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest, takeUntil } from "../support/service.ts";

const ostler = await serviceUnderTest({ token: "hunter2" });
afterAll(() => ostler[Symbol.asyncDispose]());

const QUICK = { firstPauseMs: 20, longestPauseMs: 100 } as const;
const watchers = new Set<AsyncIterator<unknown>>();
afterEach(async () => {
  for (const watcher of watchers) await watcher.return?.();
  watchers.clear();
});

/** A watcher of the service that the test's end leaves. */
function watch<Fields = { name: string; state: string }>(options: Partial<WatchOptions> = {}) {
  const items = watchNodes<Fields>({ url: `${ostler.url}/graphql`, token: "hunter2", ...QUICK, ...options });
  watchers.add(items);
  return items;
}

const isLive = (item: WatchItem<unknown>) => item.kind === "bookmark" && item.live;
const transitionsIn = <Fields>(items: readonly WatchItem<Fields>[]) =>
  items.filter((item) => item.kind === "transition");

/** Every transition after a position, as the log has it. */
async function logAfter(cursor: string): Promise<Pick<Transition, "cursor" | "nodeName" | "sequence" | "to">[]> {
  const rows: Pick<Transition, "cursor" | "nodeName" | "sequence" | "to">[] = [];
  for (let after = cursor, more = true; more; after = rows.at(-1)?.cursor ?? after) {
    const { transitions } = await ostler.query<{
      transitions: { edges: { node: (typeof rows)[number] }[]; pageInfo: { hasNextPage: boolean } };
    }>(
      "query Log($after: String!) { transitions(after: $after, first: 500) { edges { node { cursor nodeName sequence to } } pageInfo { hasNextPage } } }",
      { after },
    );
    rows.push(...transitions.edges.map(({ node }) => node));
    more = transitions.pageInfo.hasNextPage;
  }
  return rows;
}

describe("a watcher", () => {
  test("is told all nodes, and then each transition", async () => {
    const names = await ostler.register(3);
    const items = watch();
    const first = await takeUntil(items, isLive);
    expect(first[0]).toEqual({ kind: "begin", reason: "START" });
    expect(first.filter((item) => item.kind === "node").map(({ node }) => node)).toEqual(
      names.map((name) => ({
        uuid: expect.any(String) as unknown,
        transitionCount: 1,
        revision: 1,
        name,
        state: "ENROLLED",
      })),
    );
    const complete = first.findLast((item) => item.kind === "complete");
    await ostler.commission(names);
    const told = transitionsIn(
      await takeUntil(
        items,
        (item) =>
          item.kind === "transition" && item.transition.nodeName === names[2] && item.transition.to === "ACTIVE",
      ),
    );
    expect(
      told.map(({ transition: { cursor, nodeName, sequence, to } }) => ({ cursor, nodeName, sequence, to })),
    ).toEqual((await logAfter(complete?.cursor ?? "")).slice(0, told.length));
    expect(told.at(-1)?.node).toEqual({
      uuid: told.at(-1)?.transition.nodeUuid,
      transitionCount: told.at(-1)?.transition.sequence,
      revision: told.at(-1)?.transition.nodeRevision,
      name: names[2],
      state: "ACTIVE",
    });
  });

  test("is told what it asks for of nodes and transitions", async () => {
    const [name = ""] = await ostler.register(1);
    const items = watchNodes<{ name: string; presence: string }, { actor: string }>({
      url: `${ostler.url}/graphql`,
      token: () => Promise.resolve("hunter2"),
      filter: { name: { eq: name } },
      nodeFields: "name presence",
      transitionFields: "actor",
    });
    watchers.add(items);
    const first = await takeUntil(items, isLive);
    expect(first.find((item) => item.kind === "node")?.node).toMatchObject({ name, presence: "UNSEEN" });
    await ostler.operationEnds(await ostler.begin("manageNodes", [name]));
    const [told] = transitionsIn(await takeUntil(items, ({ kind }) => kind === "transition"));
    expect(told).toMatchObject({ transition: { event: "verify", actor: "token" }, node: { name, presence: "UNSEEN" } });
  });

  test("goes on in another process from the cursor that was kept", async () => {
    const [name = ""] = await ostler.register(1);
    const cursor = (await takeUntil(watch(), isLive)).findLast((item) => item.kind === "bookmark")?.cursor ?? "";
    await ostler.register(2);
    const items = await takeUntil(watch({ after: cursor }), isLive);
    expect(items.map(({ kind }) => kind)).toEqual(["transition", "transition", "bookmark"]);
    expect(
      transitionsIn(items).every(({ transition }) => transition.nodeName !== name && transition.from === null),
    ).toBe(true);
  });

  test("whose cursor is not of this log is told to forget, and gets a snapshot", async () => {
    const broken: string[] = [];
    const items = await takeUntil(watch({ after: "999999999", onBreak: ({ why }) => broken.push(why) }), isLive);
    expect(items[0]).toEqual({ kind: "begin", reason: "CURSOR_EXPIRED" });
    expect(items.some(({ kind }) => kind === "complete")).toBe(true);
    expect(broken).toEqual(["the server ended the stream: CURSOR_EXPIRED"]);
  });

  test("that leaves is done at once, in the middle of a wait, and the server notices", async () => {
    await eventually("nobody watches", () => ostler.listeners() === 0);
    const leave = new AbortController();
    const [one, other] = [watch({ signal: leave.signal }), watch()];
    for (const items of [one, other]) await takeUntil(items, isLive);
    const waits = [one.next(), other.next()];
    await eventually("both streams wait", () => ostler.listeners() === 2);
    leave.abort();
    await other.return?.();
    expect(await Promise.all(waits)).toEqual([
      { done: true, value: undefined },
      { done: true, value: undefined },
    ]);
    await eventually("the server has let go", () => ostler.listeners() === 0);
    expect(await watch({ signal: AbortSignal.abort() }).next()).toEqual({ done: true, value: undefined });
  });

  test("is refused with a sentence when its token is wrong, or its fields are not there", async () => {
    await expect(takeUntil(watch({ token: "wrong" }), isLive)).rejects.toMatchObject({
      name: "WatchError",
      code: "REFUSED",
      closeCode: 4403,
    });
    await expect(takeUntil(watch({ nodeFields: "nome" }), isLive)).rejects.toThrow(
      /Cannot query field "nome" on type "Node"/,
    );
    await expect(takeUntil(watch({ url: "ftp://nowhere/graphql" }), isLive)).rejects.toThrow(
      "ftp://nowhere/graphql is no address of an API",
    );
  });

  test("names every field of the filter", () => {
    const all: Required<NodeFilter> = {
      ids: [],
      name: {},
      states: [],
      powerStates: [],
      presence: [],
      maintenance: null,
      retired: null,
      protected: null,
      withErrors: null,
      powerDrift: null,
      hostGroup: null,
      cluster: null,
      driver: null,
      labels: [],
      or: [],
      not: null,
    };
    const filter = buildSchema(readFileSync(new URL("../../schema.graphql", import.meta.url), "utf8")).getType(
      "NodeFilter",
    );
    expect(Object.keys(all).toSorted()).toEqual(
      isInputObjectType(filter) ? Object.keys(filter.getFields()).toSorted() : [],
    );
  });
});

describe("a connection that is cut", () => {
  test("again and again costs no transition, tells none twice, and leaves the map as the nodes are", async () => {
    await using way = await cutter(ostler.url);
    const names = await ostler.register(12, { delayMs: 5, waitSeconds: 0.05 });
    const {
      nodes: { edges },
    } = await ostler.query<{ nodes: { edges: { node: { id: string } }[] } }>(
      "query Ids($names: [String!]!) { nodes(filter: { name: { in: $names } }) { edges { node { id } } } }",
      { names },
    );
    const ids = edges.map(({ node }) => node.id);
    const breaks: string[] = [];
    let live = 0;
    const follow = async (filter?: NodeFilter) => {
      const map = createNodeMap();
      const told: WatchItem[] = [];
      let cuts = 0;
      for await (const item of watch({ url: `${way.url}/graphql`, filter, onBreak: ({ why }) => breaks.push(why) })) {
        told.push(item);
        map.apply(item);
        if (isLive(item)) live += 1;
        if (item.kind === "transition" && told.length % 7 === 0) cuts += way.cut();
        if (
          [...map.nodes.values()].filter(({ name, state }) => names.includes(name) && state === "ACTIVE").length ===
          names.length
        )
          break;
      }
      return { told, map, cuts };
    };
    const both = Promise.all([follow(), follow({ ids })]);
    await eventually("both are live", () => live >= 2);
    await ostler.commission(names);
    const [all, some] = await both;

    for (const { told, map, cuts } of [all, some]) {
      expect(cuts).toBeGreaterThan(5);
      const start = told.find((item) => item.kind === "complete")?.cursor ?? "";
      const cursors = transitionsIn(told).map(({ cursor }) => cursor);
      const log = await logAfter(start);
      expect(cursors).toEqual(
        log
          .filter(({ nodeName }) => map === all.map || names.includes(nodeName))
          .map(({ cursor }) => cursor)
          .slice(0, cursors.length),
      );
      expect(new Set(cursors).size).toBe(cursors.length);
      expect(cursors.length).toBeGreaterThan(12 * 5);
    }
    expect(breaks.length).toBeGreaterThan(10);
    const { nodes } = await ostler.query<{
      nodes: { edges: { node: { uuid: string; name: string; state: string; transitionCount: number } }[] };
    }>("{ nodes(first: 100) { edges { node { uuid name state transitionCount } } } }");
    const known = [...some.map.nodes.values()].map(({ uuid, name, state, transitionCount }) => ({
      uuid,
      name,
      state,
      transitionCount,
    }));
    expect(known.toSorted((a, b) => a.name.localeCompare(b.name))).toEqual(
      nodes.edges.map(({ node }) => node).filter(({ name }) => names.includes(name)),
    );
  });

  test("before the server is there is tried again, until it is", async () => {
    const breaks: { why: string; tries: number; pauseMs: number }[] = [];
    const leave = new AbortController();
    const items = watch({
      url: "http://127.0.0.1:1/graphql",
      signal: leave.signal,
      longestPauseMs: 10,
      onBreak: (broken) => breaks.push(broken) > 5 && leave.abort(),
    });
    expect((await items.next()).value).toEqual({ kind: "begin", reason: "START" });
    while (!(await items.next()).done) expect(breaks.length).toBeLessThan(6);
    expect(breaks.map(({ tries }) => tries)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(breaks.every(({ pauseMs }) => pauseMs >= 0 && pauseMs <= 10)).toBe(true);
    expect(breaks[0]?.why).toMatch(/1006/);
  });
});

/** What a scripted server does with one subscription. */
interface Asked {
  readonly after: string | null;
  readonly snapshot: boolean;
  readonly authorization: unknown;
  tell(item: object): void;
  fail(errors: readonly object[]): void;
  close(code?: number): void;
}

const servers = new Set<WebSocketServer>();
afterEach(() => {
  for (const server of servers) {
    for (const client of server.clients) client.terminate();
    server.close();
  }
  servers.clear();
});

/** A server that plays a script, one scene a connection and the last one again and again; a number refuses the connection with it. */
async function scripted(...scenes: (number | ((asked: Asked) => void))[]): Promise<string> {
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1", handleProtocols: () => "graphql-transport-ws" });
  servers.add(server);
  let connections = 0;
  server.on("connection", (socket) => {
    const scene = scenes[Math.min(connections++, scenes.length - 1)] ?? 1000;
    let authorization: unknown;
    socket.on("message", (data: Buffer) => {
      const message = JSON.parse(data.toString()) as {
        type: string;
        id: string;
        payload: { authorization?: unknown; variables: { after: string | null; snapshot: boolean } };
      };
      if (message.type === "connection_init") {
        ({ authorization } = message.payload);
        if (typeof scene === "number") socket.close(scene);
        else socket.send('{"type":"connection_ack"}');
      }
      if (message.type === "subscribe" && typeof scene === "function") {
        scene({
          ...message.payload.variables,
          authorization,
          tell: (item) =>
            socket.send(JSON.stringify({ id: message.id, type: "next", payload: { data: { nodeTransitions: item } } })),
          fail: (errors) => socket.send(JSON.stringify({ id: message.id, type: "error", payload: errors })),
          close: (code) => (code === undefined ? socket.terminate() : socket.close(code)),
        });
      }
    });
  });
  await once(server, "listening");
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}/graphql`;
}

const COMPLETE = { __typename: "StreamBookmark", cursor: "10", snapshotComplete: true, caughtUp: false };
const LIVE = (cursor: number) => ({
  __typename: "StreamBookmark",
  cursor: String(cursor),
  snapshotComplete: false,
  caughtUp: true,
});
const MOVE = (cursor: number) => ({
  __typename: "Transition",
  cursor: String(cursor),
  nodeUuid: "n",
  nodeName: "n",
  sequence: cursor,
  nodeRevision: cursor,
  from: "AVAILABLE",
  to: "ACTIVE",
  event: "finish",
  at: "2026-01-01T00:00:00.000Z",
});

describe("a server that", () => {
  const whole = ({ tell, after }: Asked) => {
    if (after === null) tell(COMPLETE);
    tell(LIVE(Number(after ?? 10)));
  };

  test.each([4400, 4401, 4403, 4406, 4409, 4429, 4500])("closes with %i refuses for good", async (code) => {
    await expect(takeUntil(watch({ url: await scripted(code, whole) }), isLive)).rejects.toMatchObject({
      code: "REFUSED",
      closeCode: code,
    });
  });

  test.each([1000, 1001, 1011, 1012, 1013, 4403, 4408, undefined])(
    "closes with %s while it tells is taken up again",
    async (code) => {
      const asked: (string | null)[] = [];
      const script = await scripted(
        (first) => {
          whole(first);
          first.tell(MOVE(11));
          first.close(code);
        },
        (again) => {
          asked.push(again.after);
          again.tell(MOVE(11));
          again.tell(MOVE(12));
        },
      );
      const items = await takeUntil(
        watch({ url: script }),
        (item) => item.kind === "transition" && item.cursor === "12",
      );
      expect(transitionsIn(items).map(({ cursor }) => cursor)).toEqual(["11", "12"]);
      expect(asked).toEqual(["11"]);
    },
  );

  test("breaks off in the snapshot has to begin anew, and the map keeps the old nodes until it has", async () => {
    const node = (uuid: string) => ({
      __typename: "NodeSnapshot",
      cursor: "10",
      node: { uuid, transitionCount: 1, revision: 1, name: uuid, state: "ACTIVE" },
    });
    const script = await scripted(
      ({ tell, close }) =>
        [node("a"), COMPLETE, { __typename: "StreamReset", cursor: "40", code: "CURSOR_EXPIRED" }].forEach(tell) ??
        close,
      ({ tell, close }) => {
        tell(node("b"));
        close(1001);
      },
      ({ tell }) => [node("c"), { ...COMPLETE, cursor: "50" }, LIVE(50)].forEach(tell),
    );
    const map = createNodeMap();
    const seen: string[] = [];
    for await (const item of watch({ url: script })) {
      map.apply(item);
      seen.push(`${item.kind}${item.kind === "begin" ? ` ${item.reason}` : ""}: ${[...map.nodes.keys()].join()}`);
      if (isLive(item)) break;
    }
    expect(seen).toEqual([
      "begin START: ",
      "node: ",
      "complete: a",
      "begin CURSOR_EXPIRED: a",
      "node: a",
      "begin SNAPSHOT_BROKEN: a",
      "node: a",
      "complete: c",
      "bookmark: c",
    ]);
    expect(map.cursor).toBe("50");
  });

  test.each(["TOO_SLOW", "SHUTTING_DOWN", "ACCESS_CHANGED"])(
    "resets with %s is asked again with the last cursor, and with a token of that moment",
    async (code) => {
      const asked: unknown[] = [];
      let tokens = 0;
      const script = await scripted(
        ({ tell }) => [COMPLETE, MOVE(11), { __typename: "StreamReset", cursor: "11", code }].forEach(tell),
        (again) => {
          asked.push(again.after, again.authorization);
          whole(again);
        },
      );
      await takeUntil(watch({ url: script, token: () => `t${(tokens += 1)}` }), isLive);
      expect(asked).toEqual(["11", "Bearer t2"]);
    },
  );

  test("leaves something out is found out", async () => {
    const script = await scripted(({ tell }) => [COMPLETE, MOVE(11), MOVE(13)].forEach(tell));
    await expect(takeUntil(watch({ url: script }), isLive)).rejects.toThrow(
      new WatchError("GAP", "Position 12 was not told."),
    );
  });

  test("fails inside is asked again, and one that refuses the request is not", async () => {
    const failing = await scripted(
      ({ fail }) => fail([{ message: "Unexpected error.", extensions: { code: "INTERNAL" } }]),
      whole,
    );
    expect((await takeUntil(watch({ url: failing }), isLive)).length).toBe(4);
    const refusing = await scripted(
      ({ fail }) => fail([{ message: "Needs the scope READ.", extensions: { code: "FORBIDDEN" } }]),
      whole,
    );
    await expect(takeUntil(watch({ url: refusing }), isLive)).rejects.toThrow("Needs the scope READ.");
  });

  test("falls silent is left for another connection", async () => {
    const breaks: string[] = [];
    await takeUntil(
      watch({
        url: await scripted(({ tell }) => tell(COMPLETE), whole),
        silenceMs: 200,
        onBreak: ({ why }) => breaks.push(why),
      }),
      isLive,
    );
    expect(breaks).toEqual(["nothing came for 0.2 s"]);
  });

  test("has fallen silent is left at once all the same", async () => {
    const leave = new AbortController();
    const items = watch({
      url: await scripted(({ tell }) => tell(COMPLETE)),
      silenceMs: 3_600_000,
      signal: leave.signal,
    });
    await takeUntil(items, ({ kind }) => kind === "complete");
    const wait = items.next();
    leave.abort();
    expect(await wait).toEqual({ done: true, value: undefined });
  });

  test("takes a connection and never answers is let go of", async () => {
    const open = new Set<Socket>();
    const server = createServer(
      (socket) =>
        void open.add(
          socket
            .on("error", () => {})
            .on("close", () => open.delete(socket))
            .resume(),
        ),
    );
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const leave = new AbortController();
    let mute = 0;
    const items = watch({
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/graphql`,
      silenceMs: 100,
      signal: leave.signal,
      onBreak: () => (mute += 1) === 3 && leave.abort(),
    });
    while (!(await items.next()).done);
    await eventually("every connection is closed", () => open.size === 0);
    server.close();
  });

  test("tells faster than anybody reads is cut off, and asked for the rest when all was read", async () => {
    const asked: (string | null)[] = [];
    const script = await scripted(({ tell, after }) => {
      asked.push(after);
      const from = Number(after ?? 10);
      if (after === null) tell(COMPLETE);
      for (let cursor = from + 1; cursor <= 60; cursor += 1) tell(MOVE(cursor));
    });
    const items = watch({ url: script, unreadMax: 20 });
    const told = await takeUntil(items, ({ kind }) => kind === "complete");
    await eventually("it has been cut off", () => [...servers].every(({ clients }) => clients.size === 0));
    told.push(...(await takeUntil(items, (item) => item.kind === "transition" && item.cursor === "60")));
    expect(transitionsIn(told).map(({ cursor }) => Number(cursor))).toEqual(
      Array.from({ length: 50 }, (_, index) => index + 11),
    );
    expect(asked.length).toBeGreaterThan(1);
  });

  test("tells a large snapshot at once is read without moving what waits", async () => {
    const nodes = Array.from({ length: 5_000 }, (_, index) => ({
      __typename: "NodeSnapshot",
      cursor: "10",
      node: { uuid: `n${index}`, transitionCount: 1, revision: 1, name: `n${index}`, state: "ACTIVE" },
    }));
    let came = 0;
    class Counted extends WebSocket {
      constructor(...args: ConstructorParameters<typeof WebSocket>) {
        super(...args);
        this.on("message", () => (came += 1));
      }
    }
    const items = watch({
      url: await scripted(({ tell }) => [...nodes, COMPLETE].forEach(tell)),
      webSocketImpl: Counted,
    });
    await takeUntil(items, ({ kind }) => kind === "node");
    await eventually("all has come", () => came > nodes.length);
    let moved = 0;
    const { shift } = Array.prototype;
    const counting = vi.spyOn(Array.prototype, "shift").mockImplementation(function (this: unknown[]) {
      moved += this.length;
      return shift.call(this) as unknown;
    });
    const told = await takeUntil(items, ({ kind }) => kind === "complete");
    counting.mockRestore();
    expect(told).toHaveLength(nodes.length);
    expect(moved).toBeLessThan(nodes.length);
  });

  describe("breaks each time", () => {
    /** The tries that were told at the first breaks. Each connection breaks once the watcher has been told that it is live. */
    async function triesOf(
      count: number,
      scene: (asked: Asked) => void,
      hold: (connection: number) => void = () => {},
    ): Promise<number[]> {
      const tries: number[] = [];
      const leave = new AbortController();
      const connections: Asked[] = [];
      const script = await scripted((asked) => {
        connections.push(asked);
        scene(asked);
      });
      for await (const item of watch({
        url: script,
        signal: leave.signal,
        firstPauseMs: 1,
        longestPauseMs: 4,
        onBreak: (broken) => tries.push(broken.tries) === count && leave.abort(),
      })) {
        if (!isLive(item)) continue;
        hold(connections.length);
        connections.at(-1)?.close(1001);
      }
      return tries;
    }

    test("right after it has told where it is, is asked less and less often", async () => {
      expect(await triesOf(6, whole)).toEqual([0, 1, 2, 3, 4, 5]);
    });

    test("after it has told something new, is asked again soon", async () => {
      const news = ({ after, tell }: Asked) => {
        const cursor = Number(after ?? 10) + 1;
        for (const item of [...(after === null ? [COMPLETE] : []), MOVE(cursor), LIVE(cursor)]) tell(item);
      };
      expect(await triesOf(6, news)).toEqual([0, 0, 0, 0, 0, 0]);
    });

    test("after it held for a while, is asked again soon, although nothing happened", async () => {
      const { now } = performance;
      let ahead = 0;
      const clock = vi.spyOn(performance, "now").mockImplementation(() => now.call(performance) + ahead);
      const tries = await triesOf(6, whole, (connection) => {
        if (connection === 4) ahead += 60_000;
      });
      clock.mockRestore();
      expect(tries).toEqual([0, 1, 2, 0, 1, 2]);
    });
  });

  test("cannot be reached by a global WebSocket is reached by the one that is given", async () => {
    let made = 0;
    class Counted extends WebSocket {
      constructor(...args: ConstructorParameters<typeof WebSocket>) {
        super(...args);
        made += 1;
      }
    }
    await takeUntil(watch({ url: await scripted(whole), webSocketImpl: Counted }), isLive);
    expect(made).toBe(1);
  });
});
