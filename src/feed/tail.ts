/**
 * The tail of the log: one reader of new transitions in each process, however many streams there are. It wakes by the
 * doorbell and, in case the doorbell was missed, once a second, and keeps the newest rows in a ring. A stream that is
 * near the head reads the ring; one that has fallen behind reads the table. Nothing queues up for anybody. What many
 * streams ask at the same time, facts of nodes and snapshots, is read once for them as well.
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
  /** Whether the tail has ended: the process is leaving. */
  readonly closed: boolean;
  /** Up to `limit` rows after a position, or null when the ring does not reach back that far. */
  recent(after: number, limit: number): readonly TransitionRow[] | null;
  /** Facts of the node of each of these recent rows, in their order; null where it is deleted. */
  facts(rows: readonly TransitionRow[]): Promise<readonly (NodeFacts | null)[]>;
  /** Claims a snapshot: every matching node and the position they are as of. Its turn comes in the order of asking. */
  snapshot(filter: NodeFilter | undefined): Claim;
  /** Calls `listener` when the head has moved and when the tail ends. */
  onAdvance(listener: () => void): () => void;
  /** Calls `listener` when anything may have been written, a transition or not, and when the tail ends. */
  onWrite(listener: () => void): () => void;
  /** A stream is ended before its time, with a reset of this code. */
  onReset(code: string): void;
  /** Ends every stream with a last word. */
  close(): void;
}

const RING_SIZE = 8_192;
const PAGE = 500;
const POLL_MS = 1_000;

export async function createTail(parts: {
  readonly database: Database;
  readonly bell: Notifier;
  readonly log: Log;
  readonly observer?: Observer;
}): Promise<Tail> {
  const { database, bell, log, observer = noopObserver } = parts;
  const advanceListeners = new Set<() => void>();
  const writeListeners = new Set<() => void>();
  let head = await newestPosition(database.reader);
  let ring: TransitionRow[] = [];
  let closed = false;
  let reading: Promise<void> | null = null;
  let again = false;

  const tell = (listeners: ReadonlySet<() => void>) => {
    for (const listener of listeners) listener();
  };

  async function read(): Promise<void> {
    do {
      again = false;
      const rows = await transitionsAfter(database.reader, { after: head, limit: PAGE });
      const [newest] = rows.slice(-1);
      if (newest) {
        ring.push(...rows);
        if (ring.length > 2 * RING_SIZE) ring = ring.slice(-RING_SIZE);
        head = newest.position;
        observer.streamLag((Date.now() - newest.at.getTime()) / 1_000);
        tell(advanceListeners);
      }
      if (rows.length === PAGE) again = true;
    } while (again && !closed);
  }

  function look(): void {
    if (closed) return;
    tell(writeListeners);
    again = true;
    reading ??= read()
      .catch((error: unknown) => log.warn({ err: error }, "the log cannot be read; trying again"))
      .finally(() => {
        reading = null;
      });
  }

  const unring = bell.subscribe(look);
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
      const [oldest] = ring;
      if (after >= head) return [];
      if (!oldest || oldest.position > after + 1) return null;
      // Positions have no holes, so a place in the ring follows from a position.
      const from = after + 1 - oldest.position;
      return ring.slice(from, from + limit);
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
      tell(advanceListeners);
      tell(writeListeners);
    },
    async [Symbol.asyncDispose]() {
      closed = true;
      unring();
      clearInterval(poll);
      tell(advanceListeners);
      tell(writeListeners);
      await reading;
    },
  };
}
