/**
 * A client may use an id again as soon as it has completed the operation that had it. graphql-ws 6.4 knows operations by
 * their ids alone: when the earlier one ends only now, it takes the later one for itself, tells the client that it is
 * complete, and forgets it, so that it goes on for nobody, for ever. So the later one waits until the earlier has ended,
 * and whatever else is said of that id waits behind it.
 *
 * And what a client has completed is not over: a query goes on to its end. So operations are counted until they have
 * ended, and one beyond the number that a socket may have waits too, with all that is said of its id. Of those that the
 * client has not completed itself, graphql-ws knows; they refuse another one, and none waits for them. An operation that
 * is completed while it waits is not begun.
 */

/** Messages of one id that wait at the most; a client that sends more is not meant well. */
const WAITING_MAX = 100;

interface Message {
  readonly text: string;
  readonly isSubscribe: boolean;
}

export interface Handler {
  /** Handles a message; of a `subscribe` until its operation has ended. Does not reject. */
  handle(text: string): Promise<void>;
  /** Whether an operation goes on that was not completed by its client. */
  isLive(id: string): boolean;
  /** How many of these there are. */
  liveCount(): number;
  /** Whether an operation waits for the end of others: nothing more needs to be read meanwhile. */
  onFull(isFull: boolean): void;
  /** More messages wait than anybody needs. */
  onSurplus(): void;
}

/** Takes messages in the order they come; `operationsMax` operations go on at a time. */
export function withReusedIds(
  { handle, isLive, liveCount, onFull, onSurplus }: Handler,
  operationsMax: number,
): (text: string) => void {
  const running = new Map<string, Promise<void>>();
  const lines = new Map<string, Message[]>();

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

  async function passInTurn(id: string, line: Message[]): Promise<void> {
    for (let [first] = line; first; [first] = line) {
      if (mustWait(id, first)) {
        if (isFull()) onFull(true);
        await (running.get(id) ?? Promise.race(running.values()));
      } else {
        line.shift();
        pass(id, first);
      }
    }
    lines.delete(id);
  }

  return (text) => {
    const { id, isSubscribe, isComplete } = read(text);
    const message = { text, isSubscribe };
    const line = id === null ? undefined : lines.get(id);
    if (isComplete && line?.at(-1)?.isSubscribe) line.pop();
    else if (line && line.length >= WAITING_MAX) onSurplus();
    else if (line) line.push(message);
    else if (id === null || !mustWait(id, message)) pass(id, message);
    else {
      const begun = [message];
      lines.set(id, begun);
      void passInTurn(id, begun);
    }
  };
}

/** What a message says of itself, if it is one; what is wrong with it is for graphql-ws to say. */
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
