/**
 * The stream of one run's log: every line from its first, or from a cursor, until the run has ended and everything it said
 * has been told. Lines are numbered in the order of their commits and without holes, so a reader that comes back with the
 * last cursor misses nothing and is told nothing twice.
 *
 * Modes: replay (page after page, as fast as the reader takes them), then live (a look whenever something was written, ten
 * a second at most). It ends by itself with the run; with a reset when the cursor is not of this log, or the process leaves.
 */
import type { Database } from "../store/postgres/database.ts";
import { plansByHashes } from "../store/plans.ts";
import { runsByIds } from "../store/runs.ts";
import { linesAfter, newestLine } from "../store/step-log.ts";
import type { StepLogRow } from "../store/step-log.ts";
import type { ResetReason } from "./node-stream.ts";
import { createPace } from "./pace.ts";
import { pulled } from "./pull.ts";
import type { Tail } from "./tail.ts";

export type LogStreamItem =
  /** `label`: `interface.name` of the step. */
  | { readonly kind: "line"; readonly row: StepLogRow; readonly label: string }
  | { readonly kind: "reset"; readonly position: number; readonly reason: ResetReason };

const PAGE = 100;
const LOOK_EVERY_MS = 100;
const POLL_MS = 1_000;

/** `after`: number of the last line seen, 0 for none. */
export function logStream(
  parts: { readonly database: Database; readonly tail: Tail },
  runId: string,
  after: number,
): AsyncIterableIterator<LogStreamItem> {
  const { reader } = parts.database;
  const { tail } = parts;
  let cursor = after;
  let labels: readonly string[] | null = null;
  let behind = true;
  let over = false;
  const pace = createPace(tail, LOOK_EVERY_MS);

  const end = (position: number, reason: ResetReason): readonly LogStreamItem[] => {
    over = true;
    tail.onReset(reason);
    return [{ kind: "reset", position, reason }];
  };

  return pulled(tail.onWrite, async (patience) => {
    for (;;) {
      if (over) return [];
      if (!behind) await pace.rest(patience);
      if (patience.left) return [];
      pace.look();
      // The run first: what it said was committed before it ended.
      const [run] = await runsByIds(reader, [runId]);
      if (!run) return [];
      if (labels === null) {
        if (cursor > (await newestLine(reader, runId))) return end(0, "CURSOR_EXPIRED");
        labels = ((await plansByHashes(reader, [run.planHash])).get(run.planHash)?.steps ?? []).map(
          ({ interface: from, name }) => `${from}.${name}`,
        );
      }
      const steps = labels;
      const rows = await linesAfter(reader, runId, cursor, PAGE);
      behind = rows.length === PAGE;
      cursor = rows.at(-1)?.sequence ?? cursor;
      if (!behind && run.finishedAt !== null) over = true;
      if (rows.length > 0 || over) return rows.map((row) => ({ kind: "line", row, label: steps[row.step] ?? "" }));
      if (tail.closed) return end(cursor, "SHUTTING_DOWN");
      await patience.wait(POLL_MS);
    }
  });
}
