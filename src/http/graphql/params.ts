/** The parameters of a GraphQL request over HTTP: read from its body or its URL before Yoga sees the request. */
import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import type { GraphQLParams, Plugin } from "graphql-yoga";
import type { Context } from "../../graphql/base/context.ts";
import { withDocument } from "../../graphql/execution/requested-document.ts";
import { whenReady } from "../../runtime/awaitable.ts";
import { parseExactly } from "../../runtime/exact-json.ts";
import { isRecord } from "../../runtime/json-values.ts";

/** Context that Yoga receives with a request. */
export interface Given {
  readonly context: Context;
  /** Absent over WebSocket. */
  readonly params?: GraphQLParams;
}

/** The parameters, or why they are invalid. Yoga checks the type of each. */
export type ReadParams =
  | { readonly params: GraphQLParams; readonly flaw?: undefined }
  | { readonly flaw: string; readonly params?: undefined };

/** Unknown members are ignored, as GraphQL over HTTP says. */
const MEMBERS: ReadonlySet<string> = new Set(["query", "variables", "operationName", "extensions", "documentId"]);

export function paramsOfBody(bytes: Buffer): ReadParams {
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

/** A Yoga plugin that takes the parameters as they were read, with the document that they name. */
export function takeParams(): Plugin<object, Given> {
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
