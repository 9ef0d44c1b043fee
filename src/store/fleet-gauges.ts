/** Gauges of runs and nodes for operators, one statement each. */
import { sql } from "drizzle-orm";
import type { Reader } from "./postgres/database.ts";

interface Workload {
  /** Unfinished runs by state and wait: a `WaitReason`, PHASE or CONTROLLER for a capacity limit, or null. */
  readonly runs: readonly { readonly state: string; readonly reason: string | null; readonly count: number }[];
  /** Longest wait of a run for its start or for a slot, in seconds; 0 if none waits. */
  readonly oldestWaitingSeconds: number;
  /** Position of the newest transition. */
  readonly position: number;
}

/** Read from indexes of unfinished runs, so finished ones cost nothing. */
export async function workload(reader: Reader): Promise<Workload> {
  const rows = await reader.execute<{
    state: string;
    reason: string | null;
    count: number;
    oldest: number | null;
    position: string;
  }>(sql`
    select state, reason, count(*)::int as count, (extract(epoch from now() - min(turn_since)))::float8 as oldest, (select position from feed_position) as position
    from (
      select state, case when wait_for like 'phase:%' then 'PHASE' when wait_for is not null then 'CONTROLLER' else wait_reason end as reason,
        case when state = 'QUEUED' or wait_for is not null then waiting_since end as turn_since
      from runs where finished_at is null
    ) unfinished
    group by grouping sets ((state, reason), ())`);
  const all = [...rows];
  const total = all.find(({ state }) => state === null);
  return {
    runs: all.filter((row) => row !== total).map(({ state, reason, count }) => ({ state, reason, count })),
    oldestWaitingSeconds: Math.max(0, total?.oldest ?? 0),
    position: Number(total?.position ?? 0),
  };
}

/** BOOTING: no agent has made contact. SILENT: the agent has not been heard for a minute. */
export const AGENT_SESSION_STATES = ["BOOTING", "CONNECTED", "SILENT"] as const;
type AgentSessionState = (typeof AGENT_SESSION_STATES)[number];

/** Open sessions of agents by state; states without one are missing. Read from the index of open sessions. */
export async function openAgentSessions(
  reader: Reader,
): Promise<readonly { readonly state: AgentSessionState; readonly count: number }[]> {
  return reader.execute<{ state: AgentSessionState; count: number }>(sql`
    select case when instance is null then 'BOOTING' when seen_at < now() - interval '1 minute' then 'SILENT' else 'CONNECTED' end as state,
      count(*)::int as count
    from agent_sessions join runs on runs.id = agent_sessions.run_id
    where ended_at is null and runs.finished_at is null
    group by 1`);
}

export interface Fleet {
  readonly nodes: readonly { readonly state: string; readonly count: number }[];
  /** Nodes whose power could not be read at the last attempt. */
  readonly powerProblems: number;
  readonly inMaintenance: number;
}

/** Scans all nodes. */
export async function fleet(reader: Reader): Promise<Fleet> {
  const rows = [
    ...(await reader.execute<{ state: string; count: number; problems: number; maintained: number }>(sql`
    select state, count(*)::int as count, count(power_problem)::int as problems, count(maintenance_since)::int as maintained from nodes group by state`)),
  ];
  const sum = (of: (row: (typeof rows)[number]) => number) => rows.reduce((total, row) => total + of(row), 0);
  return {
    nodes: rows.map(({ state, count }) => ({ state, count })),
    powerProblems: sum(({ problems }) => problems),
    inMaintenance: sum(({ maintained }) => maintained),
  };
}
