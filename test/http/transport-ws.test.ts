/**
 * The protocol graphql-transport-ws, sentence by sentence of its text (PROTOCOL.md of graphql-ws), with bare frames
 * against the real server: no client library stands between the test and the wire.
 */
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest } from "../support/service.ts";
import type { ServiceUnderTest } from "../support/service.ts";

const TOKEN = "a-token-that-is-long-enough";
const ostler = await serviceUnderTest({ token: TOKEN, started: false });
afterAll(() => ostler[Symbol.asyncDispose]());

interface Message {
  readonly type: string;
  readonly id?: string;
  readonly payload?: unknown;
}

/** A socket as it is on the wire: what came in, in its order, and how it was closed. */
interface Wire {
  readonly socket: WebSocket;
  send(message: Message | string): void;
  /** The next message that was not taken yet; fails when the socket closes instead. */
  next(): Promise<Message>;
  /** Everything that came and was not taken. */
  readonly rest: readonly Message[];
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>;
}

const wires: Wire[] = [];
afterEach(() => {
  for (const { socket } of wires.splice(0)) socket.terminate();
});

interface Opening {
  readonly protocols?: string | readonly string[];
  readonly headers?: Readonly<Record<string, string>>;
  readonly of?: ServiceUnderTest;
}

async function opened({ protocols = "graphql-transport-ws", headers = {}, of = ostler }: Opening = {}): Promise<Wire> {
  const socket = new WebSocket(
    `${of.url.replace("http", "ws")}/graphql`,
    typeof protocols === "string" ? protocols : [...protocols],
    { headers },
  );
  const came: Message[] = [];
  const waiting: { readonly take: (message: Message) => void; readonly fail: (error: Error) => void }[] = [];
  socket.on("message", (data: Buffer) => {
    const message = JSON.parse(data.toString()) as Message;
    const first = waiting.shift();
    if (first) first.take(message);
    else came.push(message);
  });
  const closed = new Promise<{ code: number; reason: string }>((done) => {
    socket.on("close", (code, reason) => {
      for (const { fail } of waiting.splice(0))
        fail(new Error(`The socket was closed with ${code} ${String(reason)}.`));
      done({ code, reason: String(reason) });
    });
  });
  const wire: Wire = {
    socket,
    closed,
    rest: came,
    send: (message) => socket.send(typeof message === "string" ? message : JSON.stringify(message)),
    next() {
      const first = came.shift();
      return first ? Promise.resolve(first) : new Promise((take, fail) => waiting.push({ take, fail }));
    },
  };
  wires.push(wire);
  await once(socket, "open");
  return wire;
}

/** A socket on which operations are allowed. */
async function acknowledged(opening?: Opening): Promise<Wire> {
  const wire = await opened(opening);
  wire.send({ type: "connection_init", payload: { authorization: `Bearer ${TOKEN}` } });
  expect(await wire.next()).toEqual({ type: "connection_ack" });
  return wire;
}

const subscribe = (id: string, query: string, more: object = {}): Message => ({
  type: "subscribe",
  id,
  payload: { query, ...more },
});
/** Never says anything that was not written before, but for a bookmark each ten seconds. */
const STREAM = "subscription { nodeTransitions { ... on StreamBookmark { caughtUp } ... on Transition { nodeName } } }";
const CAUGHT_UP = { data: { nodeTransitions: { caughtUp: true } } };
const streamsEnd = () => eventually("no stream listens", () => ostler.listeners() === 0);

/** What comes when nothing should: a ping's answer, after which everything sent before has been handled. */
async function nothingCame(wire: Wire): Promise<void> {
  wire.send({ type: "ping", payload: { mark: "end" } });
  expect(await wire.next()).toEqual({ type: "pong", payload: { mark: "end" } });
}

describe("the sub-protocol", () => {
  test("is chosen when it is offered, among others too", async () => {
    expect((await opened()).socket.protocol).toBe("graphql-transport-ws");
    expect((await opened({ protocols: ["graphql-ws", "graphql-transport-ws"] })).socket.protocol).toBe(
      "graphql-transport-ws",
    );
  });

  test("that is not offered is 4406", async () => {
    const { socket, closed } = await opened({ protocols: [] });
    expect(socket.protocol).toBe("");
    expect(await closed).toEqual({ code: 4406, reason: "Subprotocol not acceptable" });
  });

  test("of the old library is not spoken", async () => {
    await expect(opened({ protocols: "graphql-ws" })).rejects.toThrow("Server sent no subprotocol");
  });
});

