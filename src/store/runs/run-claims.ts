/**
 * Claims of runs: which runs are due, which replica may execute one, and for how long. A run that is due has `due_at`;
 * a claim raises its fence and gives it a lease. The claimant's first transaction clears `due_at` and sets `owner`. The
 * end of an execution clears the lease, and `owner` unless the execution was lost. Times are those of the database's
 * clock.
 */
import type { Reader, Tx } from "../postgres/database.ts";
import { runStatement } from "../postgres/statements.ts";

/** A run, and the fencing token of a claim of it. */
export interface Claim {
  readonly id: string;
  readonly fence: number;
}

/**
 * Priorities of due runs: work that has begun goes before work that has not. `begun`: runs whose wait is over. `woken`:
 * runs that a callback or a user wakes, and released ones, which must not wait behind a thousand new runs. `ending`:
 * runs that an interrupt ends; they are claimed even if `concurrency` is reached, perhaps by stuck runs.
 */
export const PRIORITY = { new: 0, begun: 5, woken: 10, ending: 20 } as const;
const HIGHEST_FIRST = Object.values(PRIORITY).toSorted((a, b) => b - a);

/** Time after which the lease of a dead replica expires, as SQL. */
export const LEASE = "interval '10 seconds'";

/**
 * Claims runs that are due: those with the highest priority first, and of these the one that is due for the longest
 * time. Each priority has its own range of the index, so that runs that are due later are not read. Runs that another
 * transaction has locked are skipped.
 */
export async function claimDueRuns(
  reader: Reader,
  { limit, priorityMin = PRIORITY.new }: { readonly limit: number; readonly priorityMin?: number },
): Promise<Claim[]> {
  return runStatement<Claim>(
    reader,
    `with due as materialized (
       select one.id from unnest($1::int[]) as wanted(priority) cross join lateral (
         select r.id from runs r
         where r.priority = wanted.priority and r.due_at <= now() and (r.lease_until is null or r.lease_until <= now())
         order by r.due_at, r.ordinal limit $2 for no key update skip locked
       ) as one limit $2
     )
     update runs set fence = fence + 1, lease_until = now() + ${LEASE} from due where runs.id = due.id
     returning runs.id, runs.fence`,
    [HIGHEST_FIRST.filter((priority) => priority >= priorityMin), limit],
  );
}

/**
 * Makes runs due whose replica has not renewed its lease, before new ones: a full queue must not delay them. They keep
 * their owner, by which the claimant knows that the process before it was lost. `except`: runs that this replica
 * executes and has to renew. None while the server has been up for a short time, in which live replicas could not renew
 * their leases. A start in the future is one after which the clock was set back: that time need not pass.
 */
export async function reviveLostRuns(
  reader: Reader,
  { except, upSeconds }: { readonly except: readonly string[]; readonly upSeconds: number },
): Promise<void> {
  await runStatement(
    reader,
    `with lost as materialized (
       select id from runs
       where owner is not null and lease_until <= now() and id <> all($1::uuid[])
         and abs(extract(epoch from now() - pg_postmaster_start_time())) > $2::float8
       for no key update skip locked
     )
     update runs set lease_until = null, due_at = now(), priority = greatest(priority, ${PRIORITY.woken})
     from lost where runs.id = lost.id`,
    [except, upSeconds],
  );
}

/** Renews the leases of claims, and returns those that are still held. Skips locked runs: their writers renew them. */
export async function renewLeases(reader: Reader, claims: readonly Claim[]): Promise<Claim[]> {
  return runStatement<Claim>(
    reader,
    `update runs set lease_until = now() + ${LEASE} where id in (
       select r.id from runs r join ${GIVEN} on r.id = given.id and r.fence = given.fence
       where r.lease_until is not null for no key update of r skip locked
     )
     returning id, fence`,
    valuesOf(claims),
  );
}

/**
 * Makes claimed runs due again for any replica. `isClean`: the claimant lives, so that the next claim is not a recovery
 * from a crash. A run that was parked meanwhile, or whose start was withdrawn, stays as it is.
 */
export async function releaseClaims(
  reader: Reader,
  claims: readonly Claim[],
  { isClean, afterSeconds }: { readonly isClean: boolean; readonly afterSeconds: number },
): Promise<void> {
  await runStatement(
    reader,
    `update runs set lease_until = null, owner = case when not $3::boolean then owner end,
       due_at = case when owner is not null or due_at <= now() then now() + make_interval(secs => $4) else due_at end,
       priority = greatest(priority, ${PRIORITY.woken})
     where id in (
       select r.id from runs r join ${GIVEN} on r.id = given.id and r.fence = given.fence
       where r.lease_until is not null order by r.node_id for no key update of r
     )`,
    [...valuesOf(claims), isClean, afterSeconds],
  );
}

/**
 * Makes locked, unfinished runs due now that no replica executes; one that is executed reads what has changed at its
 * next boundary. The priority only rises.
 */
export async function wakeRuns(tx: Tx, ids: readonly string[], priority: number): Promise<void> {
  if (ids.length === 0) return;
  await runStatement(
    tx,
    `update runs set due_at = least(due_at, now()), priority = greatest(priority, $2)
     where id = any($1::uuid[]) and owner is null`,
    [ids, priority],
  );
}

/** Makes all claimed work due. Only while no replica lives. */
export async function reclaimWork(reader: Reader): Promise<void> {
  for (const text of [
    `update runs set lease_until = null, due_at = coalesce(due_at, now()), priority = greatest(priority, ${PRIORITY.woken}) where owner is not null`,
    "update runs set lease_until = null where due_at is not null and lease_until is not null",
    "update operations set lease_until = null where finished_at is null and kind = 'DISCOVER' and lease_until is not null",
  ])
    await runStatement(reader, text);
}

/** Whether runs have been due, or their leases expired, for this time, while no replica renews a lease. */
export async function isWorkUnattended(reader: Reader, seconds: number): Promise<boolean> {
  const [row] = await runStatement<{ unattended: boolean }>(
    reader,
    `select (
         exists (select from runs where due_at < now() - make_interval(secs => $1))
         or exists (select from runs where owner is not null and lease_until < now() - make_interval(secs => $1))
       )
       and not exists (
         select from runs where owner is not null and lease_until > now() - make_interval(secs => $1)
       ) as unattended`,
    [seconds],
  );
  return row?.unattended === true;
}

const GIVEN = "unnest($1::uuid[], $2::int[]) as given(id, fence)";

function valuesOf(claims: readonly Claim[]): readonly unknown[] {
  return [claims.map(({ id }) => id), claims.map(({ fence }) => fence)];
}
