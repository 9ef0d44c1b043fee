/**
 * Sizes of a replica's connection pools: what `max_connections` of a server and the pools of a pooler are sized by.
 * Connections are opened when they are first needed, so an idle replica has fewer.
 */

export interface Pools {
  /** The engine's transactions, the writes of the API, and the reads of streams. */
  readonly writers: number;
  /** Reads of API requests, canceled after ten seconds. */
  readonly readers: number;
  /** Snapshots at the beginning of streams. */
  readonly snapshots: number;
  /** Claims of runs and renewals of their leases. */
  readonly claims: number;
}

const SNAPSHOTS = 3;
const ANSWER_CHECK = 1;
const CLAIMS = 2;

/** `writers` is configured; the others are derived from it. */
export function poolsOf(writers: number): Pools {
  return {
    writers,
    readers: Math.ceil(writers / 2),
    snapshots: SNAPSHOTS,
    claims: CLAIMS,
  };
}

/**
 * Total of the pools and the connection that listens. A replica that serves no requests has neither readers nor
 * snapshots, nor the connection that checks whether the server answers.
 */
export function connectionsOf({ writers, readers, snapshots, claims }: Pools, serves: boolean): number {
  return writers + (serves ? readers + snapshots + ANSWER_CHECK : 0) + claims + 1;
}
