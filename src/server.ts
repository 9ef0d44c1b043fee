/**
 * One port: the API at /graphql (HTTP, server-sent events, WebSocket), GraphiQL on the same path for browsers, the
 * schema as text, health, and call-backs of machines. Closing goes in an order that gives every answer that is due:
 * not ready, streams told, no new connections, sockets closed, requests finished.
 */
import { randomUUID } from "node:crypto";
import { createServer as createHttpServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { AsyncLocalStorage } from "node:async_hooks";
import { setTimeout as delay } from "node:timers/promises";
import { renderGraphiQL } from "@graphql-yoga/render-graphiql";
import { GraphQLError } from "graphql";
import type { GraphQLSchema } from "graphql";
import { createYoga } from "graphql-yoga";
import type { Plugin } from "graphql-yoga";
import { useServer } from "graphql-ws/use/ws";
import { WebSocketServer } from "ws";
import { identify } from "./access/access.ts";
import { createContext } from "./graphql/context.ts";
import type { Context, Services } from "./graphql/context.ts";
import { EXAMPLES } from "./graphql/examples.ts";
import { depthRule } from "./graphql/limits.ts";
import { maskError, shown } from "./graphql/mask.ts";
import { unstorable } from "./graphql/storable.ts";
import type { Log } from "./log.ts";
import type { StoredJson } from "./store/records.ts";

export interface ServerOptions {
  readonly host: string;
  readonly port: number;
  readonly token: string | null;
  readonly schema: GraphQLSchema;
  readonly schemaText: string;
  readonly services: Services;
  readonly log: Log;
}

export interface RunningServer extends AsyncDisposable {
  /** Where it listens, as http://host:port. */
  readonly url: string;
}

const BODY_BYTES_MAX = 1024 * 1024;
const CALLBACK_BYTES_MAX = 64 * 1024;
const GRAPHQL = "/graphql";
/** How long streams may take to say their last word, when the service ends. */
const LAST_WORD_MS = 1_000;
/** How long after that sockets may take to close by themselves, and requests to be answered. */
const CLOSE_SOCKETS_MS = 2_000;
const LOOK_EVERY_MS = 20;
const KEEP_ALIVE_MS = 12_000;
const REQUEST_MS = 30_000;
const HEADERS_MS = 10_000;
/** GraphiQL is one page with everything in it; it talks to us and to nobody else. */
const PAGE_POLICY = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' blob:; worker-src blob: data:; style-src 'unsafe-inline'; img-src 'self' data:; font-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

interface RequestState {
  readonly requestId: string;
}

export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { schema, services, token, log } = options;
  const current = new AsyncLocalStorage<RequestState>();
  let ready = true;

  const yoga = createYoga<{ readonly context?: Context }, Context>({
    schema,
    graphqlEndpoint: GRAPHQL,
    landingPage: false,
    cors: false,
    logging: false,
    graphiql: { title: "Ostler", defaultTabs: EXAMPLES.map(({ query, variables }) => ({ query, ...(variables !== undefined && { variables }) })) },
    renderGraphiQL,
    context: (initial) => initial.context ?? refuseUnknown(),
    plugins: [boundAndShowWithoutValues],
    maskedErrors: { maskError: (error) => maskError(error, current.getStore()?.requestId ?? randomUUID(), log) },
  });

  const server = createHttpServer({ requestTimeout: REQUEST_MS, headersTimeout: HEADERS_MS }, (request, response) => {
    const requestId = requestIdOf(request);
    response.setHeader("x-request-id", requestId);
    response.setHeader("x-content-type-options", "nosniff");
    current.run({ requestId }, () => {
      route(request, response, requestId).catch((error: unknown) => {
        log.error({ err: error, requestId }, "a request failed");
        if (!response.headersSent) sendJson(response, 500, { errors: [{ message: "Unexpected error.", extensions: { code: "INTERNAL", requestId } }] });
        else response.destroy();
      });
    });
  });

  async function route(request: IncomingMessage, response: ServerResponse, requestId: string): Promise<void> {
    const path = (request.url ?? "/").split("?")[0] ?? "/";
    if (path === GRAPHQL) return serveGraphql(request, response, requestId);
    if (path.startsWith("/callback/") && request.method === "POST") return serveCallback(request, response, path.slice("/callback/".length));
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

  async function serveGraphql(request: IncomingMessage, response: ServerResponse, requestId: string): Promise<void> {
    if (wantsPage(request)) response.setHeader("content-security-policy", PAGE_POLICY);
    else {
      const actor = identify(request.headers.authorization, token);
      if (!actor) {
        response.setHeader("www-authenticate", "Bearer");
        return sendJson(response, 401, graphqlError("Present the token as `Authorization: Bearer …`.", "UNAUTHENTICATED"));
      }
      if (request.method === "POST" && !isJson(request)) {
        return sendJson(response, 415, graphqlError("Send the request as application/json.", "BAD_REQUEST"));
      }
      if (Number(request.headers["content-length"] ?? 0) > BODY_BYTES_MAX) return sendJson(response, 413, graphqlError(`A request has at most ${BODY_BYTES_MAX} bytes.`, "BAD_REQUEST"));
      bound(request, BODY_BYTES_MAX);
      await yoga(request, response, { context: createContext(services, actor, requestId) });
      return;
    }
    await yoga(request, response, {});
  }

  async function serveCallback(request: IncomingMessage, response: ServerResponse, callbackToken: string): Promise<void> {
    const body = await readBody(request, CALLBACK_BYTES_MAX);
    if (body === null) return sendJson(response, 413, { error: `A call-back has at most ${CALLBACK_BYTES_MAX} bytes.` });
    let value: StoredJson;
    try {
      value = body === "" ? {} : (JSON.parse(body) as StoredJson);
    } catch {
      return sendJson(response, 400, { error: "A call-back's body is JSON, or empty." });
    }
    const flaw = unstorable(value);
    if (flaw !== null) return sendJson(response, 400, { error: flaw });
    const answer = await services.engine.callBack(callbackToken, value);
    switch (answer) {
      case "TAKEN":
        return sendJson(response, 202, { taken: true });
      // Alike: once the step has gone on, a report that is repeated cannot be told from one that never was in time.
      case "LATE":
      case "DUPLICATE":
        return sendJson(response, 409, { error: "This call-back was made before, or comes too late; the step has gone on, or is about to. Nothing was changed." });
      // Alike, so that nobody learns which runs there are.
      case "FORGED":
      case "UNKNOWN":
        return sendJson(response, 404, { error: "Nobody expects this call-back." });
    }
  }

  /** Clients with a socket, each with its running subscriptions. */
  const talking = new Set<{ readonly subscriptions: object }>();
  const sockets = new WebSocketServer({ noServer: true, maxPayload: BODY_BYTES_MAX, perMessageDeflate: false });
  const streams = useServer<Record<string, unknown>, { readonly request: IncomingMessage }>(
    {
      connectionInitWaitTimeout: 3_000,
      onConnect: (client) => {
        const known = identify(authorizationOf(client.connectionParams) ?? client.extra.request.headers.authorization, token) !== null;
        if (known) talking.add(client);
        return known;
      },
      onClose: (client) => void talking.delete(client),
      onSubscribe: async ({ connectionParams, extra }, _id, payload) => {
        const actor = identify(authorizationOf(connectionParams) ?? extra.request.headers.authorization, token);
        if (!actor) return [new GraphQLError("The token is not good any more.", { extensions: { code: "UNAUTHENTICATED" } })];
        const { schema: served, parse, validate, execute, subscribe, contextFactory } = yoga.getEnveloped({ context: createContext(services, actor, randomUUID()) });
        try {
          // A syntax error that is thrown here would close the socket with 4500, and every other stream on it with it.
          const document = parse(payload.query);
          const errors = validate(served, document);
          if (errors.length > 0) return errors;
          return {
            schema: served,
            document,
            operationName: payload.operationName,
            variableValues: payload.variables,
            contextValue: await contextFactory(),
            rootValue: { execute, subscribe },
          };
        } catch (error) {
          return [error instanceof GraphQLError ? shown(error) : new GraphQLError("Unexpected error.")];
        }
      },
      execute: (args) => (args.rootValue as { execute: (given: unknown) => never }).execute(args),
      subscribe: (args) => (args.rootValue as { subscribe: (given: unknown) => never }).subscribe(args),
    },
    sockets,
    KEEP_ALIVE_MS,
  );

  server.on("upgrade", (request, socket, head) => {
    const path = (request.url ?? "").split("?")[0];
    if (path !== GRAPHQL || !ready || !isOwnOrigin(request)) {
      // Nobody else listens to this socket any more: one that is reset now would end the process.
      socket.on("error", () => socket.destroy());
      socket.end(`HTTP/1.1 ${path === GRAPHQL ? (ready ? "403 Forbidden" : "503 Service Unavailable") : "404 Not Found"}\r\nconnection: close\r\n\r\n`);
      return;
    }
    sockets.handleUpgrade(request, socket, head, (opened) => sockets.emit("connection", opened, request));
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
      while (Date.now() < lastWords && [...talking].some(({ subscriptions }) => Object.keys(subscriptions).length > 0)) await delay(LOOK_EVERY_MS);
      const terminate = setTimeout(() => {
        for (const client of sockets.clients) client.terminate();
        server.closeAllConnections();
      }, CLOSE_SOCKETS_MS);
      for (const client of sockets.clients) client.close(1001, "Going down");
      await streams.dispose();
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

/** What validation refuses goes round the masking of errors, so it is seen to here, for every transport. */
const boundAndShowWithoutValues: Plugin = {
  onValidate({ addValidationRule }) {
    addValidationRule(depthRule);
    return ({ valid, result, setResult }) => {
      if (!valid) setResult((result as readonly GraphQLError[]).map(shown));
    };
  },
};

/** Yoga asks for a context also where there is none to give: a page is shown to anybody, a query is not. */
function refuseUnknown(): never {
  throw new GraphQLError("Present the token as `Authorization: Bearer …`.", { extensions: { code: "UNAUTHENTICATED" } });
}

function requestIdOf(request: IncomingMessage): string {
  const given = request.headers["x-request-id"];
  return typeof given === "string" && /^[\w.-]{1,64}$/.test(given) ? given : randomUUID();
}

function authorizationOf(connectionParams: Readonly<Record<string, unknown>> | undefined): string | undefined {
  const value = connectionParams?.["authorization"] ?? connectionParams?.["Authorization"];
  return typeof value === "string" ? value : undefined;
}

/** A browser tells where a page comes from; a page of somebody else's must not open our sockets. */
function isOwnOrigin(request: IncomingMessage): boolean {
  const { origin, host } = request.headers;
  if (origin === undefined) return true;
  try {
    return new URL(origin).host === host;
  } catch {
    return false;
  }
}

function wantsPage(request: IncomingMessage): boolean {
  return request.method === "GET" && (request.headers.accept ?? "").includes("text/html") && !(request.url ?? "").includes("?query=");
}

function isJson(request: IncomingMessage): boolean {
  return /^application\/(graphql-response\+)?json\b/i.test(request.headers["content-type"] ?? "");
}

/** Ends a request whose body grows beyond its limit although it did not say so. */
function bound(request: IncomingMessage, bytesMax: number): void {
  let bytes = 0;
  request.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > bytesMax) request.destroy();
  });
  request.pause();
}

/** The body as text, or null when it is too large. */
async function readBody(request: IncomingMessage, bytesMax: number): Promise<string | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > bytesMax) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function graphqlError(message: string, code: string): { readonly errors: readonly unknown[] } {
  return { errors: [{ message, extensions: { code } }] };
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json; charset=utf-8" }).end(JSON.stringify(body));
}

function sendText(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8" }).end(body);
}
