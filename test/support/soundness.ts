/** Invariants that hold at every moment without a write. */
import type { EngineUnderTest } from "./builders.ts";

/** Everything that is unsound, in sentences; none when all is well. */
export async function unsound({ test: { sql }, foldedLog, nodeStates }: EngineUnderTest): Promise<string[]> {
  const folded = await foldedLog();
  const states = await nodeStates();
  const strays = Object.keys({ ...folded, ...states }).filter((name) => folded[name] !== states[name]);
  const questions = await Promise.all([
    sql`select 'run on ' || node_name || ' is ' || state || ', not due and not executed' as flaw from runs
        where finished_at is null and (state <> 'QUEUED' or wait_reason is not null) and coalesce(wait_reason, '') not in ('HOLD', 'CAPACITY', 'MAINTENANCE')
          and due_at is null and (owner is null or lease_until is null)`,
    sql`select 'operation ' || id || ' is ' || state || ' and has no unfinished run' as flaw from operations o
        where finished_at is null and not exists (select from runs r where r.operation_id = o.id and r.finished_at is null)`,
    sql`select 'operation ' || id || ' is ' || state || ' and has an unfinished run' as flaw from operations o
        where finished_at is not null and exists (select from runs r where r.operation_id = o.id and r.finished_at is null)`,
    sql`select 'node ' || name || ' is ' || state || ' and nothing runs on it' as flaw from nodes n
        where (state like '%ING' or state like '%\\_WAIT' or state like '%\\_HOLD') and not exists (select from runs r where r.node_id = n.id and r.finished_at is null)`,
    sql`select 'an attempt at step ' || a.step || ' of the ended run on ' || r.node_name || ' is ' || a.state as flaw from attempts a join runs r on r.id = a.run_id
        where r.finished_at is not null and a.finished_at is null`,
    sql`select 'run on ' || node_name || ' has ended and is owned' as flaw from runs where finished_at is not null and (owner is not null or lease_until is not null or due_at is not null or stop_until is not null or wake_at is not null or open_generation is not null or wait_for is not null or slot_phase is not null or slot_controller is not null)`,
    sql`select 'positions have a hole before ' || position as flaw from (select position, position - lag(position, 1, 0::bigint) over (order by position) as gap from transitions) t where gap <> 1`,
  ]);
  return [
    ...strays.map((name) => `the log brings ${name} to ${folded[name]}, and it is ${states[name]}`),
    ...questions.flat().map((row) => String(row["flaw"])),
  ];
}
