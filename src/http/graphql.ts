/**
 * GraphQL over HTTP: Yoga with its plugins, and what a request must be before Yoga sees it. What is refused in a
 * document is refused by plugins, so that WebSocket, which goes round this file, refuses the same: it takes its parse,
 * validate, execute and subscribe from `yoga.getEnveloped`.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { renderGraphiQL } from "@graphql-yoga/render-graphiql";
import { GraphQLError } from "graphql";
import type { GraphQLSchema } from "graphql";
import { createYoga } from "graphql-yoga";
import type { Plugin, YogaServerInstance } from "graphql-yoga";
import { identify } from "../access/access.ts";
import { createContext } from "../graphql/context.ts";
import type { Context, Services } from "../graphql/context.ts";
import { EXAMPLES } from "../graphql/examples.ts";
import { depthRule } from "../graphql/limits.ts";
import { lists } from "../graphql/lists.ts";
import { maskError, shown } from "../graphql/mask.ts";
import type { Log } from "../log.ts";
import { bound, graphqlError, sendJson } from "./respond.ts";

/** The path of the API, for HTTP and WebSocket. */
export const GRAPHQL = "/graphql";
/** How large a request may be, in bytes. */
export const BODY_BYTES_MAX = 1024 * 1024;
/** GraphiQL is one page with everything in it; it talks to us and to nobody else. */
const PAGE_POLICY = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' blob:; worker-src blob: data:; style-src 'unsafe-inline'; img-src 'self' data:; font-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export interface GraphqlOptions {
  readonly token: string | null;
  readonly schema: GraphQLSchema;
  readonly services: Services;
  readonly log: Log;
}

/** What Yoga is given beside the request: no context for a page, which anybody may see. */
interface Given {
  readonly context?: Context;
}

export type Yoga = YogaServerInstance<Given, Context>;

export interface Graphql {
  readonly yoga: Yoga;
  /** Answers one request. */
  serve(request: IncomingMessage, response: ServerResponse, requestId: string): Promise<void>;
}

export function createGraphql({ schema, services, token, log }: GraphqlOptions): Graphql {
  const current = new AsyncLocalStorage<{ readonly requestId: string }>();

  const yoga = createYoga<Given, Context>({
    schema,
    graphqlEndpoint: GRAPHQL,
    landingPage: false,
    cors: false,
    logging: false,
    graphiql: { title: "Ostler", defaultTabs: EXAMPLES.map(({ query, variables }) => ({ query, ...(variables !== undefined && { variables }) })) },
    renderGraphiQL,
    context: (initial) => initial.context ?? refuseUnknown(),
    plugins: [boundAndShowWithoutValues, lists(schema)],
    maskedErrors: { maskError: (error) => maskError(error, current.getStore()?.requestId ?? randomUUID(), log) },
  });

  async function serve(request: IncomingMessage, response: ServerResponse, requestId: string): Promise<void> {
    if (wantsPage(request)) {
      response.setHeader("content-security-policy", PAGE_POLICY);
      await yoga(request, response, {});
      return;
    }
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
  }

  return { yoga, serve: (request, response, requestId) => current.run({ requestId }, () => serve(request, response, requestId)) };
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

function wantsPage(request: IncomingMessage): boolean {
  return request.method === "GET" && (request.headers.accept ?? "").includes("text/html") && !(request.url ?? "").includes("?query=");
}

function isJson(request: IncomingMessage): boolean {
  return /^application\/(graphql-response\+)?json\b/i.test(request.headers["content-type"] ?? "");
}
