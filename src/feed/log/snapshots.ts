/**
 * Snapshots for streams that begin with one. After a restart all subscribers reconnect at once, and each of them would
 * read and hold the whole fleet. So:
 *
 * - Two snapshots are taken at a time; further requests wait in order.
 * - For one filter, one snapshot is taken at a time. Requests that arrive meanwhile share the next one, so a snapshot
 *   always contains what its client wrote before the request.
 * - Rows are read once and shared: a snapshot reads the version of each object, and only those versions that no other
 *   held snapshot contains are read whole. A hundred filters cost a list of references each.
 * - While readers hold very many rows, no further snapshot is started.
 *
 * A reader that leaves releases its claim. A snapshot without claims is not started, or is cancelled.
 */
import { newestChange } from "../../store/log/changes.ts";
import type { ChangeCursor } from "../../store/log/changes.ts";
import type { Database, Reader } from "../../store/postgres/database.ts";
import { newestCursor } from "../../store/log/transitions.ts";
import type { LogCursor } from "../../store/log/transitions.ts";

/** All matching objects, as of a position in the log of transitions and one in the log of changes. */
export interface Snapshot<Row> {
  readonly cursor: LogCursor;
  readonly change: ChangeCursor;
  readonly rows: readonly Row[];
}

/** A reader's claim to a snapshot, which is held until all its claims are released. */
export interface Claim<Row, Taken = Snapshot<Row>> {
  /** May never settle once the claim is released. */
  readonly taken: Promise<Taken>;
  release(): void;
}

interface Version {
  readonly id: string;
  /** Differs after each change of the row. */
  readonly version: string;
}

/** The content of a snapshot. */
export interface SnapshotContent<Row> {
  /** Equal for contents of the same kind with the same filter. */
  readonly key: string;
  /** Up to `limit` matching objects after one, in the order of the snapshot; null: from the first. */
  readonly versions: (reader: Reader, after: Row | null, limit: number) => Promise<readonly Version[]>;
  readonly byIds: (reader: Reader, ids: readonly string[]) => Promise<readonly Row[]>;
}

export type Snapshots = <Row extends { readonly id: string }>(content: SnapshotContent<Row>) => Claim<Row>;

/** One snapshot for all requests that arrived before it was started. */
interface Round<Row> {
  readonly content: SnapshotContent<Row>;
  readonly taken: PromiseWithResolvers<Snapshot<Row>>;
  claims: number;
  /** Keys of the rows held for the claims; null before the snapshot is taken. */
  held: string[] | null;
}

interface AnyRound {
  readonly start: () => void;
  readonly round: object;
}

interface SnapshotLimits {
  /** Snapshots that are taken at the same time. */
  readonly atOnce: number;
  /** References to rows, held for all claims together, at which no further snapshot is started. */
  readonly heldMax: number;
}

const PAGE = 1_000;
const LIMITS: SnapshotLimits = { atOnce: 2, heldMax: 5_000_000 };

export function createSnapshots(database: Database, { atOnce, heldMax }: SnapshotLimits = LIMITS): Snapshots {
  // In the order of their requests, oldest first.
  const waiting = new Map<string, AnyRound>();
  const taking = new Set<string>();
  const shared = new SharedRows();
  let heldCount = 0;

  function startNext(): void {
    for (const [key, { start }] of waiting) {
      if (taking.size >= atOnce || heldCount >= heldMax) return;
      if (taking.has(key)) continue;
      waiting.delete(key);
      taking.add(key);
      start();
    }
  }

  async function take<Row extends { readonly id: string }>(round: Round<Row>): Promise<void> {
    const held: string[] = [];
    try {
      const read: SharedRead = (versions, byIds) => shared.read(versions, byIds, held);
      const snapshot = await takeSnapshot(database, round, read);
      if (round.claims > 0) {
        round.held = held;
        heldCount += held.length;
      }
      round.taken.resolve(snapshot);
    } catch (error) {
      round.taken.reject(error);
    } finally {
      if (round.held === null) shared.release(held);
      taking.delete(round.content.key);
      startNext();
    }
  }

  function release<Row>(round: Round<Row>): void {
    round.claims -= 1;
    if (round.claims > 0) return;
    const { key } = round.content;
    if (waiting.get(key)?.round === round) waiting.delete(key);
    if (round.held) {
      heldCount -= round.held.length;
      shared.release(round.held);
    }
    startNext();
  }

  function roundOf<Row extends { readonly id: string }>(content: SnapshotContent<Row>): Round<Row> {
    // Equal keys are of equal kinds of rows.
    const known = waiting.get(content.key)?.round as Round<Row> | undefined;
    if (known) return known;
    const round: Round<Row> = { content, taken: Promise.withResolvers(), claims: 0, held: null };
    // Claims report the failure; without a claim it is of no interest.
    round.taken.promise.catch(() => {});
    waiting.set(content.key, { round, start: () => void take(round) });
    return round;
  }

  return (content) => {
    const round = roundOf(content);
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

async function takeSnapshot<Row extends { readonly id: string }>(
  database: Database,
  round: Round<Row>,
  read: SharedRead,
): Promise<Snapshot<Row>> {
  const { versions, byIds } = round.content;
  return database.snapshot(async (reader) => {
    const cursor = await newestCursor(reader);
    const change = await newestChange(reader);
    const rows: Row[] = [];
    for (;;) {
      const page = await versions(reader, rows.at(-1) ?? null, PAGE);
      rows.push(...(await read(page, (ids) => byIds(reader, ids))));
      if (page.length < PAGE || round.claims === 0) return { cursor, change, rows };
    }
  });
}

/** Reads the rows of versions, in their order, and holds them for a snapshot. */
type SharedRead = <Row extends { readonly id: string }>(
  versions: readonly Version[],
  byIds: (ids: readonly string[]) => Promise<readonly Row[]>,
) => Promise<Row[]>;

/** Rows of all held snapshots by object and version, each with the number of snapshots that hold it. */
class SharedRows {
  readonly #rows = new Map<string, { readonly row: object; holders: number }>();

  /** Rows that a snapshot holds are shared, others are read. Adds the keys of all to `held`. */
  async read<Row extends { readonly id: string }>(
    versions: readonly Version[],
    byIds: (ids: readonly string[]) => Promise<readonly Row[]>,
    held: string[],
  ): Promise<Row[]> {
    const hold = (key: string, fresh?: Row): Row | undefined => {
      // Another snapshot may have been faster.
      const known = this.#rows.get(key) ?? (fresh && { row: fresh, holders: 0 });
      if (!known) return undefined;
      known.holders += 1;
      this.#rows.set(key, known);
      held.push(key);
      // Equal keys are of equal kinds of rows.
      return known.row as Row;
    };
    const found = versions.map(({ id, version }) => {
      const key = `${id} ${version}`;
      return { id, key, row: hold(key) };
    });
    const missing = found.flatMap(({ id, row }) => (row ? [] : [id]));
    const read = new Map((await byIds(missing)).map((row) => [row.id, row]));
    return found.flatMap(({ id, key, row }) => row ?? hold(key, read.get(id)) ?? []);
  }

  release(held: string[]): void {
    for (const key of held.splice(0)) {
      const known = this.#rows.get(key);
      if (!known) continue;
      known.holders -= 1;
      if (known.holders === 0) this.#rows.delete(key);
    }
  }
}
