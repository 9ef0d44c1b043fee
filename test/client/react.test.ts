/** The hooks in React DOM. Their components render nothing, so a document without elements is enough. */
import { StrictMode, createElement } from "react";
import { createRoot } from "react-dom/client";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { WebSocket } from "ws";
import { connect } from "../../packages/client/src/index.ts";
import type { Connection, ItemsView, NodeFilter, ValueView } from "../../packages/client/src/index.ts";
import { useChanges, useNodes } from "../../packages/client/src/react.ts";
import { ROW, typed } from "../support/client-documents.ts";
import type { Row } from "../support/client-documents.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest } from "../support/service.ts";

const TOKEN = "hunter2";
const ostler = await serviceUnderTest({ token: TOKEN });
const events = { addEventListener() {}, removeEventListener() {} };
beforeAll(() => {
  // React DOM asks whether its container is in a frame; any class will do. The process ends with the file, and React
  // works after its last unmount.
  vi.stubGlobal("window", globalThis);
  vi.stubGlobal("HTMLIFrameElement", WebSocket);
});
afterAll(() => ostler[Symbol.asyncDispose]());

const unmounts = new Set<() => void>();
afterEach(async () => {
  for (const unmount of unmounts) unmount();
  unmounts.clear();
  await eventually("no stream is open", () => ostler.changeListeners() === 0);
});

const COUNTS = typed<{ counts: { totalCount: number } }, { filter: NodeFilter }>(
  "subscription Counts($filter: NodeFilter) { counts: nodeCountChanges(by: [{ field: STATE }], filter: $filter) { totalCount } }",
);

/** A mounted component that uses the hooks, with what it has rendered and the number of sockets that it has opened. */
function mounted(first: NodeFilter, { strict = false, token = TOKEN } = {}) {
  const views: ItemsView<Row>[] = [];
  const counts: ValueView<{ totalCount: number }>[] = [];
  const sockets: unknown[] = [];
  class CountedSocket extends WebSocket {
    constructor(...given: ConstructorParameters<typeof WebSocket>) {
      super(...given);
      sockets.push(this);
    }
  }
  const connection: Connection = connect({ url: `${ostler.url}/graphql`, token, webSocketImpl: CountedSocket });
  function Nodes({ filter }: { readonly filter: NodeFilter }) {
    views.push(useNodes(connection, ROW, { filter }));
    counts.push(useChanges(connection, COUNTS, { filter }));
    return null;
  }
  const root = createRoot({
    nodeType: 1,
    nodeName: "DIV",
    tagName: "DIV",
    namespaceURI: "http://www.w3.org/1999/xhtml",
    ownerDocument: { nodeType: 9, ...events },
    ...events,
  } as unknown as Element);
  const render = (filter: NodeFilter) => {
    const element = createElement(Nodes, { filter });
    root.render(strict ? createElement(StrictMode, null, element) : element);
  };
  render(first);
  const unmount = () => root.unmount();
  unmounts.add(unmount);
  const isLive = () => eventually("it is live", () => views.at(-1)?.isLive === true && counts.at(-1)?.isLive === true);
  return { views, counts, sockets, render, unmount, isLive };
}

const namesIn = (view: ItemsView<Row> | undefined) => [...(view?.items.values() ?? [])].map(({ name }) => name);

test.each([
  { mode: "", strict: false },
  { mode: " in strict mode, which mounts twice,", strict: true },
])(
  "a component with two hooks$mode renders nodes, counts and their changes over one socket [R-797]",
  async ({ strict }) => {
    const [name = ""] = await ostler.register(1);
    const { views, counts, sockets, unmount, isLive } = mounted({ name: { eq: name } }, { strict });
    expect(views).toEqual([]);
    await isLive();
    expect(views[0]).toEqual({ items: new Map(), isWhole: false, isLive: false, error: null });
    expect(counts[0]).toEqual({ value: null, isLive: false, error: null });
    expect([namesIn(views.at(-1)), counts.at(-1)?.value]).toEqual([[name], { totalCount: 1 }]);
    await ostler.query(
      `mutation Maintain($name: String!) { setMaintenance(input: { nodes: { names: [$name] }, reason: "fan" }) { errors { message } } }`,
      { name },
    );
    await eventually("the maintenance is rendered", () =>
      [...(views.at(-1)?.items.values() ?? [])].some(({ maintenance }) => maintenance?.reason === "fan"),
    );
    expect([sockets.length, ostler.changeListeners()]).toEqual([1, 1]);
    unmount();
    await eventually("the stream is closed", () => ostler.changeListeners() === 0);
  },
);

test("hooks keep their streams for variables with the same content, and show the earlier nodes until others are there [R-797]", async () => {
  const [one = "", other = ""] = await ostler.register(2);
  const { views, counts, sockets, render, isLive } = mounted({ name: { in: [one] } });
  await isLive();
  for (let index = 0; index < 3; index += 1) {
    const rendered = views.length;
    render({ name: { in: [one] } });
    await eventually("it is rendered", () => views.length > rendered);
  }
  expect(views.at(-1)).toBe(views.at(-2));
  const before = views.length;
  render({ name: { in: [one, other] } });
  await eventually("the other node is rendered", () => namesIn(views.at(-1)).length === 2);
  await isLive();
  expect(views.slice(before).every((view) => namesIn(view).includes(one))).toBe(true);
  expect(views[before]).toMatchObject({ isWhole: false, isLive: false });
  expect(counts.slice(before).every(({ value }) => value !== null)).toBe(true);
  await eventually("the earlier stream is closed", () => ostler.changeListeners() === 1);
  expect(sockets).toHaveLength(1);
});

test("hooks return the error of a refused stream", async () => {
  const { views } = mounted({ name: { eq: "x" } }, { token: "wrong" });
  await eventually("the error is rendered", () => views.at(-1)?.error !== null && views.length > 0);
  expect(views.at(-1)).toMatchObject({ error: { name: "WatchError", closeCode: 4403 }, isLive: false });
});
