/**
 * A Yoga plugin that ends server-sent events without `complete` when the process shuts down. A client takes a completed
 * stream for finished; a connection that ends without it is opened again, at the next process.
 */
import type { ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import type { Plugin } from "graphql-yoga";
import type { Services } from "../graphql/base/context.ts";

/**
 * graphql-sse 2.6.1 waits forever if the connection ends together with the last item. So the end follows it, in
 * milliseconds.
 */
const END_AFTER_MS = 100;

export function leaveEventsOpen({ tail }: Services): Plugin {
  return {
    onResultProcess({ result, setResult, serverContext }) {
      const { res } = serverContext as { readonly res?: ServerResponse };
      if (res && Symbol.asyncIterator in result) setResult(withoutComplete(result, res, () => tail.closed));
    },
  };
}

function withoutComplete<Item>(
  stream: AsyncIterable<Item>,
  response: ServerResponse,
  isShuttingDown: () => boolean,
): AsyncIterable<Item> {
  const source = stream[Symbol.asyncIterator]();
  return {
    [Symbol.asyncIterator]: () => ({
      async next() {
        const step = await source.next();
        if (!step.done || !isShuttingDown()) return step;
        await delay(END_AFTER_MS);
        response.end();
        // Yoga would send `complete`. It forgets the stream when the response is closed.
        return new Promise<never>(() => {});
      },
      return: async () => (await source.return?.()) ?? { done: true, value: undefined },
    }),
  };
}
