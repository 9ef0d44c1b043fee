/**
 * Subject `changes`: the fan-out of `nodeChanges` against that of `nodeTransitions` (fan-out.ts), in the same minute:
 * subscribers with ten different filters, each of which every node matches. Both receive the same writes, because a
 * transition is a change of its node.
 */
import { measureFanOut, printFanOuts } from "./fan-out.ts";
import type { FanOutRow } from "./fan-out.ts";
import type { Subscription } from "./stream-clients.ts";
import type { Testbed } from "./testbed.ts";

const FILTERS = 10;
const STREAMS = {
  nodeTransitions:
    "subscription Of($filter: NodeFilter) { nodeTransitions(filter: $filter) { __typename ... on Transition { cursor uuid: nodeUuid sequence nodeName from to event at } ... on StreamBookmark { caughtUp } } }",
  nodeChanges:
    "subscription Of($filter: NodeFilter) { nodeChanges(filter: $filter) { __typename ... on NodeUpserted { cursor changed node { uuid sequence: transitionCount name state stage } at } ... on StreamBookmark { caughtUp } } }",
} as const;

function subscriptionsOf(query: string): readonly Subscription[] {
  return Array.from({ length: FILTERS }, (_, index) => ({
    query,
    variables: { filter: { not: { labels: [{ key: "filter", value: String(index) }] } } },
  }));
}

export async function measureChanges(
  testbed: Testbed,
  { subscribers, events }: { readonly subscribers: readonly number[]; readonly events: number },
): Promise<void> {
  console.log(`  ${events} transitions each, from commit to subscriber, ${FILTERS} filters`);
  for (const count of subscribers) {
    const measure = async (name: keyof typeof STREAMS): Promise<FanOutRow> => ({
      name,
      subscribers: count,
      figures: await measureFanOut(testbed, {
        subscriptions: subscriptionsOf(STREAMS[name]),
        subscribers: count,
        events,
      }),
    });
    printFanOuts([await measure("nodeChanges"), await measure("nodeTransitions")]);
  }
}
