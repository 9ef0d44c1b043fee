/** The store of watched nodes without React: its views, when it watches, and how often it publishes. */
import { afterAll, afterEach, expect, test, vi } from "vitest";
import { WebSocket } from "ws";
import { createNodeStore } from "../../packages/client/src/index.ts";
import type { NodeStoreOptions, NodesView } from "../../packages/client/src/index.ts";
import { cutter } from "../support/cutter.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest } from "../support/service.ts";

const TOKEN = "hunter2";
const ostler = await serviceUnderTest({ token: TOKEN });
afterAll(() => ostler[Symbol.asyncDispose]());

const stops = new Set<() => void>();
afterEach(async () => {
  for (const stop of stops) stop();
  stops.clear();
  await eventually("no stream is open", () => ostler.listeners() === 0);
});

/** A subscribed store, with every view that it has published. */
function subscribed(options: Partial<NodeStoreOptions> = {}) {
  const store = createNodeStore({ url: `${ostler.url}/graphql`, token: TOKEN, throttleMs: 0, ...options });
  const views: NodesView[] = [];
  const stop = store.subscribe(() => views.push(store.getSnapshot()));
  stops.add(stop);
  return { store, views, stop, isLive: () => eventually("the store is live", () => store.getSnapshot().isLive) };
}

const statesIn = ({ nodes }: NodesView) =>
  Object.fromEntries([...nodes.values()].map(({ name, state }) => [name, state]));

test("a store has all nodes at once and then each change, and earlier views do not change", async () => {
  const names = await ostler.register(2);
  const { store, views, isLive } = subscribed({ filter: { name: { in: names } } });
  expect(store.getSnapshot()).toEqual({ nodes: new Map(), version: 0, isLive: false, cursor: null, error: null });
  await isLive();
  const registered = Object.fromEntries(names.map((name) => [name, "ENROLLED"]));
  expect(statesIn(store.getSnapshot())).toEqual(registered);
  expect(store.getSnapshot()).toBe(store.getSnapshot());
  const before = store.getSnapshot();
  await ostler.commission(names);
  await eventually("the store has all nodes as ACTIVE", () =>
    Object.values(statesIn(store.getSnapshot())).every((state) => state === "ACTIVE"),
  );
  expect(statesIn(before)).toEqual(registered);
  expect(views.map(({ version }) => version)).toEqual(views.map(({ version }) => version).toSorted((a, b) => a - b));
  expect(views.some(({ nodes }) => nodes.size === 1)).toBe(false);
});

test("a store publishes at most once in its interval, however many items arrive", async () => {
  const names = await ostler.register(3);
  const { store, views, stop } = subscribed({ throttleMs: 3_600_000 });
  await eventually("the first view is published", () => views.length > 0);
  await ostler.commission(names);
  expect(views).toHaveLength(1);
  stop();
  expect(store.getSnapshot().version).toBeGreaterThan(views[0]?.version ?? Infinity);
});

test("a store watches from its first subscriber until the last one has left, and again for the next one", async () => {
  let sockets = 0;
  const { store, stop, isLive } = subscribed({
    webSocketImpl: class extends WebSocket {
      constructor(...given: ConstructorParameters<typeof WebSocket>) {
        super(...given);
        sockets += 1;
      }
    },
  });
  const other = store.subscribe(() => {});
  stops.add(other);
  await isLive();
  stop();
  stop();
  expect([store.getSnapshot().isLive, ostler.listeners()]).toEqual([true, 1]);
  other();
  expect(store.getSnapshot()).toMatchObject({ isLive: false, error: null });
  expect(store.getSnapshot().nodes.size).toBeGreaterThan(0);
  await eventually("the stream is closed", () => ostler.listeners() === 0);
  stops.add(store.subscribe(() => {}));
  await isLive();
  expect(sockets).toBe(2);
});

test("a store whose connection breaks keeps its nodes, is not live meanwhile, and continues", async () => {
  await using proxy = await cutter(ostler.url);
  const onBreak = vi.fn<() => void>();
  const { store, views, isLive } = subscribed({ url: `${proxy.url}/graphql`, firstPauseMs: 20, onBreak });
  await isLive();
  const before = store.getSnapshot();
  proxy.cut();
  await eventually("the store has noticed", () => views.some((view) => view.nodes === before.nodes && !view.isLive));
  const [name = ""] = await ostler.register(1);
  await eventually("the store has the new node", () => statesIn(store.getSnapshot())[name] === "ENROLLED");
  await isLive();
  expect(onBreak).toHaveBeenCalled();
  expect(views.every(({ error }) => error === null)).toBe(true);
});

test("a store whose watch is refused has the error, and starts again without it for the next subscriber", async () => {
  let token = "wrong";
  const { store, stop, isLive } = subscribed({ token: () => token });
  await eventually("the error is published", () => store.getSnapshot().error !== null);
  expect(store.getSnapshot().error).toMatchObject({ name: "WatchError", code: "REFUSED" });
  expect(store.getSnapshot().error?.message).toContain("The token is missing or wrong.");
  stop();
  token = TOKEN;
  stops.add(store.subscribe(() => {}));
  await isLive();
  expect(store.getSnapshot().error).toBeNull();
});
