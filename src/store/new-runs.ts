/**
 * Runs as they are made: those of an accepted request, ten thousand at a time, and clean-ups. They go in as JSON, a slice of
 * them in each statement: as parameters, of which each run has forty, they would keep both sides busy for twice as long.
 */
import { getColumns, sql } from "drizzle-orm";
import type { Tx } from "./postgres/database.ts";
import { runs } from "./tables.ts";

const FIELDS = [
  "id",
  "operationId",
  "nodeId",
  "nodeName",
  "ordinal",
  "purpose",
  "state",
  "waitFor",
  "slotPhase",
  "slotController",
  "controller",
  "wave",
  "planHash",
  "variables",
  "position",
  "target",
  "movesState",
  "attempt",
  "restartOf",
] as const satisfies readonly (keyof typeof runs.$inferSelect)[];

/** All that is decided of a run when it is made; the rest is as the table has it, and one that is QUEUED waits since then. */
export type NewRun = Pick<typeof runs.$inferSelect, (typeof FIELDS)[number]>;

/** Of a statement's JSON, in characters: nothing else goes on while it is made. */
const SLICE_LENGTH = 500_000;

const all = getColumns(runs);
const NAMES = sql.raw(FIELDS.map((field) => `"${all[field].name}"`).join(", "));
const VALUES = sql.raw(FIELDS.map((field) => `r."${field}"`).join(", "));
const TYPES = sql.raw(FIELDS.map((field) => `"${field}" ${all[field].getSQLType()}`).join(", "));

/** Inserts runs as they are made, one slice while the next is not there yet. */
export async function insertRuns(tx: Tx, rows: Iterable<NewRun>): Promise<void> {
  for (const slice of slicesOf(rows)) {
    // Of `json`, which is read once and from its beginning, PostgreSQL makes rows in less time than of `jsonb`.
    await tx.execute(sql`
      insert into ${runs} (${NAMES}, waiting_since)
      select ${VALUES}, case when r.state = 'QUEUED' then now() end from json_to_recordset(${slice}::text::json) as r(${TYPES})`);
  }
}

/** The rows in their order, as arrays in JSON. */
function* slicesOf(rows: Iterable<NewRun>): Generator<string> {
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
