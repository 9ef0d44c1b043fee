/**
 * The stream of one run's log: every line from the first, or from a cursor, until the run has ended and all its lines
 * were sent. Lines are numbered in the order of their commits without holes, so a reader that reconnects with its last
 * cursor misses no line and receives none twice.
 *
 * Modes: replay (page after page, in turns with other streams that catch up), then live (a read after each write, ten
 * per second at most). The stream ends with the run, or with a reset if the cursor is not from this log, the access of
 * the caller has changed, or the process shuts down.
 */
import type { Database } from "../../store/postgres/database.ts";
import { plansByHashes } from "../../store/runs/plans.ts";
import { runsByIds } from "../../store/runs/runs.ts";
import { linesAfter, newestLine } from "../../store/runs/step-log.ts";
import type { StepLogRow } from "../../store/runs/step-log.ts";
import type { LogCursor } from "../../store/log/transitions.ts";
import type { ResetReason } from "../kinds/node-stream.ts";
import { createPace } from "../pace.ts";
import { pulled } from "../pull.ts";
import type { Tail } from "./tail.ts";

export type LogStreamItem =
  /** `label`: `interface.name` of the step. */
  | { readonly kind: "line"; readonly row: StepLogRow; readonly label: string }
  | { readonly kind: "reset"; readonly cursor: LogCursor; readonly reason: ResetReason };

const PAGE = 100;
const READ_EVERY_MS = 100;
const POLL_MS = 1_000;

/** `after`: number of the last line received, 0 for none. */
export function logStream(
  parts: { readonly database: Database; readonly tail: Tail },
  runId: string,
  after: number,
): AsyncIterableIterator<LogStreamItem> {
  const { reader } = parts.database;
  const { tail } = parts;
  let cursor = after;
  let labels: readonly string[] | null = null;
  let isBehind = true;
  let isOver = false;
  const pace = createPace(tail, READ_EVERY_MS);

  const end = (position: number, reason: ResetReason): readonly [LogStreamItem] => {
    isOver = true;
    tail.onReset(reason);
    return [{ kind: "reset", cursor: { position, at: null }, reason }];
  };

  return pulled<LogStreamItem>({
    onChange: tail.onWrite,
    last(received) {
      if (received?.kind === "reset") return null;
      return end(received?.row.sequence ?? after, "ACCESS_CHANGED")[0];
    },
    async produce() {
      if (isOver) return [];
      if (!isBehind && pace.restMs > 0) return { pauseMs: pace.restMs };
      pace.look();
      // The run first: its lines were committed before it ended.
      const [run] = await runsByIds(reader, [runId]);
      if (!run) return [];
      if (labels === null) {
        if (cursor > (await newestLine(reader, runId))) return end(0, "CURSOR_EXPIRED");
        labels = ((await plansByHashes(reader, [run.planHash])).get(run.planHash)?.steps ?? []).map(
          ({ interface: from, name }) => `${from}.${name}`,
        );
      }
      const steps = labels;
      const readPage = () => linesAfter(reader, runId, cursor, PAGE);
      const rows = await (isBehind ? tail.turns.take(readPage) : readPage());
      isBehind = rows.length === PAGE;
      cursor = rows.at(-1)?.sequence ?? cursor;
      if (!isBehind && run.finishedAt !== null) isOver = true;
      if (rows.length > 0 || isOver) return rows.map((row) => ({ kind: "line", row, label: steps[row.step] ?? "" }));
      if (tail.closed) return end(cursor, "SHUTTING_DOWN");
      return { pauseMs: POLL_MS };
    },
  });
}
