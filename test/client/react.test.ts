/** The hook `useNodes` in React DOM. Its components render nothing, so a document without elements is enough. */
import { StrictMode, createElement } from "react";
import { createRoot } from "react-dom/client";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { WebSocket } from "ws";
import { useNodes } from "../../packages/client/src/react.ts";
import type { NodeStoreOptions, NodesView } from "../../packages/client/src/react.ts";
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
  await eventually("no stream is open", () => ostler.listeners() === 0);
});

/** A mounted component that uses the hook, with what it has rendered and the sockets that it has opened. */
function mounted(first: Partial<NodeStoreOptions> = {}, { strict = false } = {}) {
  const views: NodesView[] = [];
  const urls: string[] = [];
  class CountedSocket extends WebSocket {
    constructor(...given: ConstructorParameters<typeof WebSocket>) {
      super(...given);
      urls.push(String(given[0]));
    }
  }
  function Nodes({ options }: { readonly options: NodeStoreOptions }) {
    views.push(useNodes(options));
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
  const render = (options: Partial<NodeStoreOptions>) => {
    const url = `${ostler.url}/graphql`;
    const given = { url, token: TOKEN, webSocketImpl: CountedSocket, throttleMs: 10, ...options };
    const element = createElement(Nodes, { options: given });
    root.render(strict ? createElement(StrictMode, null, element) : element);
  };
  render(first);
  const unmount = () => root.unmount();
  unmounts.add(unmount);
  return { views, urls, render, unmount, isLive: () => eventually("it is live", () => views.at(-1)?.isLive === true) };
}

const namesIn = (view: NodesView | undefined) => [...(view?.nodes.values() ?? [])].map(({ name }) => name).toSorted();

test.each([
  { mode: "", strict: false },
  { mode: " in strict mode, which mounts twice,", strict: true },
])("a component with useNodes$mode renders nodes and their changes over one socket", async ({ strict }) => {
  const [name = ""] = await ostler.register(1);
  const { views, urls, unmount, isLive } = mounted({ filter: { name: { eq: name } } }, { strict });
  expect(views).toEqual([]);
  await isLive();
  expect(views[0]).toEqual({ nodes: new Map(), version: 0, isLive: false, cursor: null, error: null });
  expect(namesIn(views.at(-1))).toEqual([name]);
  await ostler.commission([name]);
  await eventually("the node is rendered as ACTIVE", () =>
    [...(views.at(-1)?.nodes.values() ?? [])].some(({ state }) => state === "ACTIVE"),
  );
  expect(views.at(-1)?.cursor).not.toBeNull();
  expect(urls).toHaveLength(1);
  unmount();
  await eventually("the stream is closed", () => ostler.listeners() === 0);
});

test("useNodes keeps its watch for new objects with the same content, and starts another for other content", async () => {
  const [one = "", other = ""] = await ostler.register(2);
  const token = vi.fn<() => string>(() => TOKEN);
  const { views, urls, render, isLive } = mounted({ filter: { name: { in: [one] } }, token: () => token() });
  await isLive();
  for (let index = 0; index < 3; index += 1) {
    const rendered = views.length;
    render({ filter: { name: { in: [one] } }, token: () => token() });
    await eventually("it is rendered", () => views.length > rendered);
  }
  expect([urls.length, token.mock.calls.length, ostler.listeners()]).toEqual([1, 1, 1]);
  const latest = vi.fn<() => Promise<string>>(() => Promise.resolve(TOKEN));
  render({ filter: { name: { in: [other] } }, token: latest });
  await eventually("the other node is rendered", () => namesIn(views.at(-1)).join() === other);
  await eventually("the earlier stream is closed", () => ostler.listeners() === 1);
  expect([urls.length, token.mock.calls.length, latest.mock.calls.length]).toEqual([2, 1, 1]);
});

test("useNodes returns the error of a refused watch", async () => {
  const { views } = mounted({ token: "wrong" });
  await eventually("the error is rendered", () => views.at(-1)?.error !== null && views.length > 0);
  expect(views.at(-1)).toMatchObject({ error: { code: "REFUSED", closeCode: 4403 }, isLive: false });
});
