/**
 * Delays messages of a socket whose ID is still in use.
 *
 * A client may reuse an ID as soon as it has completed the operation. graphql-ws 6.4.2 knows operations by ID only:
 * when the earlier operation ends, graphql-ws takes the later one for it, reports it as complete and forgets it, so
 * that it continues without a receiver, indefinitely. This was reproduced with a subscription that is completed and
 * subscribed again at once; no upstream issue is known. So the later operation waits until the earlier has ended, and
 * further messages of its ID wait behind it.
 *
 * An operation that a client completes is not over: a query runs to its end. So operations count until they have ended,
 * and one beyond the limit of a socket waits, with all messages of its ID. graphql-ws itself counts operations that the
 * client has not completed, and rejects more; no message waits for those. An operation that is completed while it waits
 * is not started.
 */

/** Limit of waiting messages per ID; a client that exceeds it is disconnected. */
const WAITING_MAX = 100;

interface Message {
  readonly text: string;
  readonly isSubscribe: boolean;
}

export interface Handler {
  /** Handles a message. For a `subscribe` it settles when the operation has ended. Does not reject. */
  handle(text: string): Promise<void>;
  /** True while an operation runs that its client has not completed. */
  isLive(id: string): boolean;
  /** Number of such operations. */
  liveCount(): number;
  /** Called with true while an operation waits for the end of others; the socket need not be read meanwhile. */
  onFull(isFull: boolean): void;
  /** Called when more messages wait than the limit. */
  onSurplus(): void;
}

/**
 * Returns a function that takes messages in the order of their arrival. At most `operationsMax` operations run at a
 * time.
 */
export function withReusedIds(
  { handle, isLive, liveCount, onFull, onSurplus }: Handler,
  operationsMax: number,
): (text: string) => void {
  const running = new Map<string, Promise<void>>();
  const queues = new Map<string, Message[]>();

  function pass(id: string | null, { text, isSubscribe }: Message): void {
    const ended = handle(text);
    if (id === null || !isSubscribe) return;
    running.set(id, ended);
    void ended.then(() => {
      if (running.get(id) === ended) running.delete(id);
      if (!isFull()) onFull(false);
    });
  }

  const isFull = () => running.size >= operationsMax && liveCount() < operationsMax;
  const mustWait = (id: string, { isSubscribe }: Message) =>
    isSubscribe && ((running.has(id) && !isLive(id)) || isFull());

  async function passInOrder(id: string, queue: Message[]): Promise<void> {
    for (let [first] = queue; first; [first] = queue) {
      if (mustWait(id, first)) {
        if (isFull()) onFull(true);
        await (running.get(id) ?? Promise.race(running.values()));
      } else {
        queue.shift();
        pass(id, first);
      }
    }
    queues.delete(id);
  }

  return (text) => {
    const { id, isSubscribe, isComplete } = read(text);
    const message = { text, isSubscribe };
    const queue = id === null ? undefined : queues.get(id);
    if (isComplete && queue?.at(-1)?.isSubscribe) queue.pop();
    else if (queue && queue.length >= WAITING_MAX) onSurplus();
    else if (queue) queue.push(message);
    else if (id === null || !mustWait(id, message)) pass(id, message);
    else {
      const started = [message];
      queues.set(id, started);
      void passInOrder(id, started);
    }
  };
}

/** Header of a message. graphql-ws rejects malformed ones. */
function read(text: string): {
  readonly id: string | null;
  readonly isSubscribe: boolean;
  readonly isComplete: boolean;
} {
  try {
    const { id, type } = JSON.parse(text) as { readonly id?: unknown; readonly type?: unknown };
    return {
      id: typeof id === "string" ? id : null,
      isSubscribe: type === "subscribe",
      isComplete: type === "complete",
    };
  } catch {
    return { id: null, isSubscribe: false, isComplete: false };
  }
}
