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
import { newestCursor, transitionsAfter } from "../../store/log/transitions.ts";
import type { TransitionRow } from "../../store/log/transitions.ts";
import { auditAfter, newestAudit, numberAudit } from "../../store/log/audit.ts";
import type { AuditRow } from "../../store/log/audit.ts";
import { createNumberedTail } from "./numbered-tail.ts";
import { createChangeTail } from "./change-tail.ts";
import { createFacts } from "../facts.ts";
import { Listeners } from "../listeners.ts";
import { LogReader } from "./log-reader.ts";
import { SharedAnswers } from "./shared-answers.ts";
import { createSnapshots } from "./snapshots.ts";
import { createTurns } from "./turns.ts";

export type Tail = Awaited<ReturnType<typeof createTail>>;

const POLL_MS = 1_000;

interface TailParts {
  readonly database: Database;
  readonly notifier: Notifier;
  readonly log: Log;
  readonly observer?: Observer;
}

export async function createTail(parts: TailParts) {
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
    /** Position of the newest transition that this process has seen. */
    get head(): number {
      return reader.newest.position;
    },
    /** True when the tail has ended because the process shuts down. */
    get closed(): boolean {
      return reader.isClosed;
    },
    /** Up to `limit` rows after a position; null if they are not in memory any more. */
    recent: (after: number, limit: number) => reader.recent(after, limit),
    /** Facts of the node of each of these recent rows, in their order; null for a deleted node. */
    facts: (rows: readonly TransitionRow[]) => facts(rows, reader.newest.position),
    /** Claims a snapshot. Snapshots are taken in the order of the requests. */
    snapshot: createSnapshots(database),
    /** The tail of the log of changes. */
    changes,
    /** Answers that streams follow. */
    answers: new SharedAnswers(database.reader, changes.live),
    /** The tail of the audit. */
    audit,
    /** Turns of the streams that catch up. */
    turns: createTurns({ isBusy: () => database.isWriting() }),
    /** Calls `listener` when the head has advanced and when the tail ends. */
    onAdvance: (listener: () => void) => reader.advanceListeners.add(listener),
    /** Calls `listener` when any row may have been written and when the tail ends. */
    onWrite: (listener: () => void) => writeListeners.add(listener),
    /** Counts a stream that ends with a reset of this code. */
    onReset: (code: string) => observer.streamReset(code),
    /** Ends all streams with a reset. */
    close,
    async [Symbol.asyncDispose](): Promise<void> {
      unsubscribe();
      clearInterval(poll);
      close();
      await Promise.all([reader.settled(), changes.settled(), audit.settled()]);
    },
  };
}
