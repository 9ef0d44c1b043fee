/**
 * GraphQL over HTTP: Yoga with its plugins, and the checks of a request before Yoga sees it. Checks of documents are
 * plugins, so that they apply over WebSocket too: socket-protocol.ts parses, validates and executes through
 * `yoga.getEnveloped`.
 */
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { GraphQLSchema } from "graphql";
import { createYoga } from "graphql-yoga";
import type { GraphQLParams, Plugin, YogaServerInstance } from "graphql-yoga";
import { isRejection } from "../../access/access.ts";
import type { Rejection } from "../../access/access.ts";
import type { RequestErrorCode } from "../../errors.ts";
import { answerLimit } from "../../graphql/execution/response-limit.ts";
import { atATime } from "../../graphql/execution/concurrency-limit.ts";
import { createContext } from "../../graphql/base/context.ts";
import type { Context, Services } from "../../graphql/base/context.ts";
import { createDocumentCache } from "../../graphql/execution/document.ts";
import { EXAMPLES } from "../../graphql/tools/examples.ts";
import { guards, timeLimit } from "../../graphql/execution/guards.ts";
import { jsonLists } from "../../graphql/execution/json-lists.ts";
import { maskError } from "../../graphql/base/error-masking.ts";
import { referenceExecutor } from "../../graphql/execution/reference-executor.ts";
import { renderPage } from "../../graphql/tools/graphiql.ts";
import { shareEvents } from "../../graphql/execution/shared-events.ts";
import { snapshotQueries } from "../../graphql/execution/query-snapshot.ts";
import { watched } from "../../graphql/execution/instrumentation.ts";
import { loggedHere, withLogged } from "../../log.ts";
import type { Log } from "../../log.ts";
import type { Observer } from "../../observer.ts";
import { compressAnswers } from "./compressed-answers.ts";
import { UNREADABLE, readsAnswers, refuseUnreadable } from "./acceptable.ts";
import { showsCost } from "./cost-header.ts";
import { isSentUnasked } from "../port/origins.ts";
import { rejectionStatus, setRejectionHeaders } from "../port/logins.ts";
import type { Logins } from "../port/logins.ts";
import { eventStreams } from "./event-streams.ts";
import { createStaticText } from "./static-text.ts";
import type { StaticText } from "./static-text.ts";
import { graphqlError, readBody, refuseBody, sendGraphql } from "./respond.ts";
import { isUtf8 } from "node:buffer";
import { withDocument } from "../../graphql/execution/requested-document.ts";
import { whenReady } from "../../runtime/awaitable.ts";
import { parseExactly } from "../../runtime/exact-json.ts";
import { isRecord } from "../../runtime/json-values.ts";

/** The path of the API, for HTTP and WebSocket. */
export const GRAPHQL = "/graphql";
/** Default of the maximum size of a request, in bytes. */
export const BODY_BYTES_MAX = 1024 * 1024;
/** GraphiQL is one self-contained page, which may connect only to this service. */
const PAGE_POLICY =
  "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' blob:; worker-src blob: data:; style-src 'unsafe-inline'; img-src 'self' data:; font-src data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

export interface GraphqlOptions {
  readonly logins: Logins;
  readonly schema: GraphQLSchema;
  readonly services: Services;
  readonly log: Log;
  /** Whether introspection is allowed; true by default. */
  readonly introspection?: boolean;
  readonly bodyBytesMax?: number;
  /** Maximum duration of a query, in milliseconds. */
  readonly queryMs?: number;
  /** Maximum number of concurrent queries, and of concurrent mutations. */
  readonly requestsMax?: number;
  /** Maximum time that further requests wait for their execution, in milliseconds. */
  readonly waitMs?: number;
  /** Observer of requests and streams, if any. */
  readonly observer?: Observer;
}

export type Yoga = YogaServerInstance<Given, Context>;

export interface Graphql {
  readonly yoga: Yoga;
  /** Services for requests: every read of theirs has a time limit. */
  readonly services: Services;
  /** Answers one request. */
  serve(request: IncomingMessage, response: ServerResponse, requestId: string): Promise<void>;
}

