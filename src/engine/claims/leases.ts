/**
 * The leases of the runs that this replica has claimed. It renews them while it lives, so that other replicas leave the
 * runs alone. After an outage of the database, during which no replica could renew a lease, all leases are spared for a
 * while. Leases expire by the database's clock; times in this file are of the local monotonic clock.
 */
import { withTimeout } from "../../runtime/timeout.ts";
import { renewLeases } from "../../store/runs/run-claims.ts";
import type { Claim } from "../../store/runs/run-claims.ts";
import type { Reader } from "../../store/postgres/database.ts";

/** A claim that this replica holds. `heldAt`: start of the last request that renewed its lease. */
interface Lease {
  readonly claim: Claim;
  heldAt: number;
}

/** A lease that was renewed within this time has not expired, even if the next renewal fails. */
const FRESH_MS = 8_000;
/** How long a caller waits for a renewal of the leases. */
const RENEWAL_MS = 2_000;
/**
 * After an outage of the database no lease counts as expired for this time, so that live owners keep their runs. An
 * outage: the database answered nothing for `AWAY_MS`, or was restarted. A single lost connection is not one.
 */
export const AMNESTY_SECONDS = 8;
const AWAY_MS = 5_000;

export class Leases {
  readonly #reader: Reader;
  readonly #held = new Map<string, Lease>();
  /** Shared by all callers that wait for a renewal at the same time. */
  #renewing: Promise<void> | undefined;
  #answeredAt = performance.now();
  #backAt = Number.NEGATIVE_INFINITY;

  constructor(reader: Reader) {
    this.#reader = reader;
  }

  /** `heldAt`: start of the request that claimed the run. */
  hold(claim: Claim, heldAt: number): void {
    this.#held.set(keyOf(claim), { claim, heldAt });
  }

  drop(claim: Claim): void {
    this.#held.delete(keyOf(claim));
  }

  get claims(): readonly Claim[] {
    return [...this.#held.values()].map(({ claim }) => claim);
  }

  /**
   * Whether this replica has certainly held a run until a moment ago. If not, another replica may have taken it over.
   */
  isFresh(claim: Claim): boolean {
    const lease = this.#held.get(keyOf(claim));
    return lease !== undefined && performance.now() - lease.heldAt < FRESH_MS;
  }

  /** To be called when the database has answered. */
  noteAnswer(): void {
    const now = performance.now();
    // At most one amnesty per interval: otherwise a permanently slow database would keep dead replicas' leases alive
    // forever.
    if (now - this.#answeredAt > AWAY_MS && now - this.#backAt > 2 * AMNESTY_SECONDS * 1000) this.#backAt = now;
    this.#answeredAt = now;
  }

  /** False for a while after an outage. */
  get mayExpire(): boolean {
    return performance.now() - this.#backAt >= AMNESTY_SECONDS * 1000;
  }

  /** Renews all leases that this replica still holds. */
  async renew(): Promise<void> {
    if (this.#held.size === 0) return;
    const asked = performance.now();
    const renewed = await renewLeases(this.#reader, this.claims);
    this.noteAnswer();
    for (const claim of renewed) {
      const lease = this.#held.get(keyOf(claim));
      if (lease) lease.heldAt = asked;
    }
  }

  /** Does nothing if the database does not answer in time. */
  async renewSoon(): Promise<void> {
    this.#renewing ??= withTimeout(RENEWAL_MS, this.renew())
      .catch(() => {})
      .finally(() => (this.#renewing = undefined));
    await this.#renewing;
  }
}

function keyOf({ id, fence }: Claim): string {
  return `${id}:${fence}`;
}
