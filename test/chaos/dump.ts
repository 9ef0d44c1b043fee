/** Reads the database at the end of a run and writes it row by row; the checker compares it with the other records. */
import type { Sql } from "postgres";
import { record } from "./records.ts";

/**
 * Tables and their order. `select *` reads all columns. `conditions` are the values before each change of what refuses
 * verbs on a node; changes without a position are the newest.
 */
const TABLES: Readonly<Record<string, string>> = {
  feed_position: "select * from feed_position",
  lifecycle_edges: "select * from lifecycle_edges",
  clusters: "select * from clusters order by name",
  nodes: "select * from nodes order by name",
  conditions: `select subject_id as node_id, at, before->>'presence' as presence, before->>'faultKind' as fault,
      (before->'maintenance')::boolean as in_maintenance, (before->'isProtected')::boolean as is_protected,
      (before->'retired')::boolean as is_retired
    from (select position, 0 as id, subject, subject_id, at, fields, before from changes
      union all select null, id, subject, subject_id, at, fields, before from change_inbox) as change
    where subject = 'NODE' and before is not null
      and fields && array['PRESENCE', 'FAULT', 'MAINTENANCE', 'PROTECTED', 'RETIRED']
    order by position nulls last, id`,
  audit: "select at, subject, action, request_id, targets, outcome, change from audit order by position nulls last, id",
  operations: "select * from operations order by created_at, id",
  plans: "select hash, plan->'steps' as steps, plan from plans",
  runs: "select * from runs order by created_at, id",
  attempts: "select * from attempts order by run_id, step, number",
  transitions: "select * from transitions order by position",
  rejected_callbacks: "select * from rejected_callbacks order by at",
  step_log:
    "select run_id, count(*)::int as lines, min(sequence) as first, max(sequence) as last from step_log group by run_id",
};
const ROWS_PER_FETCH = 2_000;

/** Returns the number of rows of each table. */
export async function dump(sql: Sql, folder: string): Promise<Readonly<Record<string, number>>> {
  const written = record(folder, "final");
  const counts: Record<string, number> = {};
  for (const [table, query] of Object.entries(TABLES)) {
    counts[table] = 0;
    for await (const rows of sql.unsafe(query).cursor(ROWS_PER_FETCH)) {
      for (const row of rows) written.write({ k: "row", table, row });
      counts[table] += rows.length;
    }
  }
  await written.close();
  return counts;
}
