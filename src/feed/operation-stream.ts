/**
 * The stream of one operation: its present state first, then each run that changed, until the operation has ended. It
 * sends states, not changes: a run that changes twice between two reads is sent once, with its last state. So a client
 * that reconnects needs no cursor.
 */
import type { Database } from "../store/postgres/database.ts";
import { operationsByIds } from "../store/operations.ts";
import type { OperationRow } from "../store/operations.ts";
import { runsChangedSince } from "../store/runs.ts";
import type { RunRow } from "../store/runs.ts";
import type { LogCursor } from "../store/transitions.ts";
import { createPace } from "./pace.ts";
import { pulled } from "./pull.ts";
import type { Tail } from "./tail.ts";

export interface OperationUpdate {
  /** The update contains everything up to this cursor. */
  readonly cursor: LogCursor;
  readonly operation: OperationRow;
  /** The run that changed; null if the operation itself did. */
  readonly run: RunRow | null;
}

const PAGE = 200;
const READ_EVERY_MS = 100;
const POLL_MS = 1_000;
/**
 * A change has its time before it is committed. Reads overlap by this much to find changes that were committed late.
 */
const OVERLAP_MS = 10_000;

export function operationStream(
  parts: { readonly database: Database; readonly tail: Tail },
  operationId: string,
): AsyncIterableIterator<OperationUpdate> {
  const { database, tail } = parts;
  const known = new Map<string, number>();
  let sentRevision = -1;
  let isOver = false;
  const pace = createPace(tail, READ_EVERY_MS);
  let since: Date | null = null;

  /** Runs whose revision was not sent yet: among those that changed recently, or in the whole operation. */
  async function changes(all: boolean): Promise<RunRow[]> {
    const changed: RunRow[] = [];
    let page: { readonly updatedAt: Date; readonly id: string } | null =
      since && !all ? { updatedAt: new Date(since.getTime() - OVERLAP_MS), id: "" } : null;
    for (;;) {
      const rows = await runsChangedSince(database.reader, operationId, page, PAGE);
      for (const run of rows) {
        if (known.get(run.id) !== run.revision) changed.push(run);
        known.set(run.id, run.revision);
        since = run.updatedAt;
      }
      const last = rows.at(-1);
      if (!last || rows.length < PAGE) return changed;
      page = last;
    }
  }

  return pulled({
    onChange: tail.onWrite,
    async produce() {
      if (isOver) return [];
      if (pace.restMs > 0) return { pauseMs: pace.restMs };
      pace.look();
      // Read first: a client that continues from it in the log may receive changes twice, but misses none.
      const cursor = tail.newest;
      const [operation] = await operationsByIds(database.reader, [operationId]);
      if (!operation) return [];
      const first = sentRevision < 0;
      // At the end all runs are read: changes may look old if the clock of the database was set back.
      const changed = await changes(operation.finishedAt !== null);
      const runs = first ? [] : changed;
      const items: OperationUpdate[] = runs.map((run) => ({ cursor, operation, run }));
      if (operation.revision !== sentRevision) items.push({ cursor, operation, run: null });
      sentRevision = operation.revision;
      isOver = operation.finishedAt !== null || tail.closed;
      return items.length > 0 || isOver ? items : { pauseMs: POLL_MS };
    },
  });
}
