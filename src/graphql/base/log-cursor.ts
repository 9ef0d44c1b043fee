/** Cursors of the logs as text. */
import type { ChangeCursor } from "../../store/changes.ts";
import type { LogCursor } from "../../store/transitions.ts";

/** A cursor of a log as text: `284-mf3k2a9x` of the log of transitions, `c993-mf3k2a9y` of the log of changes. */
export function logCursorText(cursor: LogCursor | ChangeCursor): string {
  const { position, at } = cursor;
  return `${"log" in cursor ? "c" : ""}${at === null ? position : `${position}-${at.getTime().toString(36)}`}`;
}

/** The cursor of a list: both logs as of the moment at which it was read. */
export function bothCursorsText(transition: LogCursor, change: ChangeCursor): string {
  return `${logCursorText(transition)}~${logCursorText(change)}`;
}
