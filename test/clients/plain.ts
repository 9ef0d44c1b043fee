/** The small clients: graphql-request, which knows no subscriptions; graphql-ws; and graphql-sse, a connection for each operation. */
import { GraphQLClient } from "graphql-request";
import { createClient as createSse } from "graphql-sse";
import { createClient as createSocket } from "graphql-ws";
import { WebSocket } from "ws";
import { textOf } from "./client.ts";
import type { ClientUnderTest, OperationName, Reached, Variables } from "./client.ts";

export function request({ url, headers }: Reached): ClientUnderTest {
  const client = new GraphQLClient(url, { headers: { ...headers } });
  return {
    query: (operation, variables) => client.request(textOf(operation), variables),
    mutate: (operation, variables) => client.request(textOf(operation), variables),
    follow: null,
    close: () => Promise.resolve(),
  };
}

export function overSocket({ socketUrl, headers }: Reached): ClientUnderTest {
  const client = createSocket({ url: socketUrl, webSocketImpl: WebSocket, connectionParams: headers });
  return ofIterating(client, async () => client.dispose());
}

export function overEvents({ url, headers }: Reached): ClientUnderTest {
  const client = createSse({ url, headers: { ...headers } });
  return ofIterating(client, () => Promise.resolve(client.dispose()));
}

/** What both clients of one author have in common. */
interface Iterating {
  iterate(request: {
    readonly query: string;
    readonly variables?: Variables;
  }): AsyncIterableIterator<{ readonly data?: unknown; readonly errors?: readonly unknown[] | undefined }>;
}

function ofIterating(client: Iterating, close: () => Promise<void>): ClientUnderTest {
  const start = (operation: OperationName, variables: Variables = {}) =>
    client.iterate({ query: textOf(operation), variables });
  const only = async (operation: OperationName, variables?: Variables) => {
    for await (const answer of start(operation, variables)) return dataOf(answer) as never;
    throw new Error(`${operation} was not answered.`);
  };
  return {
    query: only,
    mutate: only,
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
