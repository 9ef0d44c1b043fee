/** A user of Relay without React: its store, its connections, and refetching by ID, over HTTP and WebSocket. */
import { createClient } from "graphql-ws";
import { commitMutation, Environment, fetchQuery, getSingularSelector, Network, Observable, RecordSource, requestSubscription, Store } from "relay-runtime";
import type { GraphQLResponse, MutationParameters, OperationType } from "relay-runtime";
import { WebSocket } from "ws";
import commissionMutation from "./__generated__/documentsCommissionMutation.graphql";
import type { documentsCommissionMutation } from "./__generated__/documentsCommissionMutation.graphql";
import fleetFragment from "./__generated__/documentsFleet.graphql";
import type { documentsFleet$data } from "./__generated__/documentsFleet.graphql";
import fleetPageQuery from "./__generated__/documentsFleetPageQuery.graphql";
import type { documentsFleetPageQuery } from "./__generated__/documentsFleetPageQuery.graphql";
import fleetQuery from "./__generated__/documentsFleetQuery.graphql";
import type { documentsFleetQuery } from "./__generated__/documentsFleetQuery.graphql";
import followSubscription from "./__generated__/documentsFollowSubscription.graphql";
import type { documentsFollowSubscription } from "./__generated__/documentsFollowSubscription.graphql";
import nodeFragment from "./__generated__/documentsNode.graphql";
import type { documentsNode$data } from "./__generated__/documentsNode.graphql";
import nodeAgainQuery from "./__generated__/documentsNodeAgainQuery.graphql";
import type { documentsNodeAgainQuery } from "./__generated__/documentsNodeAgainQuery.graphql";
import registerMutation from "./__generated__/documentsRegisterMutation.graphql";
import type { documentsRegisterMutation, documentsRegisterMutation$data } from "./__generated__/documentsRegisterMutation.graphql";
import runFragment from "./__generated__/documentsRun.graphql";
import type { documentsRun$data } from "./__generated__/documentsRun.graphql";
import runAgainQuery from "./__generated__/documentsRunAgainQuery.graphql";
import type { documentsRunAgainQuery } from "./__generated__/documentsRunAgainQuery.graphql";

export function program({ url, socketUrl, headers }: { readonly url: string; readonly socketUrl: string; readonly headers: Readonly<Record<string, string>> }) {
  const socket = createClient({ url: socketUrl, webSocketImpl: WebSocket, connectionParams: headers });
  const environment = new Environment({
    network: Network.create(
      async ({ text }, variables) => {
        const answer = await fetch(url, { method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify({ query: text, variables }) });
        return (await answer.json()) as GraphQLResponse;
      },
      ({ text }, variables) => Observable.create((sink) => socket.subscribe({ query: text ?? "", variables }, sink as never)),
    ),
    store: new Store(new RecordSource()),
  });

  function look<Data>(fragment: Parameters<typeof getSingularSelector>[0], owner: unknown): Data {
    const selector = getSingularSelector(fragment, owner);
    if (!selector) throw new Error("There is nothing to look at.");
    return environment.lookup(selector as never).data as Data;
  }

  async function once<Query extends OperationType>(...[query, variables]: [query: Parameters<typeof fetchQuery>[1], variables: Query["variables"]]): Promise<Query["response"]> {
    const data = await fetchQuery<Query>(environment, query, variables, { fetchPolicy: "network-only" }).toPromise();
    if (data === undefined) throw new Error("There was no answer.");
    return data;
  }

  function mutate<Mutation extends MutationParameters>(mutation: Parameters<typeof fetchQuery>[1], variables: Mutation["variables"]): Promise<Mutation["response"]> {
    return new Promise((done, failed) => {
      commitMutation<Mutation>(environment, { mutation, variables, onCompleted: (data, errors) => (errors ? failed(new Error(errors[0]?.message)) : done(data)), onError: failed });
    });
  }

  return {
    async register(input: documentsRegisterMutation["variables"]["input"]) {
      const { registerNodes } = await mutate<documentsRegisterMutation>(registerMutation, { input });
      type Registered = NonNullable<documentsRegisterMutation$data["registerNodes"]>["nodes"][number];
      return { nodes: registerNodes?.nodes.map((node: Registered) => look<documentsNode$data>(nodeFragment, node)), errors: registerNodes?.errors };
    },

    async commission(input: documentsCommissionMutation["variables"]["input"]) {
      const { commissionNodes } = await mutate<documentsCommissionMutation>(commissionMutation, { input });
      const result = commissionNodes?.results[0];
      return { runId: result?.run?.id, error: result?.error, errors: commissionNodes?.errors };
    },

    /** Later pages are added to the same connection, so its first reader sees them. */
    async readAll(ids: readonly string[], count: number) {
      const filter = { ids };
      const fleet = await once<documentsFleetQuery>(fleetQuery, { count, filter });
      const seen = () => look<documentsFleet$data & { readonly nodes: { readonly pageInfo: { readonly endCursor: string | null; readonly hasNextPage: boolean } } }>(fleetFragment, fleet).nodes;
      const sizes = [seen().edges.length];
      for (let { pageInfo } = seen(); pageInfo.hasNextPage; { pageInfo } = seen()) {
        await once<documentsFleetPageQuery>(fleetPageQuery, { count, cursor: pageInfo.endCursor, filter });
        sizes.push(seen().edges.length);
      }
      const nodes = () => seen().edges.map(({ node }) => look<documentsNode$data>(nodeFragment, node));
      return { sizes, totalCount: seen().totalCount, nodes };
    },

    async nodeAgain(id: string) {
      const { fetch__Node: node } = await once<documentsNodeAgainQuery>(nodeAgainQuery, { id });
      return node && look<documentsNode$data>(nodeFragment, node);
    },

    async runAgain(id: string) {
      const { fetch__Run: run } = await once<documentsRunAgainQuery>(runAgainQuery, { id });
      return run && look<documentsRun$data>(runFragment, run);
    },

    /** Collects items until one fits, then unsubscribes. */
    follow(variables: documentsFollowSubscription["variables"], fits: (item: documentsFollowSubscription["response"]["nodeTransitions"]) => boolean) {
      return new Promise<documentsFollowSubscription["response"]["nodeTransitions"][]>((done, failed) => {
        const items: documentsFollowSubscription["response"]["nodeTransitions"][] = [];
        const { dispose } = requestSubscription<documentsFollowSubscription>(environment, {
          subscription: followSubscription,
          variables,
          onNext(data) {
            if (!data) return;
            items.push(data.nodeTransitions);
            if (!fits(data.nodeTransitions)) return;
            dispose();
            done(items);
          },
          onError: failed,
          onCompleted: () => failed(new Error("The stream ended.")),
        });
      });
    },

    close: () => socket.dispose(),
  };
}
