/** Results of a subscription that are sent to their socket without the loop of graphql-ws. */
import type { ExecutionResult } from "graphql";
import { describe, expect, test } from "vitest";
import { SentResults } from "../../src/http/graphql/sent-results.ts";
import type { Receiver } from "../../src/runtime/requests.ts";

/** A source of which the test decides when it has a result. */
function sourceOf() {
  const requests: PromiseWithResolvers<IteratorResult<ExecutionResult>>[] = [];
  let isClosed = false;
  return {
    requests,
    isClosed: () => isClosed,
    give: (n: number) => requests.at(-1)?.resolve({ done: false, value: { data: { n } } }),
    end: () => requests.at(-1)?.resolve({ done: true, value: undefined }),
    source: {
      next() {
        const request = Promise.withResolvers<IteratorResult<ExecutionResult>>();
        requests.push(request);
        return request.promise;
      },
      return() {
        isClosed = true;
        return Promise.resolve({ done: true as const, value: undefined });
      },
    },
  };
}

const settled = () => new Promise(setImmediate);

describe("results sent to a socket", () => {
  test("results are sent in order, and the stream ends with its source", async () => {
    const from = sourceOf();
    const sent: unknown[] = [];
    const ended = new SentResults(from.source, ({ data }) => void sent.push(data?.["n"])).next();
    for (const n of [1, 2, 3]) {
      from.give(n);
      await settled();
    }
    expect(sent).toEqual([1, 2, 3]);
    from.end();
    expect(await ended).toEqual({ done: true, value: undefined });
    expect(from.requests).toHaveLength(4);
  });

  test("a result that a source gives without a promise is sent at once, and the next one requested", async () => {
    const receivers: Receiver<ExecutionResult>[] = [];
    const source = {
      ...sourceOf().source,
      request: (receiver: Receiver<ExecutionResult>) => void receivers.push(receiver),
    };
    const sent: unknown[] = [];
    const ended = new SentResults(source, ({ data }) => void sent.push(data?.["n"])).next();
    receivers[0]?.resolve({ done: false, value: { data: { n: 1 } } });
    expect(sent).toEqual([1]);
    expect(receivers).toHaveLength(2);
    receivers[1]?.reject(new Error("the source failed"));
    await expect(ended).rejects.toThrow("the source failed");
  });

  test("the next result is requested only when the socket is ready for it", async () => {
    const from = sourceOf();
    const ready = Promise.withResolvers<void>();
    void new SentResults(from.source, () => ready.promise).next();
    from.give(1);
    await settled();
    expect(from.requests).toHaveLength(1);
    ready.resolve();
    await settled();
    expect(from.requests).toHaveLength(2);
  });

  test("a result that arrives after the client has completed the subscription is not sent", async () => {
    const from = sourceOf();
    const sent: unknown[] = [];
    const results = new SentResults(from.source, (result) => void sent.push(result));
    const ended = results.next();
    await results.return();
    expect(from.isClosed()).toBe(true);
    from.give(1);
    expect((await ended).done).toBe(true);
    expect(sent).toEqual([]);
  });

  test("a result that cannot be sent ends the stream with its error, and closes the source", async () => {
    const from = sourceOf();
    const ended = new SentResults(from.source, () => {
      throw new Error("has no text");
    }).next();
    from.give(1);
    await expect(ended).rejects.toThrow("has no text");
    expect(from.isClosed()).toBe(true);
  });

  test("an error of the source ends the stream with that error", async () => {
    const from = sourceOf();
    const ended = new SentResults(from.source, () => undefined).next();
    from.requests[0]?.reject(new Error("the source failed"));
    await expect(ended).rejects.toThrow("the source failed");
  });
});
