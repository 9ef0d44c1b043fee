/**
 * `watchNodes` on a real server with interrupted connections, and on a scripted server for behaviour that a real one
 * never shows.
 */
import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { afterAll, afterEach, describe, expect, expectTypeOf, test, vi } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { NODE_STATES, WatchError, createNodeMap, watchNodes } from "../../packages/client/src/index.ts";
import type {
  NodeFields,
  NodeFilter,
  NodeState,
  Transition,
  WatchItem,
  WatchOptions,
} from "../../packages/client/src/index.ts";
import { NODE_STATES as SERVICE_STATES } from "../../src/lifecycle/node-states.ts";
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

/** A watcher of the service that ends with the test. */
function watch<Fields = NodeFields>(options: Partial<WatchOptions> = {}) {
  const items = watchNodes<Fields>({ url: `${ostler.url}/graphql`, token: "hunter2", ...QUICK, ...options });
  watchers.add(items);
  return items;
}

const isLive = (item: WatchItem<unknown>) => item.kind === "bookmark" && item.live;
const transitionsIn = <Fields>(items: readonly WatchItem<Fields>[]) =>
  items.filter((item) => item.kind === "transition");

/** Every transition after a position, from the log. */
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

describe("watcher", () => {
  test("a watcher receives all nodes and then each transition", async () => {
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
    const received = transitionsIn(
      await takeUntil(
        items,
        (item) =>
          item.kind === "transition" && item.transition.nodeName === names[2] && item.transition.to === "ACTIVE",
      ),
    );
    expect(
      received.map(({ transition: { cursor, nodeName, sequence, to } }) => ({ cursor, nodeName, sequence, to })),
    ).toEqual((await logAfter(complete?.cursor ?? "")).slice(0, received.length));
    expect(received.at(-1)?.node).toEqual({
      uuid: received.at(-1)?.transition.nodeUuid,
      transitionCount: received.at(-1)?.transition.sequence,
      revision: received.at(-1)?.transition.nodeRevision,
      name: names[2],
      state: "ACTIVE",
    });
  });

  test("a watcher receives the requested fields of nodes and transitions", async () => {
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
    const [received] = transitionsIn(await takeUntil(items, ({ kind }) => kind === "transition"));
    expect(received).toMatchObject({
      transition: { event: "VERIFY", actor: "token" },
      node: { name, presence: "UNSEEN" },
    });
  });

  test("a watcher in another process resumes from a saved cursor", async () => {
    const [name = ""] = await ostler.register(1);
    const cursor = (await takeUntil(watch(), isLive)).findLast((item) => item.kind === "bookmark")?.cursor ?? "";
    await ostler.register(2);
    const items = await takeUntil(watch({ after: cursor }), isLive);
    expect(items.map(({ kind }) => kind)).toEqual(["transition", "transition", "bookmark"]);
    expect(
      transitionsIn(items).every(({ transition }) => transition.nodeName !== name && transition.from === null),
    ).toBe(true);
  });

  test("a watcher whose cursor belongs to another log starts again with a snapshot", async () => {
    const broken: string[] = [];
    const items = await takeUntil(watch({ after: "999999999", onBreak: ({ why }) => broken.push(why) }), isLive);
    expect(items[0]).toEqual({ kind: "begin", reason: "CURSOR_EXPIRED" });
    expect(items.some(({ kind }) => kind === "complete")).toBe(true);
    expect(broken).toEqual(["the server ended the stream: CURSOR_EXPIRED"]);
  });

  test("a watcher that ends while it waits is done immediately, and the server closes its stream", async () => {
    await eventually("no watcher is subscribed", () => ostler.listeners() === 0);
    const controller = new AbortController();
    const [one, other] = [watch({ signal: controller.signal }), watch()];
    for (const items of [one, other]) await takeUntil(items, isLive);
    const waits = [one.next(), other.next()];
    await eventually("both streams wait", () => ostler.listeners() === 2);
    controller.abort();
    await other.return?.();
    expect(await Promise.all(waits)).toEqual([
      { done: true, value: undefined },
      { done: true, value: undefined },
    ]);
    await eventually("the server has closed the streams", () => ostler.listeners() === 0);
    expect(await watch({ signal: AbortSignal.abort() }).next()).toEqual({ done: true, value: undefined });
  });

  test("a watcher with a wrong token or unknown fields is refused with a message", async () => {
    await expect(takeUntil(watch({ token: "wrong" }), isLive)).rejects.toMatchObject({
      name: "WatchError",
      code: "REFUSED",
      closeCode: 4403,
      message: "The token is missing or wrong. Pass the token of the service as `token`.",
    });
    await expect(takeUntil(watch({ nodeFields: "nome" }), isLive)).rejects.toThrow(
      /Cannot query field "nome" on type "Node"/,
    );
    await expect(takeUntil(watch({ url: "ftp://nowhere/graphql" }), isLive)).rejects.toThrow(
      "ftp://nowhere/graphql is not the address of an API",
    );
  });

  test("the client's node states are those of the schema, and states were plain strings", () => {
    expect([...NODE_STATES].toSorted()).toEqual(Object.keys(SERVICE_STATES).toSorted());
    expectTypeOf<NodeFields["state"]>().toEqualTypeOf<keyof typeof SERVICE_STATES>();
    expectTypeOf<Transition["to"]>().toEqualTypeOf<keyof typeof SERVICE_STATES | null>();
    expectTypeOf<NodeFilter["states"]>().toEqualTypeOf<readonly NodeState[] | null | undefined>();
  });
});

