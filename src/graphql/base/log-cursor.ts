/** Cursors of the logs as text. connection.ts reads them. */
import type { AuditCursor } from "../../store/log/audit.ts";
import { newestChange } from "../../store/log/changes.ts";
import type { ChangeCursor } from "../../store/log/changes.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { newestCursor } from "../../store/log/transitions.ts";
import type { LogCursor } from "../../store/log/transitions.ts";

const PREFIX = { CHANGES: "c", AUDIT: "a" };

/**
 * A cursor of a log as text: `284-mf3k2a9x` of the log of transitions, `c993-mf3k2a9y` of the log of changes,
 * `a17-mf3k2aa0` of the audit.
 */
export function logCursorText(cursor: LogCursor | ChangeCursor | AuditCursor): string {
  const { position, at } = cursor;
  return `${"log" in cursor ? PREFIX[cursor.log] : ""}${at === null ? position : `${position}-${at.getTime().toString(36)}`}`;
}

/** The cursor of lists: both logs as of the moment at which the reader sees the database. */
export async function cursorOfLists(reader: Reader): Promise<string> {
  const both = await Promise.all([newestCursor(reader), newestChange(reader)]);
  return both.map(logCursorText).join("~");
}