describe("ConnectionInit", () => {
  test("is acknowledged, with a payload or without one", async () => {
    await acknowledged();
    const wire = await opened({ headers: { authorization: `Bearer ${TOKEN}` } });
    wire.send({ type: "connection_init" });
    expect(await wire.next()).toEqual({ type: "connection_ack" });
  });

  test("that does not come within 3 seconds is 4408", async () => {
    const wire = await opened();
    expect(await wire.closed).toEqual({ code: 4408, reason: "Connection initialisation timeout" });
  });

  test("that comes twice is 4429, also before the first is acknowledged", async () => {
    const wire = await acknowledged();
    wire.send({ type: "connection_init" });
    expect(await wire.closed).toEqual({ code: 4429, reason: "Too many initialisation requests" });
    const hasty = await opened({ headers: { authorization: `Bearer ${TOKEN}` } });
    hasty.send({ type: "connection_init" });
    hasty.send({ type: "connection_init" });
    expect((await hasty.closed).code).toBe(4429);
  });

  test.each([
    { which: "none", payload: {} },
    { which: "a wrong one", payload: { authorization: "Bearer wrong-wrong-wrong-wrong" } },
    { which: "one that is no text", payload: { authorization: 7 } },
    { which: "one in another place", payload: { token: TOKEN } },
  ])("with $which for a token is 4403", async ({ payload }) => {
    const wire = await opened();
    wire.send({ type: "connection_init", payload });
    expect(await wire.closed).toEqual({ code: 4403, reason: "Forbidden" });
  });

  test.each(["text", 7, true, []])("with %j for a payload is 4400", async (payload) => {
    const wire = await opened();
    wire.send({ type: "connection_init", payload });
    expect((await wire.closed).code).toBe(4400);
  });
});

describe("Ping", () => {
  test("is answered at any time, before the connection is acknowledged too", async () => {
    const wire = await opened();
    wire.send({ type: "ping" });
    expect(await wire.next()).toEqual({ type: "pong" });
  });

  test("has its payload in the Pong", async () => {
    const wire = await acknowledged();
    wire.send({ type: "ping", payload: { some: ["data", 1, null] } });
    expect(await wire.next()).toEqual({ type: "pong", payload: { some: ["data", 1, null] } });
  });

  test("is answered while a stream runs, between its items", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("1", STREAM));
    expect(await wire.next()).toEqual({ type: "next", id: "1", payload: CAUGHT_UP });
    await nothingCame(wire);
  });
});

describe("Pong", () => {
  test("may come unasked, with a payload or without, and nothing is said to it", async () => {
    const wire = await acknowledged();
    wire.send({ type: "pong" });
    wire.send({ type: "pong", payload: { a: 1 } });
    await nothingCame(wire);
  });
});

