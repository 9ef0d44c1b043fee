/**
 * Subject `changes`: the fan-out of `nodeChanges` against that of `nodeTransitions` (fan-out.ts), in the same minute:
 * subscribers with ten different filters, each of which every node matches. Both receive the same writes, because a
 * transition is a change of its node.
 */
import { measureFanOut } from "./fan-out.ts";
import type { FanOutFigures } from "./fan-out.ts";
import { printTable, shown } from "./figures.ts";
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
  const rows: string[][] = [];
  for (const count of subscribers) {
    const measure = (query: string) =>
      measureFanOut(testbed, { subscriptions: subscriptionsOf(query), subscribers: count, events });
    const transitions = await measure(STREAMS.nodeTransitions);
    const changes = await measure(STREAMS.nodeChanges);
    const ratio = (of: (figures: FanOutFigures) => number | null) =>
      shown((of(changes) ?? Number.NaN) / (of(transitions) ?? Number.NaN), 2);
    rows.push(rowOf(`${count}, nodeTransitions`, transitions, count), rowOf(`${count}, nodeChanges`, changes, count), [
      `${count}, ratio`,
      ratio(({ p50 }) => p50),
      ratio(({ p99 }) => p99),
      ratio(({ worst }) => worst),
      ratio(({ cpu }) => cpu),
      ratio(({ cpu }) => cpu),
      ratio(({ postgresCpu }) => postgresCpu),
      ratio(({ rss }) => rss),
      ratio(({ subscriberKb }) => subscriberKb),
      "",
    ]);
  }
  console.log(`  ${events} transitions each, from commit to subscriber, ${FILTERS} filters`);
  printTable(
    [
      "subscribers",
      "p50 ms",
      "p99 ms",
      "worst ms",
      "CPU ms per event",
      "CPU µs per delivery",
      "PostgreSQL ms per event",
      "RSS MB",
      "kB per subscriber",
      "missing",
    ],
    rows,
  );
}

function rowOf(name: string, figures: FanOutFigures, count: number): string[] {
  const { p50, p99, worst, cpu, postgresCpu, rss, subscriberKb, missing } = figures;
  return [
    name,
    shown(p50),
    shown(p99),
    shown(worst),
    shown(cpu),
    shown(cpu === null ? null : (cpu * 1_000) / count),
    shown(postgresCpu, 2),
    shown(rss, 0),
    shown(subscriberKb, 0),
    String(missing),
  ];
}
