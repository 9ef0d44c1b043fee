/**
 * A Yoga plugin for streams of server-sent events.
 *
 * - The events of one turn of the event loop leave in one write. Writing stops at the limit of the response's buffer,
 *   so a client that does not read holds no more than before.
 * - A stream whose client reads nothing is cut. Yoga writes a ping every 12 seconds if the connection accepts it, so a
 *   connection without any progress has a stalled or vanished reader.
 * - A stream whose client disconnected before its first event ends. Yoga ends a stream when its response closes, and
 *   does not notice that it was closed while the stream began.
 * - When the process shuts down, streams end without `complete`: a client takes a completed stream for finished, and
 *   opens a connection that ends without it again, at the next process.
 */
import type { ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import type { Plugin } from "graphql-yoga";
import { noopObserver } from "../../observer.ts";
import type { Observer } from "../../observer.ts";
import { Cork } from "../sockets/corked.ts";

/** Interval of the check, and the time without progress after which a stream is cut, in milliseconds. */
const STALLED_MS = 30_000;
/**
 * graphql-sse 2.6.1 waits forever if the connection ends together with the last item. So the end follows it, in
 * milliseconds.
 */
const END_AFTER_MS = 100;

interface EventStreamOptions {
  readonly isShuttingDown: () => boolean;
  readonly observer?: Observer | undefined;
  readonly stalledMs?: number;
}

export function eventStreams({
  isShuttingDown,
  observer = noopObserver,
  stalledMs = STALLED_MS,
}: EventStreamOptions): Plugin {
  return {
    onResultProcess({ result, setResult, serverContext }) {
      const { res } = serverContext as { readonly res?: ServerResponse };
      if (!res || !(Symbol.asyncIterator in result)) return;
      if (res.destroyed) void result[Symbol.asyncIterator]().return?.();
      if (res.socket) {
        cutWhenStalled(res, stalledMs, () => observer.streamReset("STALLED"));
        joinWrites(res, res.socket);
      }
      setResult(withoutComplete(result, res, isShuttingDown));
    },
  };
}

/** Not a socket timeout: Yoga disables that for streams. */
function cutWhenStalled(response: ServerResponse, stalledMs: number, onCut: () => void): void {
  const { socket } = response;
  let written = socket?.bytesWritten;
  const timer = setInterval(() => {
    if (socket?.bytesWritten === written && !socket?.destroyed) {
      onCut();
      socket?.destroy();
    }
    written = socket?.bytesWritten;
  }, stalledMs);
  timer.unref();
  response.once("close", () => clearInterval(timer));
}

function joinWrites(response: ServerResponse, socket: NonNullable<ServerResponse["socket"]>): void {
  // Not the response: when it is uncorked, it writes each of its parts alone.
  const cork = new Cork(socket);
  const write = response.write.bind(response) as (...given: unknown[]) => boolean;
  response.write = (...given: unknown[]) => {
    cork.hold();
    return write(...given);
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
