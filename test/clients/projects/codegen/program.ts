/**
 * A user of the client preset: every document typed, through graphql-request for requests and graphql-ws for streams.
 */
import { GraphQLClient } from "graphql-request";
import type { TypedDocumentNode } from "@graphql-typed-document-node/core";
import { print } from "graphql";
import { createClient } from "graphql-ws";
import { WebSocket } from "ws";
import { useFragment as unmasked } from "./gql/fragment-masking.ts";
import { CommissionDocument, FlawFragmentDoc, FollowDocument, NodeCoreFragmentDoc, NodesPageDocument, RegisterDocument } from "./gql/graphql.ts";
import type { FollowSubscription, FollowSubscriptionVariables, NodeSelector, NodeState, RegisterNodesInput } from "./gql/graphql.ts";

interface Reached {
  readonly url: string;
  readonly socketUrl: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** States for people. Unknown values are shown unchanged, because the API adds values without a new version. */
export function inWords(state: NodeState): string {
  switch (state) {
    case "ACTIVE":
      return "in service";
    case "AVAILABLE":
      return "free";
    default:
      return state.toLowerCase().replaceAll("_", " ");
  }
}

export function program({ url, socketUrl, headers }: Reached) {
  const requests = new GraphQLClient(url, { headers: { ...headers } });
  const socket = createClient({ url: socketUrl, webSocketImpl: WebSocket, connectionParams: headers });

  async function* stream<Data, Variables extends Record<string, unknown>>(document: TypedDocumentNode<Data, Variables>, variables: Variables): AsyncGenerator<Data> {
    for await (const { data, errors } of socket.iterate<Data>({ query: print(document), variables })) {
      if (!data) throw new Error(errors?.[0]?.message);
      yield data;
    }
  }

  return {
    async register(input: RegisterNodesInput) {
      const { registerNodes } = await requests.request(RegisterDocument, { input });
      return { nodes: unmasked(NodeCoreFragmentDoc, registerNodes?.nodes), errors: unmasked(FlawFragmentDoc, registerNodes?.errors) };
    },

    async list(ids: string[]): Promise<{ name: string; state: string }[]> {
      const { nodes } = await requests.request(NodesPageDocument, { first: 100, filter: { ids } });
      return nodes.edges.map(({ node }) => unmasked(NodeCoreFragmentDoc, node)).map(({ name, state }) => ({ name, state: inWords(state) }));
    },

    async commission(nodes: NodeSelector) {
      const { commissionNodes } = await requests.request(CommissionDocument, { input: { nodes, until: "ACTIVE" } });
      const [flaw] = unmasked(FlawFragmentDoc, commissionNodes?.errors) ?? [];
      // Each kind of error has its own fields and is identified by its type.
      return flaw?.__typename === "NotFoundError" ? { missing: flaw.missing } : { accepted: commissionNodes?.results.map(({ accepted }) => accepted) };
    },

    async follow(variables: FollowSubscriptionVariables, until: NodeState): Promise<FollowSubscription["nodeTransitions"][]> {
      const items: FollowSubscription["nodeTransitions"][] = [];
      for await (const { nodeTransitions } of stream(FollowDocument, variables)) {
        items.push(nodeTransitions);
        if (nodeTransitions.__typename === "Transition" && nodeTransitions.to === until) break;
      }
      return items;
    },

    close: () => socket.dispose(),
  };
}