describe("Subscribe", () => {
  test("before the connection is acknowledged is 4401", async () => {
    const wire = await opened();
    wire.send(subscribe("1", "{ service { version } }"));
    expect(await wire.closed).toEqual({ code: 4401, reason: "Unauthorized" });
  });

  test("with an id that is under way is 4409, of a stream and of a single result", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("same", STREAM));
    await wire.next();
    wire.send(subscribe("same", "{ service { version } }"));
    expect(await wire.closed).toEqual({ code: 4409, reason: "Subscriber for same already exists" });
    await streamsEnd();
  });

  test("may use an id again when its operation is over, whoever ended it", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("1", "{ service { version } }"));
    expect((await wire.next()).type).toBe("next");
    expect((await wire.next()).type).toBe("complete");
    wire.send(subscribe("1", "{ syntax error"));
    expect((await wire.next()).type).toBe("error");
    wire.send(subscribe("1", STREAM));
    expect((await wire.next()).type).toBe("next");
    wire.send({ type: "complete", id: "1" });
    wire.send(subscribe("1", STREAM));
    expect(await wire.next()).toEqual({ type: "next", id: "1", payload: CAUGHT_UP });
    // Over before it began: what was said last holds.
    wire.send({ type: "complete", id: "1" });
    wire.send(subscribe("1", STREAM));
    wire.send({ type: "complete", id: "1" });
    await streamsEnd();
    await nothingCame(wire);
    wire.send(subscribe("1", STREAM));
    expect(await wire.next()).toEqual({ type: "next", id: "1", payload: CAUGHT_UP });
    wire.socket.terminate();
    await streamsEnd();
  });

  test("names the operation that is meant, and gives its variables", async () => {
    const wire = await acknowledged();
    wire.send(
      subscribe(
        "1",
        "query A { a: service { version } } query B($name: String!) { node(by: { name: $name }) { name } }",
        { operationName: "B", variables: { name: "nobody" } },
      ),
    );
    expect(await wire.next()).toMatchObject({ type: "next", id: "1", payload: { data: { node: null } } });
  });

  test("may leave out what is optional, or give null for it", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("1", "{ __typename }", { operationName: null, variables: null, extensions: null }));
    expect(await wire.next()).toMatchObject({ type: "next", id: "1", payload: { data: { __typename: "Query" } } });
  });
});

describe("a single result", () => {
  test("of a query is one Next, then Complete", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("q", "{ service { version } }"));
    expect(await wire.next()).toMatchObject({
      type: "next",
      id: "q",
      payload: { data: { service: { version: "0.0.0-test" } } },
    });
    expect(await wire.next()).toEqual({ type: "complete", id: "q" });
  });

  test("of a mutation too, and it is done", async () => {
    const wire = await acknowledged();
    wire.send(
      subscribe("m", 'mutation { createCluster(input: { name: "over-ws" }) { cluster { name } errors { code } } }'),
    );
    expect(await wire.next()).toMatchObject({
      type: "next",
      id: "m",
      payload: { data: { createCluster: { cluster: { name: "over-ws" }, errors: [] } } },
    });
    expect(await wire.next()).toEqual({ type: "complete", id: "m" });
  });

  test("with errors of its execution is a Next that has them, then Complete", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("e", '{ transitions(after: "x") { pageInfo { endCursor } } }'));
    const { type, payload } = await wire.next();
    expect({ type, payload }).toMatchObject({
      type: "next",
      payload: { errors: [{ path: ["transitions"], extensions: { code: "BAD_USER_INPUT" } }] },
    });
    expect(await wire.next()).toEqual({ type: "complete", id: "e" });
  });

  test("is not sent when the client completed before it was there", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("1", "{ nodes(first: 100) { edges { node { name } } } }"));
    wire.send({ type: "complete", id: "1" });
    // Twice, for an answer that is late.
    await nothingCame(wire);
    wire.send(subscribe("2", "{ nodes(first: 100) { edges { node { name } } } }"));
    expect((await wire.next()).id).toBe("2");
    expect(await wire.next()).toEqual({ type: "complete", id: "2" });
    expect(wire.rest).toEqual([]);
  });
});

describe("a stream", () => {
  test("is Next after Next, and with the end of its source Complete", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("s", 'subscription { nodeTransitions(after: "999999") { ... on StreamReset { code } } }'));
    expect(await wire.next()).toEqual({
      type: "next",
      id: "s",
      payload: { data: { nodeTransitions: { code: "CURSOR_EXPIRED" } } },
    });
    expect(await wire.next()).toEqual({ type: "complete", id: "s" });
  });

  test("that the client completes is ended at once, and nothing more is said of it", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("s", STREAM));
    await wire.next();
    expect(ostler.listeners()).toBe(1);
    wire.send({ type: "complete", id: "s" });
    await streamsEnd();
    await ostler.query("mutation { registerNodes(input: { nodes: [] }) { errors { code } } }");
    await nothingCame(wire);
  });

  test("that cannot begin says why and completes", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("s", 'subscription { operationUpdates(id: "nothing") { cursor } }'));
    const { type, payload } = await wire.next();
    expect({ type, payload }).toMatchObject({
      type: "next",
      payload: { errors: [{ extensions: { code: "NOT_FOUND" } }] },
    });
    expect(await wire.next()).toEqual({ type: "complete", id: "s" });
  });

  test("shares its socket with others, each told under its own id", async () => {
    const wire = await acknowledged();
    for (const id of ["a", "b", "c"]) wire.send(subscribe(id, STREAM));
    const first = [await wire.next(), await wire.next(), await wire.next()];
    expect(first.map(({ id }) => id ?? "").toSorted((one, other) => one.localeCompare(other))).toEqual(["a", "b", "c"]);
    for (const { payload } of first) expect(payload).toEqual(CAUGHT_UP);
    wire.send({ type: "complete", id: "b" });
    await eventually("two are left", () => ostler.listeners() === 2);
  });

  test("ends with its socket, whether that is closed or cut", async () => {
    for (const end of ["close", "terminate"] as const) {
      const wire = await acknowledged();
      wire.send(subscribe("s", STREAM));
      await wire.next();
      wire.socket[end]();
      await streamsEnd();
    }
  });
});

