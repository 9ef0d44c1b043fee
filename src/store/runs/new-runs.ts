/**
 * Inserts runs: those of an accepted request, up to a hundred thousand, and clean-up runs. They are sent as JSON, one
 * batch per statement. As parameters, forty for each run, they would take twice the CPU time on both sides. What many
 * runs have in common is sent once for a batch: PostgreSQL then reads five values for each run instead of twenty.
 */
import { getColumns, sql } from "drizzle-orm";
import type { Tx } from "../postgres/database.ts";
import { UNTOUCHED } from "./runs.ts";
import { runs, secretKeys } from "../tables.ts";

type RunField = keyof typeof runs.$inferSelect;

/** Fields in which all runs of a request differ. */
const OWN_FIELDS = ["id", "nodeId", "nodeName", "ordinal"] as const satisfies readonly RunField[];

/** Fields that are usually the same for many runs. */
const SHARED_FIELDS = [
  "operationId",
  "purpose",
  "waitReason",
  "waitFor",
  "slotPhase",
  "slotController",
  "controller",
  "clusterId",
  "hostGroup",
  "groupKey",
  "budgetKey",
  "takesOut",
  "wave",
  "planHash",
  "variables",
  "position",
  "target",
  "movesState",
  "attempt",
  "restartOf",
] as const satisfies readonly RunField[];

/**
 * A new run: QUEUED from now on, without a leg that its node has entered, and due if it waits for a worker. Other
 * columns have their defaults.
 */
export type NewRun = Pick<typeof runs.$inferSelect, (typeof OWN_FIELDS)[number] | (typeof SHARED_FIELDS)[number]>;

/** Length of a statement's JSON, in characters: making it blocks the event loop. */
const SLICE_LENGTH = 500_000;

const all = getColumns(runs);
const columns = (fields: readonly RunField[]) => fields.map((field) => `"${all[field].name}"`);
const values = (from: string, fields: readonly RunField[]) => fields.map((field) => `${from}."${field}"`);
const types = (fields: readonly RunField[]) => fields.map((field) => `"${field}" ${all[field].getSQLType()}`);
const NAMES = sql.raw([...columns(OWN_FIELDS), ...columns(SHARED_FIELDS)].join(", "));
const VALUES = sql.raw([...values("r", OWN_FIELDS), ...values("s", SHARED_FIELDS)].join(", "));
const OWN_TYPES = sql.raw([...types(OWN_FIELDS), "shared integer"].join(", "));
const SHARED_TYPES = sql.raw([...types(SHARED_FIELDS), "number integer"].join(", "));

/** Inserts runs in batches; each batch is made when the one before is stored. */
export async function insertRuns(tx: Tx, rows: Iterable<NewRun>): Promise<void> {
  for (const { own, shared } of batchesOf(rows)) {
    // PostgreSQL makes rows from `json` faster than from `jsonb`: it is parsed once, from its beginning.
    await tx.execute(sql`
      insert into ${runs} (${NAMES}, callback_key, state, leg, waiting_since, due_at)
      select ${VALUES}, (select id from ${secretKeys} order by number desc limit 1), 'QUEUED', ${UNTOUCHED}, now(),
        case when s."waitReason" = 'CONCURRENCY' then now() end
      from json_to_recordset(${own}::text::json) as r(${OWN_TYPES})
      join json_to_recordset(${shared}::text::json) as s(${SHARED_TYPES}) on s.number = r.shared`);
  }
}

/** Rows of a statement, each list the text of a JSON array. */
interface Batch {
  readonly own: string;
  /** The values that rows share, each with the number by which rows refer to them. */
  readonly shared: string;
}

function* batchesOf(rows: Iterable<NewRun>): Generator<Batch> {
  let own: string[] = [];
  let shared = new Map<string, number>();
  let length = 0;
  const batch = (): Batch => ({
    own: `[${own.join(",")}]`,
    shared: `[${[...shared].map(([text, number]) => `{"number":${number},${text.slice(1)}`).join(",")}]`,
  });
  for (const { id, nodeId, nodeName, ordinal, ...common } of rows) {
    const text = JSON.stringify(common);
    let number = shared.get(text);
    if (number === undefined) {
      number = shared.size;
      shared.set(text, number);
      length += text.length;
    }
    const one = JSON.stringify({ id, nodeId, nodeName, ordinal, shared: number });
    own.push(one);
    length += one.length;
    if (length < SLICE_LENGTH) continue;
    yield batch();
    own = [];
    shared = new Map();
    length = 0;
  }
  if (own.length > 0) yield batch();
}