export function createGraphql(options: GraphqlOptions): Graphql {
  const { services: given, logins, bodyBytesMax = BODY_BYTES_MAX } = options;
  // A query of a client must not keep the database busy indefinitely.
  const services: Services = { ...given, database: { ...given.database, reader: given.database.bounded } };
  const yoga = createConfiguredYoga(options);
  const page = createGraphiqlPage();

  async function serve(request: IncomingMessage, response: ServerResponse, requestId: string): Promise<void> {
    if (wantsPage(request)) {
      response.setHeader("content-security-policy", PAGE_POLICY);
      return page.serve(request, response);
    }
    const actor = await logins.identify(request);
    if (isRejection(actor)) return refuse(request, response, unauthenticated(actor, response));
    const refusal = refusalOf(request, response);
    if (refusal) return refuse(request, response, refusal);
    const body = request.method === "POST" ? await readBody(request, bodyBytesMax) : undefined;
    if (body === null) return refuseBody(request, response, tooLarge(bodyBytesMax));
    const { params, flaw } = body ? paramsOfBody(body) : paramsOfUrl(request);
    if (flaw !== undefined) return refuse(request, response, badRequest(400, flaw));
    const context = createContext(services, {
      actor,
      requestId,
      showsCost: showsCost(request),
      address: logins.addressOf(request),
      transport: acceptsEvents(request) ? "SSE" : "HTTP",
    });
    await yoga(request, response, { context, params });
  }

  return {
    yoga,
    services,
    serve: (request, response, requestId) => withLogged({ requestId }, () => serve(request, response, requestId)),
  };
}

function createConfiguredYoga(options: GraphqlOptions): Yoga {
  const { schema, services, log, introspection = true, queryMs, requestsMax, waitMs, observer } = options;
  const mask = (error: unknown) => maskError(error, loggedHere().requestId ?? randomUUID(), log);
  return createYoga<Given, Context>({
    schema,
    graphqlEndpoint: GRAPHQL,
    landingPage: false,
    cors: false,
    logging: false,
    graphiql: false,
    // Otherwise Yoga would answer each URL that ends with /health. No URL ends with a space.
    healthCheckEndpoint: " ",
    context: ({ context }) => context,
    plugins: [
      takeParams(),
      referenceExecutor(),
      ...(observer ? [watched(observer)] : []),
      guards({ introspection }),
      shareEvents(mask, observer),
      snapshotQueries(),
      jsonLists(schema),
      answerLimit(),
      timeLimit(queryMs),
      atATime({ requestsMax, waitMs }),
      refuseUnreadable(),
      eventStreams({ isShuttingDown: () => services.tail.closed, observer }),
      compressAnswers(),
    ],
    parserAndValidationCache: { documentCache: createDocumentCache(), errorCache: NO_CACHE },
    // `serve` reads the body, with a limit, before Yoga.
    maxRequestBodySize: false,
    multipart: false,
    maskedErrors: { maskError: mask },
  });
}

function createGraphiqlPage(): StaticText {
  return createStaticText("text/html; charset=utf-8", () =>
    renderPage({
      title: "Ostler",
      defaultTabs: [...EXAMPLES],
    }),
  );
}

/** A request that is refused before its execution. */
interface RefusedRequest {
  readonly status: number;
  readonly message: string;
  readonly code: RequestErrorCode;
}

function badRequest(status: number, message: string): RefusedRequest {
  return { status, message, code: "BAD_REQUEST" };
}

function refuse(request: IncomingMessage, response: ServerResponse, { status, message, code }: RefusedRequest): void {
  sendGraphql(request, response, status, graphqlError(message, code));
}

const SEND_TOKEN = `Send the token as "Authorization: Bearer …". In GraphiQL, enter {"Authorization": "Bearer …"} in the pane "Headers" below the query.`;

function unauthenticated(rejection: Rejection, response: ServerResponse): RefusedRequest {
  const { status, code } = rejectionStatus(rejection);
  setRejectionHeaders(response, status);
  if (status !== 401) return { status, message: rejection.message, code };
  const message = rejection.rejected === "MISSING" ? SEND_TOKEN : `${rejection.message} ${SEND_TOKEN}`;
  return { status, message, code };
}