describe("Error", () => {
  test.each([
    { what: "a syntax error", query: "{ syntax error", code: "GRAPHQL_PARSE_FAILED" },
    { what: "a field that there is not", query: "{ nonsense }", code: "GRAPHQL_VALIDATION_FAILED" },
    { what: "an empty text", query: "", code: "GRAPHQL_PARSE_FAILED" },
    {
      what: "two root fields of a subscription",
      query: "subscription { a: nodeTransitions { __typename } b: nodeTransitions { __typename } }",
      code: "GRAPHQL_VALIDATION_FAILED",
    },
  ])("answers $what, ends that operation, and nothing else", async ({ query }) => {
    const wire = await acknowledged();
    wire.send(subscribe("stream", STREAM));
    await wire.next();
    wire.send(subscribe("bad", query));
    const { type, id, payload } = await wire.next();
    expect({ type, id }).toEqual({ type: "error", id: "bad" });
    expect(payload).toMatchObject([{ message: expect.any(String) as string }]);
    await nothingCame(wire);
    expect(ostler.listeners()).toBe(1);
  });

  test("answers an operation that cannot be told from the others", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("1", "query A { __typename } query B { __typename }"));
    expect((await wire.next()).type).toBe("error");
  });
});

describe("Complete", () => {
  test("of an id that is unknown, or over, is ignored", async () => {
    const wire = await acknowledged();
    wire.send({ type: "complete", id: "never-there" });
    wire.send(subscribe("1", "{ __typename }"));
    await wire.next();
    await wire.next();
    wire.send({ type: "complete", id: "1" });
    await nothingCame(wire);
  });
});

describe("an invalid message", () => {
  test.each([
    "no json",
    "",
    "null",
    "[]",
    "7",
    '"text"',
    "{}",
    '{"type":"unknown"}',
    '{"type":7}',
    '{"type":"start","id":"1","payload":{"query":"{ __typename }"}}',
    '{"type":"subscribe"}',
    '{"type":"subscribe","id":"1"}',
    '{"type":"subscribe","id":"","payload":{"query":"{ __typename }"}}',
    '{"type":"subscribe","id":7,"payload":{"query":"{ __typename }"}}',
    '{"type":"subscribe","id":"1","payload":{}}',
    '{"type":"subscribe","id":"1","payload":{"query":7}}',
    '{"type":"subscribe","id":"1","payload":{"query":"{ __typename }","variables":"x"}}',
    '{"type":"subscribe","id":"1","payload":{"query":"{ __typename }","operationName":7}}',
    '{"type":"subscribe","id":"1","payload":{"query":"{ __typename }","extensions":[]}}',
    '{"type":"complete"}',
    '{"type":"complete","id":7}',
    '{"type":"ping","payload":"x"}',
    '{"type":"pong","payload":7}',
  ])("as %j is 4400", async (text) => {
    const wire = await acknowledged();
    wire.send(text);
    expect((await wire.closed).code).toBe(4400);
  });

  test("of a type that only servers send is not taken", async () => {
    for (const type of ["next", "error", "connection_ack"]) {
      const wire = await acknowledged();
      wire.send({ type, id: "1", payload: type === "error" ? [{ message: "x" }] : {} });
      expect((await wire.closed).code).toBe(4400);
    }
  });

  test("that is larger than a request may be is 1009", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("1", `{ __typename } # ${"x".repeat(2 * 1024 * 1024)}`));
    expect((await wire.closed).code).toBe(1009);
  });
});

