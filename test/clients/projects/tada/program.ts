/** A user of gql.tada: documents are part of the program, and TypeScript derives their types from the schema. */
import { readFragment } from "gql.tada";
import type { ResultOf, VariablesOf } from "gql.tada";
import { GraphQLClient } from "graphql-request";
import { print } from "graphql";
import { createClient } from "graphql-ws";
import { WebSocket } from "ws";
import { graphql } from "./graphql.ts";

const nodeCore = graphql(`
  fragment NodeCore on Node {
    id
    name
    state
    currentRun {
      state
      startedAt
    }
  }
`);

const nodesPage = graphql(
  `
    query NodesPage($first: Int!, $filter: NodeFilter) {
      nodes(first: $first, filter: $filter) {
        edges {
          node {
            ...NodeCore
          }
        }
      }
    }
  `,
  [nodeCore],
);

const register = graphql(`
  mutation Register($input: RegisterNodesInput!) {
    registerNodes(input: $input) {
      nodes {
        id
      }
      errors {
        code
        path
      }
    }
  }
`);

const commission = graphql(`
  mutation Commission($input: CommissionNodesInput!) {
    commissionNodes(input: $input) {
      results {
        accepted
      }
      errors {
        __typename
        message
        ... on NotFoundError {
          missing
        }
      }
    }
  }
`);

const follow = graphql(`
  subscription Follow($filter: NodeFilter, $after: String) {
    nodeTransitions(filter: $filter, after: $after) {
      __typename
      ... on Transition {
        cursor
        to
        sequence
      }
      ... on StreamBookmark {
        cursor
        caughtUp
      }
      ... on StreamReset {
        cursor
        code
      }
    }
  }
`);

type Item = ResultOf<typeof follow>["nodeTransitions"];

export function program({ url, socketUrl, headers }: { readonly url: string; readonly socketUrl: string; readonly headers: Readonly<Record<string, string>> }) {
  const requests = new GraphQLClient(url, { headers: { ...headers } });
  const socket = createClient({ url: socketUrl, webSocketImpl: WebSocket, connectionParams: headers });
  return {
    async register(input: VariablesOf<typeof register>["input"]) {
      const { registerNodes } = await requests.request(register, { input });
      return { nodes: registerNodes?.nodes, errors: registerNodes?.errors };
    },

    async list(ids: string[]): Promise<{ name: string; state: string }[]> {
      const { nodes } = await requests.request(nodesPage, { first: 100, filter: { ids } });
      return nodes.edges.map(({ node }) => readFragment(nodeCore, node)).map(({ name, state }) => ({ name, state: state === "ACTIVE" ? "in service" : state.toLowerCase() }));
    },

    async commission(nodes: VariablesOf<typeof commission>["input"]["nodes"]) {
      const { commissionNodes } = await requests.request(commission, { input: { nodes, until: "ACTIVE" } });
      const flaw = commissionNodes?.errors[0];
      return flaw?.__typename === "NotFoundError" ? { missing: flaw.missing } : { accepted: commissionNodes?.results.map(({ accepted }) => accepted) };
    },

    async follow(variables: VariablesOf<typeof follow>, until: string): Promise<Item[]> {
      const items: Item[] = [];
      for await (const { data } of socket.iterate<ResultOf<typeof follow>>({ query: print(follow), variables })) {
        if (!data) throw new Error("There was no item.");
        items.push(data.nodeTransitions);
        if (data.nodeTransitions.__typename === "Transition" && data.nodeTransitions.to === until) break;
      }
      return items;
    },

    close: () => socket.dispose(),
  };
}
