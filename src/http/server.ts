/**
 * One port: the API at /graphql (HTTP, server-sent events, WebSocket), GraphiQL on the same path for browsers, the
 * schema as text, health, and call-backs of machines. Closing goes in an order that gives every answer that is due:
 * not ready, streams told, no new connections, sockets closed, requests finished.
 */
import { createServer as createHttpServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { serveCallback } from "./callback.ts";
import { createGraphql, GRAPHQL } from "./graphql.ts";
import type { GraphqlOptions } from "./graphql.ts";
import { isOwnOrigin } from "./origins.ts";
import { graphqlError, pathOf, requestIdOf, sendJson, sendText } from "./respond.ts";
import { createSockets } from "./sockets.ts";

export interface ServerOptions extends GraphqlOptions {
  readonly host: string;
  readonly port: number;
  readonly schemaText: string;
}

export interface RunningServer extends AsyncDisposable {
  /** Where it listens, as http://host:port. */
  readonly url: string;
}

/** How long streams may take to say their last word, when the service ends. */
const LAST_WORD_MS = 1_000;
/** How long after that sockets may take to close by themselves, and requests to be answered. */
const CLOSE_SOCKETS_MS = 2_000;
const LOOK_EVERY_MS = 20;
const REQUEST_MS = 30_000;
const HEADERS_MS = 10_000;

export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { services, token, log } = options;
  let ready = true;
  const { yoga, serve } = createGraphql(options);
  const sockets = createSockets({ yoga, services, token });

  const server = createHttpServer({ requestTimeout: REQUEST_MS, headersTimeout: HEADERS_MS }, (request, response) => {
    const requestId = requestIdOf(request);
    response.setHeader("x-request-id", requestId);
    response.setHeader("x-content-type-options", "nosniff");
    route(request, response, requestId).catch((error: unknown) => {
      log.error({ err: error, requestId }, "a request failed");
      if (!response.headersSent) sendJson(response, 500, graphqlError("Unexpected error.", "INTERNAL", { requestId }));
      else response.destroy();
    });
  });

  async function route(request: IncomingMessage, response: ServerResponse, requestId: string): Promise<void> {
    const path = pathOf(request);
    if (path === GRAPHQL) return serve(request, response, requestId);
    if (path.startsWith("/callback/") && request.method === "POST") return serveCallback(services.engine, request, response, path.slice("/callback/".length));
    if (request.method !== "GET" && request.method !== "HEAD") return sendJson(response, 404, { error: "There is nothing here." });
    switch (path) {
      case "/":
        response.writeHead(302, { location: GRAPHQL }).end();
        return;
      case "/livez":
        return sendText(response, 200, "ok\n");
      case "/readyz":
        return (await isReady()) ? sendText(response, 200, "ok\n") : sendText(response, 503, "not ready\n");
      case "/schema.graphql":
        return sendText(response, 200, options.schemaText);
      default:
        return sendJson(response, 404, { error: `There is nothing at ${path}; the API is at ${GRAPHQL}.` });
    }
  }

  async function isReady(): Promise<boolean> {
    if (!ready) return false;
    try {
      await services.database.reader.execute("select 1");
      return true;
    } catch {
      return false;
    }
  }

  server.on("upgrade", (request, socket, head) => {
    const path = pathOf(request);
    if (path !== GRAPHQL || !ready || !isOwnOrigin(request)) {
      // Nobody else listens to this socket any more: one that is reset now would end the process.
      socket.on("error", () => socket.destroy());
      socket.end(`HTTP/1.1 ${path === GRAPHQL ? (ready ? "403 Forbidden" : "503 Service Unavailable") : "404 Not Found"}\r\nconnection: close\r\n\r\n`);
      return;
    }
    sockets.open(request, socket, head);
  });

  await listen(server, options.port, options.host);
  const { port } = server.address() as AddressInfo;
  const shownHost = options.host.includes(":") ? `[${options.host}]` : options.host;
  return {
    url: `http://${shownHost}:${port}`,
    async [Symbol.asyncDispose]() {
      ready = false;
      services.tail.close();
      const closed = new Promise<void>((done) => server.close(() => done()));
      // A connection whose answer ends only now would be kept for a next request.
      const sweep = setInterval(() => server.closeIdleConnections(), LOOK_EVERY_MS);
      const lastWords = Date.now() + LAST_WORD_MS;
      while (Date.now() < lastWords && sockets.isTalking()) await delay(LOOK_EVERY_MS);
      const terminate = setTimeout(() => {
        sockets.terminate();
        server.closeAllConnections();
      }, CLOSE_SOCKETS_MS);
      await sockets.close();
      await closed;
      clearTimeout(terminate);
      clearInterval(sweep);
      await yoga.dispose();
    },
  };
}

function listen(server: Server, port: number, host: string): Promise<void> {
  return new Promise((done, failed) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      failed(error.code === "EADDRINUSE" ? new Error(`Port ${port} of ${host} is taken; choose another with OSTLER_PORT or --port.`, { cause: error }) : error);
    });
    server.listen(port, host, () => {
      server.removeAllListeners("error");
      done();
    });
  });
}
