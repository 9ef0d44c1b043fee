/**
 * GraphQL over HTTP: Yoga with its plugins, and what a request must be before Yoga sees it. What is refused in a
 * document is refused by plugins, so that WebSocket, which goes round this file, refuses the same: it takes its parse,
 * validate, execute and subscribe from `yoga.getEnveloped`.
 */
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { GraphQLSchema } from "graphql";
import { createYoga } from "graphql-yoga";
import type { YogaServerInstance } from "graphql-yoga";
import { identify } from "../access/access.ts";
import type { RequestErrorCode } from "../errors.ts";
import { answerLimit } from "../graphql/execution/response-limit.ts";
import { atATime } from "../graphql/execution/concurrency-limit.ts";
import { createContext } from "../graphql/base/context.ts";
import type { Context, Services } from "../graphql/base/context.ts";
import { createDocumentCache } from "../graphql/execution/document.ts";
import { EXAMPLES } from "../graphql/tools/examples.ts";
import { guards, timeLimit } from "../graphql/execution/guards.ts";
import { jsonLists } from "../graphql/execution/json-lists.ts";
import { maskError } from "../graphql/base/error-masking.ts";
import { renderPage } from "../graphql/tools/graphiql.ts";
import { shareEvents } from "../graphql/execution/shared-events.ts";
import { watched } from "../graphql/execution/instrumentation.ts";
import { loggedHere, withLogged } from "../log.ts";
import type { Log } from "../log.ts";
import type { Observer } from "../observer.ts";
import { UNREADABLE, readsAnswers, refuseUnreadable } from "./acceptable.ts";
import { isSentUnasked } from "./origins.ts";
import { cutStalledEvents } from "./stalled-events.ts";
import { createPrepared } from "./static-text.ts";
import { graphqlError, readBody, refuseBody, sendGraphql } from "./respond.ts";

/** The path of the API, for HTTP and WebSocket. */
export const GRAPHQL = "/graphql";
/** How large a request may be, in bytes, where the configuration says nothing else. */
export const BODY_BYTES_MAX = 1024 * 1024;
/** GraphiQL is one page with everything in it; it talks to us and to nobody else. */
const PAGE_POLICY =
  "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' blob:; worker-src blob: data:; style-src 'unsafe-inline'; img-src 'self' data:; font-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export interface GraphqlOptions {
  readonly token: string | null;
  readonly schema: GraphQLSchema;
  readonly services: Services;
  readonly log: Log;
  /** Whether callers may ask what the schema is; they may, where nothing is said. */
  readonly introspection?: boolean;
  readonly bodyBytesMax?: number;
  /** How long a query may take, in milliseconds. */
  readonly queryMs?: number;
  /** Queries that are executed at a time, and as many mutations; and how long others wait for their turn, in milliseconds. */
  readonly requestsMax?: number;
  readonly waitMs?: number;
  /** Whom requests and streams are told. Absent: nobody. */
  readonly observer?: Observer;
}

/** What Yoga is given beside the request. */
interface Given {
  readonly context: Context;
}

export type Yoga = YogaServerInstance<Given, Context>;

export interface Graphql {
  readonly yoga: Yoga;
  /** What requests are answered with: whatever they read is bounded in time. */
  readonly services: Services;
  /** Answers one request. */
  serve(request: IncomingMessage, response: ServerResponse, requestId: string): Promise<void>;
}