/** Why a request is refused, judged by its headers and URL; null if it is accepted. */
function refusalOf(request: IncomingMessage, response: ServerResponse): RefusedRequest | null {
  if (!readsAnswers(request)) return badRequest(406, UNREADABLE);
  if (request.method === "POST" && !isJson(request))
    return badRequest(415, "Send the request with the content type application/json.");
  if (request.method === "POST" && (request.headers["content-encoding"] ?? "identity") !== "identity")
    return badRequest(415, "Send the body without `content-encoding`: it is not decompressed.");
  if (request.method !== "GET") return null;
  if (isSentUnasked(request, response))
    return badRequest(
      403,
      "A GET request from a page of another origin needs a header that causes a CORS preflight, such as `x-requested-with`.",
    );
  return null;
}

function tooLarge(bytesMax: number): ReturnType<typeof graphqlError> {
  const message = `The request has more than ${bytesMax.toLocaleString("en")} bytes. Split it into several requests.`;
  return graphqlError(message, "BAD_REQUEST");
}

/** Yoga would cache syntax errors with their documents, however long. */
const NO_CACHE = { get: () => undefined, set: () => {} };

function acceptsEvents({ headers }: IncomingMessage): boolean {
  return (headers.accept ?? "").includes("text/event-stream");
}

/** Whether a browser opens the page. A `query` in the URL is for the page then. */
export function wantsPage(request: IncomingMessage): boolean {
  return request.method === "GET" && (request.headers.accept ?? "").includes("text/html");
}

function isJson(request: IncomingMessage): boolean {
  return /^application\/(graphql-response\+)?json\s*(;|$)/i.test(request.headers["content-type"] ?? "");
}

// ---- parameters of a request: read from its body or its URL before Yoga sees the request

/** Context that Yoga receives with a request. */
interface Given {
  readonly context: Context;
  /** Absent over WebSocket. */
  readonly params?: GraphQLParams;
}

/** The parameters, or why they are invalid. Yoga checks the type of each. */
type ReadParams =
  | { readonly params: GraphQLParams; readonly flaw?: undefined }
  | { readonly flaw: string; readonly params?: undefined };

/** Unknown members are ignored, as GraphQL over HTTP says. */
const MEMBERS: ReadonlySet<string> = new Set(["query", "variables", "operationName", "extensions", "documentId"]);

function paramsOfBody(bytes: Buffer): ReadParams {
  // Otherwise other bytes would become U+FFFD, and be stored as such.
  if (!isUtf8(bytes)) return { flaw: "The body is not valid UTF-8." };
  let body: unknown;
  try {
    body = parseExactly(bytes.toString());
  } catch {
    return { flaw: "The body is not valid JSON." };
  }
  if (Array.isArray(body))
    return { flaw: "Batches are not supported: send the requests one at a time, or select several fields in one." };
  const known = Object.entries(isRecord(body) ? body : {}).filter(([name]) => MEMBERS.has(name));
  if (known.length === 0) return { flaw: "The body must be a JSON object with a `query` or a `documentId`." };
  return { params: Object.fromEntries(known) };
}

function paramsOfUrl({ url = "" }: IncomingMessage): ReadParams {
  const search = new URLSearchParams(url.includes("?") ? url.slice(url.indexOf("?")) : "");
  const params: Record<string, unknown> = {};
  for (const name of MEMBERS) {
    const text = search.get(name);
    if (!text) continue;
    try {
      params[name] = name === "variables" || name === "extensions" ? parseExactly(text) : text;
    } catch {
      return { flaw: `\`${name}\` in the URL is not valid JSON.` };
    }
  }
  return { params };
}

/** A Yoga plugin that takes the parameters as they were read, with the document that they name. */
function takeParams(): Plugin<object, Given> {
  return {
    onRequestParse({ serverContext: { params }, setRequestParser }) {
      if (params) setRequestParser(() => params);
    },
    onParams({ params, setParams, context }) {
      return whenReady(withDocument(params, context.context), (found) => {
        setParams(found.params);
        Object.assign(context.context, { document: found.document });
      });
    },
  };
}
