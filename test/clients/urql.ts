/** urql, with its defaults: it reads with GET. Subscriptions over WebSocket, or over the answer of a request (server-sent events). */
import { ReadableStream } from "node:stream/web";
import { cacheExchange, Client, fetchExchange, gql, subscriptionExchange } from "@urql/core";
import type { OperationResult } from "@urql/core";
import { createClient } from "graphql-ws";
import { WebSocket } from "ws";
import { pulled, textOf } from "./client.ts";
import type { ClientUnderTest, Reached } from "./client.ts";

export interface UrqlSetup {
  readonly stream: "WebSocket" | "fetch";
  /** In place of Node's own. */
  readonly fetch?: typeof fetch;
}

export function urql(
  { url, socketUrl, headers }: Reached,
  { stream, fetch: fetching = fetch }: UrqlSetup,
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
    fetch: stream === "fetch" ? untilLeft(fetching) : fetching,
  });
  return {
    query: async (operation, variables = {}) =>
      dataOf(await client.query(gql(textOf(operation)), variables).toPromise()),
    mutate: async (operation, variables = {}) =>
      dataOf(await client.mutation(gql(textOf(operation)), variables).toPromise()),
    follow: (operation, variables = {}) =>
      pulled((observer) => {
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
 * `fetch`, for Node: who leaves an answer that is still coming has come to its end. Else urql, when it is left while it
 * hands on an item, rejects a promise that nobody holds, which ends a process.
 */
function untilLeft(fetching: typeof fetch): typeof fetch {
  return async (...asked) => {
    const answer = await fetching(...asked);
    return answer.body ? new Response(ReadableStream.from(quietly(answer.body)) as BodyInit, answer) : answer;
  };
}

async function* quietly(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
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
