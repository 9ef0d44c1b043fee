/**
 * One port: the API at /graphql (HTTP, server-sent events, WebSocket), GraphiQL on the same path for browsers, the
 * schema as text, health, and call-backs of machines. It ends in two parts, so that the process can end in order:
 * `rest`, after which it is not ready any more, and closing, which gives every answer that is due: streams told, no new
 * connections, sockets closed, requests answered, whatever is left cut.
 */
import { createServer as createHttpServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { setTimeout as delay, setImmediate as turn } from "node:timers/promises";
import { serveCallback } from "./callback.ts";
import { identify } from "../access/access.ts";
import { createGraphql, GRAPHQL } from "./graphql.ts";
import type { GraphqlOptions } from "./graphql.ts";
import { serveHealth } from "./health.ts";
import { listen, shownUrl } from "./listen.ts";
import { allowReading, answerPreflight, isAllowedOrigin, isMeantForUs } from "./origins.ts";
import { createPrepared } from "./static-text.ts";
import { graphqlError, hasLeft, pathOf, requestIdOf, sendJson } from "./respond.ts";
import type { MetricsParts } from "./metrics.ts";
import { createSockets } from "./sockets.ts";

export interface ServerOptions extends GraphqlOptions {
  readonly host: string;
  readonly port: number;
  readonly schemaText: string;
  /** Origins of other pages that may talk to us; none, where nothing is said. */
  readonly origins?: readonly string[];
  /** How long an answer may wait for its client to take more of it, in milliseconds. */
  readonly takeMs?: number;
  /** What /metrics is answered; absent: there are none. */
  readonly scrape?: MetricsParts["scrape"];
}

export interface RunningServer extends AsyncDisposable {
  /** Where it listens, as http://host:port. */
  readonly url: string;
  /** Not ready from now on, for whoever asks on a connection that is there; those that come are answered. Closing, which follows at once as a rule, takes no new connections. */
  rest(): void;
}

/** How long streams may take to say their last word, when the service ends. */
const LAST_WORD_MS = 1_000;
/** How long after that sockets may take to close by themselves. */
const CLOSE_SOCKETS_MS = 2_000;
/** How long after that requests may take to be answered. */
const ANSWER_MS = 3_000;
/** How long those that are not may take to read that they will not be. */
const REFUSE_MS = 200;
/** How long a connection may have been asked something on it that was not looked at yet. */
const UNREAD_MS = 100;
/** How long connections may be taken that others go on making. */
const TAKE_ALL_MS = 500;
const LOOK_EVERY_MS = 20;
/** Requests that a client may send on one connection before it has the answer to the first. */
const LINE_MAX = 100;
/** Connections at a time, sockets and streams among them; one more is closed unheard. */
const CONNECTIONS_MAX = 20_000;
const SCHEMA = "/schema.graphql";
/** How long a request may take to come, whole, and its headers before that. */
const REQUEST_MS = 30_000;
const HEADERS_MS = 10_000;
/** How often the two are looked at. */
const CHECK_MS = 1_000;
/** How long an answer may wait for its client to take more of it. A stuck one is seen after one to two times as long. */
const TAKE_MS = 30_000;

export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { services, token, log, introspection = true } = options;
  const allowed = { origins: options.origins ?? [], token };
  let ready = true;
  // It is ready when those connections answer that requests are answered from.
  const health = {
    database: { reader: services.database.bounded },
    isTakingPart: () => ready,
    metrics: options.scrape && { token, scrape: options.scrape },
  };
  const { yoga, services: bounded, serve } = createGraphql(options);
  const sockets = createSockets({
    yoga,
    services: bounded,
    token,
    log,
    observer: options.observer,
    ...(options.bodyBytesMax !== undefined && { messageBytesMax: options.bodyBytesMax }),
  });

  const schema = createPrepared("text/plain; charset=utf-8", () => options.schemaText);

  const unanswered = new Set<ServerResponse>();
  const server = createHttpServer(
    { requestTimeout: REQUEST_MS, headersTimeout: HEADERS_MS, connectionsCheckingInterval: CHECK_MS },
    (request, response) => {
      const requestId = requestIdOf(request);
      unanswered.add(response);
      response.once("close", () => unanswered.delete(response));
      response.setHeader("x-request-id", requestId);
      response.setHeader("x-content-type-options", "nosniff");
      inTurn(request, response, () => route(request, response, requestId)).catch((error: unknown) => {
        if (hasLeft(request, error)) return log.debug({ requestId }, "a client left in the middle of its request");
        log.error({ err: error, requestId }, "a request failed");
        if (!response.headersSent)
          sendJson(response, 500, graphqlError("Unexpected error.", "INTERNAL", { requestId }));
        else response.destroy();
      });
    },
  );

  async function route(request: IncomingMessage, response: ServerResponse, requestId: string): Promise<void> {
    const path = pathOf(request);
    if (path === GRAPHQL || path === SCHEMA) {
      if (!isMeantForUs(request, allowed))
        return sendJson(
          response,
          421,
          graphqlError(
            `Without a token this service answers to the names of its own machine only, not to ${request.headers.host}. List the origin in OSTLER_ORIGINS, or set OSTLER_TOKEN.`,
            "BAD_REQUEST",
          ),
        );
      allowReading(request, response, allowed);
      if (request.method === "OPTIONS") return answerPreflight(request, response);
    }
    if (path === GRAPHQL) return serve(request, response, requestId);
    if (path.startsWith("/callback/") && request.method === "POST")
      return serveCallback(services.engine, request, response, path.slice("/callback/".length));
    if (await serveHealth(health, request, response)) return;
    if (request.method !== "GET" && request.method !== "HEAD")
      return sendJson(response, 404, { error: "There is nothing here." });
    switch (path) {
      case "/":
        response.writeHead(302, { location: GRAPHQL }).end();
        return;
      case SCHEMA:
        return serveSchema(request, response);
      default:
        return sendJson(response, 404, { error: `There is nothing at ${path}; the API is at ${GRAPHQL}.` });
    }
  }

  /** What introspection would tell is told to whom it would be told. */
  async function serveSchema(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!identify(request.headers.authorization, token)) {
      response.setHeader("www-authenticate", "Bearer");
      return sendJson(
        response,
        401,
        graphqlError("Present the token as `Authorization: Bearer …`.", "UNAUTHENTICATED"),
      );
    }
    if (!introspection)
      return sendJson(
        response,
        403,
        graphqlError("Introspection is switched off here. Whoever runs the service can print its schema.", "FORBIDDEN"),
      );
    await schema.serve(request, response);
  }

  /** Connections on which nothing was asked yet. */
  const silent = new Set<Socket>();
  server.on("connection", (socket) => {
    silent.add(socket);
    socket.once("close", () => silent.delete(socket));
  });
  server.on("request", ({ socket }) => silent.delete(socket));

  server.maxConnections = CONNECTIONS_MAX;
  cutIfStuck(server, options.takeMs ?? TAKE_MS);

  server.on("upgrade", (request, socket, head) => {
    silent.delete(request.socket);
    const path = pathOf(request);
    if (path !== GRAPHQL || !ready || !isAllowedOrigin(request, allowed) || !isMeantForUs(request, allowed)) {
      // Nobody else listens to this socket any more: one that is reset now would end the process.
      socket.on("error", () => socket.destroy());
      socket.end(
        `HTTP/1.1 ${path === GRAPHQL ? (ready ? "403 Forbidden" : "503 Service Unavailable") : "404 Not Found"}\r\nconnection: close\r\n\r\n`,
      );
      return;
    }
    sockets.open(request, socket, head);
  });

  const port = await listen(server, options.port, options.host);
  return {
    url: shownUrl(options.host, port),
    rest() {
      ready = false;
    },
    async [Symbol.asyncDispose]() {
      ready = false;
      services.tail.close();
      await takeAll(server);
      // Closing ends all connections that are waited on for a request, also those whose request has come and was not read yet.
      await delay(UNREAD_MS);
      await turn();
      await turn();
      const closed = new Promise<void>((done) => server.close(() => done()));
      // A connection whose answer ends only now would be kept for a next request.
      const sweep = setInterval(() => server.closeIdleConnections(), LOOK_EVERY_MS);
      const lastWords = performance.now() + LAST_WORD_MS;
      while (performance.now() < lastWords && sockets.isTalking()) await delay(LOOK_EVERY_MS);
      // What a client sent a moment ago may not have been read yet.
      await delay(UNREAD_MS);
      await turn();
      for (const socket of silent) socket.destroy();
      const terminate = setTimeout(() => sockets.terminate(), CLOSE_SOCKETS_MS);
      const cut = setTimeout(() => {
        log.warn({ requests: unanswered.size }, "requests that are not answered yet are refused");
        for (const response of unanswered) refuseAtTheEnd(response);
        setTimeout(() => server.closeAllConnections(), REFUSE_MS).unref();
      }, CLOSE_SOCKETS_MS + ANSWER_MS);
      await sockets.close();
      await closed;
      clearTimeout(terminate);
      clearTimeout(cut);
      clearInterval(sweep);
      await yoga.dispose();
    },
  };
}

