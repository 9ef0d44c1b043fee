/** The parameters of a GraphQL request over HTTP: read from its body or its URL before Yoga sees the request. */
import type { IncomingMessage } from "node:http";
import { GraphQLError } from "graphql";
import type { GraphQLParams, Plugin } from "graphql-yoga";
import { withStatus } from "../../graphql/base/error-masking.ts";
import { parseExactly } from "../../runtime/exact-json.ts";
import { isRecord } from "../../runtime/json-values.ts";

/** The parameters, or why they are invalid. Yoga checks the type of each. */
export type ReadParams =
  | { readonly params: GraphQLParams; readonly flaw?: undefined }
  | { readonly flaw: string; readonly params?: undefined };

/** Unknown members are ignored, as GraphQL over HTTP says. */
const MEMBERS: ReadonlySet<string> = new Set(["query", "variables", "operationName", "extensions"]);

export function paramsOfBody(text: string): ReadParams {
  let body: unknown;
  try {
    body = parseExactly(text);
  } catch {
    return { flaw: "The body is not valid JSON." };
  }
  if (Array.isArray(body))
    return { flaw: "Batches are not supported: send the requests one at a time, or select several fields in one." };
  const known = Object.entries(isRecord(body) ? body : {}).filter(([name]) => MEMBERS.has(name));
  if (known.length === 0) return { flaw: "The body must be a JSON object with a `query`." };
  return { params: Object.fromEntries(known) };
}

export function paramsOfUrl({ url = "" }: IncomingMessage): ReadParams {
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

/** A Yoga plugin that takes the parameters as they were read, and refuses those that only have the hash of a query. */
export function takeParams(): Plugin<object, { readonly params?: GraphQLParams }> {
  return {
    onRequestParse({ serverContext: { params }, setRequestParser }) {
      if (params) setRequestParser(() => params);
    },
    onParams({ params }) {
      if (lacksPersistedQuery(params)) throw persistedQueryNotSupported();
    },
  };
}

/** Whether a request has only the hash of a query, as automatic persisted queries of Apollo Client. */
export function lacksPersistedQuery(params: { readonly query?: unknown; readonly extensions?: unknown }): boolean {
  return !params.query && isRecord(params.extensions) && "persistedQuery" in params.extensions;
}

/** Apollo Client sends the query itself on this answer. */
export function persistedQueryNotSupported(): GraphQLError {
  const error = new GraphQLError("PersistedQueryNotSupported", {
    extensions: { code: "PERSISTED_QUERY_NOT_SUPPORTED" },
  });
  return withStatus(error, { status: 200 });
}
