/** The clock of the database, and the correction of stored times after it was set. */
import { sql } from "drizzle-orm";
import type { Reader, Tx } from "./postgres/database.ts";
import { runStatement } from "./postgres/statements.ts";
import { clock } from "./tables.ts";

/** Times in ms since 1970, by the clock of the database. */
export interface ClockReading {
  readonly now: number;
  /** When a replica last looked. */
  readonly seenAt: number;
  /** Number of steps that were corrected. */
  readonly steps: number;
}

const FIELDS = {
  now: sql<number>`(extract(epoch from clock_timestamp()) * 1000)::float8`,
  seenAt: sql<number>`(extract(epoch from ${clock.seenAt}) * 1000)::float8`,
  steps: clock.steps,
};

export async function readClock(reader: Reader): Promise<ClockReading> {
  const [row] = await reader.select(FIELDS).from(clock);
  if (!row) throw new Error("The clock of the database could not be read: the table clock has no row.");
  return row;
}

/** Records that a replica has looked. */
export async function markClockSeen(reader: Reader): Promise<void> {
  await reader.execute(sql`update clock set seen_at = clock_timestamp() where seen_at < clock_timestamp()`);
}

/** Locks the clock against corrections by other replicas. */
export async function lockClock(tx: Tx): Promise<ClockReading> {
  await tx.execute(sql`select from clock for update`);
  return readClock(tx);
}

/**
 * Corrects, after a step of the clock, all times for which something waits. Runs are locked in the order of their
 * nodes.
 */
export async function shiftWaitingTimes(tx: Tx, milliseconds: number): Promise<void> {
  const statements = [
    "select from runs where finished_at is null order by node_id for no key update",
    `update runs set wake_at = wake_at + ${BY}, due_at = due_at + ${BY}, lease_until = lease_until + ${BY}, stop_until = stop_until + ${BY} where finished_at is null`,
    `update attempts set deadline_at = deadline_at + ${BY} where finished_at is null`,
    `update operations set wave_until = wave_until + ${BY}, stop_until = stop_until + ${BY}, lease_until = lease_until + ${BY} where finished_at is null`,
    `update nodes set disappeared_at = disappeared_at + ${BY} where presence = 'DISAPPEARED'`,
    "update nodes set power_checked_at = clock_timestamp() where power_checked_at > clock_timestamp() + interval '1 second'",
    "update clock set seen_at = clock_timestamp(), steps = steps + 1",
  ];
  for (const text of statements)
    await runStatement(tx, text.replaceAll(BY, `${milliseconds / 1_000} * interval '1 second'`));
}

const BY = "$BY";
