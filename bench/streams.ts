/**
 * Subject `streams`: the fan-out of `nodeTransitions` to 1 to 5,000 subscribers of one service (fan-out.ts).
 *
 * Compared in the same minute with subscribers that each send a different document, so that each event is executed for
 * each of them, as Yoga does; and with a bare broadcast of rows over `ws`, without GraphQL.
 */
import { measureFanOut } from "./fan-out.ts";
import type { FanOutFigures } from "./fan-out.ts";
import { printTable, shown } from "./figures.ts";
import type { Subscription } from "./stream-clients.ts";
import type { Testbed } from "./testbed.ts";

const WAYS = ["shared (Ostler)", "separate (as Yoga)", "bare ws broadcast"] as const;
type Way = (typeof WAYS)[number];

const subscriptionOf = (name: string): Subscription => ({
  query: `subscription ${name} { nodeTransitions { __typename ... on Transition { cursor uuid: nodeUuid sequence nodeName from to event at } ... on StreamBookmark { caughtUp } } }`,
});

function subscriptionsOf(way: Way, count: number): readonly Subscription[] {
  if (way !== "separate (as Yoga)") return [subscriptionOf("Subscriber")];
  return Array.from({ length: count }, (_, index) => subscriptionOf(`Subscriber${index}`));
}

export async function measureStreams(
  testbed: Testbed,
  { subscribers, events }: { readonly subscribers: readonly number[]; readonly events: number },
): Promise<void> {
  const rows: string[][] = [];
  for (const count of subscribers) {
    const found = new Map<Way, FanOutFigures>();
    for (const way of WAYS) {
      const isBare = way === "bare ws broadcast";
      found.set(
        way,
        await measureFanOut(testbed, {
          ...(isBare && { broadcast: "bare-broadcast.ts" }),
          subscriptions: subscriptionsOf(way, count),
          subscribers: count,
          events,
        }),
      );
    }
    const bare = found.get("bare ws broadcast");
    for (const [way, { p50, p99, worst, cpu, rss, missing }] of found)
      rows.push([
        `${count}, ${way}`,
        shown(p50),
        shown(p99),
        shown(worst),
        shown(cpu),
        shown(cpu === null ? null : (cpu * 1_000) / count),
        shown(rss, 0),
        String(missing),
        shown(p99 / (bare?.p99 ?? Number.NaN), 2),
        shown((cpu ?? Number.NaN) / (bare?.cpu ?? Number.NaN), 2),
      ]);
  }
  console.log(`  ${events} transitions each, from commit to subscriber`);
  printTable(
    [
      "subscribers",
      "p50 ms",
      "p99 ms",
      "worst ms",
      "CPU ms per event",
      "CPU µs per delivery",
      "RSS MB",
      "missing",
      "p99 / bare",
      "CPU / bare",
    ],
    rows,
  );
}
