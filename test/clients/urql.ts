/**
 * urql with its defaults: reads with GET. Subscriptions use WebSocket, or the answer of a request (server-sent events).
 */
import { ReadableStream } from "node:stream/web";
import { cacheExchange, Client, fetchExchange, gql, subscriptionExchange } from "@urql/core";
import type { OperationResult } from "@urql/core";
import { createClient } from "graphql-ws";
import { WebSocket } from "ws";
import { pullIterator, textOf } from "./client.ts";
import type { ClientUnderTest, Endpoint } from "./client.ts";

export interface UrqlSetup {
  readonly stream: "WebSocket" | "fetch";
  /** Replaces Node's own `fetch`. */
  readonly fetch?: typeof fetch;
}

export function urql(
  { url, socketUrl, headers }: Endpoint,
  { stream, fetch: fetchFunction = fetch }: UrqlSetup,
): ClientUnderTest {
  const socket =
    stream === "WebSocket"
      ? createClient({ url: socketUrl, webSocketImpl: WebSocket, connectionParams: headers })
      : null;
  const overSocket =
    socket &&
    subscriptionExchange({
      forwardSubscription: (request) => ({
        subscribe: (sink) => ({
          unsubscribe: socket.subscribe({ ...request, query: request.query ?? "" }, sink as never),
        }),
      }),
    });
  const client = new Client({
    url,
    exchanges: [cacheExchange, fetchExchange, ...(overSocket ? [overSocket] : [])],
    fetchSubscriptions: stream === "fetch",
    fetchOptions: { headers: { ...headers } },
    fetch: stream === "fetch" ? endOnAbort(fetchFunction) : fetchFunction,
  });
  return {
    query: async (operation, variables = {}) =>
      dataOf(await client.query(gql(textOf(operation)), variables).toPromise()),
    mutate: async (operation, variables = {}) =>
      dataOf(await client.mutation(gql(textOf(operation)), variables).toPromise()),
    follow: (operation, variables = {}) =>
      pullIterator((observer) => {
        const { unsubscribe } = client
          .subscription(gql(textOf(operation)), variables)
          .subscribe((result) => (result.error ? observer.error(result.error) : observer.next(result.data as never)));
        return unsubscribe;
      }),
    async close() {
      await socket?.dispose();
    },
  };
}

/**
 * `fetch` for Node: an aborted answer ends without an error. Otherwise urql, when a subscription ends while it delivers
 * an item, rejects a promise without a handler, which ends the process.
 */
function endOnAbort(fetchFunction: typeof fetch): typeof fetch {
  return async (...parameters) => {
    const answer = await fetchFunction(...parameters);
    return answer.body ? new Response(ReadableStream.from(ignoreAbort(answer.body)) as BodyInit, answer) : answer;
  };
}

async function* ignoreAbort(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* chunks;
  } catch (error) {
    if (!(error instanceof Error && error.name === "AbortError")) throw error;
  }
}

function dataOf({ data, error }: OperationResult): never {
  if (error) throw error;
  return data as never;
}
