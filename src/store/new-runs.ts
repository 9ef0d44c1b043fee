/**
 * Inserts runs: those of an accepted request, up to ten thousand, and clean-up runs. They are sent as JSON, one batch
 * per statement. As parameters, forty for each run, they would take twice the CPU time on both sides.
 */
import { getColumns, sql } from "drizzle-orm";
import type { Tx } from "./postgres/database.ts";
import { UNTOUCHED } from "./runs.ts";
import { runs } from "./tables.ts";

const FIELDS = [
  "id",
  "operationId",
  "nodeId",
  "nodeName",
  "ordinal",
  "purpose",
  "waitReason",
  "waitFor",
  "slotPhase",
  "slotController",
  "controller",
  "hostGroup",
  "wave",
  "planHash",
  "variables",
  "position",
  "target",
  "movesState",
  "attempt",
  "restartOf",
] as const satisfies readonly (keyof typeof runs.$inferSelect)[];

/** A new run: QUEUED from now on, without a leg that its node has entered. Other columns have their defaults. */
export type NewRun = Pick<typeof runs.$inferSelect, (typeof FIELDS)[number]>;

/** Length of a statement's JSON, in characters: making it blocks the event loop. */
const SLICE_LENGTH = 500_000;

const all = getColumns(runs);
const NAMES = sql.raw(FIELDS.map((field) => `"${all[field].name}"`).join(", "));
const VALUES = sql.raw(FIELDS.map((field) => `r."${field}"`).join(", "));
const TYPES = sql.raw(FIELDS.map((field) => `"${field}" ${all[field].getSQLType()}`).join(", "));

/** Inserts runs in batches; each batch is made when the one before is stored. */
export async function insertRuns(tx: Tx, rows: Iterable<NewRun>): Promise<void> {
  for (const batch of batchesOf(rows)) {
    // PostgreSQL makes rows from `json` faster than from `jsonb`: it is parsed once, from its beginning.
    await tx.execute(sql`
      insert into ${runs} (${NAMES}, state, leg, waiting_since)
      select ${VALUES}, 'QUEUED', ${UNTOUCHED}, now() from json_to_recordset(${batch}::text::json) as r(${TYPES})`);
  }
}

/** Batches of rows, each the text of a JSON array. */
function* batchesOf(rows: Iterable<NewRun>): Generator<string> {
  let texts: string[] = [];
  let length = 0;
  for (const row of rows) {
    const text = JSON.stringify(row);
    texts.push(text);
    length += text.length;
    if (length < SLICE_LENGTH) continue;
    yield `[${texts.join(",")}]`;
    texts = [];
    length = 0;
  }
  if (texts.length > 0) yield `[${texts.join(",")}]`;
}
