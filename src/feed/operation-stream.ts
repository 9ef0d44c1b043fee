/**
 * The stream of one operation: its present state first, then every run that has changed, until the operation has ended.
 * It tells states, not steps between them: a run that changes twice between two looks is told once, as it is then. So it
 * can begin anywhere, and a client that comes back has missed nothing that still matters.
 */
import type { Database } from "../store/postgres/database.ts";
import { operationsByIds } from "../store/operations.ts";
import type { OperationRow } from "../store/operations.ts";
import { runsChangedSince } from "../store/runs.ts";
import type { RunRow } from "../store/runs.ts";
import { createPace } from "./pace.ts";
import { pulled } from "./pull.ts";
import type { Tail } from "./tail.ts";

export interface OperationUpdate {
  /** Everything up to here is in what is told. */
  readonly position: number;
  readonly operation: OperationRow;
  /** The run that changed; null when the operation itself did. */
  readonly run: RunRow | null;
}

const PAGE = 200;
const LOOK_EVERY_MS = 100;
const POLL_MS = 1_000;
/** A change is stamped before it is committed; for so long we look back for ones that came late. */
const OVERLAP_MS = 10_000;

export function operationStream(
  parts: { readonly database: Database; readonly tail: Tail },
  operationId: string,
): AsyncIterableIterator<OperationUpdate> {
  const { database, tail } = parts;
  const known = new Map<string, number>();
  let told = -1;
  let over = false;
  const pace = createPace(tail, LOOK_EVERY_MS);
  let since: Date | null = null;

  /** Runs whose revision is new to the reader: of those changed lately, or of the whole operation. */
  async function changes(whole: boolean): Promise<RunRow[]> {
    const changed: RunRow[] = [];
    let page: { readonly updatedAt: Date; readonly id: string } | null =
      since && !whole ? { updatedAt: new Date(since.getTime() - OVERLAP_MS), id: "" } : null;
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

  return pulled(tail.onWrite, async (patience) => {
    for (;;) {
      if (over) return [];
      await pace.rest(patience);
      if (patience.left) return [];
      pace.look();
      // First: whoever goes on from it in the log may be told again what this already shows, and misses nothing.
      const position = tail.head;
      const [operation] = await operationsByIds(database.reader, [operationId]);
      if (!operation) return [];
      const first = told < 0;
      // At the end once more all: where the database's clock was set back, some changes looked old.
      const changed = await changes(operation.finishedAt !== null);
      const runs = first ? [] : changed;
      const items: OperationUpdate[] = runs.map((run) => ({ position, operation, run }));
      if (operation.revision !== told) items.push({ position, operation, run: null });
      told = operation.revision;
      over = operation.finishedAt !== null || tail.closed;
      if (items.length > 0 || over) return items;
      await patience.wait(POLL_MS);
    }
  });
}