/**
 * Takes the connections that have been made and not been taken yet: they would be reset when the port is closed, and are many
 * where the process was paused. One is taken in each turn of the event loop, so a turn without one is the end of them.
 */
async function takeAll(server: Server): Promise<void> {
  let taken = 0;
  const count = () => void (taken += 1);
  server.on("connection", count);
  await delay(UNREAD_MS);
  const until = performance.now() + TAKE_ALL_MS;
  for (let before = -1; before < taken && performance.now() < until;) {
    before = taken;
    await turn();
    await turn();
  }
  server.off("connection", count);
}

/** What a request did is not known to its client then: it is told how to find out. */
function refuseAtTheEnd(response: ServerResponse): void {
  if (response.headersSent) return;
  response.setHeader("connection", "close");
  response.setHeader("retry-after", "1");
  sendJson(
    response,
    503,
    graphqlError(
      "This process ends before your request was answered. Whether it took effect is not known; send it again with the same idempotencyKey, and another process answers.",
      "SHUTTING_DOWN",
    ),
  );
}

/** Requests of one connection that are not answered yet, and the answer to the last of them. */
const lines = new WeakMap<Socket, { length: number; last: Promise<void> }>();

/**
 * Answers the requests of one connection one after another. A client may send the next before it has the answer to the
 * one before; Node begins all of them at once and keeps their answers until their turns come, however many and large.
 */
async function inTurn(
  { socket }: IncomingMessage,
  response: ServerResponse,
  answer: () => Promise<void>,
): Promise<void> {
  const line = lines.get(socket) ?? { length: 0, last: Promise.resolve() };
  lines.set(socket, line);
  line.length += 1;
  if (line.length > LINE_MAX) return void socket.destroy();
  const before = line.length > 1 ? line.last : null;
  line.last = new Promise((done) =>
    response.once("close", () => {
      line.length -= 1;
      done();
    }),
  );
  if (before) await before;
  await answer();
}

/** Cuts a connection whose client has taken nothing of its answer for so long, or that is at rest. Streams see to themselves. */
function cutIfStuck(server: Server, ms: number): void {
  server.setTimeout(ms, (socket) => {
    const isAtRest = (lines.get(socket)?.length ?? 0) === 0;
    if (isAtRest || socket.writableLength > 0) socket.destroy();
    // An answer that is being made, for however long. Node counts anew only when something moves.
    else socket.setTimeout(ms);
  });
}
