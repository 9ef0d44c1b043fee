/**
 * A Yoga plugin: cuts a stream of server-sent events of which nobody takes anything. Yoga writes a sign of life every 12
 * seconds where there is room for it, so a connection on which nothing moves is one whose reader has stopped, or is gone
 * without a word. Its stream costs little, but it would for ever.
 */
import type { ServerResponse } from "node:http";
import type { Plugin } from "graphql-yoga";
import { noopObserver } from "../observer.ts";
import type { Observer } from "../observer.ts";

/** So long nothing may have moved when it is looked at, as often. */
const STALLED_MS = 30_000;

export function cutStalledEvents(stalledMs = STALLED_MS, observer: Observer = noopObserver): Plugin {
  return {
    onResultProcess({ result, serverContext }) {
      const { res } = serverContext as { readonly res?: ServerResponse };
      if (res?.socket && Symbol.asyncIterator in result)
        cutWhenStalled(res, stalledMs, () => observer.streamReset("STALLED"));
    },
  };
}

/** Not by the socket's own time-out: Yoga switches that off for streams. */
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
