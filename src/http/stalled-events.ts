/**
 * A Yoga plugin that closes streams of server-sent events whose client reads nothing. Yoga writes a ping every 12
 * seconds if the connection accepts it, so a connection without any progress has a stalled or vanished reader.
 */
import type { ServerResponse } from "node:http";
import type { Plugin } from "graphql-yoga";
import { noopObserver } from "../observer.ts";
import type { Observer } from "../observer.ts";

/** Interval of the check, and the time without progress after which a stream is closed, in milliseconds. */
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
