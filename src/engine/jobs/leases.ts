/**
 * The leases of the jobs that this process holds: renewed while it lives, so that others leave them alone, and spared after
 * an outage, in which nobody could renew one. Leases run out by the database's clock; what this process knows of its own it
 * counts by the clock that nobody sets.
 */

/** A job as its handler holds it. */
export type HeldJob = { readonly id: string; readonly retryCount: number };

/** A job in the hands of this process. `heldAt`: when its lease was last asked to be renewed and was. */
export interface Lease {
  readonly queue: string;
  readonly job: HeldJob;
  heldAt: number;
}

export interface LeasesParts {
  execute(text: string, values: readonly unknown[]): Promise<readonly unknown[]>;
  held(): readonly Lease[];
}

export interface Leases {
  /** Renews those that are held. A job that somebody has locked is just being ended, here or elsewhere. */
  renew(): Promise<void>;
  /** The database has answered. */
  noteAnswer(): void;
  /** Whether leases may count as run out: not for a while after the database was away. */
  mayRunOut(): Promise<boolean>;
}

/** A lease that was renewed within this time has not run out, whatever becomes of the next heartbeat. */
const FRESH_MS = 8_000;
/**
 * While the database was away nobody could renew a lease: for so long after it is back none counts as run out, so that
 * owners who are alive keep what they hold. It was away when it answered nothing for `AWAY_MS`, or has not been up for
 * longer; a single lost connection keeps nobody from anything.
 */
const AMNESTY_SECONDS = 8;
const AWAY_MS = 5_000;

/** Renews the leases of these attempts at jobs, and tells which those were. */
const RENEW = `
  update pgboss.job set heartbeat_on = pgboss.job_now()
  where name = $1 and id in (
    select j.id from pgboss.job j join unnest($2::uuid[], $3::int[]) as held(id, retry_count) on j.id = held.id and j.retry_count = held.retry_count
    where j.name = $1 and j.state = 'active' for update of j skip locked
  )
  returning id`;

export function createLeases({ execute, held }: LeasesParts): Leases {
  let answeredAt = performance.now();
  let backAt = Number.NEGATIVE_INFINITY;

  function noteAnswer(): void {
    const now = performance.now();
    // Answers that are slow again and again spare nobody for ever.
    if (now - answeredAt > AWAY_MS && now - backAt > 2 * AMNESTY_SECONDS * 1000) backAt = now;
    answeredAt = now;
  }

  return {
    noteAnswer,
    async renew() {
      for (const [queue, leases] of Map.groupBy(held(), (lease) => lease.queue)) {
        const asked = performance.now();
        const rows = await execute(RENEW, [
          queue,
          leases.map(({ job }) => job.id),
          leases.map(({ job }) => job.retryCount),
        ]);
        noteAnswer();
        const renewed = new Set((rows as readonly { readonly id: string }[]).map(({ id }) => id));
        for (const lease of leases) if (renewed.has(lease.job.id)) lease.heldAt = asked;
      }
    },
    async mayRunOut() {
      const [row] = await execute("select pg_postmaster_start_time() < now() - make_interval(secs => $1) as up", [
        AMNESTY_SECONDS,
      ]);
      noteAnswer();
      return (
        performance.now() - backAt >= AMNESTY_SECONDS * 1000 &&
        (row as { readonly up: boolean } | undefined)?.up === true
      );
    },
  };
}

/** Whether this process has held a lease for certain until a moment ago. Else somebody may have taken its run over. */
export function isFresh({ heldAt }: Lease): boolean {
  return performance.now() - heldAt < FRESH_MS;
}
