/** The connection to a server that says nothing, on a clock that the tests advance. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { connect, followChanges } from "../../packages/client/src/index.ts";
import { typed } from "../support/client-documents.ts";

const COUNTS = typed<{ nodeCountChanges: { totalCount: number } }, object>(
  "subscription Counts { nodeCountChanges(by: [{ field: STATE }]) { totalCount } }",
);

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A server that acknowledges connections, answers their subscription, and says nothing more; later not even that. */
function silent(acknowledged: number) {
  let made = 0;
  return class Silent extends EventTarget {
    static readonly CONNECTING = 0;
    static readonly OPEN = 1;
    static readonly CLOSING = 2;
    static readonly CLOSED = 3;
    readyState = Silent.CONNECTING as number;
    onopen: () => void = () => {};
    onmessage: (event: { readonly data: string }) => void = () => {};
    constructor() {
      super();
      if ((made += 1) > acknowledged) return;
      this.readyState = Silent.OPEN;
      queueMicrotask(() => this.onopen());
    }
    send(text: string) {
      const { type, id } = JSON.parse(text) as { type: string; id: string };
      const answer = (message: object) => queueMicrotask(() => this.onmessage({ data: JSON.stringify(message) }));
      if (type === "connection_init") answer({ type: "connection_ack" });
      if (type === "subscribe") answer({ id, type: "next", payload: { data: { counts: { totalCount: 1 } } } });
    }
    close() {
      this.readyState = Silent.CLOSED;
    }
  };
}

test("the live flag falls within 15 seconds with the default intervals [R-795]", async () => {
  const connection = connect({ url: "ws://silent.example/graphql", webSocketImpl: silent(1) });
  const counts = followChanges(connection, COUNTS, {});
  const end = counts.subscribe(() => {});
  const begunAt = Date.now();
  await vi.advanceTimersByTimeAsync(200);
  expect(counts.getSnapshot()).toMatchObject({ isLive: true, value: { totalCount: 1 } });
  await vi.advanceTimersByTimeAsync(14_500);
  expect(counts.getSnapshot()).toMatchObject({ isLive: false, value: { totalCount: 1 }, error: null });
  const { state, since } = connection.getSnapshot();
  expect(state).toBe("broken");
  // The age of the data is that of the last sign of life.
  expect(since.getTime() - begunAt).toBeLessThan(200);
  end();
});

test("a connection that is not established in 10 seconds is tried again", async () => {
  const connection = connect({ url: "ws://silent.example/graphql", webSocketImpl: silent(0) });
  let attempts = 0;
  connection.client.on("connecting", () => void (attempts += 1));
  const end = followChanges(connection, COUNTS, {}).subscribe(() => {});
  await vi.advanceTimersByTimeAsync(31_000);
  expect(attempts).toBeGreaterThan(2);
  expect(connection.getSnapshot().state).toBe("broken");
  end();
});
