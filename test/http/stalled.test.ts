/** Stalled connections are closed, those of active readers are not, and the number of connections is limited. */
import { createServer } from "node:http";
import type { RequestListener, Server } from "node:http";
import { connect } from "node:net";
import type { AddressInfo } from "node:net";
import { once } from "node:events";
import { createSchema, createYoga } from "graphql-yoga";
import { afterEach, describe, expect, test, vi } from "vitest";
import { WebSocket } from "ws";
import { createSockets } from "../../src/http/sockets/sockets.ts";
import type { SocketOptions } from "../../src/http/sockets/sockets.ts";
import { eventStreams } from "../../src/http/graphql/event-streams.ts";
import { createLog } from "../../src/log.ts";
import { authenticatorWith, loginsWith } from "../support/callers.ts";
import { eventually } from "../support/eventually.ts";

const owned: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of owned.splice(0).toReversed()) await end();
  vi.restoreAllMocks();
});

async function listening(answer?: RequestListener): Promise<{ readonly server: Server; readonly port: number }> {
  const server = createServer(answer);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  owned.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { server, port: (server.address() as AddressInfo).port };
}

describe("server-sent events", () => {
  test("server-sent events that a client does not read are closed, and idle ones with a reader continue", async () => {
    const ended: string[] = [];
    /** `heavy` fills all buffers, `quiet` sends one item and then nothing. */
    const source = (name: string): AsyncIterableIterator<Record<string, string>> => {
      let items = 0;
      let leave = () => {};
      const left = new Promise<void>((done) => {
        leave = done;
      });
      return {
        async next() {
          items += 1;
          if (name === "quiet" && items > 1) await left;
          return { done: false, value: { [name]: "x".repeat(name === "heavy" ? 1_000_000 : 1) } };
        },
        async return() {
          ended.push(name);
          leave();
          return { done: true, value: undefined };
        },
        [Symbol.asyncIterator]() {
          return this;
        },
      };
    };
    const schema = createSchema({
      typeDefs: "type Query { a: Int } type Subscription { heavy: String quiet: String }",
      resolvers: {
        Subscription: { heavy: { subscribe: () => source("heavy") }, quiet: { subscribe: () => source("quiet") } },
      },
    });
    // Yoga sends keep-alives every 300 ms here.
    const yoga = createYoga<object>({
      schema,
      logging: false,
      plugins: [eventStreams({ isShuttingDown: () => false, stalledMs: 1_000 })],
    });
    const { port } = await listening((request, response) => {
      yoga(request, response).catch(() => response.destroy());
    });
    const subscribe = (field: string) => {
      const socket = connect(port, "127.0.0.1");
      owned.push(() => socket.destroy());
      const body = JSON.stringify({ query: `subscription { ${field} }` });
      socket.write(
        `POST /graphql HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\naccept: text/event-stream\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      );
      return socket;
    };
    const quiet = subscribe("quiet");
    quiet.resume();
    const heavy = subscribe("heavy");
    await once(heavy, "data");
    heavy.pause();
    await eventually("the stalled one is cut", () => ended.length > 0);
    expect(ended).toEqual(["heavy"]);
    expect(quiet.closed).toBe(false);
    quiet.destroy();
    await eventually("the other one ends with its client", () => ended.includes("quiet"));
  });
});

describe("sockets", () => {
  async function sockets(more: Partial<SocketOptions>): Promise<string> {
    const { server, port } = await listening();
    const made = createSockets({
      yoga: {} as never,
      services: { access: authenticatorWith(null) } as never,
      logins: loginsWith(null),
      log: createLog("silent"),
      ...more,
    });
    server.on("upgrade", (request, socket, head) => made.open(request, socket, head));
    owned.push(() => {
      made.terminate();
      return made.close();
    });
    return `ws://127.0.0.1:${port}/graphql`;
  }

  async function opened(
    url: string,
    options: { readonly autoPong?: boolean } = {},
  ): Promise<{ readonly socket: WebSocket; readonly closed: Promise<number> }> {
    const socket = new WebSocket(url, "graphql-transport-ws", options);
    const closed = new Promise<number>((done) => socket.once("close", done));
    await once(socket, "open");
    return { socket, closed };
  }

  test("sockets that do not answer a ping are closed, others are not", async () => {
    const url = await sockets({ pingMs: 100 });
    const alive = await opened(url);
    let pings = 0;
    alive.socket.on("ping", () => {
      pings += 1;
    });
    const deaf = await opened(url, { autoPong: false });
    expect(await deaf.closed).toBe(1006);
    await eventually("the other was pinged several times", () => pings > 4);
    expect(alive.socket.readyState).toBe(WebSocket.OPEN);
    alive.socket.terminate();
  });

  test("sockets with unsent responses that do not answer a ping are closed with 1013", async () => {
    const url = await sockets({ pingMs: 500 });
    const slow = await opened(url);
    const close = vi.spyOn(WebSocket.prototype, "close");
    slow.socket.pause();
    const ballast = "x".repeat(100_000);
    for (let index = 0; index < 200; index += 1)
      slow.socket.send(JSON.stringify({ type: "ping", payload: { ballast } }));
    await eventually("it is closed", () => close.mock.calls.some(([code]) => code === 1013));
    slow.socket.resume();
    expect(await slow.closed).toBe(1013);
  });

  test("sockets above the limit are closed with 1013", async () => {
    const url = await sockets({ socketsMax: 2 });
    const first = [await opened(url), await opened(url)];
    expect(await (await opened(url)).closed).toBe(1013);
    first[0]?.socket.terminate();
    await first[0]?.closed;
    await eventually("a connection is available again", async () => {
      const next = await opened(url);
      const answer = Promise.withResolvers<boolean>();
      next.socket.on("message", () => answer.resolve(true));
      void next.closed.then(() => answer.resolve(false));
      next.socket.send('{"type":"ping"}');
      return answer.promise;
    });
  });
});
