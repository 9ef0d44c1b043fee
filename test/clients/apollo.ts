/**
 * Apollo Client, set up as in its documentation: a cache with the possible types, and HTTP and WebSocket split by
 * operation.
 */
import { readFileSync } from "node:fs";
import { ApolloClient, ApolloLink, gql, HttpLink, InMemoryCache } from "@apollo/client";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { OperationTypeNode } from "graphql";
import { createClient } from "graphql-ws";
import { WebSocket } from "ws";
import { pullIterator, textOf } from "./client.ts";
import type { ClientUnderTest, Endpoint } from "./client.ts";

const possibleTypes = JSON.parse(readFileSync(new URL("../../possibleTypes.json", import.meta.url), "utf8")) as Record<
  string,
  string[]
>;

export function apolloClient(
  { url, socketUrl, headers }: Endpoint,
  { everythingOverSocket }: { readonly everythingOverSocket: boolean },
) {
  const socket = createClient({ url: socketUrl, webSocketImpl: WebSocket, connectionParams: headers });
  const overSocket = new GraphQLWsLink(socket);
  const link = everythingOverSocket
    ? overSocket
    : ApolloLink.split(
        ({ operationType }) => operationType === OperationTypeNode.SUBSCRIPTION,
        overSocket,
        new HttpLink({ uri: url, headers }),
      );
  // Items of a stream are separate values; without this, Apollo merges an item into the previous one.
  const cache = new InMemoryCache({
    possibleTypes,
    typePolicies: { Subscription: { fields: { nodeTransitions: { merge: false } } } },
  });
  const client = new ApolloClient({ link, cache });
  return { client, socket };
}

export function apollo(endpoint: Endpoint, how: { readonly everythingOverSocket: boolean }): ClientUnderTest {
  const { client, socket } = apolloClient(endpoint, how);
  return {
    query: async (operation, variables = {}) =>
      (await client.query({ query: gql(textOf(operation)), variables })).data as never,
    mutate: async (operation, variables = {}) =>
      (await client.mutate({ mutation: gql(textOf(operation)), variables })).data as never,
    follow: (operation, variables = {}) =>
      pullIterator((observer) => {
        const running = client.subscribe({ query: gql(textOf(operation)), variables }).subscribe({
          next: ({ data, error }) => (error ? observer.error(error) : observer.next(data as never)),
          error: observer.error,
          complete: observer.complete,
        });
        return () => running.unsubscribe();
      }),
    async close() {
      client.stop();
      await socket.dispose();
    },
  };
}
