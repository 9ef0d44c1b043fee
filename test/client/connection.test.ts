/** Whether views of streams are live, on a connection that is lost with and without a word. */
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { connect, followChanges } from "../../packages/client/src/index.ts";
import type { Connection, ItemsView, Store, ValueView } from "../../packages/client/src/index.ts";
import { typed } from "../support/client-documents.ts";
import { cutter } from "../support/cutter.ts";
import type { Cutter } from "../support/cutter.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const DESCRIPTIONS = typed<{ nodeChanges: { node: { id: string; description: string | null } } }, object>(
  `subscription Descriptions($after: String, $snapshot: Boolean!) {
    nodeChanges(after: $after, snapshot: $snapshot) {
      ... on NodeUpserted { cursor node { id description } }
      ... on NodeLeft { cursor id }
      ... on StreamBookmark { cursor snapshotComplete caughtUp }
      ... on StreamReset { cursor code }
    }
  }`,
);
const COUNTS = typed<{ nodeCountChanges: { totalCount: number } }, object>(
  "subscription Counts { nodeCountChanges(by: [{ field: STATE }]) { totalCount } }",
);

/** Follows until the test ends, with every `isLive` that was shown. */
const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});
function shown<View extends { readonly isLive: boolean }>(followed: Store<View>) {
  const flags: boolean[] = [];
  ends.push(followed.subscribe(() => void (flags.at(-1) !== view().isLive && flags.push(view().isLive))));
  const view = () => followed.getSnapshot();
  return { flags, view };
}

/** How a connection is lost; returns what brings it back. */
const LOSSES: Readonly<Record<string, (proxy: Cutter) => () => void>> = {
  "the service is frozen": (proxy) => proxy.stall(),
  "the network drops everything": (proxy) => {
    proxy.forget();
    return () => {};
  },
  "the connection is reset, as by kill -9": (proxy) => {
    proxy.cut();
    return () => {};
  },
};

describe("live flag", () => {
  test.each(Object.keys(LOSSES))(
    "the live flag falls without help of the caller when %s, and rises when the stream has caught up [R-795]",
    async (loss) => {
      await using proxy = await cutter(ostler.url);
      const [name = ""] = await ostler.register(1);
      const intervals = { pingMs: 50, pongMs: 300, connectMs: 500, firstPauseMs: 100, longestPauseMs: 200 };
      const connection: Connection = connect({ url: `${proxy.url}/graphql`, ...intervals });
      const nodes = shown<ItemsView<{ description: string | null }>>(
        followChanges(connection, DESCRIPTIONS, {}, { throttleMs: 0 }),
      );
      const counts = shown<ValueView<{ totalCount: number }>>(followChanges(connection, COUNTS, {}, { throttleMs: 0 }));
      await eventually("both are live", () => nodes.view().isLive && counts.view().isLive);
      const bring = LOSSES[loss]?.(proxy);
      await eventually("neither is live", () => nodes.flags.includes(false) && counts.flags.includes(false));
      expect(nodes.view().items.size).toBeGreaterThan(0);
      await ostler.test.sql`update nodes set description = ${loss} where name = ${name}`;
      bring?.();
      await eventually("both are live again", () => nodes.view().isLive && counts.view().isLive);
      await eventually("the change is shown", () =>
        [...nodes.view().items.values()].some(({ description }) => description === loss),
      );
      for (const { flags } of [nodes, counts]) expect(flags.slice(0, 3)).toEqual([true, false, true]);
      expect(connection.getSnapshot()).toMatchObject({ state: "connected", why: null });
    },
  );

  test("the status of a connection stayed broken when the last stream left in a pause between two attempts: it is idle [R-883]", async () => {
    await using proxy = await cutter(ostler.url);
    const url = `${proxy.url}/graphql`;
    const connection = connect({ url, connectMs: 200, firstPauseMs: 200, longestPauseMs: 200 });
    const state = () => connection.getSnapshot().state;
    ends.push(connection.subscribe(() => {}));
    const leave = followChanges(connection, COUNTS, {}).subscribe(() => {});
    await eventually("it is connected", () => state() === "connected");
    proxy.stall();
    proxy.cut();
    await eventually("it is broken", () => state() === "broken");
    leave();
    await eventually("it is idle", () => state() === "idle");
  });

  test("a connection can be made where it cannot be opened, as on a server that renders pages; a stream says why [R-883]", async () => {
    const connection = connect({ url: "/graphql", token: "t" });
    expect(connection.getSnapshot().state).toBe("idle");
    const { view } = shown<ValueView<unknown>>(followChanges(connection, COUNTS, {}, { throttleMs: 0 }));
    await eventually("the stream has ended", () => view().error !== null);
    expect(view().error?.message).toBe(
      "/graphql is not the address of an API. Use a URL that begins with https, http, wss or ws; a path is enough in a browser.",
    );
  });

  test("an idle connection lives longer than its intervals", async () => {
    const connection = connect({ url: `${ostler.url}/graphql`, pingMs: 20, pongMs: 400 });
    const counts = shown<ValueView<unknown>>(followChanges(connection, COUNTS, {}));
    let pongs = 0;
    connection.client.on("pong", (isReceived) => void (pongs += Number(isReceived)));
    await eventually("there were pings", () => pongs > 10);
    expect(counts.flags).toEqual([true]);
  });
});
