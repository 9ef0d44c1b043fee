/**
 * Snapshots of the fleet for streams that begin with one. After a restart all subscribers reconnect at once, and each
 * of them would read and hold the whole fleet. So:
 *
 * - Two snapshots are taken at a time; further requests wait in order.
 * - For one filter, one snapshot is taken at a time. Requests that arrive meanwhile share the next one, so a snapshot
 *   always contains what its client wrote before the request.
 * - Rows are read once and shared: a snapshot reads the version of each node, and only those versions that no other
 *   held snapshot contains are read whole. A hundred filters cost a list of references each.
 * - While readers hold very many rows, no further snapshot is started.
 *
 * A reader that leaves releases its claim. A snapshot without claims is not started, or is cancelled.
 */
import type { NodeFilter } from "../store/node-filter.ts";
import { nodeVersionsAfterName, nodesByIds } from "../store/nodes.ts";
import type { NodeRow } from "../store/nodes.ts";
import type { Database, Reader } from "../store/postgres/database.ts";
import { newestChange } from "../store/changes.ts";
import type { ChangeCursor } from "../store/changes.ts";
import { newestCursor } from "../store/transitions.ts";
import type { LogCursor } from "../store/transitions.ts";

/** All matching nodes, by name, as of a position in the log of transitions and one in the log of changes. */
export interface Snapshot {
  readonly cursor: LogCursor;
  readonly change: ChangeCursor;
  readonly nodes: readonly NodeRow[];
}

/** A reader's claim to a snapshot, which is held until all its claims are released. */
export interface Claim {
  /** May never settle once the claim is released. */
  readonly taken: Promise<Snapshot>;
  release(): void;
}

/** One snapshot for all requests that arrived before it was started. */
interface Round {
  readonly key: string;
  readonly filter: NodeFilter | undefined;
  readonly taken: PromiseWithResolvers<Snapshot>;
  claims: number;
  /** Rows held for the claims; null before the snapshot is taken. */
  held: HeldRows | null;
}

export interface SnapshotLimits {
  /** Snapshots that are taken at the same time. */
  readonly atOnce: number;
  /** References to rows, held for all claims together, at which no further snapshot is started. */
  readonly heldMax: number;
}

const PAGE = 1_000;
const LIMITS: SnapshotLimits = { atOnce: 2, heldMax: 5_000_000 };

export function createSnapshots(
  database: Database,
  { atOnce, heldMax }: SnapshotLimits = LIMITS,
): (filter: NodeFilter | undefined) => Claim {
  // In the order of their requests, oldest first.
  const waiting = new Map<string, Round>();
  const taking = new Set<string>();
  const rows = new SharedRows();
  let heldCount = 0;

  function startNext(): void {
    for (const [key, round] of waiting) {
      if (taking.size >= atOnce || heldCount >= heldMax) return;
      if (taking.has(key)) continue;
      waiting.delete(key);
      taking.add(key);
      void take(round);
    }
  }

  async function take(round: Round): Promise<void> {
    const held = new HeldRows(rows);
    try {
      const snapshot = await takeSnapshot(database, round, held);
      if (round.claims > 0) {
        round.held = held;
        heldCount += held.count;
      }
      round.taken.resolve(snapshot);
    } catch (error) {
      round.taken.reject(error);
    } finally {
      if (round.held === null) held.release();
      taking.delete(round.key);
      startNext();
    }
  }

  function release(round: Round): void {
    round.claims -= 1;
    if (round.claims > 0) return;
    if (waiting.get(round.key) === round) waiting.delete(round.key);
    if (round.held) {
      heldCount -= round.held.count;
      round.held.release();
    }
    startNext();
  }

  function roundOf(filter: NodeFilter | undefined): Round {
    const key = JSON.stringify(filter ?? {});
    const known = waiting.get(key);
    if (known) return known;
    const round: Round = { key, filter, taken: Promise.withResolvers(), claims: 0, held: null };
    // Claims report the failure; without a claim it is of no interest.
    round.taken.promise.catch(() => {});
    waiting.set(key, round);
    return round;
  }

  return (filter) => {
    const round = roundOf(filter);
    let isHeld = true;
    round.claims += 1;
    startNext();
    return {
      taken: round.taken.promise,
      release() {
        if (isHeld) release(round);
        isHeld = false;
      },
    };
  };
}

async function takeSnapshot(database: Database, round: Round, held: HeldRows): Promise<Snapshot> {
  return database.snapshot(async (reader) => {
    const cursor = await newestCursor(reader);
    const change = await newestChange(reader);
    const nodes: NodeRow[] = [];
    for (;;) {
      const page = await nodeVersionsAfterName(reader, round.filter, nodes.at(-1)?.name ?? null, PAGE);
      nodes.push(...(await held.read(reader, page)));
      if (page.length < PAGE || round.claims === 0) return { cursor, change, nodes };
    }
  });
}

interface Version {
  readonly id: string;
  readonly version: string;
}

/** Rows of all held snapshots by node and version, each with the number of snapshots that hold it. */
class SharedRows {
  readonly #rows = new Map<string, { readonly row: NodeRow; holders: number }>();

  /** The row of a version, held once more; undefined if no snapshot holds it. */
  hold(key: string): NodeRow | undefined {
    const known = this.#rows.get(key);
    if (known) known.holders += 1;
    return known?.row;
  }

  /** Adds a row that was read and holds it; if another snapshot was faster, holds the row of that one. */
  add(key: string, row: NodeRow): NodeRow {
    const known = this.hold(key);
    if (!known) this.#rows.set(key, { row, holders: 1 });
    return known ?? row;
  }

  release(key: string): void {
    const known = this.#rows.get(key);
    if (!known) return;
    known.holders -= 1;
    if (known.holders === 0) this.#rows.delete(key);
  }
}

/** The rows that one snapshot holds. */
class HeldRows {
  readonly #shared: SharedRows;
  readonly #keys: string[] = [];

  constructor(shared: SharedRows) {
    this.#shared = shared;
  }

  get count(): number {
    return this.#keys.length;
  }

  /** The rows of these versions in their order: shared ones are held, others are read. */
  async read(reader: Reader, versions: readonly Version[]): Promise<NodeRow[]> {
    const found = versions.map(({ id, version }) => {
      const key = `${id} ${version}`;
      const row = this.#shared.hold(key);
      if (row) this.#keys.push(key);
      return { id, key, row };
    });
    const missing = found.flatMap(({ id, row }) => (row ? [] : [id]));
    const read = new Map((await nodesByIds(reader, missing)).map((row) => [row.id, row]));
    return found.flatMap(({ id, key, row }) => {
      const fresh = row ? undefined : read.get(id);
      if (!fresh) return row ?? [];
      this.#keys.push(key);
      return this.#shared.add(key, fresh);
    });
  }

  release(): void {
    for (const key of this.#keys.splice(0)) this.#shared.release(key);
  }
}
