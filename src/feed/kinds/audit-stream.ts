/** The stream of the audit: from a cursor or from now on, without a gap and without a repetition (stream.ts). */
import type { Awaitable } from "../../runtime/awaitable.ts";
import { AUDIT_LOG, auditAfter, auditCursor } from "../../store/log/audit.ts";
import type { AuditCursor, AuditFilter, AuditRow } from "../../store/log/audit.ts";
import type { Database } from "../../store/postgres/database.ts";
import { BATCH, streamOf } from "../stream.ts";
import type { Bookmark, LogPage, Reset, Source } from "../stream.ts";
import { logTable } from "../log/log-table.ts";
import type { LogRange } from "../log/log-table.ts";
import type { Tail } from "../log/tail.ts";

interface EntryItem {
  readonly kind: "entry";
  readonly cursor: AuditCursor;
  readonly row: AuditRow;
}

export type AuditStreamItem = EntryItem | Bookmark<AuditCursor> | Reset<AuditCursor>;

interface AuditStreamRequest {
  readonly filter?: AuditFilter | undefined;
  /** Cursor of the last item received; absent: from now on. */
  readonly after?: AuditCursor | undefined;
}

/** Positions that one statement of a filtered stream reads, which bounds its duration. */
const WINDOW = 10_000;

export function auditStream(
  { database: { reader }, tail }: { readonly database: Database; readonly tail: Tail },
  { filter, after }: AuditStreamRequest,
): AsyncIterableIterator<AuditStreamItem> {
  const { live, recent, numberAll } = tail.audit;
  const table = logTable(reader, auditCursor, AUDIT_LOG);

  async function readTable({ position }: AuditCursor, newest: number): Promise<LogPage<EntryItem, AuditCursor> | null> {
    const until = filter ? Math.min(newest, position + WINDOW) : newest;
    const rowsIn = (range: LogRange) => auditAfter(reader, { ...range, filter });
    const page = await table.page(position, { until, limit: BATCH, rowsIn });
    return page && { items: page.rows.map(entryItem), cursor: page.cursor };
  }

  const source: Source<never, EntryItem, AuditCursor> = {
    ...table,
    get head() {
      return live.position;
    },
    onAdvance: live.onAdvance,
    isRecent: (position) => recent(position, 1) !== null,
    async newest() {
      await numberAll();
      return table.newest();
    },
    async check(cursor) {
      await numberAll();
      return table.check(cursor);
    },
    read(from, newest): Awaitable<LogPage<EntryItem, AuditCursor> | null> {
      const rows = filter || newest > live.position ? null : recent(from.position, BATCH);
      if (!rows) return readTable(from, newest);
      return { items: rows.map(entryItem), cursor: auditCursor(rows.at(-1) ?? from) };
    },
    claim() {
      throw new Error("The audit has no snapshot.");
    },
    snapshotItem: (row) => row,
  };
  return streamOf(tail, source, { after, snapshot: false });
}

function entryItem(row: AuditRow): EntryItem {
  return { kind: "entry", cursor: auditCursor(row), row };
}
