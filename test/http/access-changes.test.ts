/** Streams and sockets of callers whose access changes, or whose credential ends. */
import { once } from "node:events";
import { afterAll, describe, expect, inject, test } from "vitest";
import { WebSocket } from "ws";
import { connect, watchNodes } from "../../packages/client/src/index.ts";
import type { WatchItem } from "../../packages/client/src/index.ts";
import { markingAt, raceRevocations } from "../access/revocation-races.ts";
import { administratorOf } from "../support/accounts.ts";
import { typed } from "../support/client-documents.ts";
import { cutter } from "../support/cutter.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest, takeAll, takeUntil } from "../support/service.ts";
import type { Items, ServiceUnderTest } from "../support/service.ts";

const TOKEN = "a-token-of-some-length";
const ostler = await serviceUnderTest({ token: TOKEN, started: false });
afterAll(() => ostler[Symbol.asyncDispose]());
const other = await serviceUnderTest({ token: TOKEN, started: false, beside: ostler });
afterAll(() => other[Symbol.asyncDispose]());
const administrator = administratorOf(ostler);

type Item = Record<
  string,
  {
    readonly type: string;
    readonly cursor?: string;
    readonly code?: string;
    readonly nodeName?: string;
    readonly caughtUp?: boolean;
  }
>;
const itemOf = (data: Item) => Object.values(data)[0] ?? { type: "none" };
const isCaughtUp = (data: Item) => itemOf(data).caughtUp === true;
const codesOf = (items: readonly Item[]) => items.map((item) => itemOf(item).code ?? itemOf(item).type);

const TRANSITIONS = `subscription Follow($after: String, $snapshot: Boolean! = false) {
  nodeTransitions(after: $after, snapshot: $snapshot) {
    type: __typename
    ... on Transition { cursor nodeName }
    ... on NodeSnapshot { cursor }
    ... on StreamBookmark { cursor caughtUp }
    ... on StreamReset { cursor code }
  }
}`;
const changesOf = (field: string, args = "") =>
  `subscription { ${field}${args} { type: __typename ... on StreamBookmark { caughtUp } ... on StreamReset { code } } }`;

/** How streams get their items. */
const WAYS = ["overSocket", "overEvents"] as const;

async function live(items: Items<Item>): Promise<Items<Item>> {
  await takeUntil(items, isCaughtUp);
  return items;
}

describe.each(WAYS)("stream %s", (way) => {
  test.each([
    ["less", ["operator"], ["viewer"]],
    ["more", ["viewer"], ["viewer", "manager"]],
    ["nothing", ["viewer"], []],
  ])(
    "a stream whose caller may do %s from then on ends with ACCESS_CHANGED and its last cursor, without a gap [R-970]",
    async (_what, before, after) => {
      const caller = await administrator.account(...before);
      const stream = await live(ostler[way]<Item>(TRANSITIONS, {}, caller.token));
      const [first = ""] = await ostler.register(1);
      await takeUntil(stream, (item) => itemOf(item).nodeName === first);
      await administrator.setRoles(caller.name, ...after);
      const rest = (await takeAll(stream)).map(itemOf);
      const reset = rest.at(-1);
      expect(reset).toMatchObject({ type: "StreamReset", code: "ACCESS_CHANGED" });
      const [second = ""] = await ostler.register(1);
      await administrator.setRoles(caller.name, "viewer");
      const again = await takeUntil(ostler[way]<Item>(TRANSITIONS, { after: reset?.cursor }, caller.token), isCaughtUp);
      const names = [...rest, ...again.map(itemOf)].flatMap(({ nodeName }) => nodeName ?? []);
      expect(names).toEqual([second]);
    },
  );

  test("a stream whose caller keeps its access continues while that of others changes [R-970]", async () => {
    const [caller, neighbour] = [await administrator.account("viewer"), await administrator.account("viewer")];
    const stream = await live(ostler[way]<Item>(TRANSITIONS, {}, caller.token));
    const ended = await live(ostler[way]<Item>(TRANSITIONS, {}, neighbour.token));
    await administrator.setRoles(neighbour.name, "operator");
    expect(codesOf(await takeAll(ended))).toEqual(["ACCESS_CHANGED"]);
    const [name = ""] = await ostler.register(1);
    expect(codesOf(await takeUntil(stream, (item) => itemOf(item).nodeName === name))).not.toContain("ACCESS_CHANGED");
    await stream.return?.();
  });

  test("a stream of a revoked token ends on every replica with ACCESS_CHANGED [R-971]", async () => {
    const caller = await administrator.account("viewer");
    const streams = await Promise.all(
      [ostler, other].map(async (one) => live(one[way]<Item>(TRANSITIONS, {}, caller.token))),
    );
    const rests = streams.map(async (stream) => codesOf(await takeAll(stream)));
    await administrator.revoke(caller);
    expect(await Promise.all(rests)).toEqual([["ACCESS_CHANGED"], ["ACCESS_CHANGED"]]);
  });

  test("a grant that expires ends the streams that began by it [R-971]", async () => {
    const expiresAt = new Date(Date.now() + 3_000).toISOString();
    const caller = await administrator.account("viewer", { role: "operator", expiresAt } as { role: string });
    const stream = await live(ostler[way]<Item>(TRANSITIONS, {}, caller.token));
    expect(codesOf((await takeAll(stream)).slice(-1))).toEqual(["ACCESS_CHANGED"]);
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(expiresAt));
  });

  test.each([
    ["nodeChanges", ""],
    ["operationChanges", ""],
    ["clusterChanges", ""],
    ["runChanges", `(node: { name: "followed" })`],
  ])("%s ends with ACCESS_CHANGED [R-970]", async (field, args) => {
    if (field === "runChanges") await ostler.register([`followed-${way}`]);
    const caller = await administrator.account("viewer");
    const text = changesOf(field, args.replace("followed", `followed-${way}`));
    const stream = await live(ostler[way]<Item>(text, {}, caller.token));
    await administrator.setRoles(caller.name, "operator");
    expect(codesOf(await takeAll(stream)).at(-1)).toBe("ACCESS_CHANGED");
  });

  test.each([
    ["nodeCountChanges", "(by: [{ field: STATE }]) { totalCount }"],
    ["attentionChanges", "{ nodeCount }"],
  ])("%s, which has no cursor, completes [R-970]", async (field, rest) => {
    const caller = await administrator.account("viewer");
    const stream = ostler[way]<object>(`subscription { ${field} ${rest} }`, {}, caller.token);
    await stream.next();
    await administrator.setRoles(caller.name, "operator");
    await takeAll(stream);
  });
});

