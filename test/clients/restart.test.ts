/**
 * A rolling restart as clients see it: their stream ends with the process, and continues at the next one at the same
 * address.
 */
import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest, takeUntil } from "../support/service.ts";
import { apollo } from "./apollo.ts";
import { endpointOf } from "./client.ts";
import type { ClientUnderTest } from "./client.ts";
import { overEvents, overSocket } from "./plain.ts";
import { urql } from "./urql.ts";

interface Item {
  readonly nodeTransitions: { readonly __typename: string; readonly code?: string; readonly nodeName?: string };
}

const first = await serviceUnderTest({ started: false });
const second = await serviceUnderTest({ started: false });
/** The address of both, as of a load balancer. */
let target = first;
const balancer = createServer((client) => {
  const upstream = connect(Number(new URL(target.url).port), "127.0.0.1");
  client.on("error", () => upstream.destroy());
  upstream.on("error", () => client.destroy());
  client.pipe(upstream).pipe(client);
});
await once(balancer.listen(0, "127.0.0.1"), "listening");
const endpoint = endpointOf(`http://127.0.0.1:${(balancer.address() as AddressInfo).port}`);
const CLIENTS: Readonly<Record<string, ClientUnderTest>> = {
  "Apollo Client": apollo(endpoint, { everythingOverSocket: false }),
  "urql over WebSocket": urql(endpoint, { stream: "WebSocket" }),
  "graphql-ws": overSocket(endpoint),
  "graphql-sse": overEvents(endpoint),
};
const closing = new AsyncDisposableStack();
closing.defer(() => void balancer.close());
closing.defer(() => second[Symbol.asyncDispose]());
closing.defer(() => first[Symbol.asyncDispose]());
// First of all: a client whose service ends would try again.
for (const client of Object.values(CLIENTS)) closing.defer(() => client.close());
afterAll(() => closing.disposeAsync());

const received = new Map<string, Promise<Item[]>>();
beforeAll(async () => {
  for (const [name, { follow }] of Object.entries(CLIENTS)) {
    const items = follow?.<Item>("Follow");
    if (!items) throw new Error(`${name} has no subscriptions.`);
    await takeUntil(items, ({ nodeTransitions }) => nodeTransitions.__typename === "StreamBookmark");
    received.set(
      name,
      takeUntil(items, ({ nodeTransitions }) => nodeTransitions.nodeName === "after-restart"),
    );
  }
  target = second;
  await first.close();
  await eventually("all streams are open again", () => second.listeners() === received.size, 30_000);
  await second.register(["after-restart"]);
}, 60_000);

test.each(Object.keys(CLIENTS))(
  "%s continues its stream after a restart, and ended without an error or a retry [R-240]",
  async (name) => {
    const items = (await received.get(name)) ?? [];
    expect(items.map(({ nodeTransitions: { __typename, code } }) => code ?? __typename)).toEqual([
      "SHUTTING_DOWN",
      "StreamBookmark",
      "Transition",
    ]);
  },
);
