/**
 * Subject `streams`: the fan-out of `nodeTransitions` to 1 to 5,000 subscribers of one service (fan-out.ts).
 *
 * Then with 500 accounts of four roles in place of one: what callers with the same access receive is executed once.
 *
 * Compared in the same minute with subscribers that each send a different document, so that each event is executed for
 * each of them, as Yoga does; and with a bare broadcast of rows over `ws`, without GraphQL.
 */
import { measureFanOut, printFanOuts } from "./fan-out.ts";
import type { FanOutRow } from "./fan-out.ts";
import type { Subscription } from "./stream-clients.ts";
import type { Testbed } from "./testbed.ts";

const CALLERS = 500;
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
  console.log(`  ${events} transitions each, from commit to subscriber`);
  for (const count of subscribers) {
    const rows: FanOutRow[] = [];
    for (const way of WAYS) {
      const figures = await measureFanOut(testbed, {
        ...(way === "bare ws broadcast" && { broadcast: "bare-broadcast.ts" }),
        subscriptions: subscriptionsOf(way, count),
        subscribers: count,
        events,
      });
      rows.push({ name: way, subscribers: count, figures });
    }
    printFanOuts(rows);
    const ofCallers = async (callers: number): Promise<FanOutRow> => ({
      name: `${callers} accounts`,
      subscribers: count,
      figures: await measureFanOut(testbed, {
        subscriptions: subscriptionsOf("shared (Ostler)", count),
        subscribers: count,
        callers,
        events,
      }),
    });
    printFanOuts([await ofCallers(CALLERS), await ofCallers(1)]);
  }
}
