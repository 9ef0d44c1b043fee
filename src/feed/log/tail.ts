/**
 * The tail of the log: one reader of new transitions per process, for all its streams. It reads after each notification
 * and, in case one was lost, once a second, and keeps the newest rows in memory. A stream near the head takes rows from
 * memory; one that is behind reads the table. No stream has a queue. Facts of nodes and snapshots are shared between
 * streams as well.
 */
import type { Log } from "../../log.ts";
import { noopObserver } from "../../observer.ts";
import type { Observer } from "../../observer.ts";
import type { Notifier } from "../../store/postgres/notifier.ts";
import type { Database } from "../../store/postgres/database.ts";
import { nodeFacts } from "../../store/nodes/node-facts.ts";
import type { NodeFacts } from "../../store/nodes/node-facts.ts";
import { newestCursor, transitionsAfter } from "../../store/log/transitions.ts";
import type { TransitionRow } from "../../store/log/transitions.ts";
import { auditAfter, newestAudit, numberAudit } from "../../store/log/audit.ts";
import type { AuditRow } from "../../store/log/audit.ts";
import { createNumberedTail } from "./numbered-tail.ts";
import type { NumberedTail } from "./numbered-tail.ts";
import { createChangeTail } from "./change-tail.ts";
import type { ChangeTail } from "./change-tail.ts";
import { createFacts } from "../facts.ts";
import { Listeners } from "../listeners.ts";
import { LogReader } from "./log-reader.ts";
import { createSnapshots } from "./snapshots.ts";
import type { Snapshots } from "./snapshots.ts";
import { createTurns } from "./turns.ts";
import type { Turns } from "./turns.ts";

type AuditTail = Pick<NumberedTail<AuditRow>, "live" | "recent" | "numberAll">;

export interface Tail extends AsyncDisposable {
  /** Position of the newest transition that this process has seen. */
  readonly head: number;
  /** True when the tail has ended because the process shuts down. */
  readonly closed: boolean;
  /** Up to `limit` rows after a position; null if they are not in memory any more. */
  recent(after: number, limit: number): readonly TransitionRow[] | null;
  /** Facts of the node of each of these recent rows, in their order; null for a deleted node. */
  facts(rows: readonly TransitionRow[]): Promise<readonly (NodeFacts | null)[]>;
  /** Claims a snapshot. Snapshots are taken in the order of the requests. */
  readonly snapshot: Snapshots;
  /** The tail of the log of changes. */
  readonly changes: ChangeTail;
  /** The tail of the audit. */
  readonly audit: AuditTail;
  /** Turns of the streams that catch up. */
  readonly turns: Turns;
  /** Calls `listener` when the head has advanced and when the tail ends. */
  onAdvance(listener: () => void): () => void;
  /** Calls `listener` when any row may have been written and when the tail ends. */
  onWrite(listener: () => void): () => void;
  /** Counts a stream that ends with a reset of this code. */
  onReset(code: string): void;
  /** Ends all streams with a reset. */
  close(): void;
}

const POLL_MS = 1_000;

interface TailParts {
  readonly database: Database;
  readonly notifier: Notifier;
  readonly log: Log;
  readonly observer?: Observer;
}

export async function createTail(parts: TailParts): Promise<Tail> {
  const { database, notifier, log, observer = noopObserver } = parts;
  const writeListeners = new Listeners();
  const reader = new LogReader<TransitionRow>(
    {
      log,
      rowsAfter: (after, limit) => transitionsAfter(database.reader, { after, limit }),
      onRows: (rows) => rows.slice(-1).forEach(({ at }) => observer.streamLag((Date.now() - at.getTime()) / 1_000)),
    },
    await newestCursor(database.reader),
  );
  const changes = createChangeTail({ database, log });
  const audit = createNumberedTail<AuditRow>({
    number: (limit) => numberAudit(database.reader, limit),
    newest: () => newestAudit(database.reader),
    rowsAfter: (after, limit) => auditAfter(database.reader, { after, limit }),
    log,
  });
  const facts = createFacts((ids) => nodeFacts(database.reader, ids));
  const look = () => {
    if (reader.isClosed) return;
    writeListeners.notify();
    reader.readNew();
    changes.look();
    audit.look();
  };
  const unsubscribe = notifier.subscribe(look);
  const poll = setInterval(() => {
    look();
    changes.poll();
    audit.poll();
  }, POLL_MS);
  const close = () => {
    reader.close();
    changes.close();
    audit.close();
    writeListeners.notifyAtOnce();
  };
  return {
    get head() {
      return reader.newest.position;
    },
    get closed() {
      return reader.isClosed;
    },
    recent: (after, limit) => reader.recent(after, limit),
    facts: (rows) => facts(rows, reader.newest.position),
    snapshot: createSnapshots(database),
    changes,
    audit,
    turns: createTurns({ isBusy: () => database.isWriting() }),
    onAdvance: (listener) => reader.advanceListeners.add(listener),
    onWrite: (listener) => writeListeners.add(listener),
    onReset: (code) => observer.streamReset(code),
    close,
    async [Symbol.asyncDispose]() {
      unsubscribe();
      clearInterval(poll);
      close();
      await Promise.all([reader.settled(), changes.settled(), audit.settled()]);
    },
  };
}
