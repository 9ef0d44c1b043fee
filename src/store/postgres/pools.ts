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
  /** The durable queue's own. */
  readonly queue: number;
}

const SNAPSHOTS = 3;
const ANSWER_CHECK = 1;
/** The queue fetches jobs, sends heartbeats and supervises: one connection each, seldom more at a time. */
const QUEUE_MIN = 3;
const QUEUE_MAX = 10;

/** `writers` is configured; the others are derived from it. */
export function poolsOf(writers: number): Pools {
  return {
    writers,
    readers: Math.ceil(writers / 2),
    snapshots: SNAPSHOTS,
    queue: Math.min(QUEUE_MAX, Math.max(QUEUE_MIN, Math.ceil(writers / 4))),
  };
}

/**
 * Total of the pools and the connection that listens. A replica that serves no requests has neither readers nor
 * snapshots, nor the connection that checks whether the server answers.
 */
export function connectionsOf({ writers, readers, snapshots, queue }: Pools, serves: boolean): number {
  return writers + (serves ? readers + snapshots + ANSWER_CHECK : 0) + queue + 1;
}
