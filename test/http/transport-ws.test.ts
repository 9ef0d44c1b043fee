/**
 * The protocol graphql-transport-ws, sentence by sentence of its text (PROTOCOL.md of graphql-ws), with raw frames
 * against the real server, without a client library.
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

/** A socket with its received frames in order, and how it was closed. */
interface Wire {
  readonly socket: WebSocket;
  send(message: Message | string): void;
  /** The next message that was not taken yet; fails when the socket closes instead. */
  next(): Promise<Message>;
  /** All messages that were received and not taken. */
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

/** A socket whose connection is acknowledged. */
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
/** Emits nothing but new transitions, and a bookmark every ten seconds. */
const STREAM = "subscription { nodeTransitions { ... on StreamBookmark { caughtUp } ... on Transition { nodeName } } }";
const CAUGHT_UP = { data: { nodeTransitions: { caughtUp: true } } };
const streamsEnd = () => eventually("no stream listens", () => ostler.listeners() === 0);

/** Sends a ping: its pong shows that everything before was handled without a message. */
async function nothingCame(wire: Wire): Promise<void> {
  wire.send({ type: "ping", payload: { mark: "end" } });
  expect(await wire.next()).toEqual({ type: "pong", payload: { mark: "end" } });
}

describe("sub-protocol", () => {
  test("sub-protocol graphql-transport-ws is chosen when it is offered, also among others", async () => {
    expect((await opened()).socket.protocol).toBe("graphql-transport-ws");
    expect((await opened({ protocols: ["graphql-ws", "graphql-transport-ws"] })).socket.protocol).toBe(
      "graphql-transport-ws",
    );
  });

  test("sub-protocol that is not supported closes with 4406", async () => {
    const { socket, closed } = await opened({ protocols: [] });
    expect(socket.protocol).toBe("");
    expect(await closed).toEqual({ code: 4406, reason: "Unknown subprotocol. Connect with graphql-transport-ws." });
  });

  test("sub-protocol of the old library is not supported", async () => {
    await expect(opened({ protocols: "graphql-ws" })).rejects.toThrow("Server sent no subprotocol");
  });
});

describe("ConnectionInit", () => {
  test("ConnectionInit is acknowledged, with and without a payload", async () => {
    await acknowledged();
    const wire = await opened({ headers: { authorization: `Bearer ${TOKEN}` } });
    wire.send({ type: "connection_init" });
    expect(await wire.next()).toEqual({ type: "connection_ack" });
  });

  test("ConnectionInit that does not arrive within 3 seconds closes with 4408", async () => {
    const wire = await opened();
    expect(await wire.closed).toEqual({ code: 4408, reason: "Send connection_init within 3 s of connecting." });
  });

  test("ConnectionInit that arrives twice closes with 4429, also before the first is acknowledged", async () => {
    const wire = await acknowledged();
    wire.send({ type: "connection_init" });
    expect(await wire.closed).toEqual({ code: 4429, reason: "Send connection_init once." });
    const hasty = await opened({ headers: { authorization: `Bearer ${TOKEN}` } });
    hasty.send({ type: "connection_init" });
    hasty.send({ type: "connection_init" });
    expect((await hasty.closed).code).toBe(4429);
  });

  test.each([
    { which: "nothing", payload: {}, flaw: "Missing" },
    { which: "a wrong one", payload: { authorization: "Bearer wrong-wrong-wrong-wrong" }, flaw: "Invalid" },
    { which: "a number", payload: { authorization: 7 }, flaw: "Missing" },
    { which: "a token in another field", payload: { token: TOKEN }, flaw: "Missing" },
  ])(
    "ConnectionInit with $which as token closes with 4403 and says what to send [R-847]",
    async ({ payload, flaw }) => {
      const wire = await opened();
      wire.send({ type: "connection_init", payload });
      const reason = `${flaw} token. Send {"authorization": "Bearer TOKEN"} as the payload of connection_init.`;
      expect(await wire.closed).toEqual({ code: 4403, reason });
    },
  );

  test.each(["text", 7, true, []])("ConnectionInit with %j as payload closes with 4400", async (payload) => {
    const wire = await opened();
    wire.send({ type: "connection_init", payload });
    expect(await wire.closed).toMatchObject({ code: 4400, reason: expect.stringMatching(/^Invalid message\. Send/) });
  });
});

describe("Ping", () => {
  test("Ping is answered at any time, also before the connection is acknowledged", async () => {
    const wire = await opened();
    wire.send({ type: "ping" });
    expect(await wire.next()).toEqual({ type: "pong" });
  });

  test("Ping has its payload returned in the Pong", async () => {
    const wire = await acknowledged();
    wire.send({ type: "ping", payload: { some: ["data", 1, null] } });
    expect(await wire.next()).toEqual({ type: "pong", payload: { some: ["data", 1, null] } });
  });

  test("Ping is answered between the items of a stream", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("1", STREAM));
    expect(await wire.next()).toEqual({ type: "next", id: "1", payload: CAUGHT_UP });
    await nothingCame(wire);
  });
});

