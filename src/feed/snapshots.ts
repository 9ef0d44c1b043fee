/**
 * Snapshots of the fleet, for the streams that begin with one: when a process comes back, all its subscribers do at once,
 * and each of them would read and hold the whole fleet. So
 *
 * - they are taken two at a time, however many are asked for; the others wait in order;
 * - of one filter one is read at a time, and whoever asks meanwhile is given the next one: what a client wrote before it
 *   asked is always in it;
 * - rows are read once and shared: a snapshot reads which version of each node it sees, and only those versions that no
 *   other snapshot holds are read whole. A hundred filters cost a list of references each;
 * - and while very many are held, by readers that have not taken them, nobody is given another one.
 *
 * A reader that leaves ends its claim: a snapshot that nobody claims any more is not begun, and not gone on with.
 */
import type { Database, Reader } from "../store/postgres/database.ts";
import { nodeVersionsAfterName, nodesByIds } from "../store/nodes.ts";
import type { NodeFilter } from "../store/node-filter.ts";
import type { NodeRow } from "../store/nodes.ts";
import { newestPosition } from "../store/transitions.ts";

/** Every matching node, by name, and the position they are as of. */
export interface Snapshot {
  readonly position: number;
  readonly nodes: readonly NodeRow[];
}

/** A reader's claim to a snapshot, which is held for it until it gives that up. */
export interface Claim {
  /** May never settle once the claim is given up. */
  readonly taken: Promise<Snapshot>;
  release(): void;
}

/** One snapshot for all who asked for it before it was begun. */
interface Round {
  readonly key: string;
  readonly filter: NodeFilter | undefined;
  readonly taken: PromiseWithResolvers<Snapshot>;
  claims: number;
  /** Rows that are held for its claims; null before it is taken. */
  held: number | null;
}

export interface SnapshotLimits {
  /** Snapshots that are read at the same time. */
  readonly atOnce: number;
  /** References to rows that are held for all claims together, before another snapshot is begun. */
  readonly heldMax: number;
}

const PAGE = 1_000;
const LIMITS: SnapshotLimits = { atOnce: 2, heldMax: 5_000_000 };

export function createSnapshots(
  database: Database,
  { atOnce, heldMax }: SnapshotLimits = LIMITS,
): (filter: NodeFilter | undefined) => Claim {
  // In the order of their asking, oldest first.
  const waiting = new Map<string, Round>();
  const reading = new Set<string>();
  const rows = sharedRows();
  let held = 0;

  function beginNext(): void {
    for (const [key, round] of waiting) {
      if (reading.size >= atOnce || held >= heldMax) return;
      if (reading.has(key)) continue;
      waiting.delete(key);
      reading.add(key);
      void take(round);
    }
  }

  async function take(round: Round): Promise<void> {
    try {
      const snapshot = await takeSnapshot(database, { filter: round.filter, rows, isWanted: () => round.claims > 0 });
      if (round.claims > 0) {
        round.held = snapshot.nodes.length;
        held += round.held;
      }
      round.taken.resolve(snapshot);
    } catch (error) {
      round.taken.reject(error);
    } finally {
      reading.delete(round.key);
      beginNext();
    }
  }

  function letGo(round: Round): void {
    round.claims -= 1;
    if (round.claims > 0) return;
    if (waiting.get(round.key) === round) waiting.delete(round.key);
    held -= round.held ?? 0;
    beginNext();
  }

  function roundOf(filter: NodeFilter | undefined): Round {
    const key = JSON.stringify(filter ?? {});
    const known = waiting.get(key);
    if (known) return known;
    const round: Round = { key, filter, taken: Promise.withResolvers(), claims: 0, held: null };
    // Whoever claims it hears of its failure; when all have left, nobody needs to.
    round.taken.promise.catch(() => {});
    waiting.set(key, round);
    return round;
  }

  return (filter) => {
    const round = roundOf(filter);
    let isMine = true;
    round.claims += 1;
    beginNext();
    return {
      taken: round.taken.promise,
      release() {
        if (isMine) letGo(round);
        isMine = false;
      },
    };
  };
}

interface Taking {
  readonly filter: NodeFilter | undefined;
  readonly rows: SharedRows;
  isWanted(): boolean;
}

async function takeSnapshot(database: Database, { filter, rows, isWanted }: Taking): Promise<Snapshot> {
  return database.snapshot(async (reader) => {
    const position = await newestPosition(reader);
    const nodes: NodeRow[] = [];
    for (;;) {
      const page = await nodeVersionsAfterName(reader, filter, nodes.at(-1)?.name ?? null, PAGE);
      nodes.push(...(await rows(reader, page)));
      if (page.length < PAGE || !isWanted()) return { position, nodes };
    }
  });
}

interface Version {
  readonly id: string;
  readonly version: string;
}

/** The rows of these versions of nodes, in their order. */
type SharedRows = (reader: Reader, versions: readonly Version[]) => Promise<NodeRow[]>;

/** Rows that are alive somewhere are given out again; others are read. They hold nothing by themselves. */
function sharedRows(): SharedRows {
  const known = new Map<string, WeakRef<NodeRow>>();
  const forget = new FinalizationRegistry<string>((name) => {
    if (!known.get(name)?.deref()) known.delete(name);
  });
  const nameOf = ({ id, version }: Version) => `${id} ${version}`;

  return async (reader, versions) => {
    const alive = versions.map((one) => known.get(nameOf(one))?.deref());
    const missing = versions.filter((_one, index) => alive[index] === undefined);
    const read = new Map(
      (
        await nodesByIds(
          reader,
          missing.map(({ id }) => id),
        )
      ).map((row) => [row.id, row]),
    );
    return versions.flatMap((one, index) => {
      const row = alive[index] ?? read.get(one.id);
      if (!row) return [];
      if (alive[index]) return [row];
      const name = nameOf(one);
      // Somebody who read at the same time may have been first.
      const other = known.get(name)?.deref();
      if (other) return [other];
      known.set(name, new WeakRef(row));
      forget.register(row, name);
      return [row];
    });
  };
}
