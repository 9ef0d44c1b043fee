/** The ways to the API, so that one request can be sent over each and what comes back be compared. */
import type { FormattedExecutionResult } from "graphql";
import { createClient } from "graphql-ws";
import type { SubscribePayload } from "graphql-ws";
import { WebSocket } from "ws";

export interface ApiRequest {
  readonly query?: string | undefined;
  readonly documentId?: string | undefined;
  readonly extensions?: Readonly<Record<string, unknown>>;
  readonly variables?: Readonly<Record<string, unknown>>;
  readonly operationName?: string;
  /** Further headers of the request, or of the upgrade. */
  readonly headers?: Readonly<Record<string, string>>;
}

export type Result = FormattedExecutionResult<Record<string, unknown>>;

/** How one request is answered by the service at a URL: its only result, or that of a stream's first item. */
type Transport = (url: string, request: ApiRequest) => Promise<Result>;

export const TRANSPORTS: Readonly<Record<"POST" | "GET" | "server-sent events" | "WebSocket", Transport>> = {
  async POST(url, { headers, ...request }) {
    const response = await fetch(`${url}/graphql`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(request),
    });
    return (await response.json()) as Result;
  },
  async GET(url, { query, documentId, variables, extensions, operationName, headers }) {
    const search = new URLSearchParams({
      ...(query !== undefined && { query }),
      ...(documentId !== undefined && { documentId }),
      ...(variables && { variables: JSON.stringify(variables) }),
      ...(extensions && { extensions: JSON.stringify(extensions) }),
      ...(operationName !== undefined && { operationName }),
    });
    const response = await fetch(`${url}/graphql?${search.toString()}`, {
      headers: { accept: "application/json", ...headers },
    });
    return (await response.json()) as Result;
  },
  async "server-sent events"(url, { headers, ...request }) {
    const leave = new AbortController();
    const response = await fetch(`${url}/graphql`, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "text/event-stream", ...headers },
      body: JSON.stringify(request),
      signal: leave.signal,
    });
    if (!response.body) throw new Error(`No stream came, but ${response.status}.`);
    let text = "";
    for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
      text += part;
      const item = /^data: (\{.*)\n\n/m.exec(text)?.[1];
      if (item === undefined) continue;
      leave.abort();
      return JSON.parse(item) as Result;
    }
    throw new Error(`The stream ended without an item: ${text}`);
  },
  async WebSocket(url, { headers = {}, ...request }) {
    const client = createClient({
      url: `${url.replace("http", "ws")}/graphql`,
      webSocketImpl: class extends WebSocket {
        constructor(address: string, protocols: string[]) {
          super(address, protocols, { headers });
        }
      },
      retryAttempts: 0,
    });
    try {
      // The client sends no operation without a query.
      const { value } = await client.iterate({ query: "", ...request } as SubscribePayload).next();
      return value as Result;
    } catch (errors) {
      if (Array.isArray(errors)) return { errors };
      throw errors;
    } finally {
      await client.dispose();
    }
  },
};

/** Every transport, for `describe.each`. */
export const EACH_TRANSPORT = (Object.keys(TRANSPORTS) as (keyof typeof TRANSPORTS)[]).map((name) => ({
  name,
  ask: TRANSPORTS[name],
}));