describe("interrupted connection", () => {
  test("repeated interruptions lose and duplicate no transition, and the node map matches the nodes", async () => {
    await using proxy = await cutter(ostler.url);
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
      const received: WatchItem[] = [];
      let interruptions = 0;
      for await (const item of watch({ url: `${proxy.url}/graphql`, filter, onBreak: ({ why }) => breaks.push(why) })) {
        received.push(item);
        map.apply(item);
        if (isLive(item)) live += 1;
        if (item.kind === "transition" && received.length % 7 === 0) interruptions += proxy.cut();
        if (
          [...map.nodes.values()].filter(({ name, state }) => names.includes(name) && state === "ACTIVE").length ===
          names.length
        )
          break;
      }
      return { received, map, interruptions };
    };
    const both = Promise.all([follow(), follow({ ids })]);
    await eventually("both are live", () => live >= 2);
    await ostler.commission(names);
    const [all, some] = await both;

    for (const { received, map, interruptions } of [all, some]) {
      expect(interruptions).toBeGreaterThan(5);
      const start = received.find((item) => item.kind === "complete")?.cursor ?? "";
      const cursors = transitionsIn(received).map(({ cursor }) => cursor);
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

  test("a connection is retried until the server is up", async () => {
    const breaks: { why: string; tries: number; pauseMs: number }[] = [];
    const controller = new AbortController();
    const items = watch({
      url: "http://127.0.0.1:1/graphql",
      signal: controller.signal,
      longestPauseMs: 10,
      onBreak: (broken) => breaks.push(broken) > 5 && controller.abort(),
    });
    expect((await items.next()).value).toEqual({ kind: "begin", reason: "START" });
    while (!(await items.next()).done) expect(breaks.length).toBeLessThan(6);
    expect(breaks.map(({ tries }) => tries)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(breaks.every(({ pauseMs }) => pauseMs >= 0 && pauseMs <= 10)).toBe(true);
    expect(breaks[0]?.why).toMatch(/1006/);
  });
});

/** One subscription as a scene of the scripted server sees and answers it. */
interface ScriptedSubscription {
  readonly after: string | null;
  readonly snapshot: boolean;
  readonly authorization: unknown;
  send(item: object): void;
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

/**
 * A server with one scripted scene per connection; the last one repeats. A number closes the connection with that code.
 */
async function scripted(...scenes: (number | ((subscription: ScriptedSubscription) => void))[]): Promise<string> {
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
          send: (item) =>
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
const liveBookmark = (cursor: number) => ({
  __typename: "StreamBookmark",
  cursor: String(cursor),
  snapshotComplete: false,
  caughtUp: true,
});
const transitionAt = (cursor: number) => ({
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

describe("scripted server", () => {
  const snapshotThenLive = ({ send, after }: ScriptedSubscription) => {
    if (after === null) send(COMPLETE);
    send(liveBookmark(Number(after ?? 10)));
  };

  test.each([4400, 4401, 4403, 4406, 4409, 4429, 4500])("close code %i ends the watch with REFUSED", async (code) => {
    await expect(takeUntil(watch({ url: await scripted(code, snapshotThenLive) }), isLive)).rejects.toMatchObject({
      code: "REFUSED",
      closeCode: code,
    });
  });

  test.each([1000, 1001, 1011, 1012, 1013, 4403, 4408, undefined])(
    "close code %s during the stream is followed by a connection that resumes",
    async (code) => {
      const cursors: (string | null)[] = [];
      const script = await scripted(
        (first) => {
          snapshotThenLive(first);
          first.send(transitionAt(11));
          first.close(code);
        },
        (again) => {
          cursors.push(again.after);
          again.send(transitionAt(11));
          again.send(transitionAt(12));
        },
      );
      const items = await takeUntil(
        watch({ url: script }),
        (item) => item.kind === "transition" && item.cursor === "12",
      );
      expect(transitionsIn(items).map(({ cursor }) => cursor)).toEqual(["11", "12"]);
      expect(cursors).toEqual(["11"]);
    },
  );

  test("a snapshot that is interrupted starts again, and the map keeps the old nodes until the new one is complete", async () => {
    const node = (uuid: string) => ({
      __typename: "NodeSnapshot",
      cursor: "10",
      node: { uuid, transitionCount: 1, revision: 1, name: uuid, state: "ACTIVE" },
    });
    const script = await scripted(
      ({ send, close }) =>
        [node("a"), COMPLETE, { __typename: "StreamReset", cursor: "40", code: "CURSOR_EXPIRED" }].forEach(send) ??
        close,
      ({ send, close }) => {
        send(node("b"));
        close(1001);
      },
      ({ send }) => [node("c"), { ...COMPLETE, cursor: "50" }, liveBookmark(50)].forEach(send),
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
    "a reset with %s is followed by a connection with the last cursor and a new token",
    async (code) => {
      const resumed: unknown[] = [];
      let tokens = 0;
      const script = await scripted(
        ({ send }) => [COMPLETE, transitionAt(11), { __typename: "StreamReset", cursor: "11", code }].forEach(send),
        (again) => {
          resumed.push(again.after, again.authorization);
          snapshotThenLive(again);
        },
      );
      await takeUntil(watch({ url: script, token: () => `t${(tokens += 1)}` }), isLive);
      expect(resumed).toEqual(["11", "Bearer t2"]);
    },
  );

  test("a missing transition ends the watch with GAP", async () => {
    const script = await scripted(({ send }) => [COMPLETE, transitionAt(11), transitionAt(13)].forEach(send));
    await expect(takeUntil(watch({ url: script }), isLive)).rejects.toThrow(
      new WatchError("GAP", "Position 12 is missing."),
    );
  });

  test("an internal error is retried, and a refused request is not", async () => {
    const failing = await scripted(
      ({ fail }) => fail([{ message: "Unexpected error.", extensions: { code: "INTERNAL" } }]),
      snapshotThenLive,
    );
    expect((await takeUntil(watch({ url: failing }), isLive)).length).toBe(4);
    const refusing = await scripted(
      ({ fail }) => fail([{ message: "Needs the scope READ.", extensions: { code: "FORBIDDEN" } }]),
      snapshotThenLive,
    );
    await expect(takeUntil(watch({ url: refusing }), isLive)).rejects.toThrow("Needs the scope READ.");
  });

  test("a silent connection is replaced", async () => {
    const breaks: string[] = [];
    await takeUntil(
      watch({
        url: await scripted(({ send }) => send(COMPLETE), snapshotThenLive),
        silenceMs: 200,
        onBreak: ({ why }) => breaks.push(why),
      }),
      isLive,
    );
    expect(breaks).toEqual(["no message for 0.2 s"]);
  });

  test("a watcher on a silent connection ends immediately", async () => {
    const controller = new AbortController();
    const items = watch({
      url: await scripted(({ send }) => send(COMPLETE)),
      silenceMs: 3_600_000,
      signal: controller.signal,
    });
    await takeUntil(items, ({ kind }) => kind === "complete");
    const wait = items.next();
    controller.abort();
    expect(await wait).toEqual({ done: true, value: undefined });
  });

  test("a connection that is never acknowledged is abandoned", async () => {
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
    const controller = new AbortController();
    let failures = 0;
    const items = watch({
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/graphql`,
      silenceMs: 100,
      signal: controller.signal,
      onBreak: () => (failures += 1) === 3 && controller.abort(),
    });
    while (!(await items.next()).done);
    await eventually("every connection is closed", () => open.size === 0);
    server.close();
  });

  test("a stream faster than its reader is closed, and resumed when all items were read", async () => {
    const cursors: (string | null)[] = [];
    const script = await scripted(({ send, after }) => {
      cursors.push(after);
      const from = Number(after ?? 10);
      if (after === null) send(COMPLETE);
      for (let cursor = from + 1; cursor <= 60; cursor += 1) send(transitionAt(cursor));
    });
    const items = watch({ url: script, unreadMax: 20 });
    const received = await takeUntil(items, ({ kind }) => kind === "complete");
    await eventually("the server has no connections", () => [...servers].every(({ clients }) => clients.size === 0));
    received.push(...(await takeUntil(items, (item) => item.kind === "transition" && item.cursor === "60")));
    expect(transitionsIn(received).map(({ cursor }) => Number.parseInt(cursor, 10))).toEqual(
      Array.from({ length: 50 }, (_, index) => index + 11),
    );
    expect(cursors.length).toBeGreaterThan(1);
  });

  test("a large snapshot is read in linear time", async () => {
    const nodes = Array.from({ length: 5_000 }, (_, index) => ({
      __typename: "NodeSnapshot",
      cursor: "10",
      node: { uuid: `n${index}`, transitionCount: 1, revision: 1, name: `n${index}`, state: "ACTIVE" },
    }));
    let arrived = 0;
    class Counted extends WebSocket {
      constructor(...args: ConstructorParameters<typeof WebSocket>) {
        super(...args);
        this.on("message", () => (arrived += 1));
      }
    }
    const items = watch({
      url: await scripted(({ send }) => [...nodes, COMPLETE].forEach(send)),
      webSocketImpl: Counted,
    });
    await takeUntil(items, ({ kind }) => kind === "node");
    await eventually("all messages have arrived", () => arrived > nodes.length);
    let moved = 0;
    const { shift } = Array.prototype;
    const counting = vi.spyOn(Array.prototype, "shift").mockImplementation(function (this: unknown[]) {
      moved += this.length;
      return shift.call(this) as unknown;
    });
    const received = await takeUntil(items, ({ kind }) => kind === "complete");
    counting.mockRestore();
    expect(received).toHaveLength(nodes.length);
    expect(moved).toBeLessThan(nodes.length);
  });

  describe("connection that fails each time", () => {
    /** The attempts reported at the first connection losses. Each connection fails once the watcher is live. */
    async function triesOf(
      count: number,
      scene: (subscription: ScriptedSubscription) => void,
      hold: (connection: number) => void = () => {},
    ): Promise<number[]> {
      const tries: number[] = [];
      const controller = new AbortController();
      const connections: ScriptedSubscription[] = [];
      const script = await scripted((subscription) => {
        connections.push(subscription);
        scene(subscription);
      });
      for await (const item of watch({
        url: script,
        signal: controller.signal,
        firstPauseMs: 1,
        longestPauseMs: 4,
        onBreak: (broken) => tries.push(broken.tries) === count && controller.abort(),
      })) {
        if (!isLive(item)) continue;
        hold(connections.length);
        connections.at(-1)?.close(1001);
      }
      return tries;
    }

    test("a connection that fails right after its first bookmark is retried with increasing pauses", async () => {
      expect(await triesOf(6, snapshotThenLive)).toEqual([0, 1, 2, 3, 4, 5]);
    });

    test("a connection that fails after a new item is retried soon", async () => {
      const withTransition = ({ after, send }: ScriptedSubscription) => {
        const cursor = Number(after ?? 10) + 1;
        for (const item of [...(after === null ? [COMPLETE] : []), transitionAt(cursor), liveBookmark(cursor)])
          send(item);
      };
      expect(await triesOf(6, withTransition)).toEqual([0, 0, 0, 0, 0, 0]);
    });

    test("a connection that fails after a while without items is retried soon", async () => {
      const { now } = performance;
      let ahead = 0;
      const clock = vi.spyOn(performance, "now").mockImplementation(() => now.call(performance) + ahead);
      const tries = await triesOf(6, snapshotThenLive, (connection) => {
        if (connection === 4) ahead += 60_000;
      });
      clock.mockRestore();
      expect(tries).toEqual([0, 1, 2, 0, 1, 2]);
    });
  });

  test("the given WebSocket class is used in place of the global one", async () => {
    let made = 0;
    class Counted extends WebSocket {
      constructor(...args: ConstructorParameters<typeof WebSocket>) {
        super(...args);
        made += 1;
      }
    }
    await takeUntil(watch({ url: await scripted(snapshotThenLive), webSocketImpl: Counted }), isLive);
    expect(made).toBe(1);
  });
});
