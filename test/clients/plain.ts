/**
 * The small clients: graphql-request, which has no subscriptions; graphql-ws; and graphql-sse, with a connection for
 * each operation.
 */
import { GraphQLClient } from "graphql-request";
import { createClient as createSse } from "graphql-sse";
import { createClient as createSocket } from "graphql-ws";
import { WebSocket } from "ws";
import { textOf } from "./client.ts";
import type { ClientUnderTest, OperationName, Endpoint, Variables } from "./client.ts";

export function request({ url, headers }: Endpoint): ClientUnderTest {
  const client = new GraphQLClient(url, { headers: { ...headers } });
  return {
    query: (operation, variables) => client.request(textOf(operation), variables),
    mutate: (operation, variables) => client.request(textOf(operation), variables),
    follow: null,
    close: () => Promise.resolve(),
  };
}

export function overSocket({ socketUrl, headers }: Endpoint): ClientUnderTest {
  const client = createSocket({ url: socketUrl, webSocketImpl: WebSocket, connectionParams: headers });
  return clientOf(client, async () => client.dispose());
}

export function overEvents({ url, headers }: Endpoint): ClientUnderTest {
  const client = createSse({ url, headers: { ...headers } });
  return clientOf(client, () => Promise.resolve(client.dispose()));
}

/** Common interface of graphql-ws and graphql-sse. */
interface IterableClient {
  iterate(request: {
    readonly query: string;
    readonly variables?: Variables;
  }): AsyncIterableIterator<{ readonly data?: unknown; readonly errors?: readonly unknown[] | undefined }>;
}

function clientOf(client: IterableClient, close: () => Promise<void>): ClientUnderTest {
  const start = (operation: OperationName, variables: Variables = {}) =>
    client.iterate({ query: textOf(operation), variables });
  const first = async (operation: OperationName, variables?: Variables) => {
    for await (const answer of start(operation, variables)) return dataOf(answer) as never;
    throw new Error(`${operation} got no answer.`);
  };
  return {
    query: first,
    mutate: first,
    follow(operation, variables) {
      const items = start(operation, variables);
      return {
        async next() {
          const { done, value } = await items.next();
          return done ? { done, value: undefined } : { done: false, value: dataOf(value) as never };
        },
        async return() {
          await items.return?.();
          return { done: true, value: undefined };
        },
      };
    },
    close,
  };
}

function dataOf({
  data,
  errors,
}: {
  readonly data?: unknown;
  readonly errors?: readonly unknown[] | undefined;
}): unknown {
  if (errors) throw new Error(JSON.stringify(errors));
  return data;
}
