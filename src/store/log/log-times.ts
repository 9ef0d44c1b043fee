/**
 * Times in the logs of transitions and of the audit. These have no index by time: positions follow the order of
 * commits, so a time is found by bisection. All times are of the database's clock. Where that was set back, the result
 * is one of the places at which the times pass the given one.
 */
import { sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";

const LOGS = {
  transitions: { rows: sql`transitions`, head: sql`feed_position` },
  audit: { rows: sql`audit`, head: sql`audit_position` },
};

/**
 * SQL of the position of the last row before a time, a transition by default; the one before the oldest row that is
 * kept if all are later. About twenty look-ups for a million rows; without the limit, PostgreSQL would join the whole
 * log.
 */
export function positionBefore(time: Date, log: keyof typeof LOGS = "transitions"): SQL {
  const { rows, head } = LOGS[log];
  const isBefore = sql`t.at < ${time.toISOString()}::timestamptz`;
  return sql`(
    with recursive search as (
      select coalesce((select min(position) from ${rows}) - 1, position) as low, position + 1 as high from ${head}
      union all
      select case when ${isBefore} then s.middle else s.low end, case when ${isBefore} then s.high else s.middle end
      from (select low, high, (low + high) / 2 as middle from search where high - low > 1) s
      cross join lateral (select at from ${rows} where position = s.middle limit 1) t
    )
    select low from search order by high - low limit 1)`;
}
