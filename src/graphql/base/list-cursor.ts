/** The cursor of lists: both logs as of the moment at which the reader sees the database. */
import { newestChange } from "../../store/changes.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { newestCursor } from "../../store/transitions.ts";
import { bothCursorsText } from "./log-cursor.ts";

export async function cursorOfLists(reader: Reader): Promise<string> {
  const [transition, change] = await Promise.all([newestCursor(reader), newestChange(reader)]);
  return bothCursorsText(transition, change);
}
