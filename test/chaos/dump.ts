/** Reads the database at the end of a run and writes it row by row; the checker compares it with the other records. */
import type { Sql } from "postgres";
import { record } from "./records.ts";

/** Tables and their order. `select *` reads all columns. */
const TABLES: Readonly<Record<string, string>> = {
  feed_position: "select * from feed_position",
  lifecycle_edges: "select * from lifecycle_edges",
  clusters: "select * from clusters order by name",
  nodes: "select * from nodes order by name",
  operations: "select * from operations order by created_at, id",
  plans: "select hash, plan->'steps' as steps, plan from plans",
  runs: "select * from runs order by created_at, id",
  attempts: "select * from attempts order by run_id, step, number",
  transitions: "select * from transitions order by position",
  anomalies: "select * from anomalies order by at",
  step_log:
    "select run_id, count(*)::int as lines, min(sequence) as first, max(sequence) as last from step_log group by run_id",
  jobs: "select id, name, state::text, data, created_on from pgboss.job where state < 'completed'",
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
