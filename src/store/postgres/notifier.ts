/**
 * The doorbell: tells this process at once, and the others a moment later, that there may be something new to read.
 * It carries no content and may be missed; whoever listens polls as well.
 *
 * Rung after a commit, never inside a transaction: NOTIFY there takes a lock of the whole server at commit and costs two
 * commits of three. At most one notification each 20 ms leaves a process.
 */
import { randomUUID } from "node:crypto";
import type { Database } from "./database.ts";

export interface Notifier extends AsyncDisposable {
  notify(): void;
  /** Calls `listener` after each ring, at most once a turn of the event loop. Returns how to end that. */
  subscribe(listener: () => void): () => void;
}

const CHANNEL = "ostler";
const NOTIFY_EVERY_MS = 20;

export async function createNotifier(database: Database, onError: (error: unknown) => void): Promise<Notifier> {
  const self = randomUUID();
  const listeners = new Set<() => void>();
  let scheduled = false;
  let timer: NodeJS.Timeout | undefined;
  let sending: Promise<void> = Promise.resolve();

  const tell = () => {
    if (scheduled) return;
    scheduled = true;
    setImmediate(() => {
      scheduled = false;
      for (const listener of listeners) listener();
    });
  };
  const heard = (payload: string) => {
    if (payload !== self) tell();
  };
  const send = () => {
    clearTimeout(timer);
    timer = undefined;
    sending = database.notify(CHANNEL, self).catch(onError);
  };
  const listening = await database.listen(CHANNEL, heard, onError);

  return {
    notify() {
      tell();
      timer ??= setTimeout(send, NOTIFY_EVERY_MS);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    async [Symbol.asyncDispose]() {
      listeners.clear();
      // What this process did last is for others to go on with: runs that it has handed back.
      if (timer) send();
      await sending;
      await listening[Symbol.asyncDispose]();
    },
  };
}
