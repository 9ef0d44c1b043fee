/** Apollo Client: requests over HTTP, the stream over a WebSocket that goes on after a loss of the connection. */
import { ApolloClient, ApolloLink, CombinedGraphQLErrors, HttpLink, InMemoryCache } from "@apollo/client";
import type { FieldMergeFunction } from "@apollo/client";
import { RetryLink } from "@apollo/client/link/retry";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { connect } from "ostler-client";
import possibleTypes from "ostler-client/possibleTypes.json";
import { retry, tap } from "rxjs";

/** Connects again after each loss, and notices within 15 seconds that the service is gone without a word. */
export const connection = connect({ url: "/graphql" });

/**
 * On each connection graphql-ws sends the subscription again, with the variables as they are then. `after` is a getter
 * for the last cursor, so the stream goes on where it broke, without a gap.
 */
const resume = new ApolloLink((operation, forward) => {
  let { after } = operation.variables;
  const variables = Object.defineProperty({ ...operation.variables }, "after", { get: () => after, enumerable: true });
  return forward(Object.assign(operation, { variables })).pipe(
    tap(({ data }) => void (after = data?.["nodeChanges"].cursor ?? after)),
    retry({ delay: 1_000 }),
  );
});

/** All pages are one list, as of its first page. */
const joinPages: FieldMergeFunction = (list, page) =>
  list ? { ...page, asOf: list.asOf, nodes: [...list.nodes, ...page.nodes] } : page;

export const client = new ApolloClient({
  link: ApolloLink.split(
    ({ operationType }) => operationType === "subscription",
    ApolloLink.from([resume, new GraphQLWsLink(connection.client)]),
    // Repeats mutations too: those of this page have an idempotency key.
    ApolloLink.from([new RetryLink(), new HttpLink({ uri: "/graphql" })]),
  ),
  cache: new InMemoryCache({
    possibleTypes,
    typePolicies: {
      Query: { fields: { nodes: { keyArgs: false, merge: joinPages } } },
      // Items are separate values; by default Apollo merges each into the one before.
      Subscription: { fields: { nodeChanges: { merge: false } } },
    },
  }),
});

/** Of an error of the API, such as UNAUTHENTICATED. */
export const codeOf = (error: unknown) =>
  CombinedGraphQLErrors.is(error) ? error.errors[0]?.extensions?.["code"] : undefined;
