/** The log of a run as a store. It follows from its first subscriber until the last one has left. */
import type { Connection } from "./connection.ts";
import { createStore } from "./store.ts";
import type { Store } from "./store.ts";
import { openStream } from "./stream.ts";

export interface LogLine {
  readonly at: string;
  readonly attempt: number;
  /** As `interface.name`. */
  readonly step: string;
  readonly text: string;
}

export interface LogView {
  /** The newest lines, oldest first. */
  readonly lines: readonly LogLine[];
  /** Number of earlier lines that are no longer kept. */
  readonly droppedCount: number;
  /** Why nothing more follows; null while the stream continues. It continues after a connection loss. */
  readonly error: Error | null;
}

type Item = (LogLine & { readonly cursor: string }) | { readonly code: string };

const QUERY = `subscription RunLog($id: ID!, $after: String) {
  runLog(id: $id, after: $after) {
    __typename
    ... on LogLine { cursor at attempt step text }
    ... on StreamReset { cursor code }
  }
}`;
const THROTTLE_MS = 100;
const LINES_MAX = 100_000;

/** `id`: global ID or UUID of the run. `linesMax`: number of lines that are kept. */
export function followRunLog(connection: Connection, id: string, linesMax = LINES_MAX): Store<LogView> {
  let lines: LogLine[] = [];
  let shown: readonly LogLine[] = [];
  let droppedCount = 0;
  let cursor: string | null = null;
  let error: Error | null = null;

  function look(): LogView {
    if (shown.length !== lines.length || shown.at(-1) !== lines.at(-1)) shown = [...lines];
    return { lines: shown, droppedCount, error };
  }

  function add(line: LogLine & { readonly cursor: string }): void {
    lines.push(line);
    ({ cursor } = line);
    if (lines.length < linesMax * 1.1) return;
    droppedCount += lines.length - linesMax;
    lines = lines.slice(-linesMax);
  }

  const { changed, ...store } = createStore(look, THROTTLE_MS, (signal) => {
    error = null;
    const end = openStream(connection, QUERY, {
      begin: () => ({ id, after: cursor }),
      take(item: Item) {
        if (!("code" in item)) add(item);
        changed();
      },
      lost() {},
      // The run is final, and its whole log has arrived.
      completed: () => end(),
      failed(cause) {
        error = cause;
        changed();
      },
    });
    signal.addEventListener("abort", end);
  });
  return store;
}