test("runLog of a run that has not ended ends with ACCESS_CHANGED and its last cursor, then completes [R-970]", async () => {
  const names = await ostler.register(1);
  const operation = await ostler.begin("manageNodes", names);
  const { run } = await ostler.query<{ run: { runs: { nodes: { id: string }[] } } }>(
    "query Run($id: ID!) { run: operation(id: $id) { runs { nodes { id } } } }",
    { id: operation },
  );
  const caller = await administrator.account("viewer");
  const before = ostler.listeners();
  const stream = ostler.overSocket<Item>(
    `subscription { runLog(id: "${run.runs.nodes[0]?.id}") { type: __typename ... on StreamReset { cursor code } } }`,
    {},
    caller.token,
  );
  const items = takeAll(stream);
  await eventually("the stream has begun", () => ostler.listeners() > before);
  await administrator.setRoles(caller.name, "operator");
  expect((await items).map(itemOf)).toEqual([{ type: "StreamReset", cursor: "0", code: "ACCESS_CHANGED" }]);
});

describe("credential that has ended", () => {
  test("a socket closes with 4403 and the reason, after the last item of its streams [R-971]", async () => {
    const caller = await administrator.account("viewer");
    const { send, messages, closed } = await connected(other, caller.token);
    send({ type: "subscribe", id: "1", payload: { query: TRANSITIONS } });
    await eventually("the stream is live", () => messages.some(({ id }) => id === "1"));
    await administrator.revoke(caller);
    const { code, reason } = await closed;
    expect([code, reason]).toEqual([4403, expect.stringMatching(/^The token was revoked at /)]);
    expect(Buffer.byteLength(reason)).toBeLessThanOrEqual(123);
    expect(messages.slice(-2)).toMatchObject([
      { type: "next", payload: { data: { nodeTransitions: { code: "ACCESS_CHANGED" } } } },
      { type: "complete" },
    ]);
  });

  test("a socket without streams closes too, and one of another token of the account does not [R-971]", async () => {
    const caller = await administrator.account("viewer");
    const spare = await administrator.createToken(caller.name);
    const [ended, continuing] = [await connected(ostler, caller.token), await connected(ostler, spare.token)];
    await administrator.revoke(caller);
    expect((await ended.closed).code).toBe(4403);
    continuing.send({ type: "ping" });
    await eventually("it answers", () => continuing.messages.some(({ type }) => type === "pong"));
    continuing.socket.terminate();
  });

  test("a token that another replica created a moment ago is taken for what it is", async () => {
    const caller = await administrator.account("viewer");
    const stream = await live(other.overSocket<Item>(TRANSITIONS, {}, caller.token));
    await stream.return?.();
  });
});

