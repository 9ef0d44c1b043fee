/**
 * The HTTP server on one port: the API at /graphql (HTTP, server-sent events, WebSocket), GraphiQL on the same path for
 * browsers, the web console at /console/, the schema as text, health, metrics, and callbacks of machines. It shuts down
 * in two steps: `rest` makes it not ready, and disposing ends streams, sockets and connections in order (shutdown.ts).
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { createCallbacks } from "../callback.ts";
import { CONSOLE, createConsole, isOfConsole } from "../console.ts";
import { isRejection } from "../../access/access.ts";
import type { Rejection } from "../../access/access.ts";
import type { TlsFiles } from "../../config/values.ts";
import type { Log } from "../../log.ts";
import { createGraphql, GRAPHQL, wantsPage } from "../graphql/graphql.ts";
import type { Graphql, GraphqlOptions } from "../graphql/graphql.ts";
import { cutIfStuck, inOrder } from "../graphql/in-order.ts";
import { createPort } from "./certificate.ts";
import { createFailedLogins } from "./failed-logins.ts";
import { serveHealth } from "../health.ts";
import { listen, shownUrl } from "./listen.ts";
import { createLogins, rejectionStatus, setRejectionHeaders } from "./logins.ts";
import { allowReading, answerPreflight, isRepeated, isAllowedOrigin, isMeantForUs } from "./origins.ts";
import type { OriginOptions } from "./origins.ts";
import { createStaticText } from "../graphql/static-text.ts";
import { maskError } from "../../graphql/base/error-masking.ts";
import type { HttpHint } from "../../graphql/base/error-masking.ts";
import { graphqlError, hasLeft, pathOf, refuseTwoHosts, requestIdOf, sendJson, targetOf } from "../graphql/respond.ts";
import type { MetricsParts } from "../metrics.ts";
import { AUTH, SignIn } from "../sign-in/sign-in.ts";
import type { SignInParts } from "../sign-in/sign-in.ts";
import { createSenders } from "./senders.ts";
import { shutDown } from "./shutdown.ts";
import { createSockets } from "../sockets/sockets.ts";

export interface ServerOptions extends Omit<GraphqlOptions, "logins"> {
  readonly authenticator: SignInParts["authenticator"];
  /** Where people sign in; they exchange tokens by default. */
  readonly signInAt?: SignInParts["issuer"];
  readonly host: string;
  readonly port: number;
  /** The certificate of the port; HTTP in clear without it. */
  readonly tls?: TlsFiles | null;
  /** Networks of proxies; none by default. */
  readonly proxies?: readonly string[];
  readonly schemaText: string;
  /** Folder of the package of the web console, which is served at /console/; null or absent: it is not served. */
  readonly consoleFolder?: string | null;
  /** Origins of other pages that may call the API; none by default. */
  readonly origins?: readonly string[];
  /** Time that a client has to read more of its response, in milliseconds. */
  readonly takeMs?: number;
  /** Time that an idle connection stays open, in milliseconds. */
  readonly keepAliveMs: number;
  /** Serves /metrics; absent if there are no metrics. */
  readonly scrape?: MetricsParts["scrape"];
}

export interface RunningServer extends AsyncDisposable {
  /** Address as http://host:port, or https. */
  readonly url: string;
  /**
   * Makes the replica not ready: existing connections still get responses. Disposing follows, and stops new
   * connections.
   */
  rest(): void;
}

const SCHEMA = "/schema.graphql";
/** Maximum number of connections, sockets and streams included; one more is closed. */
const CONNECTIONS_MAX = 20_000;
/** Time for a complete request, and for its headers, in milliseconds. */
const REQUEST_MS = 30_000;
const HEADERS_MS = 10_000;
/** Interval of checking these two, in milliseconds. */
const CHECK_MS = 1_000;
/**
 * Time that a client has to read more of its response, in milliseconds. A stalled one is found after up to twice that.
 */
const TAKE_MS = 30_000;

export async function startServer(given: ServerOptions): Promise<RunningServer> {
  const senders = createSenders(given.proxies ?? []);
  const { noteAudit } = given.services.engine;
  const failedLogins = createFailedLogins({ senders, log: given.log, observer: given.observer, noteAudit });
  const logins = createLogins(given.authenticator, senders, failedLogins.note, noteAudit);
  const { services, log, authenticator, signInAt = null } = given;
  const signIn = new SignIn({ authenticator, logins, senders, issuer: signInAt, audit: services.engine, log });
  const options = { ...given, logins };
  const readiness = { isReady: true };
  const graphql = createGraphql(options);
  const sockets = createSockets({
    yoga: graphql.yoga,
    services: graphql.services,
    logins,
    log,
    observer: options.observer,
    ...(options.bodyBytesMax !== undefined && { messageBytesMax: options.bodyBytesMax }),
  });
  const allowed = { origins: options.origins ?? [], isOpen: logins.isOpen, senders };
  const route = createRoutes({ options, allowed, graphql, signIn, readiness });
  const unanswered = new Set<ServerResponse>();
  const { server, silent, upgraded } = await createPort(
    {
      requestTimeout: REQUEST_MS,
      headersTimeout: HEADERS_MS,
      connectionsCheckingInterval: CHECK_MS,
      keepAliveTimeout: options.keepAliveMs,
    },
    options,
    (request, response) => {
      request.url = targetOf(request);
      unanswered.add(response);
      response.once("close", () => unanswered.delete(response));
      answer(route, request, response, log);
    },
  );
  server.maxConnections = CONNECTIONS_MAX;
  cutIfStuck(server, options.takeMs ?? TAKE_MS);
  server.on("upgrade", (request, socket, head) => {
    upgraded(request.socket);
    const refusal = refusedUpgrade(request, allowed, readiness);
    if (refusal === null) sockets.open(request, socket, head);
    else refuseUpgrade(socket, refusal);
  });

  const port = await listen(server, options.port, options.host);
  return {
    url: shownUrl(options.host, port, Boolean(options.tls)),
    rest() {
      readiness.isReady = false;
    },
    async [Symbol.asyncDispose]() {
      readiness.isReady = false;
      services.tail.close();
      await shutDown({ server, sockets, unanswered, silent, log });
      await graphql.yoga.dispose();
      failedLogins[Symbol.dispose]();
    },
  };
}

