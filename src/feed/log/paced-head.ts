/**
 * The head of a log as streams see it whose items are summed up of many rows, such as the counts of an operation: it
 * advances at once, and then not again for a while, so that such a stream makes few items of many changes. All streams
 * see the same heads, and so read the same pages.
 */
import { createSpacedCalls } from "../../runtime/spaced-calls.ts";
import { Listeners } from "../listeners.ts";

export interface Head {
  readonly position: number;
  /** Calls `listener` when the head has advanced and when the tail ends. */
  onAdvance(listener: () => void): () => void;
}

/** The head of a log, which also says whether the tail has ended. */
export interface LiveHead extends Head {
  readonly isClosed: boolean;
}

export function createPacedHead(head: LiveHead, everyMs: number): Head {
  const listeners = new Listeners();
  let position = 0;
  let leave = () => {};

  const advance = () => {
    position = head.position;
    if (head.isClosed) listeners.notifyAtOnce();
    else listeners.notify();
  };
  const advances = createSpacedCalls(everyMs, advance);
  return {
    get position() {
      return listeners.size === 0 ? head.position : position;
    },
    onAdvance(listener) {
      if (listeners.size === 0) {
        position = head.position;
        leave = head.onAdvance(() => (head.isClosed ? advance() : advances.request()));
      }
      const unsubscribe = listeners.add(listener);
      return () => {
        unsubscribe();
        if (listeners.size > 0) return;
        leave();
        advances.cancel();
      };
    },
  };
}
