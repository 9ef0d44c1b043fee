/**
 * Wakes up readers when there may be new rows: those of this process at once, those of other replicas a moment later. A
 * notification has no content and may be lost, so every subscriber polls as well.
 *
 * It is sent after a commit, never inside a transaction: NOTIFY takes a lock of the whole server at commit and costs
 * two commits out of three. A process sends one at once, and further ones 20 ms apart.
 */
import { randomUUID } from "node:crypto";
import { createSpacedCalls } from "../../runtime/spaced-calls.ts";
import type { Database } from "./database.ts";

export interface Notifier extends AsyncDisposable {
  notify(): void;
  /**
   * Calls `listener` after notifications, at most once per turn of the event loop, or once for all notifications within
   * `delayMs`. Returns a function that unsubscribes.
   */
  subscribe(listener: () => void, delayMs?: number): () => void;
}

const CHANNEL = "ostler";
const NOTIFY_EVERY_MS = 20;

export async function createNotifier(
  database: Pick<Database, "listen" | "notify">,
  onError: (error: unknown) => void,
): Promise<Notifier> {
  const self = randomUUID();
  const listeners = new Set<() => void>();
  let isScheduled = false;
  let sending: Promise<void> = Promise.resolve();

  const wakeUp = () => {
    if (isScheduled) return;
    isScheduled = true;
    setImmediate(() => {
      isScheduled = false;
      for (const listener of listeners) listener();
    });
  };
  const receive = (payload: string) => {
    if (payload !== self) wakeUp();
  };
  const sends = createSpacedCalls(NOTIFY_EVERY_MS, () => {
    sending = database.notify(CHANNEL, self).catch(onError);
  });
  const listening = await database.listen(CHANNEL, receive, onError);

  return {
    notify() {
      wakeUp();
      sends.request();
    },
    subscribe(listener, delayMs) {
      let timer: NodeJS.Timeout | undefined;
      const callLater = () => {
        timer ??= setTimeout(() => {
          timer = undefined;
          listener();
        }, delayMs);
      };
      const woken = delayMs === undefined ? listener : callLater;
      listeners.add(woken);
      return () => {
        listeners.delete(woken);
        clearTimeout(timer);
      };
    },
    async [Symbol.asyncDispose]() {
      listeners.clear();
      // Other replicas continue what this process committed last: the runs that it released.
      sends.flush();
      await sending;
      await listening[Symbol.asyncDispose]();
    },
  };
}
