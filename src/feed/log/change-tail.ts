/**
 * The tail of the log of changes, for all streams of changes of a process. It numbers the changes that have committed,
 * then reads what is new.
 *
 * Modes:
 * - idle: no stream. Once a second it numbers what this or another replica has written.
 * - following: there are streams. It numbers and reads after each notification, at most every 20 ms, and once a second
 *   in case one was lost.
 */
import type { Log } from "../../log.ts";
import { createSpacedCalls } from "../../runtime/spaced-calls.ts";
import { changesAfter, newestChange, numberChanges } from "../../store/log/changes.ts";
import type { ChangeRow } from "../../store/log/changes.ts";
import type { Database, Reader } from "../../store/postgres/database.ts";
import { clustersByIds } from "../../store/nodes/clusters.ts";
import type { ClusterRow } from "../../store/nodes/clusters.ts";
import { operationsByIds } from "../../store/operations/operations.ts";
import type { OperationRow } from "../../store/operations/operations.ts";
import { runsByIds } from "../../store/runs/runs.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import { createKnownRows, createKnownRowsAlone } from "./known-rows.ts";
import type { KnownRow, KnownRows } from "./known-rows.ts";
import { LogReader } from "./log-reader.ts";
import { knownNodes } from "../kinds/node-changes.ts";
import type { KnownNode } from "../kinds/node-changes.ts";
import { createPacedHead } from "./paced-head.ts";
import type { Head } from "./paced-head.ts";
import { createSharedPages } from "./shared-pages.ts";
import type { SharedPages } from "./shared-pages.ts";

/** Objects of each kind as streams read them. */
export interface KnownObjects {
  readonly nodes: KnownRows<KnownNode>;
  readonly operations: KnownRows<KnownRow<OperationRow>>;
  readonly runs: KnownRows<KnownRow<RunRow>>;
  readonly clusters: KnownRows<KnownRow<ClusterRow>>;
}

export interface ChangeTail {
  /** The newest change that this process has seen; behind while there is no stream. */
  readonly live: Head;
  /** The same for streams whose items sum up many changes. */
  readonly paced: Head;
  /** Up to `limit` rows after a position; null if they are not in memory any more. */
  recent(after: number, limit: number): readonly ChangeRow[] | null;
  /** Objects as streams read them, shared. */
  readonly known: KnownObjects;
  /** Items of pages, shared by streams with equal requests. */
  readonly pages: SharedPages;
}

/** A tail as its owner drives it. */
export interface DrivenChangeTail extends ChangeTail {
  /** There may be changes. */
  look(): void;
  /** A second has passed. */
  poll(): void;
  close(): void;
  settled(): Promise<void>;
}

/** The position of the log is locked for as long as this many take, about 20 ms. */
const NUMBERED_AT_ONCE = 1_000;
/** Each numbering is a transaction. */
const NUMBER_EVERY_MS = 20;
/** Counts of an operation are read for each of its items. */
const PACE_MS = 200;

function knownObjects(reader: Reader): KnownObjects {
  return {
    nodes: createKnownRows((ids) => knownNodes(reader, ids)),
    operations: createKnownRowsAlone((ids) => operationsByIds(reader, ids)),
    runs: createKnownRowsAlone((ids) => runsByIds(reader, ids)),
    clusters: createKnownRowsAlone((ids) => clustersByIds(reader, ids)),
  };
}

export function createChangeTail({
  database,
  log,
}: {
  readonly database: Database;
  readonly log: Log;
}): DrivenChangeTail {
  // What was written while there was no stream is read from the table, by those who ask for it.
  let isIdle = true;
  let numbering: Promise<void> | null = null;
  const numberAll = async () => {
    while ((await numberChanges(database.reader, NUMBERED_AT_ONCE)) === NUMBERED_AT_ONCE && !reader.isClosed);
  };
  const reader = new LogReader<ChangeRow>(
    {
      log,
      onRows: () => {},
      async rowsAfter(after, limit) {
        await numberAll();
        if (isIdle) {
          const newest = await newestChange(database.reader);
          isIdle = false;
          reader.skipTo(newest);
          return [];
        }
        return changesAfter(database.reader, { after, limit });
      },
    },
    { position: 0, at: null },
  );
  const reads = createSpacedCalls(NUMBER_EVERY_MS, () => {
    if (!reader.isClosed) reader.readNew();
  });
  const look = () => {
    if (!reader.isClosed && reader.advanceListeners.size > 0) reads.request();
  };
  const live = {
    get position() {
      return isIdle ? 0 : reader.newest.position;
    },
    get isClosed() {
      return reader.isClosed;
    },
    onAdvance(listener: () => void) {
      const unsubscribe = reader.advanceListeners.add(listener);
      look();
      return unsubscribe;
    },
  };
  return {
    live,
    paced: createPacedHead(live, PACE_MS),
    recent: (after, limit) => (isIdle ? null : reader.recent(after, limit)),
    known: knownObjects(database.reader),
    pages: createSharedPages(),
    look,
    poll() {
      if (reader.isClosed) return;
      if (reader.advanceListeners.size > 0) return look();
      isIdle = true;
      // One at a time: while the position is locked elsewhere, each would hold a connection.
      numbering ??= numberAll()
        .catch((error: unknown) => log.warn({ err: error }, "changes cannot be numbered; retrying"))
        .finally(() => {
          numbering = null;
        });
    },
    close() {
      reads.cancel();
      reader.close();
    },
    async settled() {
      await Promise.all([reader.settled(), numbering]);
    },
  };
}