describe("replica without its database", async () => {
  const proxy = await cutter(inject("server").url);
  afterAll(() => proxy[Symbol.asyncDispose]());
  const far = await serviceUnderTest({
    token: TOKEN,
    started: false,
    beside: ostler,
    databaseUrl(url) {
      const proxied = new URL(url);
      proxied.host = new URL(proxy.url).host;
      return proxied.href;
    },
  });
  afterAll(() => far[Symbol.asyncDispose]());

  /** A stream of a caller whom the replica knows, so that it begins without a look into the database. */
  async function liveOf(token: string): Promise<Items<Item>> {
    await eventually("its database answers again", async () => {
      const answer = await far.ask("{ nodes(first: 1) { totalCount } }", {}, { authorization: `Bearer ${token}` });
      return answer.errors.length === 0;
    });
    return live(far.overSocket<Item>(TRANSITIONS, {}, token));
  }

  /** How the database is lost; returns what brings it back. */
  const LOSSES: readonly (readonly [string, () => () => void])[] = [
    ["hangs", () => proxy.stall()],
    [
      "has cut its connections",
      () => {
        proxy.cut();
        return () => {};
      },
    ],
  ];

  test.each(LOSSES)(
    "a grant that expires while the database %s ends its streams without it [R-973]",
    async (_what, lose) => {
      const expiresAt = new Date(Date.now() + 3_000).toISOString();
      const caller = await administrator.account("viewer", { role: "operator", expiresAt } as { role: string });
      const stream = await liveOf(caller.token);
      const bring = lose();
      try {
        expect(codesOf(await takeAll(stream)).at(-1)).toBe("ACCESS_CHANGED");
      } finally {
        bring();
      }
    },
  );

  test.each(LOSSES)(
    "the streams of a token that is revoked while the database of another replica %s end there when it is back [R-971]",
    async (_what, lose) => {
      const caller = await administrator.account("viewer");
      const stream = await liveOf(caller.token);
      const bring = lose();
      await administrator.revoke(caller);
      bring();
      expect(codesOf(await takeAll(stream)).at(-1)).toBe("ACCESS_CHANGED");
    },
  );

  test("a socket whose caller cannot be looked up closes with 1013, after which clients try again", async () => {
    const { token } = await administrator.account("viewer");
    const bring = proxy.stall();
    const socket = new WebSocket(`${far.url.replace("http", "ws")}/graphql`, "graphql-transport-ws");
    const closed = once(socket, "close");
    let isClosed = false;
    void closed.then(() => (isClosed = true));
    await once(socket, "open");
    socket.send(JSON.stringify({ type: "connection_init", payload: { authorization: `Bearer ${token}` } }));
    await eventually("it is closed", () => {
      proxy.cut();
      return isClosed;
    });
    bring();
    expect((await closed)[0]).toBe(1013);
  });
});

describe("items that callers share", () => {
  test("verdicts in streams name the scope and the roles, and no caller [R-975]", async () => {
    const [name = ""] = await ostler.register(1);
    const text = `subscription {
      nodeChanges(filter: { name: { eq: "${name}" } }, snapshot: true) {
        type: __typename
        ... on NodeUpserted { node { verbs { reason } actions { reason } } }
        ... on StreamBookmark { caughtUp }
      }
    }`;
    const callers = [await administrator.account("viewer"), await administrator.account("viewer")];
    const [one, two] = await Promise.all(
      callers.map(async ({ token }) => {
        const stream = ostler.overSocket<Item>(text, {}, token);
        const items = await takeUntil(stream, isCaughtUp);
        await stream.return?.();
        return JSON.stringify(items[0]);
      }),
    );
    expect(one).toBe(two);
    expect(one).toContain("requires the scope OPERATE. The caller has the role viewer");
    for (const caller of callers) expect(one).not.toContain(caller.name);
  });
});