describe("the bytes of a Next", () => {
  test("are what JSON has for id, type and result, in this order, for a text that was made ready too", async () => {
    const texts: string[] = [];
    const pair = [await acknowledged(), await acknowledged()];
    for (const { socket } of pair) socket.on("message", (data: Buffer) => texts.push(data.toString()));
    for (const wire of pair)
      wire.send(
        subscribe('odd "id"null}', "subscription { nodeTransitions { ... on Transition { nodeName to reason } } }"),
      );
    await eventually("both have caught up", () => ostler.listeners() === 2 && texts.length === 2);
    await ostler.register(["null-}\u00e4".replace(/[^\w-]/g, "x")]);
    await eventually("both are told", () => texts.length === 4);
    const [, , told, again] = texts;
    expect(told).toBe(
      '{"id":"odd \\"id\\"null}","type":"next","payload":{"data":{"nodeTransitions":{"nodeName":"null-xx","to":"ENROLLED","reason":null}}}}',
    );
    expect(again).toBe(told);
  });
});

describe("limits of a socket", () => {
  test("are 100 operations at a time: one more is an error of that one, until another has ended", async () => {
    const wire = await acknowledged();
    for (let index = 0; index < 100; index += 1) wire.send(subscribe(`s${index}`, STREAM));
    for (let index = 0; index < 100; index += 1) expect((await wire.next()).type).toBe("next");
    wire.send(subscribe("surplus", "{ __typename }"));
    const { type, id, payload } = await wire.next();
    expect({ type, id, payload }).toMatchObject({
      type: "error",
      id: "surplus",
      payload: [
        { message: expect.stringContaining("at most 100 operations") as string, extensions: { code: "CAPACITY" } },
      ],
    });
    wire.send({ type: "complete", id: "s7" });
    wire.send(subscribe("surplus", "{ __typename }"));
    expect((await wire.next()).type).toBe("next");
    wire.socket.terminate();
    await streamsEnd();
  });

  test("count what a client has completed until it has ended", async () => {
    const [wire, other] = [await acknowledged(), await acknowledged()];
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    const locked = Promise.withResolvers<void>();
    const lock = ostler.test.sql.begin(async (sql) => {
      await sql`lock table nodes in access exclusive mode`;
      locked.resolve();
      await ended;
    });
    await locked.promise;
    for (let index = 0; index < 101; index += 1) {
      wire.send(subscribe(`q${index}`, "{ nodes { totalCount } }"));
      wire.send({ type: "complete", id: `q${index}` });
    }
    wire.send(subscribe("last", "{ __typename }"));
    await delay(300);
    await nothingCame(other);
    expect(wire.rest).toEqual([]);
    end();
    await lock;
    expect(await wire.next()).toMatchObject({ type: "next", id: "last" });
  });

  test("hold back who asks and does not read: it costs no more than its share, and is answered when it reads", async () => {
    const wire = await acknowledged();
    const ballast = "x".repeat(60_000);
    const peer = wire.socket;
    let answered = 0;
    peer.on("message", () => void (answered += 1));
    peer.pause();
    for (let index = 0; index < 400; index += 1) wire.send({ type: "ping", payload: { ballast } });
    await delay(300);
    peer.resume();
    await eventually("all are answered", () => answered === 400);
  });
});

describe("the end of the service", () => {
  test("closes sockets with 1001, after streams have said so", async () => {
    await using leaving = await serviceUnderTest({ started: false });
    const wire = await acknowledged({ of: leaving });
    wire.send(subscribe("s", "subscription { nodeTransitions { ... on StreamReset { code } } }"));
    expect((await wire.next()).type).toBe("next");
    const gone = leaving.close();
    expect(await wire.next()).toEqual({
      type: "next",
      id: "s",
      payload: { data: { nodeTransitions: { code: "SHUTTING_DOWN" } } },
    });
    expect(await wire.next()).toEqual({ type: "complete", id: "s" });
    expect((await wire.closed).code).toBe(1001);
    await gone;
  });
});