export function createGraphql({
  schema,
  services: given,
  token,
  log,
  introspection = true,
  bodyBytesMax = BODY_BYTES_MAX,
  queryMs,
  requestsMax,
  waitMs,
  observer,
}: GraphqlOptions): Graphql {
  // Nobody's question keeps the database busy without end.
  const services: Services = { ...given, database: { ...given.database, reader: given.database.bounded } };

  const mask = (error: unknown) => maskError(error, loggedHere().requestId ?? randomUUID(), log);

  const yoga = createYoga<Given, Context>({
    schema,
    graphqlEndpoint: GRAPHQL,
    landingPage: false,
    cors: false,
    logging: false,
    graphiql: false,
    context: ({ context }) => context,
    plugins: [
      ...(observer ? [watched(observer)] : []),
      guards({ introspection }),
      shareEvents(mask),
      jsonLists(schema),
      answerLimit(),
      timeLimit(queryMs),
      atATime({ requestsMax, waitMs }),
      refuseUnreadable(),
      cutStalledEvents(undefined, observer),
    ],
    parserAndValidationCache: { documentCache: createDocumentCache(), errorCache: NO_CACHE },
    // The body is read and bounded here, before Yoga.
    maxRequestBodySize: false,
    multipart: false,
    maskedErrors: { maskError: mask },
  });

  const page = createPrepared("text/html; charset=utf-8", () =>
    renderPage({
      title: "Ostler",
      defaultTabs: EXAMPLES.map(({ query, variables }) => ({ query, ...(variables !== undefined && { variables }) })),
    }),
  );

  async function serve(request: IncomingMessage, response: ServerResponse, requestId: string): Promise<void> {
    if (wantsPage(request)) {
      response.setHeader("content-security-policy", PAGE_POLICY);
      return page.serve(request, response);
    }
    const refuse = (status: number, message: string, code: RequestErrorCode) =>
      sendGraphql(request, response, status, graphqlError(message, code));
    const actor = identify(request.headers.authorization, token);
    if (!actor) {
      response.setHeader("www-authenticate", "Bearer");
      return refuse(
        401,
        request.headers.authorization === undefined
          ? PRESENT_TOKEN
          : `This token is not, or no longer, the right one. ${PRESENT_TOKEN}`,
        "UNAUTHENTICATED",
      );
    }
    if (!readsAnswers(request)) return refuse(406, UNREADABLE, "BAD_REQUEST");
    if (request.method === "GET") {
      if (isSentUnasked(request, response))
        return refuse(
          403,
          "A page of another origin must ask first: send a header that browsers do not send unasked, as `x-requested-with`.",
          "BAD_REQUEST",
        );
      const flaw = flawOfSearch(request);
      if (flaw !== null) return refuse(400, flaw, "BAD_REQUEST");
    } else if (request.method === "POST") {
      if (!isJson(request)) return refuse(415, "Send the request as application/json.", "BAD_REQUEST");
      const text = await readBody(request, bodyBytesMax);
      if (text === null)
        return refuseBody(
          request,
          response,
          graphqlError(
            `A request has at most ${bodyBytesMax.toLocaleString("en")} bytes. Ask in several requests.`,
            "BAD_REQUEST",
          ),
        );
      const { body, flaw } = readRequest(text);
      if (flaw !== undefined) return refuse(400, flaw, "BAD_REQUEST");
      // Where Yoga looks for a body that was read before.
      Object.assign(request, { body });
    }
    await yoga(request, response, { context: createContext(services, actor, requestId) });
  }

  return {
    yoga,
    services,
    serve: (request, response, requestId) => withLogged({ requestId }, () => serve(request, response, requestId)),
  };
}

const PRESENT_TOKEN = "Present the token as `Authorization: Bearer …`.";

/** Yoga keeps errors of syntax by the texts that have them, however long those are. */
const NO_CACHE = { get: () => undefined, set: () => {} };

/** The request in a body, or what is wrong with it. What its members are Yoga sees to. */
function readRequest(
  text: string,
): { readonly body: object; readonly flaw?: undefined } | { readonly flaw: string; readonly body?: undefined } {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return { flaw: "The body is no JSON." };
  }
  if (Array.isArray(body))
    return { flaw: "Batches are not taken: send each request by itself, or several fields in one." };
  if (typeof body !== "object" || body === null || Object.keys(body).length === 0)
    return { flaw: "The body is a JSON object with a `query`." };
  return { body };
}

/** What is wrong with the search of a URL: its variables and extensions are JSON. */
function flawOfSearch(request: IncomingMessage): string | null {
  const url = request.url ?? "";
  const search = new URLSearchParams(url.includes("?") ? url.slice(url.indexOf("?")) : "");
  for (const name of ["variables", "extensions"]) {
    try {
      JSON.parse(search.get(name) || "null");
    } catch {
      return `\`${name}\` is no JSON.`;
    }
  }
  return null;
}

/** Whether a browser goes here; the page takes a `query` in its address for itself. */
function wantsPage(request: IncomingMessage): boolean {
  return request.method === "GET" && (request.headers.accept ?? "").includes("text/html");
}

function isJson(request: IncomingMessage): boolean {
  return /^application\/(graphql-response\+)?json\b/i.test(request.headers["content-type"] ?? "");
}
