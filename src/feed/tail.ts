/**
 * The tail of the log: one reader of new transitions per process, for all its streams. It reads after each notification and,
 * in case one was lost, once a second, and keeps the newest rows in memory. A stream near the head takes rows from memory; one
 * that is behind reads the table. No stream has a queue. Facts of nodes and snapshots are shared between streams as well.
 */
import type { Log } from "../log.ts";
import { noopObserver } from "../observer.ts";
import type { Observer } from "../observer.ts";
import type { Notifier } from "../store/postgres/notifier.ts";
import type { Database } from "../store/postgres/database.ts";
import { nodeFacts } from "../store/node-facts.ts";
import type { NodeFacts } from "../store/node-facts.ts";
import type { NodeFilter } from "../store/node-filter.ts";
import { newestPosition, transitionsAfter } from "../store/transitions.ts";
import type { TransitionRow } from "../store/transitions.ts";
import { createFacts } from "./facts.ts";
import { createSnapshots } from "./snapshots.ts";
import type { Claim } from "./snapshots.ts";

export interface Tail extends AsyncDisposable {
  /** Position of the newest transition that this process has seen. */
  readonly head: number;
  /** True when the tail has ended because the process shuts down. */
  readonly closed: boolean;
  /** Up to `limit` rows after a position; null if they are not in memory any more. */
  recent(after: number, limit: number): readonly TransitionRow[] | null;
  /** Facts of the node of each of these recent rows, in their order; null for a deleted node. */
  facts(rows: readonly TransitionRow[]): Promise<readonly (NodeFacts | null)[]>;
  /** Claims a snapshot of all matching nodes. Snapshots are taken in the order of the requests. */
  snapshot(filter: NodeFilter | undefined): Claim;
  /** Calls `listener` when the head has advanced and when the tail ends. */
  onAdvance(listener: () => void): () => void;
  /** Calls `listener` when any row may have been written and when the tail ends. */
  onWrite(listener: () => void): () => void;
  /** Counts a stream that ends with a reset of this code. */
  onReset(code: string): void;
  /** Ends all streams with a reset. */
  close(): void;
}

const RING_SIZE = 8_192;
const PAGE = 500;
const POLL_MS = 1_000;

export async function createTail(parts: {
  readonly database: Database;
  readonly notifier: Notifier;
  readonly log: Log;
  readonly observer?: Observer;
}): Promise<Tail> {
  const { database, notifier, log, observer = noopObserver } = parts;
  const advanceListeners = new Set<() => void>();
  const writeListeners = new Set<() => void>();
  let head = await newestPosition(database.reader);
  let recentRows: TransitionRow[] = [];
  let closed = false;
  let reading: Promise<void> | null = null;
  let again = false;

  const notifyAll = (listeners: ReadonlySet<() => void>) => {
    for (const listener of listeners) listener();
  };

  async function read(): Promise<void> {
    do {
      again = false;
      const rows = await transitionsAfter(database.reader, { after: head, limit: PAGE });
      const [newest] = rows.slice(-1);
      if (newest) {
        recentRows.push(...rows);
        if (recentRows.length > 2 * RING_SIZE) recentRows = recentRows.slice(-RING_SIZE);
        head = newest.position;
        observer.streamLag((Date.now() - newest.at.getTime()) / 1_000);
        notifyAll(advanceListeners);
      }
      if (rows.length === PAGE) again = true;
    } while (again && !closed);
  }

  function look(): void {
    if (closed) return;
    notifyAll(writeListeners);
    again = true;
    reading ??= read()
      .catch((error: unknown) => log.warn({ err: error }, "the log cannot be read; retrying"))
      .finally(() => {
        reading = null;
      });
  }

  const unsubscribe = notifier.subscribe(look);
  const poll = setInterval(look, POLL_MS);
  const facts = createFacts((ids) => nodeFacts(database.reader, ids));
  const snapshot = createSnapshots(database);
  return {
    get head() {
      return head;
    },
    get closed() {
      return closed;
    },
    recent(after, limit) {
      const [oldest] = recentRows;
      if (after >= head) return [];
      if (!oldest || oldest.position > after + 1) return null;
      // Positions have no holes, so the index follows from the position.
      const from = after + 1 - oldest.position;
      return recentRows.slice(from, from + limit);
    },
    facts: (rows) => facts(rows, head),
    snapshot,
    onAdvance(listener) {
      advanceListeners.add(listener);
      return () => void advanceListeners.delete(listener);
    },
    onWrite(listener) {
      writeListeners.add(listener);
      return () => void writeListeners.delete(listener);
    },
    onReset: (code) => observer.streamReset(code),
    close() {
      closed = true;
      notifyAll(advanceListeners);
      notifyAll(writeListeners);
    },
    async [Symbol.asyncDispose]() {
      closed = true;
      unsubscribe();
      clearInterval(poll);
      notifyAll(advanceListeners);
      notifyAll(writeListeners);
      await reading;
    },
  };
}
