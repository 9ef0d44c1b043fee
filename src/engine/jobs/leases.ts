/**
 * The leases of the jobs that this replica holds. It renews them while it lives, so that other replicas leave the jobs
 * alone. After an outage of the database, during which no replica could renew a lease, all leases are spared for a
 * while. Leases expire by the database's clock; times in this file are of the local monotonic clock.
 */
import { isServerUpFor, renewJobLeases } from "../../store/jobs.ts";
import type { ExecuteOnQueue, JobAttempt } from "../../store/jobs.ts";

export type HeldJob = JobAttempt;

/** A job that this replica holds. `heldAt`: start of the last request that renewed its lease. */
export interface Lease {
  readonly queue: string;
  readonly job: HeldJob;
  heldAt: number;
}

/** A lease that was renewed within this time has not expired, even if the next heartbeat fails. */
const FRESH_MS = 8_000;
/**
 * After an outage of the database no lease counts as expired for this time, so that live owners keep their jobs. An
 * outage: the database answered nothing for `AWAY_MS`, or was restarted. A single lost connection is not one.
 */
const AMNESTY_SECONDS = 8;
const AWAY_MS = 5_000;

export class Leases {
  readonly #execute: ExecuteOnQueue;
  readonly #held: () => readonly Lease[];
  #answeredAt = performance.now();
  #backAt = Number.NEGATIVE_INFINITY;

  constructor(execute: ExecuteOnQueue, held: () => readonly Lease[]) {
    this.#execute = execute;
    this.#held = held;
  }

  /** To be called when the database has answered. */
  noteAnswer(): void {
    const now = performance.now();
    // At most one amnesty per interval: otherwise a permanently slow database would keep dead workers' leases alive
    // forever.
    if (now - this.#answeredAt > AWAY_MS && now - this.#backAt > 2 * AMNESTY_SECONDS * 1000) this.#backAt = now;
    this.#answeredAt = now;
  }

  /** Renews all leases. A locked job is just being ended, by this replica or another. */
  async renew(): Promise<void> {
    for (const [queue, leases] of Map.groupBy(this.#held(), (lease) => lease.queue)) {
      const asked = performance.now();
      const renewed = await renewJobLeases(
        this.#execute,
        queue,
        leases.map(({ job }) => job),
      );
      this.noteAnswer();
      for (const lease of leases) if (renewed.has(lease.job.id)) lease.heldAt = asked;
    }
  }

  /** Whether leases may count as expired: false for a while after an outage. */
  async mayExpire(): Promise<boolean> {
    const isUp = await isServerUpFor(this.#execute, AMNESTY_SECONDS);
    this.noteAnswer();
    return performance.now() - this.#backAt >= AMNESTY_SECONDS * 1000 && isUp;
  }
}

/**
 * Whether this replica has certainly held a lease until a moment ago. If not, another replica may have taken the run
 * over.
 */
export function isFresh({ heldAt }: Lease): boolean {
  return performance.now() - heldAt < FRESH_MS;
}