describe("Pong", () => {
  test("Pong may arrive unrequested, with and without a payload, and is not answered", async () => {
    const wire = await acknowledged();
    wire.send({ type: "pong" });
    wire.send({ type: "pong", payload: { a: 1 } });
    await nothingCame(wire);
  });
});

describe("Subscribe", () => {
  test("Subscribe before the connection is acknowledged closes with 4401", async () => {
    const wire = await opened();
    wire.send(subscribe("1", "{ service { version } }"));
    expect(await wire.closed).toEqual({
      code: 4401,
      reason: "Send connection_init first, and wait for connection_ack.",
    });
  });

  test("Subscribe with the id of a running operation closes with 4409, for a stream and a single result", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("same", STREAM));
    await wire.next();
    wire.send(subscribe("same", "{ service { version } }"));
    expect(await wire.closed).toEqual({ code: 4409, reason: "Subscriber for same already exists" });
    await streamsEnd();
  });

  test("Subscribe may reuse an id when its operation has ended, by the client or the server", async () => {
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
    // It ended before it started: the last message decides.
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

  test("Subscribe names the operation and passes its variables", async () => {
    const wire = await acknowledged();
    wire.send(
      subscribe(
        "1",
        "query A { a: service { version } } query B($name: String!) { node(by: { name: $name }) { name } }",
        { operationName: "B", variables: { name: "unknown" } },
      ),
    );
    expect(await wire.next()).toMatchObject({ type: "next", id: "1", payload: { data: { node: null } } });
  });

  test("Subscribe may omit optional fields or set them to null", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("1", "{ __typename }", { operationName: null, variables: null, extensions: null }));
    expect(await wire.next()).toMatchObject({ type: "next", id: "1", payload: { data: { __typename: "Query" } } });
  });
});

describe("single result", () => {
  test("single result of a query is one Next, then Complete", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("q", "{ service { version } }"));
    expect(await wire.next()).toMatchObject({
      type: "next",
      id: "q",
      payload: { data: { service: { version: "0.0.0-test" } } },
    });
    expect(await wire.next()).toEqual({ type: "complete", id: "q" });
  });

  test("single result of a mutation is one Next, then Complete, and the mutation takes effect", async () => {
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

  test("single result with execution errors is a Next with them, then Complete", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("e", '{ transitions(after: "x") { pageInfo { endCursor } } }'));
    const { type, payload } = await wire.next();
    expect({ type, payload }).toMatchObject({
      type: "next",
      payload: { errors: [{ path: ["transitions"], extensions: { code: "BAD_USER_INPUT" } }] },
    });
    expect(await wire.next()).toEqual({ type: "complete", id: "e" });
  });

  test("single result is not sent if the client completed the operation before", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("1", "{ nodes(first: 100) { edges { node { name } } } }"));
    wire.send({ type: "complete", id: "1" });
    // Twice, to find a late message.
    await nothingCame(wire);
    wire.send(subscribe("2", "{ nodes(first: 100) { edges { node { name } } } }"));
    expect((await wire.next()).id).toBe("2");
    expect(await wire.next()).toEqual({ type: "complete", id: "2" });
    expect(wire.rest).toEqual([]);
  });
});

