/**
 * `watchNodes` on a real server with interrupted connections, and on a scripted server for behaviour that a real one
 * never shows.
 */
import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { afterAll, afterEach, describe, expect, expectTypeOf, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { NODE_STATES, connect, watchNodes } from "../../packages/client/src/index.ts";
import type {
  ConnectOptions,
  Connection,
  NodeFilter,
  NodeState,
  WatchItem,
  WatchOptions,
} from "../../packages/client/src/index.ts";
import { NODE_STATES as SERVICE_STATES } from "../../src/lifecycle/node-states.ts";
import { ROW, typed } from "../support/client-documents.ts";
import type { Row } from "../support/client-documents.ts";
import { cutter } from "../support/cutter.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest, takeUntil } from "../support/service.ts";

const ostler = await serviceUnderTest({ token: "hunter2" });
afterAll(() => ostler[Symbol.asyncDispose]());

const watchers = new Set<AsyncIterator<unknown>>();
afterEach(async () => {
  for (const watcher of watchers) await watcher.return?.();
  watchers.clear();
});

function connected(options: Partial<ConnectOptions> = {}): Connection {
  const url = `${ostler.url}/graphql`;
  return connect({ url, token: "hunter2", firstPauseMs: 20, longestPauseMs: 100, ...options });
}

/** A watcher of the service that ends with the test. */
function watch(options: WatchOptions = {}, connection = connected()) {
  const items = watchNodes(connection, ROW, options);
  watchers.add(items);
  return items;
}

type Item = WatchItem<Row>;
const isLive = (item: Item) => item.kind === "bookmark" && item.live;
const nodesIn = (items: readonly Item[]) => items.filter((item) => item.kind === "node");
const setMaintenance = (name: string) =>
  ostler.query(
    `mutation Maintain($name: String!) { setMaintenance(input: { nodes: { names: [$name] }, reason: "fan" }) { errors { message } } }`,
    { name },
  );

describe("watcher", () => {
  test("a watcher receives all nodes, and then a change of any field, which no transition reported [R-793]", async () => {
    const [name = ""] = await ostler.register(1);
    // Else the registration may follow, as one item with the change.
    await ostler.changesNumbered();
    const items = watch({ filter: { name: { eq: name } } });
    const first = await takeUntil(items, isLive);
    expect(first.map(({ kind }) => kind)).toEqual(["begin", "node", "complete", "bookmark"]);
    expect(nodesIn(first)[0]?.node).toMatchObject({
      name,
      state: "ENROLLED",
      powerState: "UNKNOWN",
      maintenance: null,
    });
    const next = async () => (await takeUntil(items, ({ kind }) => kind === "node")).at(-1);
    await setMaintenance(name);
    expect(await next()).toMatchObject({ changed: ["MAINTENANCE"], node: { name, maintenance: { reason: "fan" } } });
    await ostler.test.sql`update nodes set power_state = 'OFF', revision = revision + 1 where name = ${name}`;
    expect(await next()).toMatchObject({ changed: ["POWER"], node: { powerState: "OFF", revision: 3 } });
    await ostler.test.sql`update nodes set labels = '{"rack": "7"}' where name = ${name}`;
    expect(await next()).toMatchObject({ changed: ["LABELS"], node: { labels: [{ key: "rack", value: "7" }] } });
  });

  test("a watcher receives which nodes have left, by a change or by deletion [R-793]", async () => {
    const [one = "", other = ""] = await ostler.register(2);
    const items = watch({ filter: { name: { in: [one, other] }, maintenance: false } });
    const first = await takeUntil(items, isLive);
    const left = async () => (await takeUntil(items, ({ kind }) => kind === "left")).at(-1);
    await setMaintenance(one);
    const idOf = (name: string) => nodesIn(first).find(({ node }) => node.name === name)?.node.id;
    expect(await left()).toMatchObject({ id: idOf(one), name: one, deleted: false });
    await ostler.query(
      "mutation Delete($name: String!) { deleteNodes(input: { nodes: { names: [$name] } }) { errors { message } } }",
      { name: other },
    );
    expect(await left()).toMatchObject({ id: idOf(other), name: other, deleted: true });
  });

  test("a watcher in another process resumes from a saved cursor [R-793]", async () => {
    const [name = ""] = await ostler.register(1);
    const cursor = (await takeUntil(watch(), isLive)).findLast((item) => item.kind === "bookmark")?.cursor ?? "";
    const names = await ostler.register(2);
    const items = await takeUntil(
      watch({ after: cursor }),
      (item) => item.kind === "node" && item.node.name === names[1],
    );
    expect(items.map(({ kind }) => kind)).not.toContain("begin");
    // The change of the first one may have got its position after the snapshot.
    expect(nodesIn(items).flatMap(({ node }) => (node.name === name ? [] : node.name))).toEqual(names);
  });

  test("a watcher whose cursor belongs to another log starts again with a snapshot", async () => {
    const items = await takeUntil(watch({ after: "c999999999" }), isLive);
    expect(items[0]).toEqual({ kind: "begin", reason: "CURSOR_EXPIRED" });
    expect(items.some(({ kind }) => kind === "complete")).toBe(true);
  });

  test("a watcher that ends while it waits is done immediately, and the server closes its stream", async () => {
    await eventually("no watcher is subscribed", () => ostler.changeListeners() === 0);
    const controller = new AbortController();
    const [one, other] = [watch({ signal: controller.signal }), watch()];
    for (const items of [one, other]) await takeUntil(items, isLive);
    const [aborted, returned] = [one.next(), other.next()];
    controller.abort();
    await other.return?.();
    expect(await aborted).toEqual({ done: true, value: undefined });
    expect(await returned).toEqual({ done: true, value: undefined });
    await eventually("the streams are closed", () => ostler.changeListeners() === 0);
    expect(await watch({ signal: AbortSignal.abort() }).next()).toEqual({ done: true, value: undefined });
  });

  test("a watcher with a wrong token, unknown fields or another document is refused with a message", async () => {
    await expect(takeUntil(watch({}, connected({ token: "wrong" })), isLive)).rejects.toMatchObject({
      name: "WatchError",
      closeCode: 4403,
      message: "The token is missing or wrong. Pass the token of the service as `token`.",
    });
    const unknown = typed<Row, never>("fragment Row on Node { nome }");
    await expect(takeUntil(watchNodes(connected(), unknown), isLive)).rejects.toThrow(
      /Cannot query field "nome" on type "Node"/,
    );
    const query = typed<Row, never>("query Row { nodes { nodes { name } } }");
    expect(() => watchNodes(connected(), query)).toThrow("The document is not a fragment on Node.");
    expect(() => connected({ url: "ftp://nowhere/graphql" })).toThrow(
      "ftp://nowhere/graphql is not the address of an API",
    );
  });

  test("the client's node states are those of the schema, and states were plain strings", () => {
    expect([...NODE_STATES].toSorted()).toEqual(Object.keys(SERVICE_STATES).toSorted());
    expectTypeOf<NodeState>().toEqualTypeOf<keyof typeof SERVICE_STATES>();
    expectTypeOf<NodeFilter["states"]>().toEqualTypeOf<readonly NodeState[] | null | undefined>();
  });
});

describe("interrupted connection", () => {
  test("repeated interruptions lose no change, and no node goes back [R-793]", async () => {
    await using proxy = await cutter(ostler.url);
    const names = await ostler.register(12, { delayMs: 5, waitSeconds: 0.05 });
    let live = 0;
    const follow = async (filter?: NodeFilter) => {
      const nodes = new Map<string, Row & { readonly revision: number }>();
      let [received, interruptions] = [0, 0];
      for await (const item of watch({ filter }, connected({ url: `${proxy.url}/graphql` }))) {
        received += 1;
        if (isLive(item)) live += 1;
        if (item.kind === "begin") nodes.clear();
        if (item.kind !== "node") continue;
        expect(item.node.revision).toBeGreaterThanOrEqual(nodes.get(item.node.id)?.revision ?? 0);
        nodes.set(item.node.id, item.node);
        if (received % 7 === 0) interruptions += proxy.cut();
        const active = [...nodes.values()].filter(({ name, state }) => names.includes(name) && state === "ACTIVE");
        if (active.length === names.length) break;
      }
      return { nodes, interruptions };
    };
    const both = Promise.all([follow(), follow({ name: { in: names } })]);
    await eventually("both are live", () => live >= 2);
    await ostler.commission(names);
    const [all, some] = await both;
    for (const { interruptions } of [all, some]) expect(interruptions).toBeGreaterThan(2);
    expect([...some.nodes.values()].map(({ name }) => name).toSorted()).toEqual(names);
  });

  test("a connection is retried until the server is up", async () => {
    const connection = connected({ url: "http://127.0.0.1:1/graphql", longestPauseMs: 10 });
    const controller = new AbortController();
    let attempts = 0;
    connection.client.on("connecting", () => (attempts += 1) === 6 && controller.abort());
    expect(await watch({ signal: controller.signal }, connection).next()).toEqual({ done: true, value: undefined });
    await eventually("there were six attempts", () => attempts === 6);
    expect(connection.getSnapshot()).toMatchObject({ state: "broken", why: expect.stringMatching(/1006/) as string });
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
 * A server with one scripted scene per subscription; the last one repeats. A number closes the connection with that
 * code before there is one.
 */
async function scripted(...scenes: (number | ((subscription: ScriptedSubscription) => void))[]): Promise<string> {
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1", handleProtocols: () => "graphql-transport-ws" });
  servers.add(server);
  let played = 0;
  server.on("connection", (socket) => {
    let authorization: unknown;
    socket.on("message", (data: Buffer) => {
      const message = JSON.parse(data.toString()) as {
        type: string;
        id: string;
        payload: { authorization?: unknown; variables: { after: string | null; snapshot: boolean } };
      };
      const scene = scenes[Math.min(played, scenes.length - 1)] ?? 1000;
      if (message.type === "connection_init") {
        ({ authorization } = message.payload);
        if (typeof scene !== "number") return socket.send('{"type":"connection_ack"}');
        played += 1;
        socket.close(scene);
      }
      if (message.type === "subscribe" && typeof scene === "function") {
        played += 1;
        scene({
          ...message.payload.variables,
          authorization,
          send: (item) =>
            socket.send(JSON.stringify({ id: message.id, type: "next", payload: { data: { nodeChanges: item } } })),
          fail: (errors) => socket.send(JSON.stringify({ id: message.id, type: "error", payload: errors })),
          close: (code) => (code === undefined ? socket.terminate() : socket.close(code)),
        });
      }
    });
  });
  await once(server, "listening");
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}/graphql`;
}

const COMPLETE = { __typename: "StreamBookmark", cursor: "c10", snapshotComplete: true, caughtUp: false };
const liveBookmark = (cursor: string) => ({
  __typename: "StreamBookmark",
  cursor,
  snapshotComplete: false,
  caughtUp: true,
});
const upserted = (cursor: number, id = "n", changed: readonly string[] | null = ["STATE"]) => ({
  __typename: "NodeUpserted",
  cursor: `c${cursor}`,
  changed,
  node: { id, revision: cursor, name: id, state: "ACTIVE" },
});

describe("scripted server", () => {
  const snapshotThenLive = ({ send, after }: ScriptedSubscription) => {
    if (after === null) send(COMPLETE);
    send(liveBookmark(after ?? "c10"));
  };
  const at = async (...scenes: Parameters<typeof scripted>) => connected({ url: await scripted(...scenes) });
  const isAt = (cursor: string) => (item: Item) => item.kind === "node" && item.cursor === cursor;

  test.each([4403, 4406])("close code %i ends the watch with an error", async (closeCode) => {
    await expect(takeUntil(watch({}, await at(closeCode, snapshotThenLive)), isLive)).rejects.toMatchObject({
      name: "WatchError",
      closeCode,
    });
  });

  test.each([1011, 4400, 4401, 4408, 4409, 4429, 4500])(
    "close code %i before the stream is followed by another connection",
    async (closeCode) => {
      const items = await takeUntil(watch({}, await at(closeCode, closeCode, snapshotThenLive)), isLive);
      expect(items.map(({ kind }) => kind)).toEqual(["begin", "complete", "bookmark"]);
    },
  );

  test.each([1000, 1001, 1011, 1012, 1013, 4400, 4403, 4408, 4409, 4429, 4500, undefined])(
    "close code %s during the stream is followed by a connection with another token that resumes [R-793]",
    async (code) => {
      const resumed: unknown[] = [];
      let tokens = 0;
      const url = await scripted(
        (first) => {
          snapshotThenLive(first);
          first.send(upserted(11));
          first.close(code);
        },
        (again) => {
          resumed.push(again.after, again.authorization);
          again.send(upserted(12));
        },
      );
      const items = await takeUntil(watch({}, connected({ url, token: () => `t${(tokens += 1)}` })), isAt("c12"));
      expect(nodesIn(items).map(({ cursor }) => cursor)).toEqual(["c11", "c12"]);
      expect(resumed).toEqual(["c11", "Bearer t2"]);
    },
  );

  test("a snapshot that is interrupted starts again [R-793]", async () => {
    const connection = await at(
      ({ send }) =>
        [upserted(10, "a"), COMPLETE, { __typename: "StreamReset", cursor: "c40", code: "CURSOR_EXPIRED" }].forEach(
          send,
        ),
      ({ send, close }) => {
        send(upserted(40, "b"));
        close(1001);
      },
      ({ send }) => [upserted(50, "c"), { ...COMPLETE, cursor: "c50" }, liveBookmark("c50")].forEach(send),
    );
    const seen: string[] = [];
    for await (const item of watch({}, connection)) {
      if (item.kind === "begin") seen.push(item.reason);
      if (item.kind === "node") seen.push(`${item.node.id} ${item.cursor}`);
      if (item.kind === "complete") seen.push(item.cursor);
      if (isLive(item)) break;
    }
    expect(seen).toEqual(["START", "a null", "c10", "CURSOR_EXPIRED", "b null", "SNAPSHOT_BROKEN", "c null", "c50"]);
  });

  test.each(["TOO_SLOW", "SHUTTING_DOWN", "ACCESS_CHANGED"])(
    "a reset with %s is followed by a subscription with the last cursor",
    async (code) => {
      const resumed: unknown[] = [];
      const connection = await at(
        ({ send }) => [COMPLETE, upserted(11), { __typename: "StreamReset", cursor: "c99", code }].forEach(send),
        (again) => {
          resumed.push(again.after);
          snapshotThenLive(again);
        },
      );
      await takeUntil(watch({}, connection), isLive);
      expect(resumed).toEqual(["c11"]);
    },
  );

  test("an ended token that is noticed before its socket is closed is followed by another connection [R-977]", async () => {
    const resumed: unknown[] = [];
    let tokens = 0;
    const url = await scripted(
      ({ fail, close }) => {
        fail([{ message: "The token is no longer valid.", extensions: { code: "UNAUTHENTICATED" } }]);
        close(4403);
      },
      (again) => {
        resumed.push(again.authorization);
        snapshotThenLive(again);
      },
    );
    await takeUntil(watch({}, connected({ url, token: () => `t${(tokens += 1)}` })), isLive);
    expect(resumed).toEqual(["Bearer t2"]);
  });

  test("ACCESS_CHANGED is followed by another connection with another token, over which all streams resume [R-977]", async () => {
    const resumed: unknown[] = [];
    let tokens = 0;
    const url = await scripted(
      (first) => {
        snapshotThenLive(first);
        first.send(upserted(11));
      },
      ({ send }) => send({ __typename: "StreamReset", cursor: "c99", code: "ACCESS_CHANGED" }),
      (again) => {
        resumed.push(again.after, again.authorization);
        snapshotThenLive(again);
      },
    );
    const connection = connected({ url, token: () => `t${(tokens += 1)}` });
    const states = new Set<string>();
    connection.subscribe(() => states.add(connection.getSnapshot().state));
    await takeUntil(watch({}, connection), isAt("c11"));
    const watcher = watch({ after: "c11" }, connection);
    await takeUntil(watcher, isLive);
    // So does the stream that did not end.
    await eventually("both have resumed", () => resumed.length === 4);
    expect(resumed).toEqual(["c11", "Bearer t2", "c11", "Bearer t2"]);
    expect(states).not.toContain("broken");
  });

  test("an internal error is retried, and a refused request is not", async () => {
    let failures = 0;
    const failing = await at((subscription) => {
      if ((failures += 1) > 2) snapshotThenLive(subscription);
      else subscription.fail([{ message: "Unexpected error.", extensions: { code: "INTERNAL" } }]);
    });
    await takeUntil(watch({}, failing), isLive);
    expect(failures).toBe(3);
    const refusing = await at(({ fail }) =>
      fail([{ message: "Needs the scope READ.", extensions: { code: "FORBIDDEN" } }]),
    );
    await expect(takeUntil(watch({}, refusing), isLive)).rejects.toMatchObject({
      message: "Needs the scope READ.",
      code: "FORBIDDEN",
    });
  });

  test("a connection that is never acknowledged is abandoned when the watch ends", async () => {
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
    const connection = connected({
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/graphql`,
      connectMs: 50,
    });
    const controller = new AbortController();
    let attempts = 0;
    connection.client.on("connecting", () => (attempts += 1) === 3 && controller.abort());
    expect(await watch({ signal: controller.signal }, connection).next()).toEqual({ done: true, value: undefined });
    await eventually("every connection is closed", () => attempts === 3 && open.size === 0);
    server.close();
  });

  test("a slow reader receives the newest state of each node, and can resume after each item [R-794]", async () => {
    let isSent = false;
    const connection = await at(({ send }) => {
      send(COMPLETE);
      send(upserted(11, "first"));
      for (let cursor = 12; cursor <= 1_011; cursor += 1)
        send(upserted(cursor, `n${cursor % 10}`, [cursor === 500 ? "POWER" : "STATE"]));
      send(liveBookmark("c1011"));
      isSent = true;
    });
    let arrived = 0;
    connection.client.on("message", () => void (arrived += 1));
    const items = watch({}, connection);
    await takeUntil(items, ({ kind }) => kind === "complete");
    await eventually("all has arrived", () => isSent && arrived > 1_002);
    const rest = await takeUntil(items, isLive);
    const changed = nodesIn(rest).filter(({ node }) => node.id !== "first");
    // What was taken before the rest arrived may have some nodes twice.
    expect(changed.length).toBeLessThanOrEqual(20);
    const cursors = changed.map(({ cursor }) => Number(cursor?.slice(1)));
    expect(cursors).toEqual(cursors.toSorted((a, b) => a - b));
    expect(cursors.slice(-10)).toEqual(Array.from({ length: 10 }, (_, index) => 1_002 + index));
    expect(changed.findLast(({ node }) => node.id === "n0")?.changed).toEqual(["STATE", "POWER"]);
  });

  test("the given WebSocket class is used in place of the global one", async () => {
    let made = 0;
    class Counted extends WebSocket {
      constructor(...args: ConstructorParameters<typeof WebSocket>) {
        super(...args);
        made += 1;
      }
    }
    const url = await scripted(snapshotThenLive);
    await takeUntil(watch({}, connected({ url, webSocketImpl: Counted })), isLive);
    expect(made).toBe(1);
  });
});
