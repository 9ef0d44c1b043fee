/**
 * How many connections a replica takes of the database at most: what a server's max_connections and a pooler's pools are
 * sized by. Connections are made when they are first needed, so a replica at rest has fewer.
 */

export interface Pools {
  /** The engine's transactions, the writes of the API, and the reads of streams. */
  readonly writers: number;
  /** Reads of requests, cut after ten seconds. */
  readonly readers: number;
  /** Snapshots at the beginning of streams; one more waits. */
  readonly snapshots: number;
  /** The durable queue's own. */
  readonly queue: number;
}

const SNAPSHOTS = 3;
/** The queue looks for work, keeps leases alive and supervises: each on one, and hardly ever more at a time. */
const QUEUE_MIN = 3;
const QUEUE_MAX = 10;

/** `writers` is what is configured; the others follow from it. */
export function poolsOf(writers: number): Pools {
  return {
    writers,
    readers: Math.ceil(writers / 2),
    snapshots: SNAPSHOTS,
    queue: Math.min(QUEUE_MAX, Math.max(QUEUE_MIN, Math.ceil(writers / 4))),
  };
}

/** All of them, with the one that listens. A replica that serves no requests has neither readers nor snapshots. */
export function connectionsOf({ writers, readers, snapshots, queue }: Pools, serves: boolean): number {
  return writers + (serves ? readers + snapshots : 0) + queue + 1;
}