describe("ostler-client", () => {
  const ROW = typed<{ readonly name: string }, never>("fragment Row on Node { name }");
  const isLive = (item: WatchItem<unknown>) => item.kind === "bookmark" && item.live;
  const isNamed = (name: string) => (item: WatchItem<{ readonly name: string }>) =>
    item.kind === "node" && item.node.name === name;

  function follow(token: () => string) {
    const connection = connect({ url: `${ostler.url}/graphql`, token, webSocketImpl: WebSocket, longestPauseMs: 200 });
    return { connection, items: watchNodes(connection, ROW) };
  }

  test("a client whose token is revoked continues with the next one, and misses nothing [R-977]", async () => {
    const caller = await administrator.account("viewer");
    const tokens = [caller.token, (await administrator.createToken(caller.name)).token];
    const { connection, items } = follow(() => tokens.shift() ?? "none is left");
    await takeUntil(items, isLive);
    const before = await ostler.register(3);
    await administrator.revoke(caller);
    const during = await ostler.register(3);
    await eventually("it has another connection", () => tokens.length === 0);
    const after = await ostler.register(3);
    const seen = await takeUntil(items, isNamed(after.at(-1) ?? ""));
    const names = seen.flatMap((item) => (item.kind === "node" ? item.node.name : []));
    expect([...new Set(names)]).toEqual([...before, ...during, ...after]);
    expect(seen.some(({ kind }) => kind === "begin")).toBe(false);
    await items.return?.();
    expect(connection.getSnapshot().why).toBeNull();
  });

  test("a client whose callback returns the refused token again ends with an error [R-977]", async () => {
    const caller = await administrator.account("viewer");
    const { items } = follow(() => caller.token);
    await takeUntil(items, isLive);
    await administrator.revoke(caller);
    await expect(takeUntil(items, () => false)).rejects.toMatchObject({ name: "WatchError", closeCode: 4403 });
  });

  test("a client whose roles are taken ends with the sentence that names what is missing [R-977]", async () => {
    const caller = await administrator.account("viewer");
    const { items } = follow(() => caller.token);
    await takeUntil(items, isLive);
    await administrator.setRoles(caller.name);
    await expect(takeUntil(items, () => false)).rejects.toMatchObject({
      code: "FORBIDDEN",
      message: expect.stringContaining(`no role is granted to account:${caller.name}`),
    });
  });
});

describe("revocation races", () => {
  test("no mutation that starts after the answer to a revocation is accepted by either replica [R-976]", async () => {
    const [name = ""] = await ostler.register(1);
    const replicas = [ostler, other].map(({ url }) => markingAt(url, name));
    const { acceptedBefore, startedAfter, acceptedAfter } = await raceRevocations({
      administrator,
      replicas,
      tries: 12,
    });
    expect([startedAfter, acceptedAfter]).toEqual([48, 0]);
    expect(acceptedBefore).toBeGreaterThan(0);
  });

  test("a group admission under way on another replica is completed, and the next one is refused [R-976]", async () => {
    const caller = await administrator.account("operator");
    const names = await ostler.register(20);
    const admit = async () =>
      other.ask<{ it: { operation: object | null } }>(
        `mutation($names: [String!]) { it: manageNodes(input: { nodes: { names: $names } }) { operation { id } errors { code } } }`,
        { names },
        { authorization: `Bearer ${caller.token}` },
      );
    const locked = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    const lock = ostler.test.sql.begin(async (tx) => {
      await tx`select from nodes for update`;
      locked.resolve();
      await release.promise;
    });
    await locked.promise;
    const underWay = admit();
    await eventually("it waits for the nodes", async () => {
      const rows = await ostler.database.reader.execute("select from pg_locks where not granted");
      return [...rows].length > 0;
    });
    await administrator.revoke(caller);
    const late = await admit();
    release.resolve();
    await lock;
    expect((await underWay).data?.it.operation).toMatchObject({ id: expect.any(String) });
    expect(late.errors[0]?.extensions).toMatchObject({ code: "UNAUTHENTICATED" });
  });
});

/** A socket with its messages, as they came. */
async function connected(of: ServiceUnderTest, token: string) {
  const socket = new WebSocket(`${of.url.replace("http", "ws")}/graphql`, "graphql-transport-ws");
  const messages: { readonly id?: string; readonly type: string; readonly payload?: { readonly data?: Item } }[] = [];
  socket.on("message", (data: Buffer) => messages.push(JSON.parse(data.toString()) as (typeof messages)[number]));
  const closed = once(socket, "close").then(([code, reason]) => ({ code: code as number, reason: String(reason) }));
  await once(socket, "open");
  const send = (message: object) => socket.send(JSON.stringify(message));
  send({ type: "connection_init", payload: { authorization: `Bearer ${token}` } });
  await eventually("it is acknowledged", () => messages.some(({ type }) => type === "connection_ack"));
  return { socket, send, messages, closed };
}