interface Readiness {
  isReady: boolean;
}

type Route = (request: IncomingMessage, response: ServerResponse, requestId: string) => Promise<void>;

/** Answers a request in the order of its connection; an error becomes status 500. */
function answer(route: Route, request: IncomingMessage, response: ServerResponse, log: Log): void {
  const requestId = requestIdOf(request);
  response.setHeader("x-request-id", requestId);
  response.setHeader("x-content-type-options", "nosniff");
  inOrder(request, response, () => route(request, response, requestId)).catch((error: unknown) => {
    if (hasLeft(request, error)) return log.debug({ requestId }, "a client disconnected while it sent a request");
    const shown = maskError(error, requestId, log);
    const { status = 500, headers = {} } = (shown.extensions["http"] ?? {}) as HttpHint;
    if (response.headersSent) return response.destroy();
    response.setHeaders(new Map(Object.entries(headers)));
    sendJson(response, status, { errors: [shown] });
  });
}

interface Routed {
  readonly options: ServerOptions & Pick<GraphqlOptions, "logins">;
  readonly allowed: OriginOptions;
  readonly graphql: Graphql;
  readonly signIn: SignIn;
  readonly readiness: Readiness;
}

function createRoutes({ options, allowed, graphql, signIn, readiness }: Routed): Route {
  const { services, logins, introspection = true } = options;
  // The replica is ready if the connections that serve requests work.
  const health = {
    database: { reader: services.database.bounded, refusesWrites: services.database.refusesWrites },
    isTakingPart: () => readiness.isReady,
    metrics: options.scrape && { logins, scrape: options.scrape },
  };
  const callbacks = createCallbacks(services.engine, allowed.senders);
  const schema = createStaticText("text/plain; charset=utf-8", () => options.schemaText);
  const webConsole = options.consoleFolder == null ? null : createConsole(options.consoleFolder);

  return async (request, response, requestId) => {
    const path = pathOf(request);
    if (isRepeated(request, "host")) return refuseTwoHosts(response);
    if (path === GRAPHQL || path === SCHEMA) {
      if (!isMeantForUs(request, allowed)) return refuseHost(request, response);
      allowReading(request, response, allowed);
      if (request.method === "OPTIONS") return answerPreflight(request, response);
    }
    if (path.startsWith(AUTH))
      return isMeantForUs(request, allowed) ? signIn.serve(request, response) : refuseHost(request, response);
    if (path === GRAPHQL && wantsPage(request) && (await signIn.leadsAway(request, response))) return;
    if (path === GRAPHQL) return graphql.serve(request, response, requestId);
    if (path.startsWith("/callback/") && request.method === "POST")
      return callbacks.serve(request, response, path.slice("/callback/".length));
    if (await serveHealth(health, request, response)) return;
    if (request.method !== "GET" && request.method !== "HEAD")
      return sendJson(response, 404, { error: `${request.method} ${path} does not exist; the API is at ${GRAPHQL}.` });
    if (path === "/") {
      const location = webConsole !== null && wantsPage(request) ? CONSOLE : GRAPHQL;
      return void response.writeHead(302, { location, vary: "accept" }).end();
    }
    if (webConsole !== null && isOfConsole(path)) return webConsole.serve(request, response);
    if (path !== SCHEMA) return sendJson(response, 404, { error: `${path} does not exist; the API is at ${GRAPHQL}.` });
    const actor = await logins.readerOf(request, SCHEMA);
    if (isRejection(actor)) return refuseUnauthenticated(response, actor);
    if (!introspection) return refuseIntrospection(response);
    await schema.serve(request, response);
  };
}

function refuseHost(request: IncomingMessage, response: ServerResponse): void {
  const message = `Without a token this service answers only to local host names, not to ${request.headers.host}. Add the origin to OSTLER_ORIGINS, or set OSTLER_TOKEN.`;
  sendJson(response, 421, graphqlError(message, "BAD_REQUEST"));
}

function refuseUnauthenticated(response: ServerResponse, rejection: Rejection): void {
  const { status, code } = rejectionStatus(rejection);
  setRejectionHeaders(response, status);
  const remedy = status === 401 ? " Send it as `Authorization: Bearer …`." : "";
  sendJson(response, status, graphqlError(`${rejection.message}${remedy}`, code));
}

function refuseIntrospection(response: ServerResponse): void {
  const message = "Introspection is disabled. Operators can print the schema with `ostler schema`.";
  sendJson(response, 403, graphqlError(message, "FORBIDDEN"));
}

/** The status line for an upgrade that is refused; null if it is accepted. */
function refusedUpgrade(request: IncomingMessage, allowed: OriginOptions, { isReady }: Readiness): string | null {
  if (pathOf(request) !== GRAPHQL) return "404 Not Found";
  if (isRepeated(request, "host")) return "400 Bad Request";
  if (!isReady) return "503 Service Unavailable";
  return isAllowedOrigin(request, allowed) && isMeantForUs(request, allowed) ? null : "403 Forbidden";
}

function refuseUpgrade(socket: Duplex, status: string): void {
  // Without a listener, an error of this socket would end the process.
  socket.on("error", () => socket.destroy());
  socket.end(`HTTP/1.1 ${status}\r\nconnection: close\r\n\r\n`);
}