describe("stream over a socket", () => {
  test("stream over a socket is a Next for each item, and Complete at the end of its source", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("s", 'subscription { nodeTransitions(after: "999999") { ... on StreamReset { code } } }'));
    expect(await wire.next()).toEqual({
      type: "next",
      id: "s",
      payload: { data: { nodeTransitions: { code: "CURSOR_EXPIRED" } } },
    });
    expect(await wire.next()).toEqual({ type: "complete", id: "s" });
  });

  test("stream over a socket that the client completes ends at once without another message", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("s", STREAM));
    await wire.next();
    expect(ostler.listeners()).toBe(1);
    wire.send({ type: "complete", id: "s" });
    await streamsEnd();
    await ostler.query("mutation { registerNodes(input: { nodes: [] }) { errors { code } } }");
    await nothingCame(wire);
  });

  test("stream over a socket that cannot start sends the error and completes", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("s", 'subscription { runLog(id: "nothing") { __typename } }'));
    const { type, payload } = await wire.next();
    expect({ type, payload }).toMatchObject({
      type: "next",
      payload: { errors: [{ extensions: { code: "NOT_FOUND" } }] },
    });
    expect(await wire.next()).toEqual({ type: "complete", id: "s" });
  });

  test("stream over a socket shares it with others, each under its own id", async () => {
    const wire = await acknowledged();
    for (const id of ["a", "b", "c"]) wire.send(subscribe(id, STREAM));
    const first = [await wire.next(), await wire.next(), await wire.next()];
    expect(first.map(({ id }) => id ?? "").toSorted((one, other) => one.localeCompare(other))).toEqual(["a", "b", "c"]);
    for (const { payload } of first) expect(payload).toEqual(CAUGHT_UP);
    wire.send({ type: "complete", id: "b" });
    await eventually("two are left", () => ostler.listeners() === 2);
  });

  test("stream over a socket ends with the socket, closed or lost", async () => {
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
    { what: "an unknown field", query: "{ nonsense }", code: "GRAPHQL_VALIDATION_FAILED" },
    { what: "an empty text", query: "", code: "GRAPHQL_PARSE_FAILED" },
    {
      what: "two root fields of a subscription",
      query: "subscription { a: nodeTransitions { __typename } b: nodeTransitions { __typename } }",
      code: "GRAPHQL_VALIDATION_FAILED",
    },
  ])("Error answers $what, ends that operation, and no other", async ({ query }) => {
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

  test("Error answers an ambiguous operation", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("1", "query A { __typename } query B { __typename }"));
    expect((await wire.next()).type).toBe("error");
  });
});

describe("Complete", () => {
  test("Complete of an unknown or ended id is ignored", async () => {
    const wire = await acknowledged();
    wire.send({ type: "complete", id: "never-there" });
    wire.send(subscribe("1", "{ __typename }"));
    await wire.next();
    await wire.next();
    wire.send({ type: "complete", id: "1" });
    await nothingCame(wire);
  });
});

describe("invalid message", () => {
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
  ])("invalid message %j closes with 4400", async (text) => {
    const wire = await acknowledged();
    wire.send(text);
    expect((await wire.closed).code).toBe(4400);
  });

  test("invalid message of a type that only servers send closes the socket", async () => {
    for (const type of ["next", "error", "connection_ack"]) {
      const wire = await acknowledged();
      wire.send({ type, id: "1", payload: type === "error" ? [{ message: "x" }] : {} });
      expect((await wire.closed).code).toBe(4400);
    }
  });

  test("invalid message larger than the limit of a request closes with 1009", async () => {
    const wire = await acknowledged();
    wire.send(subscribe("1", `{ __typename } # ${"x".repeat(2 * 1024 * 1024)}`));
    expect((await wire.closed).code).toBe(1009);
  });
});

describe("bytes of a Next", () => {
  test("bytes of a Next are the JSON of id, type and result in this order, also for a pre-rendered text", async () => {
    const texts: string[] = [];
    const pair = [await acknowledged(), await acknowledged()];
    for (const { socket } of pair) socket.on("message", (data: Buffer) => texts.push(data.toString()));
    for (const wire of pair)
      wire.send(
        subscribe('odd "id"null}', "subscription { nodeTransitions { ... on Transition { nodeName to reason } } }"),
      );
    await eventually("both have caught up", () => ostler.listeners() === 2 && texts.length === 2);
    await ostler.register(["null-}\u00e4".replace(/[^\w-]/g, "x")]);
    await eventually("both have their item", () => texts.length === 4);
    const [, , first, again] = texts;
    expect(first).toBe(
      '{"id":"odd \\"id\\"null}","type":"next","payload":{"data":{"nodeTransitions":{"nodeName":"null-xx","to":"ENROLLED","reason":null}}}}',
    );
    expect(again).toBe(first);
  });
});

describe("limits of a socket", () => {
  test("limits of a socket allow 100 operations at a time: another one fails until one has ended", async () => {
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

  test("limits of a socket count completed operations until they have ended", async () => {
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

  test("limits of a socket slow a client that sends and does not read to its share, and it is answered when it reads", async () => {
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

describe("shutdown", () => {
  test("shutdown closes sockets with 1001, and completed their streams, after which no client reconnects [R-240]", async () => {
    await using leaving = await serviceUnderTest({ token: TOKEN, started: false });
    const wire = await acknowledged({ of: leaving });
    wire.send(subscribe("s", "subscription { nodeTransitions { ... on StreamReset { code } } }"));
    expect((await wire.next()).type).toBe("next");
    const gone = leaving.close();
    expect(await wire.next()).toEqual({
      type: "next",
      id: "s",
      payload: { data: { nodeTransitions: { code: "SHUTTING_DOWN" } } },
    });
    expect((await wire.closed).code).toBe(1001);
    expect(wire.rest).toEqual([]);
    await gone;
  });
});
