/** Cursors of the logs as text. connection.ts reads them. */
import { newestChange } from "../../store/log/changes.ts";
import type { ChangeCursor } from "../../store/log/changes.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { newestCursor } from "../../store/log/transitions.ts";
import type { LogCursor } from "../../store/log/transitions.ts";

/** A cursor of a log as text: `284-mf3k2a9x` of the log of transitions, `c993-mf3k2a9y` of the log of changes. */
export function logCursorText(cursor: LogCursor | ChangeCursor): string {
  const { position, at } = cursor;
  return `${"log" in cursor ? "c" : ""}${at === null ? position : `${position}-${at.getTime().toString(36)}`}`;
}

/** The cursor of lists: both logs as of the moment at which the reader sees the database. */
export async function cursorOfLists(reader: Reader): Promise<string> {
  const both = await Promise.all([newestCursor(reader), newestChange(reader)]);
  return both.map(logCursorText).join("~");
}
